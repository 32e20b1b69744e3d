"""Standard errors of means over rows that share their pages."""

from __future__ import annotations

import json
import math

import pytest

from adapters.kilt.records import read_gold
from adapters.kilt.standard_error import cluster_of_slot, clustered_standard_error, first_page


def test_clusters_of_one_row_give_the_usual_standard_error() -> None:
    """Mean 0.5, squares off it 4 · 0.25, over n - 1 = 3, over n = 4: the root of 1/12."""
    assert clustered_standard_error([1, 1, 0, 0], "abcd") == pytest.approx(math.sqrt(1 / 12))


def test_rows_of_a_page_that_rise_and_fall_together_count_once() -> None:
    """By hand: the pages' sums off the mean of 2/3, squared, times 4/3 for four pages; the root, over six rows."""
    values = [1, 1, 1, 1, 0, 0]
    clusters = ["a", "a", "b", "c", "c", "d"]
    sums = [2 / 3, 1 / 3, 1 / 3 - 2 / 3, -2 / 3]
    expected = math.sqrt(4 / 3 * sum(each**2 for each in sums)) / 6
    assert clustered_standard_error(values, clusters) == pytest.approx(expected)
    assert clustered_standard_error([1, 1, 0, 0], "aabb") == pytest.approx(0.5)
    assert clustered_standard_error([1, 1, 0, 0], "abab") == 0


@pytest.mark.parametrize("clusters", ["", "aaa"])
def test_one_page_tells_nothing_about_others(clusters: str) -> None:
    """Nor does none."""
    assert clustered_standard_error([1.0] * len(clusters), clusters) is None


def test_rows_are_of_their_first_gold_page_or_of_their_relation(tmp_path) -> None:
    """The row itself where it names no page."""
    rows = [
        {"id": "1", "input": "Ulm [SEP] country", "output": [{"answer": "x", "provenance": [{"wikipedia_id": 7}]}]},
        {"id": "2", "input": "Bonn [SEP]  head of government", "output": [{"answer": "x"}]},
    ]
    path = tmp_path / "gold.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    records = list(read_gold(path))
    assert [first_page(record) for record in records] == ["7", "2"]
    assert [cluster_of_slot(record) for record in records] == ["country", "head of government"]
