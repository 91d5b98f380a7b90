"""A run can be shared by a link."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Runs once, in the transaction that opens the database."""
    op.add_column("runs", sa.Column("link", sa.String))
    op.create_index("runs_by_link", "runs", ["link"], unique=True)
