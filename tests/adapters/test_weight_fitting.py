"""Fusion weights: figures against a plain computation, planted optima found, noise not taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from adapters.calibration.weight_fitting import SEEN_WITH, Candidates, candidates_of, fit_weights, grid, judge
from adapters.kilt.records import Output, Provenance
from adapters.kilt.retrieval import r_precision
from kbengine.search.query import Query, Weights
from tests.adapters.scripted_knowledge_base import Place, ScriptedKnowledgeBase

CURRENT = Weights(phrase=1.0, passage=10.0, lexical=2.0, sparse=1.0)


def random_candidates(generator: np.random.Generator, n: int = 12) -> Candidates:
    """Passages of six pages with random scores; two gold outputs, one of two pages."""
    return Candidates(
        phrase=generator.normal(30, 3, size=n).astype(np.float32),
        passage=generator.uniform(size=n).astype(np.float32),
        lexical=generator.uniform(0, 5, size=n).astype(np.float32),
        name=np.zeros(n, dtype=np.float32),
        pages=generator.integers(0, 6, size=n),
        is_answer=generator.uniform(size=n) < 0.4,
        evidence=((0, 1), (3, -2)),
    )


def planted(generator: np.random.Generator, passage: float, lexical: float, n_records: int) -> list[Candidates]:
    """Records whose gold page is the best one under the weights planted."""
    found = []
    for _ in range(n_records):
        each = random_candidates(generator)
        score = each.phrase + passage * each.passage + lexical * each.lexical
        found.append(replace(each, pages=np.arange(12), evidence=((int(score.argmax()),),)))
    return found


def test_figures_equal_a_plain_computation() -> None:
    """R-precision as the evaluator's over distinct pages in rank order; the gate of KILT-EM."""
    generator = np.random.default_rng(1)
    found = [random_candidates(generator) for _ in range(40)]
    pairs = grid(CURRENT)[::37]
    judged = judge(found, pairs, with_answers=True)
    for i, each in enumerate(found):
        for j, (passage, lexical) in enumerate(pairs):
            score = each.phrase + passage * each.passage + lexical * each.lexical
            order = np.argsort(-score, kind="stable")
            outputs = [
                Output(provenance=tuple(Provenance({"wikipedia_id": str(page)}) for page in pages), has_provenance=True)
                for pages in each.evidence
            ]
            ids = list(dict.fromkeys(str(page) for page in each.pages[order]))
            wanted = r_precision(ids, outputs, ("wikipedia_id",))
            assert judged.rprec[i, j] == pytest.approx(wanted)
            assert judged.kilt_em[i, j] == float(wanted == 1 and each.is_answer[order[0]])


def test_a_record_without_passages_or_gold_scores_nothing() -> None:
    """It counts as a miss under every pair."""
    none = np.zeros(0, dtype=np.float32)
    empty = Candidates(none, none, none, none, none.astype(np.int64), none.astype(np.bool_), ((0,),))
    judged = judge([empty], grid(CURRENT), with_answers=True)
    assert not judged.rprec.any() and not judged.kilt_em.any()


def test_weights_that_are_clearly_better_are_found() -> None:
    """Near the planted pair, on several files at once; the figures say before and after."""
    generator = np.random.default_rng(2)
    files = {name: planted(generator, 40.0, 0.5, 150) for name in ("a", "b")}
    fit = fit_weights({1.0: files}, CURRENT, phrases=False)
    assert fit.adopted and fit.weights.phrase == 1.0
    assert 30 <= fit.weights.passage <= 60 and 0.2 <= fit.weights.lexical <= 1.0
    assert fit.report["held_out"]["gain"] > 10
    of_files = [each["held_out"]["Rprec"] for each in fit.report["files"].values()]
    assert sum(of_files) / len(of_files) == pytest.approx(fit.report["held_out"]["after"], abs=0.01)
    for figures in fit.report["files"].values():
        assert figures["after"]["Rprec"] > figures["before"]["Rprec"] + 10
        assert "KILT-em" not in figures["after"]


