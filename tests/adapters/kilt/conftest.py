"""Small KILT files for the tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

WriteJsonl = Callable[[str, Iterable[Mapping[str, object]]], Path]


@pytest.fixture
def write_jsonl(tmp_path: Path) -> WriteJsonl:
    """A function that writes records as JSONL under a name and returns the path."""

    def write(name: str, records: Iterable[Mapping[str, object]]) -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        return path

    return write
