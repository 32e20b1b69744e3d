"""Examples whose answer is told by the word before it, which dense vectors of a random encoder know nothing of."""

from __future__ import annotations

import numpy as np

from kbengine.inputs import Question
from kbengine.learning.data.examples import TrainingExample
from kbengine.span import Span

KEYS = ("river", "capital", "author", "album", "water", "forest", "novel", "city")
VALUES = ("paris", "berlin", "tokyo", "march", "brazil", "france", "germany", "japan")


def keyed_examples(n: int, *, seed: int) -> list[TrainingExample]:
    """Return examples with passages like `river paris album tokyo …` and queries that name one of the keys."""
    rng = np.random.default_rng(seed)
    examples = []
    for i in range(n):
        keys, values = rng.permutation(KEYS)[:5].tolist(), rng.permutation(VALUES)[:5].tolist()
        passage = " ".join(f"{key} {value}" for key, value in zip(keys, values, strict=True))
        asked = int(rng.integers(5))
        start = passage.index(f"{keys[asked]} ") + len(keys[asked]) + 1
        span = Span(start, start + len(values[asked]))
        examples.append(TrainingExample(f"q{i}", Question(f"which {keys[asked]}?"), "", passage, (span,), source="toy"))
    return examples
