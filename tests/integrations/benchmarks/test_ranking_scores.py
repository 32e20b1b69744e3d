"""Scores of ranked passages: what counts as found, and what is left out of a mean."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.ranking_scores import RankedSet, RowScores, figures_of, rank_sets, score_hits, with_macro
from kbengine.search.results import DocumentRef, Hit, PassageRef
from kbengine.span import Span
from tests.kbengine.learning.tuning.tuning_world import PLANTED, open_world


def ranked(folder: Path, name: str, gold: list[tuple[str, int]]) -> RankedSet:
    """A set of one row whose answer is "Tokyo", with this gold evidence."""
    provenance = [
        {"wikipedia_id": page, "title": page, "start_paragraph_id": number, "end_paragraph_id": number}
        for page, number in gold
    ]
    text = "in [START_ENT] Tokyo [END_ENT]" if name.startswith("el_") else "which city"
    row = {"id": "1", "input": text, "output": [{"answer": "Tokyo", "provenance": provenance}]}
    path = folder / f"{name}.dev.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    return RankedSet.read(path, limit=None)


def hits(*places: tuple[str, int]) -> list[Hit]:
    """Passages that say "Tokyo", best first."""
    return [
        Hit(
            i,
            "passage",
            "Tokyo",
            -float(i),
            DocumentRef(page, page, None),
            PassageRef(i, number, "Tokyo"),
            Span(0, 5),
            Span(0, 5),
            i,
            i,
        )
        for i, (page, number) in enumerate(places)
    ]


def test_a_gold_paragraph_counts_among_the_first_five_distinct_ones(tmp_path) -> None:
    """A paragraph that is several passages takes one place; a page has the place of its best passage."""
    asked = ranked(tmp_path, "squad", [("b", 4)])
    gold = frozenset((("b", 4),))
    five = [("a", i) for i in range(4)]

    def scores(*places: tuple[str, int]) -> RowScores:
        return score_hits(asked, asked.rows[0], gold, hits(*places))

    assert scores(*five, ("a", 0), ("b", 4)) == RowScores(1, 0, 1, 0)
    assert scores(*five, ("a", 9), ("b", 4)).recall == 0
    assert scores(("b", 1), ("b", 4)) == RowScores(1, 1, 1, 1)
    assert scores() == RowScores(0, 0, 0, 0)


def test_what_a_row_has_no_gold_of_is_no_miss(tmp_path) -> None:
    """Links name no paragraphs and their answers are titles: such figures stay empty, also in means."""
    link = ranked(tmp_path, "el_x", [("b", 0)])
    scores = score_hits(link, link.rows[0], frozenset(), hits(("b", 1)))

    assert scores == RowScores(None, 1, None, None)
    assert figures_of([scores, RowScores(None, 0, None, None)]) == {
        "recall@5": None,
        "rprec": 50.0,
        "em": None,
        "kilt_em": None,
    }
    means = with_macro({"a": figures_of([scores]), "b": figures_of([RowScores(0, 0, 0, 0)])})
    assert means["macro"] == {"recall@5": 0.0, "rprec": 50.0, "em": 0.0, "kilt_em": 0.0}


@pytest.mark.parametrize("effort", ["normal", "exact"])
def test_sets_are_ranked_both_ways(tmp_path, effort) -> None:
    """Every way has every set and their mean, in percent."""
    question, answer, page = PLANTED[0]
    row = {"id": "1", "input": question, "output": [{"answer": answer, "provenance": [{"wikipedia_id": page}]}]}
    path = tmp_path / "squad.dev.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    with open_world(tmp_path) as knowledge_base:
        found = rank_sets(knowledge_base.searcher(), [RankedSet.read(path, limit=5)], effort=effort)

    assert set(found) == {"phrase", "fused"}
    assert all(set(sets) == {"squad", "macro"} for sets in found.values())
    assert found["fused"]["squad"]["rprec"] in (0.0, 100.0)
