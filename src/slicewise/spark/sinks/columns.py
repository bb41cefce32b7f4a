"""What is asked of the columns of a table, whatever keeps it."""

from __future__ import annotations

from collections.abc import Iterable

from slicewise.errors import TargetError


def check_case(names: Iterable[str], who: str) -> None:
    """Refuses names that differ only in case, for those who do not tell them apart.

    >>> check_case(["x", "X"], "SQLite")
    Traceback (most recent call last):
    slicewise.errors.TargetError: SQLite takes the columns 'x' and 'X' for one...
    """
    known: dict[bytes, str] = {}
    for name in names:
        other = known.setdefault(name.encode("utf-8", "surrogatepass").lower(), name)
        if other != name:
            raise TargetError(
                f"{who} takes the columns {other!r} and {name!r} for one, since they differ only "
                "in case. Rename one of them, an aggregate with `.alias(...)`."
            )


def changed_type(where: str, name: str, known: str, new: str) -> TargetError:
    """Returns the error for a column that would change its type."""
    return TargetError(
        f"{where} holds {known} in the column {name!r}; this stream brings {new}, and values "
        "would be changed by storing them so. Nothing was written. Cast the column to the old "
        "type, give an aggregate another name with `.alias(...)`, or use another table."
    )
