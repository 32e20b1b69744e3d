"""What may be meant by the first letters of a name: documents, and properties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adapters.reconciliation.describing import Described, described
from adapters.reconciliation.query import FIELD
from adapters.tasks.wording import relations

if TYPE_CHECKING:
    from adapters.tasks.relations import Relation
    from storage.reader import KBReader

LOOKED_AT = 200
"""Titles and names with a prefix of which the shortest are suggested."""
OWN_FIELDS = ("title", "url")
"""What every document has beside the fields of its own."""


@dataclass(frozen=True)
class Property:
    """Something that documents can be asked for: a relation, or a field."""

    id: str
    name: str
    description: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the property as the standard writes it."""
        described = {"description": self.description} if self.description else {}
        return {"id": self.id, "name": self.name, **described}


def suggested_documents(reader: KBReader, prefix: str, limit: int) -> list[Described]:
    """Return documents whose id is the prefix, whose title or other name begins with it, or that hold its words."""
    prefix = prefix.strip()
    if not prefix:
        return []
    titled = sorted(
        reader.list_documents(title_prefix=prefix, limit=LOOKED_AT), key=lambda each: (len(each.title), each.title)
    )
    named = sorted(reader.list_aliases(prefix=prefix, limit=LOOKED_AT), key=lambda each: (len(each.alias), each.alias))
    ids = dict.fromkeys([prefix, *(each.doc_id for each in titled), *(each.doc_id for each in named)])
    if len(ids) <= limit:
        ids |= dict.fromkeys(record.doc_id for record, _ in reader.lexical_documents(prefix, limit=limit))
    found = described(reader, list(ids)[: limit + 1])
    return [found[each] for each in ids if each in found][:limit]


def suggested_properties(reader: KBReader, prefix: str) -> list[Property]:
    """Return the properties that the letters may mean, and last what was typed itself: any relation can be asked for.

    Those whose id or name begins so come before those with another name, and those with another word, that does.
    """
    folded = " ".join(prefix.casefold().split())
    found = [each for each in fields_as_properties(reader) if each.name.casefold().startswith(folded)]
    ranked = sorted((rank, i, each) for i, each in enumerate(relations()) if (rank := _rank(each, folded)) is not None)
    found += [as_property(each) for _, _, each in ranked]
    typed = prefix.strip()
    if typed and all(typed not in (each.id, each.name) for each in found):
        found.append(Property(typed, typed, "asked for in these words"))
    return found


def proposed_properties(reader: KBReader) -> list[Property]:
    """Return properties worth asking for: the documents' fields, then the relations in the order of their numbers."""
    return [*fields_as_properties(reader), *map(as_property, relations())]


def fields_as_properties(reader: KBReader) -> list[Property]:
    """Return what every document has and the fields that some have, as properties."""
    names = [*OWN_FIELDS, *(name for name in reader.fields() if not name.startswith("sync."))]
    return [Property(f"{FIELD}{name}", name, "a field of the document") for name in dict.fromkeys(names)]


def as_property(relation: Relation) -> Property:
    """Return a relation as a property."""
    return Property(relation.id, relation.name, relation.description)


def _rank(relation: Relation, folded: str) -> int | None:
    name = relation.name.casefold()
    if relation.id.casefold() == folded or name == folded:
        return 0
    if name.startswith(folded) or relation.id.casefold().startswith(folded):
        return 1
    if any(alias.casefold().startswith(folded) for alias in relation.aliases):
        return 2
    return 3 if any(word.startswith(folded) for word in name.split()) else None
