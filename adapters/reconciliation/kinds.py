"""Types of documents: values of the fields that say what a document is about, such as `type: city`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from storage.reader import KBReader
    from storage.records import JSON

TypeStrict = Literal["any", "should", "all"]

TYPE_FIELDS = ("type", "types", "kind", "category", "categories", "class")
"""Fields of documents whose texts are types."""
SUGGESTED = 10


@dataclass(frozen=True)
class Kind:
    """A type: every document is a `document`; others are a field and its value, with the id `field=value`."""

    id: str
    name: str

    def to_json(self) -> dict[str, str]:
        """Return the type as the standard writes it."""
        return {"id": self.id, "name": self.name}


DOCUMENT = Kind("document", "Document")


def kinds_of(meta: Mapping[str, JSON]) -> tuple[Kind, ...]:
    """Return the types of a document with these fields, `document` last.

    >>> [kind.id for kind in kinds_of({"type": "city", "tags": ["north"]})]
    ['type=city', 'document']
    """
    found: list[Kind] = []
    for name in TYPE_FIELDS:
        given = meta.get(name)
        values = given if isinstance(given, list) else [given]
        found += [Kind(f"{name}={value}", value) for value in values if isinstance(value, str) and value.strip()]
    return (*dict.fromkeys(found), DOCUMENT)


def filter_of(types: Iterable[str], strict: TypeStrict, known_fields: Iterable[str]) -> str | None:
    """Return the filter that lets documents of the types pass; None where all may.

    >>> filter_of(["type=city", "type=town"], "any", ["type"])
    '"type" = \\'city\\' or "type" = \\'town\\''

    Raises:
        LookupError: no document has a type that is asked for.
    """
    asked = [each for each in dict.fromkeys(types) if each]
    if strict == "should" or not asked or (strict == "any" and DOCUMENT.id in asked):
        return None
    parts = [_condition(each, set(known_fields)) for each in asked if each != DOCUMENT.id]
    known = [part for part in parts if part is not None]
    if (parts and not known) or (strict == "all" and len(known) < len(parts)):
        raise LookupError(f"no document is of the type {asked[0]!r}")
    return (" and " if strict == "all" else " or ").join(known) or None


def suggested_kinds(reader: KBReader, prefix: str) -> list[Kind]:
    """Return the types whose id or name begins so, those of the most documents first."""
    folded = prefix.strip().casefold()
    known = reader.fields()
    counted: dict[Kind, int] = {}
    for name in TYPE_FIELDS:
        if "text" in known.get(name, []):
            for value, count in reader.field_texts(name):
                counted[Kind(f"{name}={value}", value)] = count
    kinds = [DOCUMENT, *sorted(counted, key=lambda kind: -counted[kind])]
    return [kind for kind in kinds if kind.name.casefold().startswith(folded) or kind.id.casefold().startswith(folded)]


def _condition(type_id: str, known_fields: set[str]) -> str | None:
    name, separator, value = type_id.partition("=")
    if not separator or name not in TYPE_FIELDS or name not in known_fields:
        return None
    return f'"{name}" = ' + "'" + value.replace("'", "''") + "'"
