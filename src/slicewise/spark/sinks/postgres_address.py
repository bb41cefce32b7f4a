"""Addresses of PostgreSQL servers, read so strictly that no message can show a password.

What libpq says about an address that it cannot read quotes parts of it, and it takes the wrong part
for the server when a password holds an `@` or a `/`. So an address is read when `sw.upsert` is
called, doubtful ones are refused, and libpq gets the parts by their names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slicewise.errors import TargetError

if TYPE_CHECKING:
    from collections.abc import Mapping

# SQLAlchemy names the driver too, and it is the same one.
SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
SECRET = ("password", "sslpassword")
FORM = "'postgresql://<user>:<password>@<server>:<port>/<database>'"


@dataclass(frozen=True, slots=True, repr=False)
class PostgresAddress:
    """The options of a connection; as text it is the address without users and passwords.

    >>> PostgresAddress.of("postgresql://me:secret@server/shop?sslmode=require")
    'postgresql://...@server/shop?...'
    """

    options: Mapping[str, str]
    shown: str

    def __repr__(self) -> str:
        return repr(self.shown)

    @staticmethod
    def of(url: str) -> PostgresAddress:
        """Reads the address; one whose password cannot be told from the rest is refused."""
        import psycopg
        from psycopg.conninfo import conninfo_to_dict

        rest = url.partition("://")[2]
        head, _, query = rest.partition("?")
        user, at, place = head.partition("@") if "@" in head else ("", "", head)
        # An `@` or `/` that belongs to a user name or a password, or a `?` in front of the server:
        # libpq would cut them in two.
        if "/" in user or "@" in place or (not at and "/" not in head and "@" in query):
            raise _unreadable()
        for option in query.split("&"):
            name, _, value = option.partition("=")
            if "@" in value and name not in SECRET:
                raise _unreadable()
        try:
            found = conninfo_to_dict(f"postgresql://{rest}")
        except psycopg.Error:
            raise _unreadable() from None  # its text may quote the password
        options = {name: str(value) for name, value in found.items() if value is not None}
        if not re.fullmatch(r"[\d,]*", options.get("port", "")):
            raise _unreadable()
        shown = f"postgresql://{'...@' if at else ''}{place}{'?...' if query else ''}"
        return PostgresAddress(options, shown)


def _unreadable() -> TargetError:
    return TargetError(
        f"A PostgreSQL server is addressed as {FORM}, and the given address, which is not shown "
        "because it may hold a password, cannot be read so. Write the characters `@ : / ? # %` in "
        "a user name or password as %40 %3A %2F %3F %23 %25, or leave the password out and set "
        "PGPASSWORD or a password file."
    )
