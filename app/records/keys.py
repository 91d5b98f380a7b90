"""The server's secrets, which all web processes share, and what they sign."""

from __future__ import annotations

import base64
import hmac
import secrets
from hashlib import sha256

from sqlalchemy import delete, insert, select

from .database import Database
from .schema import secrets as table
from .schema import unsigned

SIGNATURE = 32  # characters, of which each holds six bits


def digest(owner: str) -> str:
    """What the database knows an owner by: it alone does not reveal who may stop or delete something."""
    return sha256(owner.encode()).hexdigest()


class Keys:
    """Signs the owners in visitors' cookies, so that only this server can make one.

    Cookies from before were not signed. Those of owners who had something in the library then are accepted until their
    signed cookie has come back.
    """

    def __init__(self, database: Database, given: str = "") -> None:
        """`given`: the operator's secret; without one the first process draws it, and the database keeps it."""
        self._database = database
        self.secret = given or self._kept("cookies")
        with database.transaction() as connection:
            self._old = set(connection.execute(select(unsigned.c.owner)).scalars())

    def sign(self, owner: str) -> str:
        """A cookie's value for this owner."""
        mac = hmac.digest(self.secret.encode(), owner.encode(), "sha256")
        return f"{owner}.{base64.urlsafe_b64encode(mac).decode()[:SIGNATURE]}"

    def owner(self, value: str) -> str | None:
        """The owner whom a cookie's value names; None if this server did not sign it."""
        owner, dot, _ = value.rpartition(".")
        return owner if dot and hmac.compare_digest(self.sign(owner).encode(), value.encode()) else None

    def came_back(self, owner: str) -> None:
        """A signed cookie of this owner has been seen: unsigned ones are not accepted any more."""
        name = digest(owner)
        if name in self._old:
            with self._database.transaction(writes=True) as connection:
                connection.execute(delete(unsigned).where(unsigned.c.owner == name))
            self._old.discard(name)

    def is_old(self, owner: str) -> bool:
        """Whether an unsigned cookie of this owner is still accepted."""
        name = digest(owner)
        if name not in self._old:
            return False
        with self._database.transaction() as connection:  # another process may have seen the signed one
            found = connection.execute(select(unsigned.c.owner).where(unsigned.c.owner == name)).scalar()
        return found is not None

    def _kept(self, name: str) -> str:
        with self._database.transaction(writes=True) as connection:
            self._database.alone(connection)
            wanted = select(table.c.value).where(table.c.name == name)
            value: str | None = connection.execute(wanted).scalar()
            if value is None:
                value = secrets.token_urlsafe(32)
                connection.execute(insert(table).values(name=name, value=value))
        return value
