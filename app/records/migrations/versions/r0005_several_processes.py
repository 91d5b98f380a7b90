"""Web processes share secrets, and follow each other's runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Runs once, in the transaction that opens the database."""
    op.create_table(
        "secrets",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("value", sa.String, nullable=False),
    )
    op.create_table("unsigned", sa.Column("owner", sa.String, primary_key=True))
    op.execute("INSERT INTO unsigned SELECT owner FROM runs UNION SELECT owner FROM course")
    op.create_table(
        "processes",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("seen", sa.Float, nullable=False),
    )
    op.create_table(
        "followed",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("process", sa.String, nullable=False),
        sa.Column("owner", sa.String),
        sa.Column("ticket", sa.String),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("request", sa.String, nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("bytes", sa.Integer, nullable=False),
        sa.Column("stop", sa.Boolean, nullable=False),
        sa.Column("ended", sa.Float),
        sa.Column("lost", sa.Boolean, nullable=False),
    )
    op.create_index("followed_by_age", "followed", ["ended"])
    op.create_table(
        "messages",
        sa.Column("run", sa.String, sa.ForeignKey("followed.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("first", sa.Integer, primary_key=True),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("packed", sa.LargeBinary, nullable=False),
    )
