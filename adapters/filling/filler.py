"""From rows of a table to what is asked for them, and from the answers to cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adapters.filling.table import Table, text_of
from adapters.tasks.answerer import AnswerOptions
from adapters.tasks.answers import TaskAnswer
from adapters.tasks.queries import query_of
from kbengine.errors import InvalidOptionError
from kbengine.inputs import Mention, Question, Slot
from storage.errors import UsageError

if TYPE_CHECKING:
    from adapters.tasks.answerer import Answerer
    from kbengine.inputs import TaskInput
    from storage.record_reader import RecordReader

Ask = Callable[[Sequence["TaskInput"], AnswerOptions], Sequence[TaskAnswer | Exception]]
"""What answers requests, each with its answer or the error that it alone has."""

Cells = Mapping[str, str | float]
"""What is filled into a row, by column; empty cells are not in it."""

NOTE = "fill note"
"""The column that says what could not be filled, and why."""
ANSWER = "answer"
MAX_VALUES = 10
MAX_RELATIONS = 100
LINKED = 0.5
"""How probable a link must be for its document's title to be asked about instead of the name: for rows with context."""
_REASONS = {
    "nothing_found": "nothing was found",
    "unanswerable": "the knowledge base seems to hold no answer",
    "below_threshold": "no answer is probable enough",
}


