"""Runs and their lanes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Runs once, in the transaction that opens the database."""
    op.create_table(
        "runs",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("owner", sa.String, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("name", sa.String),
        sa.Column("prompt", sa.String, nullable=False),
        sa.Column("origin", sa.String, nullable=False),
        sa.Column("machine", sa.String, nullable=False),
        sa.Column("recorded", sa.String, nullable=False),
        sa.Column("bytes", sa.Integer, nullable=False),
    )
    op.create_index("runs_of_owner", "runs", ["owner", "created"])
    op.create_table(
        "lanes",
        sa.Column("run", sa.String, sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("lane", sa.Integer, primary_key=True),
        sa.Column("label", sa.String, nullable=False),
        sa.Column("proposer", sa.String, nullable=False),
        sa.Column("rule", sa.String, nullable=False),
        sa.Column("lossy", sa.Boolean, nullable=False),
        sa.Column("target", sa.String, nullable=False),
        sa.Column("draft", sa.String),
        sa.Column("tokens", sa.Integer, nullable=False),
        sa.Column("passes", sa.Integer, nullable=False),
        sa.Column("acceptance", sa.Float),
        sa.Column("tokens_per_pass", sa.Float),
        sa.Column("tokens_per_second", sa.Float),
        sa.Column("speedup", sa.Float),
        sa.Column("end", sa.String, nullable=False),
        sa.Column("problem", sa.String),
        sa.Column("trace", sa.LargeBinary, nullable=False),
    )
