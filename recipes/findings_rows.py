"""Rows of our own for the papers' findings: questions about many pages, parted by page into training and development.

Run: python -m recipes.findings_rows --out DIR

Development rows of squad and newwiki are of ten pages, so that a standard error by pages is three to five points; these
are of 1,400. Writes `own.train.jsonl` and `own.dev.jsonl`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kbengine.learning.data.reading import json_lines
from recipes.reader_examples import WRITTEN

FILES = ("written", "contrasts")
DEVELOPMENT_SHARE = 20 / 256
"""Of the pages."""

Row = Mapping[str, Any]


def parted(rows: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """Return the questions among the rows for training and for development, all of a page on one side.

    >>> rows = [{"id": str(n), "meta": {"kind": "question"}, "output": [{"provenance": [{"wikipedia_id": str(n)}]}]}
    ...         for n in range(100)]
    >>> [len(side) for side in parted(rows)]
    [95, 5]
    """
    train: list[Row] = []
    development: list[Row] = []
    for row in rows:
        if row["meta"]["kind"] == "question":
            page = row["output"][0]["provenance"][0]["wikipedia_id"]
            is_development = hashlib.sha256(page.encode()).digest()[0] < 256 * DEVELOPMENT_SHARE
            (development if is_development else train).append(row)
    return train, development


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    rows = [row for name in FILES for row in json_lines(WRITTEN / f"{name}.train.jsonl.bz2")]
    for name, some in zip(("train", "dev"), parted(rows), strict=True):
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in some)
        (out / f"own.{name}.jsonl").write_text("".join(lines), encoding="utf-8")
        print(f"{len(some):,} questions in {out / f'own.{name}.jsonl'}")


if __name__ == "__main__":
    main()
