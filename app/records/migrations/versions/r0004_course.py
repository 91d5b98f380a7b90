"""What a visitor did in the course."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Runs once, in the transaction that opens the database."""
    op.create_table(
        "course",
        sa.Column("owner", sa.String, primary_key=True),
        sa.Column("progress", sa.String, nullable=False),
    )
