"""The page of the papers' findings: tables of what has been measured, and what people say to them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TABLES = (
    ("Negatives (Table 6)", ("none", "in-batch", "pre-batch-1", "pre-batch-2", "pre-batch-4", "tokens")),
    ("Hard negatives (Table 3 of the second paper)", ("pre-batch-2", "bm25-negatives", "same-phrase-negatives")),
    ("Model and data (Table 5)", ("in-batch", "separate", "generated", "distilled")),
)
LOSSES = (
    "L_hard's one negative is the gold passage without the sentence of the answer, as published; L_near's are BM25's "
    "best passages without an answer."
)
FIGURE = ("none", "in-batch", "pre-batch-2", "bm25-negatives", "passages")

Figures = dict[str, list[dict[str, Any]]]
"""The figures of each row, one a seed."""


def page(figures: Figures, whats: Mapping[str, str], measured_with: str, notes: str = "") -> str:
    """Return benchmarks/results/findings.md.

    Args:
        figures: of the rows that have been measured.
        whats: what people call each row.
        measured_with: the data and the options.
        notes: what is said above the tables.
    """
    lines = [
        "# The papers' findings, measured again",
        "",
        "Written by `python -m recipes.findings`; do not edit. One training a row and seed; D_small are all gold",
        "passages of the development rows together. The papers' own figures are those of BERT-base on all of SQuAD or",
        "Natural Questions. Beside EM stands its standard error, by clusters of pages; after ± how far the seeds are",
        "apart.",
        "",
        measured_with,
    ]
    if notes:
        lines += ["", notes.strip()]
    for title, names in TABLES:
        lines += ["", f"## {title}", "", "| training | seeds | one passage EM / F1 | D_small EM / F1 |"]
        lines += ["| --- | --- | --- | --- |"]
        for name in names:
            if name in figures:
                cells = [
                    " / ".join(shown(figures[name], f"{setting}_{each}", 1) for each in ("em", "f1"))
                    + _error(figures[name], setting)
                    for setting in ("single", "small")
                ]
                lines.append(f"| {whats[name]} | {len(figures[name])} | {cells[0]} | {cells[1]} |")
    lines += ["", "## Topics and near passages (Figure 3 of the second paper)", "", "Lower is better. " + LOSSES, ""]
    lines += ["| training | L_topic | L_hard | L_near |", "| --- | --- | --- | --- |"]
    for name in FIGURE:
        if name in figures:
            cells = [shown(figures[name], loss, 3) for loss in ("L_topic", "L_hard", "L_near")]
            lines.append(f"| {whats[name]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _error(figures: Sequence[Mapping[str, Any]], setting: str) -> str:
    """Return the standard error of EM in brackets, nothing where it was not measured."""
    found = shown(figures[:1], f"{setting}_em_error", 1)
    return "" if found == "–" else f" ({found})"


def shown(figures: Sequence[Mapping[str, Any]], name: str, digits: int) -> str:
    """Return the mean over the seeds, and how far the farthest is from it where there are several."""
    values = [each[name] for each in figures if each.get(name) is not None]
    if not values:
        return "–"
    mean = sum(values) / len(values)
    spread = max(abs(value - mean) for value in values)
    return f"{mean:.{digits}f}" + (f" ± {spread:.{digits}f}" if len(values) > 1 else "")


def measured(work: Path, names: Sequence[str]) -> Figures:
    """Return the figures of all rows and seeds that a work folder has."""
    return {
        name: [json.loads(path.read_text(encoding="utf-8")) for path in found]
        for name in names
        if (found := sorted(work.glob(f"{name}.[0-9]*.json")))
    }
