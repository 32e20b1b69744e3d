"""Quantisation-aware tuning, compared: every cell once, differences over the same rows."""

from __future__ import annotations

import pytest

from recipes.quantised import cells, difference, differences, linked_copy, table


def cell(phrase: dict[str, str], fused: dict[str, str]) -> dict[str, object]:
    """A cell whose rows were found or not."""
    done: dict[str, object] = {"bytes_per_vector_without_text": 80.0}
    for way, found in (("phrase", phrase), ("fused", fused)):
        share = sum(row.count("1") / len(row) for row in found.values()) / len(found)
        done |= {f"{way} found": found, way: {"macro": {"recall@5": 100 * share}}}
    return done


def test_each_index_is_searched_untuned_tuned_and_with_the_other_encoder() -> None:
    """The exact index comes first, all others are compared with it; controls come last."""
    assert cells(["opq48"]) == [
        ("exact", None),
        ("opq48", None),
        ("opq48", "opq48"),
        ("exact", "opq48"),
        ("exact", "exact"),
        ("opq48", "exact"),
    ]


def test_differences_are_paired_and_sets_count_alike() -> None:
    """Two of four rows lost in one set, nothing in a larger one: 25 points; rows that stay add no error."""
    exact = cell({"a": "1111", "b": "10101010"}, {"a": "1100", "b": "1" * 8})
    coded = cell({"a": "1100", "b": "10101010"}, {"a": "0011", "b": "1" * 8})
    done = {"exact": exact, "opq48": coded}

    assert difference(coded, exact, "phrase") == (-25.0, pytest.approx(12.5))
    mean, error = difference(coded, exact, "fused")  # as many won as lost: no difference, but not a sure one
    assert mean == 0 and error == pytest.approx(25.0)
    assert differences(done)["exact"]["phrase"] == {"points": 0.0, "standard_error": 0.0}
    assert "| opq48 | – | 80 | 50.0 | -25.0 ± 12.5 |" in table(done)


def test_a_linked_copy_may_be_written_to(tmp_path) -> None:
    """Its database is its own; segments are the same files as the original's."""
    original = tmp_path / "kb"
    (original / "segments").mkdir(parents=True)
    (original / "segments" / "a.seg").write_text("vectors")
    (original / "kb.sqlite").write_text("rows")

    linked_copy(original, tmp_path / "copy")
    (tmp_path / "copy" / "kb.sqlite").write_text("others")

    assert (original / "kb.sqlite").read_text() == "rows"
    assert (tmp_path / "copy" / "segments" / "a.seg").samefile(original / "segments" / "a.seg")
