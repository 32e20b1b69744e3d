"""A knowledge base that gives prepared answers, and the files that are predicted from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kbengine.errors import EmptyQueryError
from kbengine.inputs import Dialogue, Mention, Question, Slot
from kbengine.search.boundaries import trimmed_span
from kbengine.search.query import Query, SearchOptions
from kbengine.search.results import DocumentRef, Hit, PassageRef, ScoreParts, SearchResult
from kbengine.span import Span

PASSAGE = 'Ulm lies on the Danube. Albert Einstein was born there ("in 1879"). Its minster is tall.'
UNASKABLE = "\u200b"
"""A text of which no token can be made."""
UNKNOWN = "nothing is known"


def hit(
    rank: int = 1, phrase: str = "Albert Einstein", *, doc_id: str = "5", title: str = "Ulm", **changes: Any
) -> Hit:
    """A hit on a phrase of `PASSAGE`."""
    start = PASSAGE.index(phrase)
    values: dict[str, Any] = {
        "rank": rank,
        "unit": "document",
        "text": title,
        "score": 9.0 - rank,
        "document": DocumentRef(doc_id, title, None),
        "passage": PassageRef(rank, 3, PASSAGE),
        "span": Span(0, len(PASSAGE)),
        "phrase": trimmed_span(PASSAGE, Span(start, start + len(phrase))),
        "first_token_id": 0,
        "last_token_id": 0,
        "parts": ScoreParts(9.0 - rank, 0.0, 0.0, 0.0),
    }
    return Hit(**{**values, **changes})


class FakeKnowledgeBase:
    """Answers every query with the same pages; remembers the sizes of the batches and the options."""

    def __init__(self, *, generation: int = 7) -> None:
        self.path = Path("fake-kb")
        self.encoder = SimpleNamespace(fingerprint="f" * 64)
        self.generation = generation
        self.batches: list[int] = []
        self.options: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}
        self.queries: list[Query] = []
        self.fail_at_batch: int | None = None

    def encoder_for(self, name: str | None = None, *, task: Any = None) -> Any:
        return self.encoder

    def encoder_name(self, name: str | None = None, *, task: Any = None) -> str | None:
        return name

    def info(self) -> Any:
        return SimpleNamespace(generation=self.generation)

    is_read_by_default = False

    def alias_matches(self, name: str) -> list[Any]:
        return []

    def setting(self, key: str) -> Any:
        return self.settings.get(key)

    def search(
        self, queries: Sequence[Query], options: SearchOptions | None = None, *, key_of: Any = None, **changes: Any
    ) -> list[SearchResult]:
        self.options = vars(replace(options or SearchOptions(), **changes))
        self.queries = list(queries)
        texts = [text_of(query) for query in queries]
        if any(text == UNASKABLE for text in texts):
            place = texts.index(UNASKABLE)
            raise EmptyQueryError(f"query {place} (question): text has no visible character; give its text")
        if self.fail_at_batch == len(self.batches):
            raise KeyboardInterrupt
        self.batches.append(len(queries))
        return [self._result(text, self.options["k"]) for text in texts]

    def _result(self, text: str, k: int) -> SearchResult:
        hits = tuple(hit(i, doc_id=str(4 + i), title="Ulm" if i == 1 else f"Page {i}") for i in range(1, k + 1))
        return SearchResult(
            () if text == UNKNOWN else hits,
            self.generation,
            self.encoder.fingerprint,
            5,
            len(text) > 400,
            round_ends=(len(hits),),
        )


def text_of(query: Query) -> str:
    """The text that a query was made from, or the part that stands for it."""
    match query.input:
        case Question(text):
            return text
        case Slot(subject, _):
            return subject
        case Mention():
            return query.input.name
        case Dialogue(turns):
            return "\n".join(turns)


def write_lines(path: Path, lines: Sequence[object]) -> Path:
    """Write lines to a file: texts and bytes as they are, everything else as JSON."""
    with path.open("wb") as file:
        for line in lines:
            raw = line if isinstance(line, bytes) else (line if isinstance(line, str) else json.dumps(line)).encode()
            file.write(raw + b"\n")
    return path


def predictions(path: Path) -> dict[str, tuple[str, list[str]]]:
    """Answer and page ids of each record of a submission, in file order."""
    found = {}
    for line in path.read_text().split("\n")[:-1]:
        record = json.loads(line)
        (output,) = record["output"]
        found[record["id"]] = output["answer"], [page["wikipedia_id"] for page in output["provenance"]]
    return found
