"""A run's request is kept, so that its page can be restored."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Runs once, in the transaction that opens the database."""
    op.add_column("runs", sa.Column("request", sa.String))
