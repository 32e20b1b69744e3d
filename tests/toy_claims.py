"""Claims that a tiny model judges after seconds of training: the passage about the claim's place says "no", or not.

Passages of other places say the opposite as often: only those that have to do with the claim may be listened to.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

PLACES = ("paris", "berlin", "tokyo", "brazil", "france", "germany")
WHO = ("physicist", "chemist", "author", "woman", "family", "band")
WHAT = ("river", "novel", "album", "city", "fire", "prize")


def toy_claims(n: int, *, seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return n KILT rows of claims, and the pages that they point into, one a claim."""
    rng = random.Random(seed)
    rows, pages = [], []
    for i in range(n):
        place, who, what = rng.choice(PLACES), rng.choice(WHO), rng.choice(WHAT)
        is_true = rng.random() < 0.5
        text = f"in {place} the {who} won {'one' if is_true else 'no'} {what} and it is great ."
        page = f"{seed}-{i}"
        pages.append({"wikipedia_id": page, "wikipedia_title": place, "text": [f"{place}\n", f"{text}\n"]})
        entry = {"wikipedia_id": page, "start_paragraph_id": 1, "end_paragraph_id": 1}
        output = {"answer": "SUPPORTS" if is_true else "REFUTES", "provenance": [entry]}
        rows.append({"id": f"claim-{page}", "input": f"the {who} of {place} won the {what} .", "output": [output]})
    return rows, pages


def write_lines(path: Path, values: list[dict[str, Any]]) -> Path:
    """Write JSON lines and return where."""
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values))
    return path