@dataclass(frozen=True)
class FillOptions:
    """What is filled.

    Attributes:
        subject: The column of names; None when questions are asked.
        relations: What is wanted of each name: a name, free text, a Wikidata id such as P19, or a wording with X.
        question: The column of questions, instead of names and relations.
        context: A column of text around each name, which says who is meant.
        ids: A column of ids of documents, where it is known who is meant.
        values: How many values a cell may have, 1 to 10, parted by "; ".
        threshold: The probability that an answer has to reach; None takes the task's own.
        where: A filter over the fields of documents.
        evidence: Whether each answer's sentence and document are given.
        encoder: The name of a tuned encoder.
        read: How many of the best passages are read for each answer, 0 none; None takes what pays.
    """

    subject: str | None = None
    relations: tuple[str, ...] = ()
    question: str | None = None
    context: str | None = None
    ids: str | None = None
    values: int = 1
    threshold: float | None = None
    where: str | None = None
    evidence: bool = True
    encoder: str | None = None
    read: int | None = None

    def __post_init__(self) -> None:
        if (self.subject is None) == (self.question is None):
            raise InvalidOptionError("a table is filled from a column of names (subject) or one of questions: give one")
        if self.question is not None and (self.relations or self.context or self.ids):
            raise InvalidOptionError(
                "relations, context and ids belong to a column of names (subject), not to questions"
            )
        if not 1 <= self.values <= MAX_VALUES:
            raise InvalidOptionError(f"values is {self.values}, wanted 1 to {MAX_VALUES}")
        if len(self.relations) > MAX_RELATIONS or len(set(self.relations)) < len(self.relations):
            raise InvalidOptionError(
                f"there are {len(self.relations)} relations, wanted at most {MAX_RELATIONS}, each once"
            )
        _ = self.answer_options  # says what is wrong with them
        for relation in self.relations:
            query_of(Slot("X", relation))

    @property
    def answer_options(self) -> AnswerOptions:
        """Return how the table's queries are asked."""
        return AnswerOptions(
            k=max(3, self.values),
            threshold=self.threshold,
            where=self.where,
            encoder=self.encoder,
            read=self.read,
            truncate=True,
        )

    @property
    def asked(self) -> tuple[str, ...]:
        """Return the columns that hold answers."""
        return (ANSWER,) if self.question is not None else self.relations

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that are filled, in order; those that a table has already keep their place."""
        link = (
            () if self.subject is None else tuple(f"{self.subject} {each}" for each in ("id", "title", "probability"))
        )
        parts = ("", " probability", " document", " evidence") if self.evidence else ("", " probability")
        return (*link, *(f"{name}{part}" for name in self.asked for part in parts), NOTE)

    @property
    def numbers(self) -> frozenset[str]:
        """Return the columns that hold probabilities."""
        return frozenset(each for each in self.columns if each.endswith(" probability") and each not in self.relations)

    def check(self, table: Table) -> None:
        """Check that the table has the columns that are named.

        Raises:
            TableError: it has not.
        """
        for column, what in (
            (self.subject, "the names"),
            (self.question, "the questions"),
            (self.context, "the context"),
            (self.ids, "the ids"),
        ):
            if column is not None:
                table.place_of(column, what)


class _Note:
    """What could not be filled in a row: the columns, by the reason."""

    def __init__(self) -> None:
        self.places: dict[str, list[str]] = {}

    def add(self, column: str, reason: str) -> None:
        """Say why a column could not be filled."""
        self.places.setdefault(reason, []).append(column)

    def __str__(self) -> str:
        return "; ".join(f"{', '.join(columns)}: {reason}" for reason, columns in self.places.items())


class Filler:
    """Fills rows from one knowledge base; cells that hold something are left as they are."""

    def __init__(self, options: FillOptions, ask: Ask, reader: RecordReader) -> None:
        """Fill with what `ask` answers.

        Args:
            options: What is filled.
            ask: Answers requests.
            reader: Knows the documents' titles.
        """
        self._options = options
        self._ask = ask
        self._reader = reader

    def fill(self, rows: Sequence[Mapping[str, Any]]) -> list[Cells]:
        """Return what is filled into each row.

        Args:
            rows: Their cells, by column.
        """
        filled: list[dict[str, str | float]] = [{} for _ in rows]
        notes: list[_Note] = [_Note() for _ in rows]
        if self._options.question is not None:
            asked = [(i, ANSWER, Question(text)) for i, text in self._named(rows, self._options.question, notes)]
            self._answer([each for each in asked if not text_of(rows[each[0]].get(ANSWER))], filled, notes)
        else:
            self._fill_subjects(rows, filled, notes)
        for cells, said in zip(filled, notes, strict=True):
            if said.places:
                cells[NOTE] = str(said)
        return [dict(cells) for cells in filled]

    def _named(self, rows: Sequence[Mapping[str, Any]], column: str, notes: list[_Note]) -> list[tuple[int, str]]:
        found = [(i, text_of(row[column])) for i, row in enumerate(rows)]
        for i, text in found:
            if not text:
                notes[i].add(column, "is empty")
        return [(i, text) for i, text in found if text]

    def _fill_subjects(
        self, rows: Sequence[Mapping[str, Any]], filled: list[dict[str, str | float]], notes: list[_Note]
    ) -> None:
        options, subject = self._options, self._options.subject or ""
        id_column = f"{subject} id"
        names = dict(self._named(rows, subject, notes))
        given = {i: text_of(rows[i].get(options.ids or id_column)) for i in range(len(rows))}
        known = self._reader.live_documents(sorted({doc_id for doc_id in given.values() if doc_id}))
        to_link = []
        for i, doc_id in given.items():
            if doc_id in known:
                filled[i] |= {id_column: doc_id, f"{subject} title": known[doc_id].title}
                names[i] = known[doc_id].title or names.get(i, "")
            elif doc_id:
                notes[i].add(options.ids or id_column, f"there is no document {doc_id!r}")
            elif i in names:
                to_link.append(i)
        mentions = [_mention(names[i], text_of(rows[i].get(options.context or ""))) for i in to_link]
        for i, outcome in zip(to_link, self._outcomes(mentions), strict=True):
            best = outcome.best if isinstance(outcome, TaskAnswer) else None
            if best is None:
                notes[i].add(subject, _why(outcome))
                continue
            filled[i] |= {id_column: best.document.doc_id, f"{subject} title": best.document.title}
            if best.probability is not None:
                filled[i][f"{subject} probability"] = round(best.probability, 4)
            if options.context is not None and (best.probability or 0.0) >= LINKED:
                names[i] = best.document.title or names[i]
        self._answer(
            [
                (i, relation, Slot(names[i], relation))
                for i in sorted(names)
                if names[i]
                for relation in options.relations
                if not text_of(rows[i].get(relation))
            ],
            filled,
            notes,
        )

    def _answer(
        self,
        asked: Sequence[tuple[int, str, TaskInput]],
        filled: list[dict[str, str | float]],
        notes: list[_Note],
    ) -> None:
        for (i, column, _), outcome in zip(asked, self._outcomes([each for *_, each in asked]), strict=True):
            best = outcome.best if isinstance(outcome, TaskAnswer) else None
            if best is None or isinstance(outcome, Exception):
                notes[i].add(column, _why(outcome))
                continue
            texts = [value.text for value in outcome.values[: self._options.values]] or [best.text]
            filled[i][column] = "; ".join(texts) if self._options.values > 1 else best.text
            if best.probability is not None:
                filled[i][f"{column} probability"] = round(best.probability, 4)
            if self._options.evidence:
                place = best.evidence[0]
                sentence = place.passage.text[place.sentence.start : place.sentence.end]
                filled[i] |= {f"{column} document": place.document.doc_id, f"{column} evidence": sentence.strip()}

    def _outcomes(self, requests: Sequence[TaskInput]) -> list[TaskAnswer | Exception]:
        """Return an outcome for each request; equal ones are asked once."""
        once = list(dict.fromkeys(requests))
        found = dict(zip(once, self._ask(once, self._options.answer_options), strict=True)) if once else {}
        return [found[each] for each in requests]


def asking(answerer: Answerer) -> Ask:
    """Return what asks an answerer, so that a request that cannot be asked fails alone."""

    def ask(requests: Sequence[TaskInput], options: AnswerOptions) -> list[TaskAnswer | Exception]:
        try:
            return list(answerer.answer(requests, options))
        except UsageError as error:
            if len(requests) == 1:
                return [error]
        middle = len(requests) // 2
        return ask(requests[:middle], options) + ask(requests[middle:], options)

    return ask


def _mention(name: str, context: str) -> Mention:
    """Return the name in its context: where it stands there, or before it."""
    start = context.find(name)
    if start >= 0:
        return Mention(context, (start, start + len(name)))
    return Mention.from_parts("", name, f", {context}" if context else "")


def _why(outcome: TaskAnswer | Exception) -> str:
    """Return why there is no answer; what is wrong with a request is told, anything else is raised."""
    if isinstance(outcome, TaskAnswer):
        return _REASONS.get(outcome.reason or "", "there is no answer")
    if not isinstance(outcome, UsageError):
        raise outcome
    return outcome.message
