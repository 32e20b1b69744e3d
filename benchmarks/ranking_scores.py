"""How well a searcher ranks passages and pages of KILT rows, with all signals and by phrase vectors alone.

One search a row and way of ranking gives all figures, so that many knowledge bases can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from adapters.kilt.downstream import answer_scores
from adapters.kilt.gold_rows import GoldRow
from adapters.kilt.predicting import task_of_file
from adapters.kilt.retrieval import PAGE_KEYS, r_precision
from adapters.tasks.defaults import TASK_WEIGHTS
from adapters.tasks.evidence import answer_of
from adapters.tuning.tuning_files import TaskFile, read_gold_rows, tuning_rows
from benchmarks.kilt_sets import RETRIEVAL_ONLY, macro
from kbengine.learning.tuning.candidates import PHRASES_ALONE
from kbengine.search.query import Effort, SearchOptions
from kbengine.search.results import Hit
from kbengine.search.searcher import Searcher

WAYS = ("phrase", "fused")
"""By phrase vectors alone, and with the task's weights of all signals."""
FIGURES = ("recall@5", "rprec", "em", "kilt_em")
PASSAGES = 20
"""Distinct passages searched for: enough for five, and for the pages that R-precision wants."""
TOP = 5

Figures = dict[str, float | None]


@dataclass(frozen=True)
class RankedSet:
    """The rows of one set that are asked."""

    name: str
    file: TaskFile
    rows: tuple[GoldRow, ...]

    @classmethod
    def read(cls, path: Path, *, limit: int | None, seed: int = 0) -> RankedSet:
        """Return the set of a file, `limit` of its rows drawn with the seed."""
        file = TaskFile(path, task_of_file(path))
        return cls(path.name.partition(".")[0], file, tuple(read_gold_rows(file, limit=limit, seed=seed)))


@dataclass(frozen=True)
class RowScores:
    """The scores of one row, each 0 to 1; None where the row has no gold of the kind.

    Attributes:
        recall: 1 when a gold paragraph is among the first five. The papers' top-k accuracy is another figure: that an
            answer's string stands in one of the first k passages, whichever they are.
        rprec: Page R-precision.
        em: 1 when the first passage's phrase is an answer.
        kilt_em: `em` where R-precision is 1.
    """

    recall: float | None
    rprec: float
    em: float | None
    kilt_em: float | None


def score_hits(found: RankedSet, row: GoldRow, gold: frozenset[tuple[str, int]], hits: Sequence[Hit]) -> RowScores:
    """Return the scores of a row.

    Args:
        found: the set it is of.
        row: the row.
        gold: ids and paragraph numbers of its gold paragraphs.
        hits: distinct passages, best first.
    """
    paragraphs = list(dict.fromkeys((hit.document.doc_id.strip(), hit.passage.ordinal) for hit in hits))
    pages = list(dict.fromkeys(page for page, _ in paragraphs))
    recall = float(any(each in gold for each in paragraphs[:TOP])) if gold else None
    rprec = r_precision(pages, row.record.outputs, PAGE_KEYS)
    if found.name in RETRIEVAL_ONLY or found.file.task in ("entity-linking", "dialogue"):
        return RowScores(recall, rprec, None, None)
    answer = answer_of(found.file.task, hits).strip()
    em = float(answer_scores(answer, row.record.answers()).em) if answer else 0.0
    return RowScores(recall, rprec, em, em if rprec == 1 else 0.0)


def rank_sets(searcher: Searcher, sets: Sequence[RankedSet], *, effort: Effort = "normal") -> dict[str, Any]:
    """Return by way and set, and of the mean over sets ("macro"), the figures in percent."""
    return {
        way: with_macro({each.name: figures_of(rank_rows(searcher, each, way, effort=effort)) for each in sets})
        for way in WAYS
    }


def rank_rows(
    searcher: Searcher, ranked: RankedSet, way: str, *, effort: Effort = "normal", batch: int = 32
) -> list[RowScores]:
    """Return the scores of each row of a set by one way of ranking."""
    weights = PHRASES_ALONE if way == "phrase" else TASK_WEIGHTS[ranked.file.task]
    options = SearchOptions(k=PASSAGES, unit="passage", truncate=True, effort=effort)
    gold = [row.passages for row in tuning_rows(ranked.file, ranked.rows, weights)]
    scores: list[RowScores] = []
    for begin in range(0, len(ranked.rows), batch):
        rows = ranked.rows[begin : begin + batch]
        results = searcher.search([replace(row.query, weights=weights) for row in rows], options)
        scores += [
            score_hits(ranked, row, own, result.hits)
            for row, own, result in zip(rows, gold[begin : begin + batch], results, strict=True)
        ]
    return scores


def figures_of(scores: Sequence[RowScores]) -> Figures:
    """Return the means over the rows that have each figure, in percent."""
    columns = zip(FIGURES, ("recall", "rprec", "em", "kilt_em"), strict=True)
    return {figure: _percent(macro([getattr(each, name) for each in scores])) for figure, name in columns}


def with_macro(sets: Mapping[str, Figures]) -> dict[str, Figures]:
    """Return the sets' figures with their means, under "macro"."""
    means = {figure: macro([each[figure] for each in sets.values()]) for figure in FIGURES}
    return {**sets, "macro": {figure: None if mean is None else round(mean, 2) for figure, mean in means.items()}}


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 2)
