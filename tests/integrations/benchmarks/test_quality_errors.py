"""Figures of quality come with their standard errors, clustered by page."""

from __future__ import annotations

import json

from benchmarks.quality import error_of_mean, errors, task_macros


def write(path, rows):
    """The path of JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_errors_are_clustered_by_page_and_in_points(tmp_path) -> None:
    """Two pages of two rows each: one all right, one all wrong."""
    gold, guess = [], []
    for number, page in enumerate("AABB"):
        places = [{"wikipedia_id": page}]
        gold.append({"id": str(number), "input": "?", "output": [{"answer": "x", "provenance": places}]})
        found = [{"wikipedia_id": "A"}]
        guess.append({"id": str(number), "output": [{"answer": "x", "provenance": found}]})
    found = errors(write(tmp_path / "gold.jsonl", gold), write(tmp_path / "guess.jsonl", guess), "squad")
    assert found == {"Rprec": 50.0, "KILT-em": 50.0}
    assert errors(tmp_path / "gold.jsonl", tmp_path / "guess.jsonl", "selqa") == {"Rprec": 50.0}
    assert errors(tmp_path / "gold.jsonl", tmp_path / "guess.jsonl", "fewrel") == {"Rprec": None, "KILT-em": None}


def test_the_error_of_a_macro_is_that_of_independent_sets() -> None:
    """None where one of them has none."""
    assert error_of_mean([3.0, 4.0]) == 2.5
    assert error_of_mean([3.0, None]) is None and error_of_mean([]) is None
    row = {"ours": {"Rprec": 50.0}, "error": {"Rprec": 3.0, "KILT-em": 1.0}}
    other = {"ours": {"Rprec": 60.0}, "error": {"Rprec": 4.0}}
    assert task_macros([row, other])["error"] == {"Rprec": 2.5, "KILT-em": 1.0}
