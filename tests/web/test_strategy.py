"""Strategies and sparse weights over HTTP."""

from __future__ import annotations

import pytest

QUESTION = {"text": "Where is the river?", "k": 2, "explain": True}


@pytest.mark.parametrize("strategy", ["dense", "dfs", "sfs", "hybrid"])
def test_a_strategy_can_be_asked_for(shared, strategy):
    """The parts of the score follow it: dense ranks without words."""
    response = shared.post("/v1/question", {**QUESTION, "strategy": strategy})

    assert response.status_code == 200, response.text
    for answer in response.json["answers"]:
        parts = answer["evidence"][0]["parts"]
        assert parts["sparse"] == 0 and (strategy != "dense" or parts["lexical"] == 0)


@pytest.mark.parametrize(
    "wrong", [{"strategy": "words"}, {"weights": {"phrase": 1, "passage": 1, "lexical": 1, "sparse": -1}}]
)
def test_what_cannot_be_asked_is_refused(shared, wrong):
    """An unknown strategy, a negative weight."""
    assert shared.post("/v1/question", {**QUESTION, **wrong}).status_code in (400, 422)
