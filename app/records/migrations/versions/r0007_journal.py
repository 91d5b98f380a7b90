"""Runs that any process can show are the journal; another process does not ask for their end."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Runs once, in the transaction that opens the database."""
    op.drop_index("followed_by_age", "followed")
    op.rename_table("followed", "journal")
    op.drop_column("journal", "stop")
    op.create_index("journal_by_age", "journal", ["ended"])
