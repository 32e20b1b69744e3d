"""Open-domain measures against what the published evaluation code gives for the same small files.

The files are ours. `open_domain/expected.json` holds what DPR (`has_answer`), DensePhrases (`recall.py`) and DrQA
(`scripts/pipeline/eval.py`) made of them; their code is not here. Where `recall.py` differs from DPR, ours is DPR's: it
decomposes answers but not passages, so that an accented answer is missed, and takes a question whose list is shorter
than k for answered. Its figures are ours where its passages were decomposed and its lists filled up with blank ones.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adapters.open_domain.evaluating import evaluate_passages
from adapters.open_domain.matching import AnswerMatcher
from adapters.open_domain.passages import read_passages

FILES = Path(__file__).with_name("open_domain")
EXPECTED = json.loads((FILES / "expected.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["passages", "patterns"])
def test_passages_hold_answers_where_dpr_finds_them(name: str) -> None:
    """Accents, case, hyphens, ligatures, other scripts and broken expressions among them."""
    report = evaluate_passages(read_passages(FILES / f"{name}.json"), name=name, patterns=name == "patterns")
    ranks = [list(record.passage_scores.ranks) for record in report.records if record.passage_scores]
    assert ranks == EXPECTED[name]["DPR has_answer, ranks"]


@pytest.mark.parametrize("name", ["passages", "patterns"])
def test_figures_are_those_of_densephrases(name: str) -> None:
    """Top-k, MRR@20 and P@20, printed there with two digits."""
    facts = evaluate_passages(read_passages(FILES / f"{name}.json"), name=name, patterns=name == "patterns").facts()
    expected = EXPECTED[name]["DensePhrases recall.py, 100 passages in NFD"]
    assert {measure: facts[measure] for measure in expected} == pytest.approx(expected, abs=0.0051)


def test_answers_are_right_where_drqa_says_so() -> None:
    """Sixty texts, then forty against regular expressions."""
    lines = (FILES / "predictions.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    rows = [json.loads(line) for line in lines]
    right = [
        int(AnswerMatcher(row["answer"], is_pattern=number >= 60).is_right(row["prediction"]))
        for number, row in enumerate(rows)
    ]
    assert right == EXPECTED["predictions"]["DrQA scripts/pipeline/eval.py, right"]
