"""The model card of a trained default encoder: written from what was done, not from what was meant."""

from __future__ import annotations

from typing import Any

_HEAD = """# {name}

A phrase encoder for kbengine: {architecture}, {layers} layers, d = {d}, {size_mb:.1f} MB as {dtype}.
It turns passages into token vectors, and questions, slots, mentions and dialogues into query vectors;
docs/how-to/train.md says how it was made.

Started from {init} (sentence-transformers/all-MiniLM-L6-v2, Apache-2.0).
Trained {date} on {device}, {processes} process(es), torch {torch}, seed {seed}.

## Data

{n_cloze:,} cloze questions made from {n_documents:,} pages, and {n_rows:,} training rows of:
{train_sets}.
Passages are Wikipedia text (CC BY-SA); the rows have the licences of their sets (README of the data folder).
Not trained on: {not_trained} (kept as a transfer test), and the text of {n_unseen:,} pages on which development rows
stand, so that scores speak of unseen pages.
"""


def model_card(facts: dict[str, Any], scores: dict[str, Any], times_s: dict[str, float]) -> str:
    """Return the card as Markdown.

    Args:
        facts: what the head names.
        scores: of `recipes.scoring.score_encoder`.
        times_s: seconds of each stage.
    """
    parts = [_HEAD.format(**facts), _scores(scores), _weak(scores), _times(times_s)]
    return "\n".join(parts)


def _scores(scores: dict[str, Any]) -> str:
    lines = [
        "## Scores\n",
        f"Page R-precision / KILT-EM in percent over a knowledge base of {scores['documents']:,} pages; development"
        " rows.\n",
        "| set | phrase alone | fused |",
        "| --- | --- | --- |",
    ]
    for name, row in scores["sets"].items():
        lines.append(f"| {name} | {_cell(row['phrase'])} | {_cell(row['fused'])} |")
    macros = scores["macro"]
    lines.append(f"| **mean** | {_cell(macros['phrase'])} | {_cell(macros['fused'])} |\n")
    return "\n".join(lines)


def _weak(scores: dict[str, Any]) -> str:
    ranked = sorted(scores["sets"], key=lambda name: scores["sets"][name]["fused"]["Rprec"])
    named = ", ".join(f"{name} ({scores['sets'][name]['fused']['Rprec']:.1f})" for name in ranked[:3])
    return (
        f"## What it is bad at\n\nIts weakest sets (page R-precision, fused): {named}. English only; phrases of at "
        "most 20 tokens; questions that need more than one passage, counting or arithmetic; answers that are whole "
        "sentences. Scores are no probabilities.\n"
    )


def _times(times_s: dict[str, float]) -> str:
    lines = ["## Time\n", "| stage | minutes |", "| --- | --- |"]
    lines += [f"| {stage} | {seconds / 60:.1f} |" for stage, seconds in times_s.items()]
    return "\n".join([*lines, f"| all | {sum(times_s.values()) / 60:.1f} |\n"])


def _cell(row: dict[str, float | None]) -> str:
    rprec, em = row["Rprec"], row["KILT-em"]
    return " / ".join("–" if value is None else f"{value:.1f}" for value in (rprec, em))
