"""The scores of an encoder on development sets, over a knowledge base built with it: phrases alone, and fused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adapters.kilt.predicting import task_of_file
from benchmarks.kilt_sets import RETRIEVAL_ONLY, TARGETS, limited, macro, page_files, set_files
from benchmarks.quality import errors, predict, score
from kbengine.build.builder import CorpusOptions, build
from kbengine.build.filtering import DEFAULT_FILTER
from kbengine.encoders.encoder import Encoder
from kbengine.knowledge_base import KnowledgeBase
from kbengine.progress import progress_for_terminal
from kbengine.search.query import Weights

WEIGHTS: dict[str, Weights | None] = {"phrase": Weights(phrase=1.0, passage=0.0, lexical=0.0), "fused": None}
"""Phrases alone; and each task's own weights."""

Row = dict[str, Any]


def score_encoder(
    encoder: Encoder,
    data: Path,
    scratch: Path,
    *,
    pages: tuple[str, ...] = (),
    sets: tuple[str, ...] = (),
    limit: int | None = None,
) -> dict[str, Any]:
    """Return page R-precision and KILT-EM in percent of each set with their standard errors, and the means of all sets.

    Args:
        encoder: to build and search with.
        data: folder of KILT files.
        scratch: for the knowledge base and the predictions.
        pages: names of the page files to index; none: all.
        sets: development sets; none: all measured ones.
        limit: the first rows of each.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    files = tuple(path for path in page_files(data) if not pages or path.name.partition(".")[0] in pages)
    kb = scratch / "kb"
    with progress_for_terminal() as progress:
        build(CorpusOptions(files), kb, encoder=encoder, filter_options=DEFAULT_FILTER, progress=progress)
    rows: dict[str, dict[str, Row]] = {}
    with KnowledgeBase.open(kb, encoder) as knowledge_base:
        for name, path in set_files(data, "dev", sets).items():
            gold = limited(path, limit, scratch)
            rows[name] = {}
            for way, weights in WEIGHTS.items():
                guess = scratch / f"{name}.{way}.jsonl"
                predicted = predict(knowledge_base, gold, guess, task_of_file(path), weights=weights)
                found = score(gold, predicted.path, name)
                error = errors(gold, predicted.path, name)
                rows[name][way] = {"Rprec": found["Rprec"], "KILT-em": _kilt_em(name, found), "error": error}
        documents = knowledge_base.info().documents
    return {"documents": documents, "sets": rows, "macro": {way: macros_of(rows, way) for way in WEIGHTS}}


def macros_of(rows: dict[str, dict[str, Row]], way: str) -> Row:
    """Return the means over all sets; KILT-EM over those whose answers are phrases."""
    return {figure: macro([row[way][figure] for row in rows.values()]) for figure in ("Rprec", "KILT-em")}


def _kilt_em(name: str, found: dict[str, float]) -> float | None:
    """Return KILT-EM, None for sets whose answers are no phrases: sentences, links, dialogues."""
    is_phrase = name not in RETRIEVAL_ONLY and (name not in TARGETS or TARGETS[name].kilt_em is not None)
    return found.get("KILT-em") if is_phrase else None
