"""A lane's speedup is known to be more than its rounds' scatter, or not."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Runs once, in the transaction that opens the database."""
    op.add_column("lanes", sa.Column("firm", sa.Boolean))
