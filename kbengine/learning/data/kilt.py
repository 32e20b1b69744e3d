"""KILT rows with provenance: questions, slots, mentions and dialogues, each with its gold passage.

A question's or a slot's gold phrase is its answer, at the row's offsets where these hold, else found by string. A
mention's and a dialogue's is the title of the gold page where it stands in the gold text; where it stands nowhere the
passage as a whole is the answer (passage loss alone).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kbengine.corpus.document import CorpusDocument, CorpusPassage
from kbengine.errors import TaskInputError
from kbengine.inputs import SEPARATOR, START_MENTION, Task, TaskInput
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.data.pages import PageStore
from kbengine.learning.data.places import checked_span, occurrences, title_occurrences
from kbengine.learning.data.report import FileReport, UnusableRowError
from kbengine.span import Span
from kbengine.text_form import input_of

NO_PHRASE = "phrase not found: passage loss alone"


class GoldPlace(NamedTuple):
    """One provenance entry: a page, and where in it the row says that its answer stands."""

    page_id: str
    answer: str | None
    paragraph: int | None
    last_paragraph: int | None
    start: int | None
    end: int | None


def kind_of_rows(rows: Iterable[Mapping[str, Any]]) -> Task:
    """Return the task of a file's rows: by their marks; a file with any input of several lines holds dialogues."""
    kind: Task = "question"
    for row in rows:
        text = str(row.get("input", ""))
        if START_MENTION in text:
            return "entity-linking"
        if SEPARATOR in text:
            return "slot-filling"
        if "\n" in text.strip():
            kind = "dialogue"
    return kind


_GENERATED: Mapping[str, Task] = {
    "question": "question",
    "slot": "slot-filling",
    "relation": "slot-filling",
    "mention": "entity-linking",
    "link": "entity-linking",
    "talk": "dialogue",
}


def kind_of_row(row: Mapping[str, Any], of_file: Task) -> Task:
    """Return the task of one row: what it says itself (`kbengine questions` mixes tasks in a file), else its file's."""
    meta = row.get("meta")
    said = meta.get("kind") if isinstance(meta, Mapping) else None
    return _GENERATED.get(said, of_file) if isinstance(said, str) else of_file


def query_of(text: str, task: Task) -> TaskInput | None:
    """Return what a row's input asks, or None when it has not the task's form."""
    text = text.strip()
    try:
        return input_of(task, text) if text else None
    except TaskInputError:
        return None


def gold_places(row: Mapping[str, Any]) -> list[GoldPlace]:
    """Return all provenance entries of a row, in order; entries that name no page are left out."""
    places = []
    for output in _objects(row.get("output")):
        answer = output.get("answer")
        for entry in _objects(output.get("provenance")):
            page_id = entry.get("wikipedia_id")
            if page_id is None or not str(page_id).strip():
                continue
            numbers = [
                entry.get(name) if isinstance(entry.get(name), int) else None
                for name in ("start_paragraph_id", "end_paragraph_id", "start_character", "end_character")
            ]
            text = answer if isinstance(answer, str) and answer.strip() else None
            places.append(GoldPlace(str(page_id).strip(), text, *numbers))
    return places


