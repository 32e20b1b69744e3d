"""Which texts are names, letter for letter: titles, with or without their qualifiers, and aliases."""

from __future__ import annotations

import json
from collections.abc import Collection

from sqlalchemy import Connection

from storage.alias_look_up import matches_of, spellings_of
from storage.alias_rows import alias_table_exists
from storage.terms import names_of_title

__all__ = ["known_names", "known_titles"]

# The index is over NOCASE; a title with a qualifier goes on with " (" or ", " after the name.
_TITLES = (
    "SELECT title FROM documents WHERE dead_generation IS NULL AND title COLLATE NOCASE >= :low "
    "AND title COLLATE NOCASE < :high AND substr(title, 1, :length) = :name"
)
_BESIDES = " AND document_id NOT IN (SELECT value FROM json_each(:without))"


def known_names(connection: Connection, names: Collection[str], *, without: Collection[int] = ()) -> frozenset[str]:
    """Return those of the names that are a title or an alias of another document than some, in the same transaction."""
    found = set(known_titles(connection, names, without=without))
    rest = [name for name in names if name not in found]
    if rest and alias_table_exists(connection):
        matches = matches_of(rest, spellings_of(connection, rest, limit=1, without=without))
        found.update(
            name for name, of_name in zip(rest, matches, strict=True) if any(each.form == "exact" for each in of_name)
        )
    return frozenset(found)


def known_titles(connection: Connection, names: Collection[str], *, without: Collection[int] = ()) -> frozenset[str]:
    """Return those of the names that are a title of another document than some."""
    dropped = json.dumps([int(each) for each in without]) if without else None
    return frozenset(name for name in names if _is_title(connection, name, dropped))


def _is_title(connection: Connection, name: str, without: str | None) -> bool:
    # From the name up to what follows it: the name itself, "name (" and "name, ".
    statement = f"{_TITLES}{'' if without is None else _BESIDES} LIMIT 50"
    for low, high in ((name, f"{name}\x01"), (f"{name} (", f"{name} )"), (f"{name}, ", f"{name},!")):
        bound = {"low": low, "high": high, "name": name, "length": len(name)}
        rows = connection.exec_driver_sql(statement, bound if without is None else {**bound, "without": without})
        if any(name in names_of_title(title) for (title,) in rows):
            return True
    return False
