"""Retrieval scores against trec_eval, where both define the same."""

from __future__ import annotations

import random

import ir_measures
import pytest
from ir_measures import P, R, Rprec, ScoredDoc, Success

from adapters.kilt.records import Output, Provenance, TaskRecord
from adapters.kilt.retrieval import retrieval_scores

PAGES = [f"page-{number}" for number in range(30)]


def record(*outputs: list[str]) -> TaskRecord:
    """A record whose output elements stand on these pages."""
    made = tuple(
        Output(provenance=tuple(Provenance({"wikipedia_id": page}) for page in pages), has_provenance=True)
        for pages in outputs
    )
    return TaskRecord("1", 1, "", made, "file", 1)


@pytest.mark.parametrize("seed", range(20))
def test_ranked_pages_are_scored_as_trec_eval_scores_them(seed: int) -> None:
    """Precision, recall and success of evidence sets of one page; R-precision of one set of several pages."""
    draw = random.Random(seed)
    ranking = draw.sample(PAGES, draw.randint(1, 20))
    gold = draw.sample(PAGES, draw.randint(1, 6))
    run = [ScoredDoc("1", page, 1 / rank) for rank, page in enumerate(ranking, start=1)]
    measures = [Rprec, *(kind @ k for kind in (P, R, Success) for k in (1, 5, 10))]
    found = ir_measures.calc_aggregate(measures, {"1": dict.fromkeys(gold, 1)}, run)

    guess = record(ranking)
    alone = retrieval_scores(guess, record(*([page] for page in gold)))
    together = retrieval_scores(guess, record(gold))

    assert together.rprec == pytest.approx(found[Rprec])
    for kind, score in ((P, alone.precision), (R, alone.recall), (Success, alone.success_rate)):
        for k in (1, 5, 10):
            assert score(k) == pytest.approx(found[kind @ k])
