"""Claims answered with SUPPORTS or REFUTES by a model, together with the pages that were read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from adapters.errors import SubmissionError
from adapters.kilt.predicting import PredictOptions, predict_file
from adapters.kilt.scoring import score_files
from kbengine.encoders.encoder import PassageText
from kbengine.errors import InvalidOptionError
from kbengine.inputs import Question
from kbengine.verdicts.verdict import Evidence, Judgement
from tests.adapters.fake_knowledge_base import PASSAGE, UNKNOWN, FakeKnowledgeBase, predictions, write_lines

TRUE, FALSE = "Einstein was born in Ulm.", "Einstein was not born in Ulm."


class BySign:
    """Refutes what says "not"; remembers what it was given."""

    def __init__(self, *, log_odds: float = 2.0, fingerprint: str = "one") -> None:
        self.log_odds = log_odds
        self.fingerprint = fingerprint
        self.n_passages = 3
        self.given: list[list[PassageText]] = []

    def judge(
        self, claims: Sequence[Question], passages: Sequence[Sequence[PassageText]], *, truncate: bool = False
    ) -> list[Judgement | None]:
        assert truncate
        self.given += [list(own) for own in passages]
        return [
            Judgement(-self.log_odds if " not " in claim.text else self.log_odds, (Evidence(0, 1),)) if own else None
            for claim, own in zip(claims, passages, strict=True)
        ]


def predict(
    tmp_path: Path, *texts: str, name: str = "fever-dev-kilt.jsonl", judge: BySign | None = None, **options: Any
) -> dict[str, tuple[str, list[str]]]:
    """Answers and pages by id, which is the place."""
    inputs = write_lines(tmp_path / name, [{"id": str(i), "input": text} for i, text in enumerate(texts)])
    (tmp_path / "out").mkdir(exist_ok=True)
    report = predict_file(FakeKnowledgeBase(), inputs, tmp_path / "out", options=PredictOptions(**options), judge=judge)
    return predictions(report.path)


def test_claims_get_verdicts_and_their_pages(tmp_path: Path) -> None:
    """The best three passages are read, with titles; without a page the answer is blank."""
    judge, pages = BySign(), [str(number) for number in range(5, 15)]
    found = predict(tmp_path, TRUE, FALSE, UNKNOWN, judge=judge)
    assert found == {"0": ("SUPPORTS", pages), "1": ("REFUTES", pages), "2": ("", [])}
    titles = ("Ulm", "Page 2", "Page 3")
    assert judge.given == [[PassageText(title, PASSAGE) for title in titles]] * 2 + [[]]
    assert predict(tmp_path, TRUE, overwrite=True)["0"] == ("", pages)


def test_verdicts_are_scored(tmp_path: Path) -> None:
    """Accuracy by the verdict, KILT-accuracy by verdict and pages together."""
    predict(tmp_path, TRUE, FALSE, TRUE, FALSE, judge=BySign())
    gold = [("SUPPORTS", "5"), ("REFUTES", "5"), ("REFUTES", "5"), ("REFUTES", "99")]
    rows = [
        {"id": str(i), "input": "x", "output": [{"answer": verdict, "provenance": [{"wikipedia_id": page}]}]}
        for i, (verdict, page) in enumerate(gold)
    ]
    path = write_lines(tmp_path / "gold.jsonl", rows)
    scores = score_files(path, tmp_path / "out" / "fever-dev-kilt.jsonl")
    assert (scores.downstream["accuracy"], scores.kilt["KILT-accuracy"], scores.retrieval["Rprec"]) == (0.75, 0.5, 0.75)


def test_an_improbable_verdict_is_left_blank_where_a_threshold_is_given(tmp_path: Path) -> None:
    """Its own probability counts: 0.88 with log-odds of 2, 0.52 with 0.1; no calibration is needed."""
    assert predict(tmp_path, FALSE, judge=BySign(), threshold=0.8)["0"][0] == "REFUTES"
    (weak,) = predict(tmp_path, FALSE, judge=BySign(log_odds=0.1), threshold=0.8, overwrite=True).values()
    assert weak[0] == "" and len(weak[1]) == 10


def test_verdicts_want_a_model_and_a_model_wants_verdicts(tmp_path: Path) -> None:
    """Each alone is an error, and so are tasks whose inputs are no claims."""
    with pytest.raises(InvalidOptionError, match="train verdict"):
        predict(tmp_path, TRUE, answer="verdict")
    with pytest.raises(InvalidOptionError, match="'pages'"):
        predict(tmp_path, TRUE, judge=BySign(), answer="pages")
    with pytest.raises(InvalidOptionError, match="entity-linking"):
        predict(tmp_path, json.dumps("x"), name="cweb-dev-kilt.jsonl", judge=BySign())
    assert predict(tmp_path, TRUE, name="nq-dev-kilt.jsonl", judge=BySign())["0"][0] == "SUPPORTS"


def test_an_unfinished_file_is_not_finished_by_another_model(tmp_path: Path) -> None:
    """The model is among what predictions depend on."""
    inputs = write_lines(tmp_path / "fever-dev-kilt.jsonl", [{"id": str(i), "input": TRUE} for i in range(4)])
    (tmp_path / "out").mkdir()
    knowledge_base, options = FakeKnowledgeBase(), PredictOptions(batch_size=2, resume=True)
    knowledge_base.fail_at_batch = 1
    with pytest.raises(KeyboardInterrupt):
        predict_file(knowledge_base, inputs, tmp_path / "out", options=options, judge=BySign())
    with pytest.raises(SubmissionError):
        predict_file(FakeKnowledgeBase(), inputs, tmp_path / "out", options=options, judge=BySign(fingerprint="two"))
    report = predict_file(FakeKnowledgeBase(), inputs, tmp_path / "out", options=options, judge=BySign())
    assert (report.skipped_done, report.answered) == (2, 2)
