"""Tables extended by slots: for each document and property its values, as texts, numbers or documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from adapters.reconciliation.describing import Described, described
from adapters.reconciliation.query import field_of
from adapters.tasks.answerer import AnswerOptions
from kbengine.inputs import Slot
from storage.folding import case_key

if TYPE_CHECKING:
    from adapters.tasks.answers import Answer, TaskAnswer
    from storage.reader import KBReader
    from storage.records import JSON

Shown = Literal["value", "probability", "sentence", "document"]
SHOWN: tuple[Shown, ...] = get_args(Shown)

ANSWERS = 10
"""Answers looked at for the values of one slot."""

Cell = dict[str, Any]
"""One value as the standard writes it: `{"str": …}`, `{"float": …}`, `{"int": …}` or `{"id": …, "name": …}`."""
Ask = Callable[[Sequence[tuple[Slot, AnswerOptions]]], Sequence["TaskAnswer"]]


@dataclass(frozen=True)
class WantedProperty:
    """A property that is wanted of each document, and what of its values is shown.

    Attributes:
        id: A Wikidata id, a relation in words, or `field:` and the name of a field.
        limit: Values at most; 0 for all.
        threshold: The probability that the best value has to reach; None leaves it to the knowledge base.
        show: The values, how probable they are, the sentences that say so, or the documents these stand in.
    """

    id: str
    limit: int = 0
    threshold: float | None = None
    show: Shown = "value"


def extend(
    reader: KBReader, ask: Ask, doc_ids: Sequence[str], properties: Sequence[WantedProperty]
) -> dict[str, dict[str, list[Cell]]]:
    """Return the values of each property of each document; of ids that are not there, and of what is unknown, none.

    Raises:
        UnknownRelationError: a property is a Wikidata id that the table of relations lacks.
        DeadlineError: there was no answer in time; part of the values would look like all of them.
    """
    documents = described(reader, doc_ids)
    rows: dict[str, dict[str, list[Cell]]] = {doc_id: {each.id: [] for each in properties} for doc_id in doc_ids}
    asked: dict[tuple[str, str], tuple[Slot, AnswerOptions]] = {}
    for doc_id, document in documents.items():
        for wanted in properties:
            field = field_of(wanted.id)
            if field is not None:
                rows[doc_id][wanted.id] = _limited([_plain(value) for value in _field(document, field)], wanted)
            else:
                options = AnswerOptions(k=ANSWERS, threshold=wanted.threshold)
                asked[doc_id, wanted.id] = Slot(document.title, wanted.id), options
    by_id = {each.id: each for each in properties}
    found = dict(zip(asked, ask(list(asked.values())), strict=True))
    values = {place: values_shown(answer) for place, answer in found.items()}
    names = {each.text for (_, name), each_of in values.items() if by_id[name].show == "value" for each in each_of}
    known = _documents_called(reader, sorted(names))
    for (doc_id, name), answers in values.items():
        rows[doc_id][name] = _limited([_cell(each, by_id[name].show, known) for each in answers], by_id[name])
    return rows


def values_shown(answer: TaskAnswer) -> list[Answer]:
    """Return the answers that are values: all that are probable, or the best where there are no probabilities.

    Of values that contradict each other, since the relation has only one, the best: each cell of a table would say it
    as surely as the other, and a second value takes a row of its own there.
    """
    if answer.values:
        values = answer.values[:1] if answer.values[0].contradicts else answer.values
        return [answer.answers[value.rank - 1] for value in values]
    return [] if answer.best is None else [answer.best]


def _cell(answer: Answer, show: Shown, known: Mapping[str, Cell]) -> Cell:
    place = answer.evidence[0]
    match show:
        case "probability":
            return {} if answer.probability is None else {"float": round(answer.probability, 4)}
        case "sentence":
            return {"str": place.passage.text[place.sentence.start : place.sentence.end]}
        case "document":
            return {"id": place.document.doc_id, "name": place.document.title or place.document.doc_id}
        case _:
            return known.get(answer.text, {"str": answer.text})


def _documents_called(reader: KBReader, names: Sequence[str]) -> dict[str, Cell]:
    """Return the one document of each name that is exactly one's title or other name; not of numbers."""
    names = [name for name in names if any(character.isalpha() for character in name)]
    found: dict[str, dict[str, Cell]] = {name: {} for name in names}
    of_names = reader.ids_of(names)
    records = reader.live_documents([doc_id for ids in of_names.values() for doc_id in ids])
    for name, ids in of_names.items():
        for doc_id in ids:
            # `ids_of` knows ids, too; a value is a name
            if doc_id in records and case_key(records[doc_id].title) == case_key(name):
                found[name][doc_id] = {"id": doc_id, "name": records[doc_id].title}
    matches = dict(zip(names, reader.alias_matches(names), strict=True))
    others = reader.documents({match.document_id for each in matches.values() for match in each})
    for name, each in matches.items():
        for match in each:
            record = others.get(match.document_id)
            if record is not None and match.form == "exact":
                found[name][record.doc_id] = {"id": record.doc_id, "name": record.title or record.doc_id}
    return {name: next(iter(cells.values())) for name, cells in found.items() if len(cells) == 1}


def _field(document: Described, name: str) -> list[JSON]:
    """Return the values of a field, named with dots where objects are in objects."""
    if name in ("title", "url"):
        return [getattr(document, name)] if getattr(document, name) else []
    value: Any = document.meta
    for part in (name,) if name in document.meta else name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, str | int | float)]


def _plain(value: JSON) -> Cell:
    if isinstance(value, bool):
        return {"str": str(value).lower()}
    if isinstance(value, int):
        return {"int": value}
    return {"float": value} if isinstance(value, float) else {"str": str(value)}


def _limited(cells: Sequence[Cell], wanted: WantedProperty) -> list[Cell]:
    kept = [cell for cell in cells if cell]
    return kept[: wanted.limit] if wanted.limit else kept
