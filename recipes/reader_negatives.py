"""Passages that the knowledge base's own search finds for a row and that do not answer it."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

import torch

from adapters.tasks.queries import query_of
from kbengine.inputs import Dialogue, Mention, TaskInput
from kbengine.knowledge_base import KnowledgeBase
from kbengine.learning.data.examples import TrainingExample
from kbengine.progress import ProgressSink
from kbengine.search.query import SearchOptions
from kbengine.terminal.threads import set_thread_defaults

AT_ONCE = 64


def chosen_to_search(examples: Sequence[TrainingExample], n: int) -> list[int]:
    """Return the places of `n` questions and slots, drawn, and of all mentions and dialogues, rising."""
    is_ranked = [isinstance(each.query, Mention | Dialogue) for each in examples]
    others = [i for i, ranked in enumerate(is_ranked) if not ranked]
    some = random.Random(0).sample(others, min(n, len(others)))
    return sorted([*some, *(i for i, ranked in enumerate(is_ranked) if ranked)])


def write_negatives(
    examples: Sequence[TrainingExample],
    searched: Sequence[int],
    kb: Path,
    leads: Mapping[str, str],
    path: Path,
    progress: ProgressSink,
    *,
    n: int,
    exclude: frozenset[str] = frozenset(),
) -> None:
    """Write for each example a line with the texts and titles of passages that are found for it and do not answer.

    Args:
        examples: the rows.
        searched: the places of those that are searched for; the others get none.
        kb: the knowledge base's folder.
        leads: the first passage of every document: what linking reads, so what is taken for a mention.
        path: the file written, JSON lines.
        progress: is told of the rows searched for.
        n: passages of each row at most.
        exclude: ids of documents whose text must not be trained on.
    """
    parts = [searched[begin : begin + AT_ONCE] for begin in range(0, len(searched), AT_ONCE)]
    progress.begin("searching for passages that do not answer", len(searched), "rows")
    chosen: dict[int, dict[str, str]] = {}
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn"), set_thread_defaults) as pool:
        asked = ([examples[i].query for i in part] for part in parts)
        for part, results in zip(parts, pool.map(_search, repeat(kb), asked, repeat(n)), strict=False):
            for i, hits in zip(part, results, strict=True):
                chosen[i] = other_passages(examples[i], hits, leads, n=n, exclude=exclude)
            progress.advance(len(part))
    with path.with_suffix(".new").open("w", encoding="utf-8") as out:
        for i in range(len(examples)):
            found = chosen.get(i, {})
            out.write(json.dumps([list(found), list(found.values())]) + "\n")
    path.with_suffix(".new").rename(path)


def other_passages(
    example: TrainingExample,
    hits: Sequence[tuple[str, str, str]],
    leads: Mapping[str, str],
    *,
    n: int,
    exclude: frozenset[str] = frozenset(),
) -> dict[str, str]:
    """Return up to `n` passages of the hits (document id, title, text) that do not answer, each with its title.

    Those of documents to be excluded are none: what does not answer is trained on as well.
    """
    found: dict[str, str] = {}
    for doc_id, title, text in hits:
        passage = leads[doc_id] if isinstance(example.query, Mention) else text
        if passage and len(found) < n and doc_id not in exclude and _is_other(example, doc_id, passage):
            found.setdefault(passage, title)
    return found


@cache
def _opened(kb: Path) -> KnowledgeBase:
    torch.set_num_threads(1)
    return KnowledgeBase.open(kb)


def _search(kb: Path, asked: Sequence[TaskInput], n: int) -> list[list[tuple[str, str, str]]]:
    """Return id, title and passage of each query's best hits, unread."""
    queries = [
        replace(query_of(each), unit="document" if isinstance(each, Mention | Dialogue) else "passage")
        for each in asked
    ]
    results = _opened(kb).search(queries, SearchOptions(k=2 * n + 2, truncate=True, read=0))
    return [[(hit.document.doc_id, hit.document.title, hit.passage.text) for hit in each.hits] for each in results]


def _is_other(example: TrainingExample, doc_id: str, passage: str) -> bool:
    if isinstance(example.query, Mention | Dialogue):
        return doc_id != example.doc_id
    low = passage.casefold()
    return passage != example.passage and not any(text.casefold() in low for text in example.answer_texts)
