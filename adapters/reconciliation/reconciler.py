"""Names of a table matched with documents: candidates with scores, what speaks for each, and which of them is sure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adapters.reconciliation.describing import Described, described
from adapters.reconciliation.kinds import DOCUMENT, Kind, filter_of, kinds_of
from adapters.reconciliation.query import KnownValue, ReconciliationQuery
from adapters.tasks.answerer import AnswerOptions
from kbengine.corpus.normalise import norm
from storage.errors import KBError
from storage.field_rows import shown_fields

if TYPE_CHECKING:
    from adapters.tasks.answers import TaskAnswer
    from kbengine.inputs import TaskInput
    from storage.reader import KBReader
    from storage.records import JSON

AskEach = Callable[[Sequence[tuple["TaskInput", AnswerOptions]]], Sequence["TaskAnswer | Exception"]]
"""Answers requests, each with its own options: a service's queue."""

SURE_NAME = 0.5
"""What the name signal has to say, from 0 to 1, of a sure match: the name is the document's, and nearly its alone."""
SAID_ODDS, NOT_SAID_ODDS = 10.0, 0.5
"""What a known value multiplies a candidate's odds by: where its document says the value, and where it does not."""


@dataclass(frozen=True)
class Candidate:
    """A document that a name may mean.

    Attributes:
        document: The document.
        kinds: Its types.
        score: From 0 to 100.
        is_match: Whether it is surely the one that is meant.
        features: What speaks for it, from 0 to 1: `probability`, `name`, and of each property whether it is said.
    """

    document: Described
    kinds: tuple[Kind, ...]
    score: float
    is_match: bool
    features: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        """Return the candidate as the standard writes it."""
        return {
            "id": self.document.doc_id,
            "name": self.document.title,
            "description": self.document.description,
            "type": [kind.to_json() for kind in self.kinds],
            "score": round(self.score, 2),
            "match": self.is_match,
            "features": [{"id": name, "value": round(value, 4)} for name, value in self.features.items()],
        }


class Reconciler:
    """Matches names with the documents of one knowledge base."""

    def __init__(self, reader: KBReader, ask_each: AskEach, *, name_weight: float) -> None:
        """Match with what `ask_each` says; `name_weight` is what the name signal counts in its scores, to undo it."""
        self._reader = reader
        self._ask_each = ask_each
        self._name_weight = name_weight or 1.0

    def reconcile(self, queries: Sequence[ReconciliationQuery]) -> list[list[Candidate] | Exception]:
        """Return for each query its candidates, best first, or the error that it alone has; order is kept."""
        outcomes: list[list[Candidate] | Exception] = [[] for _ in queries]
        fields = self._reader.fields() if any(query.types for query in queries) else {}
        asked: dict[int, tuple[TaskInput, AnswerOptions]] = {}
        for i, query in enumerate(queries):
            request = query.request()
            if request is None:
                continue
            try:
                where = filter_of(query.types, query.type_strict, fields)
            except LookupError:
                continue  # no document is of the type, so there is no candidate
            asked[i] = request, AnswerOptions(k=query.limit, unit="document", explain=True, where=where)
        answers = self._ask_each(list(asked.values()))
        for i, answer in zip(asked, answers, strict=True):
            try:
                outcomes[i] = answer if isinstance(answer, Exception) else self._candidates(queries[i], answer)
            except KBError as error:
                outcomes[i] = error
        return outcomes

    def _candidates(self, query: ReconciliationQuery, answer: TaskAnswer) -> list[Candidate]:
        fields = {each.document.doc_id: each.document.meta for each in answer.answers}
        documents = described(self._reader, [query.name, *fields])
        found: list[Candidate] = []
        for each in answer.answers:
            document = documents.get(each.document.doc_id)
            if document is None or document.doc_id == query.name:
                continue  # deleted meanwhile, or told of below
            parts = each.evidence[0].parts
            named = min(1.0, parts.name / self._name_weight) if parts is not None and query.name else 0.0
            said = {known.property_id: self._says(document, known) for known in query.properties}
            features = {"probability": each.probability or 0.0, "name": named}
            features |= {name: float(is_said) for name, is_said in said.items()}
            is_sure = (
                each.rank == 1
                and answer.status == "answered"
                and named >= SURE_NAME
                and (not said or any(said.values()))
            )
            score = _score(each.probability or 0.0, named, list(said.values()), has_name=bool(query.name.strip()))
            found.append(Candidate(document, kinds_of(each.document.meta), score, is_sure, features))
        found.sort(key=lambda each: -each.score)
        own = documents.get(query.name)
        if own is not None and _has_type(own.meta, query):
            found = [Candidate(own, kinds_of(own.meta), 100.0, True, {"id": 1.0}), *found]
        sure = next((i for i, each in enumerate(found) if each.is_match), None)
        if sure:  # something else is better, after all
            found = [Candidate(c.document, c.kinds, c.score, False, c.features) for c in found]
        return found[: query.limit]

    def _says(self, document: Described, known: KnownValue) -> bool:
        """Tell whether the document says one of the values: its field has it, or it stands in the text."""
        if known.field is not None:
            texts = [value for name, value in shown_fields(document.meta) if name == known.field]
        else:
            texts = [passage.text for passage in self._reader.passages_of_document(document.document_id)]
        wanted = [f" {norm(value)} " for value in known.values if norm(value)]
        return any(value in f" {norm(text)} " for text in texts for value in wanted)


def _score(probability: float, named: float, said: Sequence[bool], *, has_name: bool) -> float:
    """Return a score from 0 to 100.

    With a name the linker's probability and the name, either of which may be enough, changed by each value that the
    document says or does not say; without one the share of the values that it says.
    """
    if not has_name:
        return 100.0 * sum(said) / len(said) if said else 0.0
    p = 1.0 - (1.0 - probability) * (1.0 - named)
    if p >= 1.0:
        return 100.0
    odds = p / (1.0 - p)
    for is_said in said:
        odds *= SAID_ODDS if is_said else NOT_SAID_ODDS
    return 100.0 * odds / (1.0 + odds)


def _has_type(meta: Mapping[str, JSON], query: ReconciliationQuery) -> bool:
    own = {kind.id for kind in kinds_of(meta)}
    asked = {each for each in query.types if each} or {DOCUMENT.id}
    if query.type_strict == "should":
        return True
    return asked <= own if query.type_strict == "all" else bool(asked & own)
