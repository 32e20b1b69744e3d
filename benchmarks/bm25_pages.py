"""The BM25 column: bm25s over whole pages, or over titles for entity linking; rankings are cached."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import Stemmer

from adapters.kilt import PageProvenance, Prediction, SubmissionWriter, read_inputs
from adapters.tasks import END_MENTION, SEPARATOR, START_MENTION, Task
from benchmarks.kilt_sets import read_pages

DEPTH = 20


class PageRanker:
    """Ranks the pages of a knowledge source by BM25 (title and all text), or by their titles alone."""

    def __init__(self, files: tuple[Path, ...], scratch: Path) -> None:
        self._files = files
        self._scratch = scratch
        sizes = "".join(f"{path.name}:{path.stat().st_size};" for path in files)
        self._corpus = hashlib.sha256(sizes.encode()).hexdigest()[:12]

    def predict(self, task: Task, inputs: Path) -> Path:
        """Return a submission with the ranked pages of every record and no answers, made now or in an earlier run."""
        rows = hashlib.sha256(inputs.read_bytes()).hexdigest()[:12]
        out = self._scratch / f"bm25-{inputs.name.partition('.')[0]}-{rows}-{self._corpus}.jsonl"
        if out.exists():
            return out
        records = list(read_inputs(inputs))
        index = self._titles if task == "entity-linking" else self._texts
        rankings = self._rank(index, [_query_text(task, record.input) for record in records])
        with SubmissionWriter(out, overwrite=True) as writer:
            writer.write(
                Prediction(record.raw_id, "", tuple(PageProvenance(page) for page in ranking))
                for record, ranking in zip(records, rankings, strict=True)
            )
            writer.finish()
        return out

    @cached_property
    def _ids(self) -> list[str]:
        return [page_id for page_id, _, _ in read_pages(self._files)]

    @cached_property
    def _titles(self) -> Any:
        return self._index("titles", lambda title, _: title)

    @cached_property
    def _texts(self) -> Any:
        # Paragraph 0 repeats the title, which would count it twice.
        return self._index("texts", lambda title, text: " ".join([title, *(text[1:] if text[:1] == [title] else text)]))

    def _index(self, name: str, text_of: Callable[[str, list[str]], str]) -> Any:
        import bm25s

        folder = self._scratch / f"bm25-{name}-{self._corpus}"
        if (folder / "params.index.json").exists():
            return bm25s.BM25.load(folder)
        texts = (text_of(title, text) for _, title, text in read_pages(self._files))
        index = bm25s.BM25()
        index.index(_tokens(list(texts)), show_progress=False)
        index.save(folder)
        return index

    def _rank(self, index: Any, queries: list[str]) -> list[list[str]]:
        """Return the ids of the best pages of each query, pages without a common word left out."""
        import bm25s

        tokens = bm25s.tokenize(
            queries, stopwords="en", stemmer=Stemmer.Stemmer("english"), return_ids=False, show_progress=False
        )
        # A query of stop words alone must not end the run; this matches nothing.
        tokens = [words or ["\0"] for words in tokens]
        pages, scores = index.retrieve(tokens, k=DEPTH, show_progress=False)
        return [
            [self._ids[page] for page, score in zip(row, values, strict=True) if score > 0]
            for row, values in zip(pages.tolist(), scores.tolist(), strict=True)
        ]


def _tokens(texts: list[str]) -> Any:
    import bm25s

    return bm25s.tokenize(texts, stopwords="en", stemmer=Stemmer.Stemmer("english"), show_progress=False)


def _query_text(task: Task, text: str) -> str:
    if task == "entity-linking":
        return text.partition(START_MENTION)[2].partition(END_MENTION)[0].strip()
    return text.replace(SEPARATOR, " ")
