"""Halves of development sets: by page, and by relation where there are few."""

import hashlib
import json
from pathlib import Path

from benchmarks.kilt_sets import halves_of


def row(page: str, text: str = "q") -> dict:
    """A row of one gold page."""
    return {"input": text, "output": [{"answer": "a", "provenance": [{"wikipedia_id": page}]}]}


def test_a_row_belongs_to_the_half_of_its_page() -> None:
    """The first bit of the page id's hash, in every set alike."""
    pages = [str(number) for number in range(20)]
    expected = ["score" if hashlib.sha256(page.encode()).hexdigest()[0] in "89abcdef" else "choose" for page in pages]
    for name in ("squad.dev.jsonl.gz", "el_news.dev.jsonl.gz"):
        assert halves_of(Path(name), [row(page) for page in pages]) == expected


def test_sets_of_two_relations_are_halved_by_them() -> None:
    """One relation each, whatever the pages."""
    rows = [row(str(i), f"s{i} [SEP] {relation}") for i in range(10) for relation in ("crosses", "sport")]
    halves = halves_of(Path("fewrel.dev.jsonl.gz"), rows)
    by_relation = {json.dumps(each["input"].split(" [SEP] ")[1]): half for each, half in zip(rows, halves, strict=True)}
    assert sorted(by_relation.values()) == ["choose", "score"]