def kilt_examples(
    row: Mapping[str, Any],
    kind: Task,
    pages: PageStore,
    report: FileReport,
    source: str,
    *,
    exclude: frozenset[str] = frozenset(),
    max_passages: int = 1,
) -> Iterator[TrainingExample]:
    """Give an example for each gold passage of a row, up to `max_passages`, in the row's order.

    Args:
        row: the parsed line.
        kind: its task.
        pages: holds the gold pages.
        report: where notes are counted.
        source: the name given to the examples.
        exclude: ids of pages that must not be trained on.
        max_passages: examples of one row at most.

    Raises:
        UnusableRowError: the row gives no example.
    """
    row_id = str(row.get("id", f"{source}-{report.rows}"))
    query = query_of(str(row.get("input", "")), kind)
    if query is None:
        raise UnusableRowError("input has not its task's form", row_id)
    places = gold_places(row)
    if not places:
        raise UnusableRowError("no provenance", row_id)
    allowed = [place for place in places if place.page_id not in exclude]
    if not allowed:
        raise UnusableRowError("excluded page", row_id)
    answers = [place.answer for place in places if place.answer] + _bare_answers(row)
    finder = _Finder(pages, answers, kind)
    found = finder.passages(allowed, max_passages)
    if not found:
        raise UnusableRowError(finder.problem, row_id)
    for number, (document, passage, spans) in enumerate(found):
        if not spans:
            report.note(NO_PHRASE, row_id)
        yield TrainingExample(
            row_id if number == 0 else f"{row_id}#{number}",
            query,
            document.title,
            passage.text,
            tuple(spans),
            source=source,
            doc_id=document.doc_id,
        )


class _Finder:
    """Looks for the gold passages of one row."""

    def __init__(self, pages: PageStore, answers: list[str], kind: Task) -> None:
        self.pages = pages
        self.answers = list(dict.fromkeys(answers))
        self.kind = kind
        self.problem = "page not in the pages files"

    def passages(self, places: list[GoldPlace], limit: int) -> list[tuple[CorpusDocument, CorpusPassage, list[Span]]]:
        """Return the first gold passages with the spans of all places that stand in them."""
        found: dict[tuple[str, int, int], tuple[CorpusDocument, CorpusPassage, dict[Span, None]]] = {}
        for place in places:
            document = self.pages.get(place.page_id)
            if document is None:
                continue
            if not document.passages:
                self.problem = "page without text"
                continue
            for passage, spans in self._of_place(document, place):
                key = (document.doc_id, passage.ordinal, passage.char_offset)
                if key not in found and len(found) >= limit:
                    continue
                found.setdefault(key, (document, passage, {}))[2].update(dict.fromkeys(spans))
        return [(document, passage, list(spans)) for document, passage, spans in found.values()]

    def _of_place(self, document: CorpusDocument, place: GoldPlace) -> list[tuple[CorpusPassage, list[Span]]]:
        if self.kind == "entity-linking":
            return self._by_title(document, list(document.passages))
        paragraph = [each for each in document.passages if each.ordinal == place.paragraph]
        if self.kind == "dialogue":
            return self._by_title(document, paragraph or list(document.passages))
        exact = self._at_offsets(paragraph, place)
        if exact is not None:
            return [exact]
        for passage in paragraph or document.passages:
            spans = [span for answer in self.answers for span in occurrences(passage.text, answer)]
            if spans:
                return [(passage, list(dict.fromkeys(spans)))]
        self.problem = "answer not in its paragraph" if paragraph else "answer not on its page"
        return []

    def _by_title(
        self, document: CorpusDocument, passages: list[CorpusPassage]
    ) -> list[tuple[CorpusPassage, list[Span]]]:
        for passage in passages:
            spans = title_occurrences(passage.text, document.title)
            if spans:
                return [(passage, spans)]
        return [(passages[0], [])]

    def _at_offsets(self, parts: list[CorpusPassage], place: GoldPlace) -> tuple[CorpusPassage, list[Span]] | None:
        if place.start is None or place.end is None or place.last_paragraph not in (None, place.paragraph):
            return None
        for part in parts:  # several when a paragraph was too long to be one passage
            start, end = place.start - part.char_offset, place.end - part.char_offset
            if 0 <= start < len(part.text):
                span = checked_span(part.text, start, end, place.answer)
                if span is not None:
                    return part, [span]
        return None


def _bare_answers(row: Mapping[str, Any]) -> list[str]:
    """Return the answers of outputs that have no provenance of their own, as Natural Questions has them."""
    return [
        output["answer"]
        for output in _objects(row.get("output"))
        if not output.get("provenance") and isinstance(output.get("answer"), str) and output["answer"].strip()
    ]


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
