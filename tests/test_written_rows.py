"""Rows of our own that the reader is trained on: each has its task's form, none is about what must stay unseen."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from kbengine.corpus.normalise import norm
from kbengine.inputs import Dialogue, Mention, Question, Slot
from kbengine.learning.data.kilt import gold_places, kind_of_row, query_of
from kbengine.learning.data.reading import json_lines
from recipes.findings_rows import parted
from recipes.reader_examples import WRITTEN

HELD_BACK = re.compile(
    r"constellation|voice type|\bsports?\b|\bcross(?:es|ed|ing)?\b|competition class|main subject", re.I
)
"""Relations of `fewrel_unseen` and of the kept-back rows of `fewrel`."""
FORMS = {"question": Question, "slot": Slot, "mention": Mention, "talk": Dialogue, "claim": Question}


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    """All of them."""
    return [row for path in sorted(WRITTEN.glob("*.*.jsonl.bz2")) for row in json_lines(path)]


def test_each_has_its_tasks_form_and_one_short_answer_of_one_page(rows) -> None:
    """Which its question does not hold."""
    for row in rows:
        kind = row["meta"]["kind"]
        query = query_of(row["input"], kind_of_row(row, "question"))
        assert isinstance(query, FORMS[kind]), row
        (place,) = gold_places(row)
        assert place.page_id, row
        if kind == "talk":
            continue
        assert place.answer and len(place.answer.split()) <= 12, row
        assert (kind == "claim") == (place.answer in ("SUPPORTS", "REFUTES")), row
        if kind == "question":
            assert f" {norm(place.answer)} " not in f" {norm(row['input'])} ", row
        assert place.paragraph is not None or kind == "mention", row


def test_relations_that_are_held_back_are_asked_for_nowhere(rows) -> None:
    """What a relation that was not trained on scores would not mean that."""
    slots = [row["input"].partition("[SEP]")[2] for row in rows if row["meta"]["kind"] == "slot"]
    assert [relation for relation in slots if HELD_BACK.search(relation)] == []


def test_none_comes_twice(rows) -> None:
    """Neither rows nor their names."""
    assert [name for name, n in Counter(row["id"] for row in rows).items() if n > 1] == []
    said = Counter((row["input"], row["output"][0].get("answer")) for row in rows)
    assert [each for each, n in said.items() if n > 1] == []


def test_the_findings_rows_share_no_page(rows) -> None:
    """Training and development questions are of different pages, one of thirteen for development."""
    train, development = parted(rows)
    pages = [{row["output"][0]["provenance"][0]["wikipedia_id"] for row in side} for side in (train, development)]
    assert not pages[0] & pages[1]
    assert 0.07 < len(pages[1]) / len(pages[0]) < 0.09
    assert {row["meta"]["kind"] for row in (*train, *development)} == {"question"}