def test_weights_that_are_no_better_on_other_rows_are_not_taken() -> None:
    """The optimum of noise is none; the weights in use stay exactly."""
    generator = np.random.default_rng(3)
    noise = [random_candidates(generator) for _ in range(200)]
    fit = fit_weights({1.0: {"noise": noise}}, CURRENT, phrases=True)
    assert not fit.adopted and fit.weights is CURRENT
    assert fit.report["objective"]["best"] > fit.report["objective"]["before"]
    assert fit.report["files"]["noise"]["after"] == fit.report["files"]["noise"]["before"]
    best_already = {"best already": planted(generator, 10.0, 2.0, 200)}
    assert fit_weights({1.0: best_already}, CURRENT, phrases=False).weights is CURRENT


def test_each_file_counts_alike() -> None:
    """A file of few rows is not outvoted by a long one."""
    generator = np.random.default_rng(4)
    files = {"short": planted(generator, 60.0, 0.0, 60), "long": planted(generator, 60.0, 0.0, 400)}
    fit = fit_weights({1.0: files}, CURRENT, phrases=False)
    before = np.mean([each["before"]["Rprec"] for each in fit.report["files"].values()])
    assert fit.report["objective"]["before"] == pytest.approx(before, abs=0.02)


def test_the_same_rows_give_the_same_weights() -> None:
    """Folds are drawn with the seed."""
    files = {"a": planted(np.random.default_rng(5), 30.0, 1.0, 80)}
    assert fit_weights({1.0: files}, CURRENT, phrases=False) == fit_weights({1.0: files}, CURRENT, phrases=False)


def test_the_weights_of_the_search_are_taken_out_of_the_parts() -> None:
    """Pages are numbered within the record, missing gold pages negative, answers compared normalised."""
    places = [
        Place("the Danube", "On the Danube.", "Ulm", start=9.0, passage=0.5, lexical=2.0, name=1.0),
        Place("Rhine", "On the Rhine.", "Bonn", start=1.0, passage=0.25, lexical=0.0),
    ]
    query = Query.question("Which river?")
    (result,) = ScriptedKnowledgeBase(lambda _: places).search(
        [Query(query.input, weights=SEEN_WITH)], k=9, unit="passage"
    )
    found = candidates_of(
        result.hits, seen_with=SEEN_WITH, gold_answers=frozenset(["danube"]), gold_pages=[["bonn", "kiel"], [], ["ulm"]]
    )
    assert found.phrase.tolist() == [9.0, 1.0]
    assert found.passage.tolist() == [0.5, 0.25]
    assert found.lexical.tolist() == [2.0, 0.0]
    assert found.name.tolist() == [1.0, 0.0]
    assert (found.pages.tolist(), found.is_answer.tolist()) == ([0, 1], [True, False])
    assert found.evidence == ((1, -2), (0,))


def test_the_weights_in_use_are_judged_too() -> None:
    """As the last pair, relative to the phrase weight."""
    assert grid(Weights(phrase=2.0, passage=14.0, lexical=3.0))[-1].tolist() == [7.0, 1.5]


def test_the_sparse_weight_is_fitted_too() -> None:
    """Of the searches with several, the one whose phrases and pages are right; the others have none."""
    generator = np.random.default_rng(6)
    right = planted(generator, 10.0, 2.0, 150)
    wrong = [replace(each, evidence=((-1,),)) for each in right]
    fit = fit_weights({0.0: {"a": wrong}, 0.5: {"a": right}, 1.0: {"a": wrong}}, CURRENT, phrases=False)
    assert fit.adopted and fit.weights.sparse == 0.5
    assert fit.report["best"]["sparse"] == 0.5 and fit.report["before"]["sparse"] == 1.0
    assert fit.report["files"]["a"]["before"]["Rprec"] == 0.0


def test_the_name_weight_is_fitted_too() -> None:
    """Where pages are right because they are named as asked, names get weight; the other weights stay about right."""
    generator = np.random.default_rng(7)
    named = []
    for _ in range(200):
        each = random_candidates(generator)
        name = (generator.uniform(size=12) < 0.3).astype(np.float32)
        score = each.phrase + 10 * each.passage + 2 * each.lexical + 20 * name
        named.append(replace(each, name=name, pages=np.arange(12), evidence=((int(score.argmax()),),)))

    fit = fit_weights({1.0: {"a": named}}, CURRENT, phrases=False)

    assert fit.adopted and 10 <= fit.weights.name <= 40
    assert fit.report["before"]["name"] == 0.0
