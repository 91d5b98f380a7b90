"""Sweeps outlive the process that measures them, and are shown by the others."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Runs once, in the transaction that opens the database."""
    op.create_table(
        "sweeps",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("owner", sa.String, nullable=False),
        sa.Column("process", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("error", sa.String),
        sa.Column("ordered", sa.String, nullable=False),
        sa.Column("about", sa.String, nullable=False),
        sa.Column("rows", sa.LargeBinary, nullable=False),
        sa.Column("bytes", sa.Integer, nullable=False),
        sa.Column("written", sa.Float, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("watched", sa.Integer, nullable=False),
        sa.Column("stop", sa.Boolean, nullable=False),
    )
    op.create_index("sweeps_by_age", "sweeps", ["written"])
