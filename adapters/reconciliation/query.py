"""What a reconciliation query says, and what is asked for it."""

from __future__ import annotations

from dataclasses import dataclass

from adapters.errors import UnknownRelationError
from adapters.reconciliation.kinds import TypeStrict
from adapters.tasks.wording import relations
from kbengine.inputs import END_MENTION, START_MENTION, Mention, Question, Slot, TaskInput

FIELD = "field:"
"""Begins the id of a property that is a field of documents: `field:language`."""


@dataclass(frozen=True)
class KnownValue:
    """A property whose values are known: a Wikidata id, a relation in words, or a field of documents."""

    property_id: str
    values: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return the property in words."""
        return property_name(self.property_id)

    @property
    def field(self) -> str | None:
        """Return the name of the field that it is; None for a relation."""
        return field_of(self.property_id)


@dataclass(frozen=True)
class ReconciliationQuery:
    """A name, or known values, whose document is looked for.

    Attributes:
        name: As it stands in a table; blank where only values are known.
        types: Ids of types, of which the document has one (`any`), all (`all`), or may have none (`should`).
        type_strict: Which of these it is.
        limit: Candidates wanted.
        properties: What else is known.
    """

    name: str = ""
    types: tuple[str, ...] = ()
    type_strict: TypeStrict = "any"
    limit: int = 10
    properties: tuple[KnownValue, ...] = ()

    def request(self) -> TaskInput | None:
        """Return what to ask: a mention among what is known of it; without a name who has the value; None for nothing.

        >>> ReconciliationQuery("Lincoln", properties=(KnownValue("P19", ("Hodgenville",)),)).request().text
        'Lincoln. place of birth: Hodgenville'
        >>> ReconciliationQuery(properties=(KnownValue("P19", ("Warsaw",)),)).request()
        Slot.backwards(relation='P19', object='Warsaw')
        """
        known = [each for each in self.properties if any(value.strip() for value in each.values)]
        name = _unmarked(self.name).strip()
        if name:
            context = "; ".join(f"{each.name}: {', '.join(each.values)}" for each in known)
            return Mention.from_parts("", name, f". {_unmarked(context)}" if context else "")
        related = next((each for each in known if each.field is None), None)
        if related is not None:
            return Slot.backwards(related.property_id, next(value for value in related.values if value.strip()))
        words = " ".join(value for each in known for value in each.values)
        return Question(words) if words.strip() else None


def field_of(property_id: str) -> str | None:
    """Return the name of the field that a property is; None for a relation."""
    return property_id.removeprefix(FIELD) if property_id.startswith(FIELD) else None


def property_name(property_id: str) -> str:
    """Return a property in words: the name of a Wikidata id or of a field, anything else as it is."""
    field = field_of(property_id)
    if field is not None:
        return field
    try:
        known = relations().find(property_id)
    except UnknownRelationError:
        return property_id
    return property_id if known is None else known.name


def _unmarked(text: str) -> str:
    """Return the text without the marks that a mention's text may not have."""
    return text.replace(START_MENTION, " ").replace(END_MENTION, " ")
