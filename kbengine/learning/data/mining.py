"""Mined hard negatives: passages that look right for a query and are not (EMNLP 2021, section 4.2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeVar

from kbengine.errors import TrainingDataError
from kbengine.inputs import Dialogue, Mention, Question, Slot, TaskInput
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.data.passage_index import IndexedPassage, PassageIndex
from kbengine.progress import NoProgress, ProgressSink

Kind = Literal["bm25", "same-phrase"]
E = TypeVar("E", bound=TrainingExample)


_DEPTH = 50
"""Passages looked at for each query, best first."""
_CHUNK = 1024


def mine_negatives(
    examples: Sequence[E],
    passages: Sequence[IndexedPassage],
    kind: Kind,
    *,
    n: int = 1,
    progress: ProgressSink | None = None,
) -> list[E]:
    """Return the examples with up to `n` mined passages each; those that have some already keep them in front.

    "bm25": the best passages for the query that hold none of its answers and are of another document. "same-phrase":
    the best ones of other documents that do hold the answer, so that the phrase alone cannot tell right from wrong.

    Args:
        examples: to find negatives for.
        passages: those of the corpus.
        kind: which of the two.
        n: how many for each example.
        progress: shown the examples.

    Raises:
        MissingExtraError: bm25s is not installed.
        TrainingDataError: there are no passages.
    """
    progress = progress or NoProgress()
    if not passages:
        raise TrainingDataError("there are no passages to mine negatives from; give the corpus with --pages")
    index = PassageIndex([passage.text for passage in passages])
    progress.begin("mining negatives", len(examples), "examples")
    mined: list[E] = []
    for begin in range(0, len(examples), _CHUNK):
        some = examples[begin : begin + _CHUNK]
        queries = [_search_text(example, kind) for example in some]
        for example, found in zip(some, index.best(queries, _DEPTH), strict=True):
            near = (passages[number] for number in found)
            chosen = [each for each in near if is_negative(example, each.doc_id, each.text, kind)]
            mined.append(_with_negatives(example, chosen, n))
        progress.advance(len(some))
    return mined


def _with_negatives(example: E, chosen: Sequence[IndexedPassage], n: int) -> E:
    """Return the example with its own negatives and then mined ones, at least its own and at most n; each text once."""
    titles = dict(zip(example.negatives, example.negative_titles or [""] * len(example.negatives), strict=True))
    for each in chosen:
        if len(titles) < n:
            titles.setdefault(each.text, each.title)
    return replace(example, negatives=tuple(titles), negative_titles=tuple(titles.values()))


def is_negative(example: TrainingExample, doc_id: str, text: str, kind: Kind) -> bool:
    """Return whether a passage is a negative of this kind for the example."""
    if text == example.passage or (example.doc_id and doc_id == example.doc_id):
        return False
    low = text.casefold()
    holds = any(_has(low, answer.casefold()) for answer in example.answer_texts)
    return holds if kind == "same-phrase" else not holds


def query_text(query: TaskInput) -> str:
    """Return the words of a query that tell what it is about."""
    match query:
        case Question(text):
            return text
        case Slot(subject, relation):
            return f"{subject} {relation}"
        case Mention(left=left, name=name, right=right):
            return f"{name} {name} {left[-200:]} {right[:200]}"
        case Dialogue(turns):
            return " ".join(turns[-2:])


def _search_text(example: TrainingExample, kind: Kind) -> str:
    text = query_text(example.query)
    # Passages with the phrase are wanted: it must be among the words searched for.
    return text if kind == "bm25" else f"{text} {' '.join(example.answer_texts[:1] * 3)}"


def _has(text: str, phrase: str) -> bool:
    return bool(phrase.strip()) and re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text) is not None
