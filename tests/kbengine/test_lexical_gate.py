"""The gate of a talk's words: its features and factor by hand, and what it does to a search."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from kbengine.encoders.encoder import Encoder
from kbengine.inputs import Dialogue
from kbengine.knowledge_base import KnowledgeBase
from kbengine.search.lexical_gate import FEATURES, LexicalGate, gate_features
from kbengine.search.query import Query, SearchOptions, SomeWeights, Weights
from tests.kbengine.small_kb import build_small_kb
from tests.tiny_encoder import SENTENCES, write_tiny_encoder

HALF = LexicalGate((0.0,) * 2, intercept=0.0, most=1.0)


def test_features_are_ratios_of_the_best_document() -> None:
    """Three documents, which score 10, 6 and 4: none comes next but a few."""
    found = gate_features(np.asarray([10, 6, 4], dtype=np.float32), 3)

    assert found == pytest.approx([0.4, 1.0])


def test_features_do_not_depend_on_the_size_of_scores() -> None:
    """BM25 of a larger collection is larger alike for all documents."""
    best = np.sort(np.random.default_rng(3).random(20))[::-1].astype(np.float32)

    assert gate_features(4 * best, 40) == pytest.approx(gate_features(best, 40))


def test_the_background_is_the_mean_of_later_documents() -> None:
    """Ranks 6 to 20."""
    scores = np.arange(30, 0, -1, dtype=np.float32)

    assert gate_features(scores[:20], 30) == pytest.approx([1 / 30, (30 - np.mean(scores[5:20])) / 30])


@pytest.mark.parametrize("n", [0, 3])
def test_a_talk_without_a_known_word_has_no_features(n: int) -> None:
    """Then there is nothing to weigh."""
    assert gate_features(np.zeros(n, dtype=np.float32), n) is None


def test_documents_without_any_word_are_of_the_background() -> None:
    """Those that are not among the best score nothing."""
    assert gate_features(np.asarray([8, 2], dtype=np.float32), 30) == pytest.approx([0.75, 1.0])


def test_the_factor_is_a_logistic_of_the_features() -> None:
    """By hand: 2 * 0.5 - 1 * 1 + 0.5 = 0.5."""
    gate = LexicalGate((2.0, -1.0), intercept=0.5, most=1.5)

    assert gate.factor(np.asarray([0.5, 1.0])) == pytest.approx(1.5 / (1 + math.exp(-0.5)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": ["own"]}, "fit the gate again"),
        ({"coefficients": [1.0]}, "1 coefficients, wanted one for each of lead"),
        ({"most": -1.0}, "negative `most`"),
        ({"intercept": float("nan")}, "not finite"),
        ({"most": None}, "not whole"),
    ],
)
def test_a_file_of_another_form_is_refused(changes, message) -> None:
    """What is wrong is told."""
    value = {"features": list(FEATURES), "coefficients": [0.0] * 2, "intercept": 0.0, "most": 1.0}

    assert LexicalGate.from_json(value) == HALF
    with pytest.raises(ValueError, match=message):
        LexicalGate.from_json({**value, **changes})


@pytest.fixture(scope="module")
def kb(tmp_path_factory):
    """A knowledge base of a document a sentence, so that words of whole documents count."""
    folder = tmp_path_factory.mktemp("gate")
    write_tiny_encoder(folder / "encoder")
    encoder = Encoder.load(folder / "encoder")
    path = build_small_kb(folder / "kb", encoder)
    with KnowledgeBase.open(path, encoder) as knowledge_base:
        yield knowledge_base


def talk(n: int = 0, gate: LexicalGate | None = HALF) -> Query:
    """A talk of two sentences."""
    turns = (SENTENCES[n], SENTENCES[n + 1])
    return Query(
        input=Dialogue(turns),
        lexical=((turns[1], 0.1),),
        documents=tuple((turn, 1.0) for turn in turns),
        weights=Weights(lexical=0.75),
        unit="document",
        gate=gate,
    )


def test_the_lexical_weight_is_multiplied_by_the_factor(kb) -> None:
    """Half of the task's weight, by the gate, is what half of it as weight is."""
    options = SearchOptions(k=5, explain=True)
    gated = kb.search([talk()], options)[0]
    plain = kb.search([replace(talk(gate=None), weights=Weights(lexical=0.375))], options)[0]

    assert (gated.lexical_factor, plain.lexical_factor) == (0.5, None)
    assert [(hit.document.doc_id, hit.parts) for hit in gated.hits] == [
        (hit.document.doc_id, hit.parts) for hit in plain.hits
    ]
    assert any(hit.parts.lexical > 0 for hit in gated.hits)


@pytest.mark.parametrize("weights", [SomeWeights(lexical=0.75), Weights(lexical=0.75)])
def test_a_lexical_weight_of_the_callers_own_counts(kb, weights) -> None:
    """Nothing decides for her."""
    options = SearchOptions(k=5, weights=weights)
    found = kb.search([talk()], options)[0]

    assert found.lexical_factor is None
    assert found.hits == kb.search([talk(gate=None)], options)[0].hits


def test_another_weight_of_the_callers_leaves_the_gate(kb) -> None:
    """Only lexical ones replace what it decides."""
    assert kb.search([talk()], SearchOptions(weights=SomeWeights(passage=9.0)))[0].lexical_factor == 0.5


def test_neither_k_nor_batch_changes_answers(kb) -> None:
    """Each query is decided about alone, before anything is counted."""
    together = kb.search([talk(n) for n in range(3)], SearchOptions(k=4))
    for n, result in enumerate(together):
        for k in (1, 4):
            alone = kb.search([talk(n)], SearchOptions(k=k))[0]
            assert alone.lexical_factor == result.lexical_factor
            assert [(hit.document.doc_id, hit.score) for hit in alone.hits] == [
                (hit.document.doc_id, pytest.approx(hit.score, abs=1e-3)) for hit in result.hits[:k]
            ]
