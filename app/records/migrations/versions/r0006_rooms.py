"""Rooms of a class, who sits in them, and their votes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Runs once, in the transaction that opens the database."""
    op.create_table(
        "rooms",
        sa.Column("code", sa.String, primary_key=True),
        sa.Column("host", sa.String, nullable=False),
        sa.Column("host_seen", sa.Float, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("language", sa.String, nullable=False),
        sa.Column("named", sa.Boolean, nullable=False),
        sa.Column("lessons", sa.String, nullable=False),
        sa.Column("now", sa.String, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
    )
    op.create_index("rooms_by_age", "rooms", ["created"])
    op.create_table(
        "seats",
        sa.Column("room", sa.String, sa.ForeignKey("rooms.code", ondelete="CASCADE"), primary_key=True),
        sa.Column("seat", sa.String, primary_key=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("seen", sa.Float, nullable=False),
        sa.Column("lost", sa.Integer, nullable=False),
    )
    op.create_table(
        "votes",
        sa.Column("room", sa.String, sa.ForeignKey("rooms.code", ondelete="CASCADE"), primary_key=True),
        sa.Column("seat", sa.String, primary_key=True),
        sa.Column("lesson", sa.String, primary_key=True),
        sa.Column("part", sa.String, primary_key=True),
        sa.Column("vote", sa.Integer, primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("given", sa.String, nullable=False),
        sa.Column("correct", sa.Boolean, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("cards", sa.Integer, nullable=False),
    )
    op.create_index("votes_by_version", "votes", ["room", "version"])
