"""Which texts are names, letter for letter: titles, with or without their qualifiers, and aliases."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection

from storage.alias_look_up import match_names
from storage.alias_rows import alias_table_exists
from storage.terms import names_of_title

__all__ = ["known_names"]

# The index is over NOCASE; a title with a qualifier goes on with " (" or ", " after the name.
_TITLES = (
    "SELECT title FROM documents WHERE dead_generation IS NULL AND title COLLATE NOCASE >= :low "
    "AND title COLLATE NOCASE < :high AND substr(title, 1, :length) = :name LIMIT 50"
)


def known_names(connection: Connection, names: Collection[str]) -> frozenset[str]:
    """Return those of the names that are a title or an alias, in the caller's transaction."""
    found = {name for name in names if _is_title(connection, name)}
    rest = [name for name in names if name not in found]
    if rest and alias_table_exists(connection):
        matches = match_names(connection, rest, limit=1)
        found.update(
            name for name, of_name in zip(rest, matches, strict=True) if any(each.form == "exact" for each in of_name)
        )
    return frozenset(found)


def _is_title(connection: Connection, name: str) -> bool:
    # From the name up to what follows it: the name itself, "name (" and "name, ".
    for low, high in ((name, f"{name}\x01"), (f"{name} (", f"{name} )"), (f"{name}, ", f"{name},!")):
        bound = {"low": low, "high": high, "name": name, "length": len(name)}
        rows = connection.exec_driver_sql(_TITLES, bound)
        if any(name in names_of_title(title) for (title,) in rows):
            return True
    return False
