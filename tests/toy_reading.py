"""A reading task that a tiny model learns in seconds: who, where and what in short sentences; when is never said."""

from __future__ import annotations

import random

from kbengine.inputs import Question
from kbengine.learning.data.examples import TrainingExample
from kbengine.span import Span

WHO = ("physicist", "chemist", "author", "woman", "family", "band")
WHERE = ("paris", "berlin", "tokyo", "brazil", "france", "germany")
WHAT = ("river", "novel", "album", "city", "fire", "prize")


def toy_examples(n: int, *, seed: int, with_unanswerable: bool = False) -> list[TrainingExample]:
    """Return n examples; a fourth of them asks when, which no passage says, if wanted."""
    rng = random.Random(seed)
    examples = []
    for i in range(n):
        who, where, what = rng.choice(WHO), rng.choice(WHERE), rng.choice(WHAT)
        passage = rng.choice(
            (f"the {who} covers the {what} in {where} .", f"in {where} the {what} is for the {who} , and it is great .")
        )
        kind, answer = rng.choice((("who", who), ("where", where), ("which", what)))
        unanswerable = with_unanswerable and i % 4 == 0
        start = passage.index(f" {answer} ") + 1
        examples.append(
            TrainingExample(
                id=f"toy-{seed}-{i}",
                query=Question("when ?" if unanswerable else f"{kind} ?"),
                title=f"page {i % 10}",
                passage=passage,
                answers=() if unanswerable else (Span(start, start + len(answer)),),
                answerable=not unanswerable,
                source="toy",
            )
        )
    return examples
