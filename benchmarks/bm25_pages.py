"""The BM25 column: bm25s over paragraphs, a page counting by its best one, or over titles for entity linking.

Rankings are cached. k1 and b are those of Anserini: with 1.5 and 0.75, as bm25s has them, the baseline is a straw man
(41 instead of 69 points of R-precision on squad), and so it is with whole pages as units (6).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import Stemmer

from adapters.kilt.records import read_inputs
from adapters.kilt.submission import Prediction, SubmissionWriter
from adapters.tasks.provenance import PageProvenance
from benchmarks.kilt_sets import read_pages
from kbengine.inputs import END_MENTION, SEPARATOR, START_MENTION, Task

DEPTH = 20
K1, B = 0.9, 0.4
PARAGRAPHS_PER_PAGE = 25
"""Paragraphs retrieved for every page wanted: a page's paragraphs often stand together in the ranking."""


class PageRanker:
    """Ranks the pages of a knowledge source by BM25 of their best paragraph (with the title), or of their titles."""

    def __init__(self, files: tuple[Path, ...], scratch: Path) -> None:
        self._files = files
        self._scratch = scratch
        sizes = "".join(f"{path.name}:{path.stat().st_size};" for path in files)
        self._corpus = hashlib.sha256(sizes.encode()).hexdigest()[:12]

    def predict(self, task: Task, inputs: Path) -> Path:
        """Return a submission with the ranked pages of every record and no answers, made now or in an earlier run."""
        rows = hashlib.sha256(inputs.read_bytes()).hexdigest()[:12]
        out = self._scratch / f"bm25-{inputs.name.partition('.')[0]}-{rows}-{K1}-{B}-{self._corpus}.jsonl"
        if out.exists():
            return out
        records = list(read_inputs(inputs))
        index, pages = (
            (self._titles, self._ids) if task == "entity-linking" else (self._paragraphs, self._paragraph_ids)
        )
        rankings = self._rank(index, pages, [_query_text(task, record.input) for record in records])
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
    def _paragraph_ids(self) -> list[str]:
        return [page_id for page_id, title, text in read_pages(self._files) for _ in _paragraphs(title, text)]

    @cached_property
    def _titles(self) -> Any:
        return self._index("titles", lambda title, _: [title])

    @cached_property
    def _paragraphs(self) -> Any:
        return self._index("paragraphs", _paragraphs)

    def _index(self, name: str, texts_of: Callable[[str, list[str]], list[str]]) -> Any:
        import bm25s

        folder = self._scratch / f"bm25-{name}-{K1}-{B}-{self._corpus}"
        if (folder / "params.index.json").exists():
            return bm25s.BM25.load(folder)
        texts = [text for _, title, paragraphs in read_pages(self._files) for text in texts_of(title, paragraphs)]
        index = bm25s.BM25(method="lucene", k1=K1, b=B)
        index.index(_tokens(texts), show_progress=False)
        index.save(folder)
        return index

    def _rank(self, index: Any, pages: list[str], queries: list[str]) -> list[list[str]]:
        """Return the ids of the best distinct pages of each query, those without a common word left out."""
        import bm25s

        tokens = bm25s.tokenize(
            queries, stopwords="en", stemmer=Stemmer.Stemmer("english"), return_ids=False, show_progress=False
        )
        # A query of stop words alone must not end the run; this matches nothing.
        tokens = [words or ["\0"] for words in tokens]
        depth = min(DEPTH * PARAGRAPHS_PER_PAGE, len(pages))
        units, scores = index.retrieve(tokens, k=depth, show_progress=False)
        rankings = []
        for row, values in zip(units.tolist(), scores.tolist(), strict=True):
            found = dict.fromkeys(pages[unit] for unit, score in zip(row, values, strict=True) if score > 0)
            rankings.append(list(found)[:DEPTH])
        return rankings


def _paragraphs(title: str, text: list[str]) -> list[str]:
    """Return each paragraph behind its title; a page of nothing but its title is that."""
    # Paragraph 0 repeats the title, which would count it twice.
    body = text[1:] if text[:1] == [title] else text
    return [f"{title} {paragraph}" for paragraph in body if paragraph.strip()] or [title]


def _tokens(texts: list[str]) -> Any:
    import bm25s

    return bm25s.tokenize(texts, stopwords="en", stemmer=Stemmer.Stemmer("english"), show_progress=False)


def _query_text(task: Task, text: str) -> str:
    if task == "entity-linking":
        return text.partition(START_MENTION)[2].partition(END_MENTION)[0].strip()
    return text.replace(SEPARATOR, " ")
