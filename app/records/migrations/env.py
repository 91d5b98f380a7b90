"""What Alembic runs around every migration: they share the connection and the transaction of `database.py`."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=False)
context.run_migrations()
