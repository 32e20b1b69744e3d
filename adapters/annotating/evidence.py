"""What speaks for a span of a text being a mention of a document, as numbers; and a logistic model over them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from adapters.annotating.coherence import Coherence
from adapters.annotating.spotting import Spotted

FEATURES = (
    "linker",  # log odds of the linker's probability of the document, given that the span is a mention
    "answerable",  # log odds of there being any document of it, as the linker sees it
    "name",  # the name signal, 0 to 1: how surely the document is called so
    "best",  # whether it is the linker's best
    "lead",  # its score less that of its best rival, in tens, at most 2
    "known",  # whether the knowledge base knows the span as a name
    "lower word",  # one word without a capital letter
    "lower words",  # several
    "begins",  # one capitalised word that begins a sentence: the less its occurrences name something, the more
    "words",  # log of the number of words
    "shouted",  # one word in capitals
    "usage",  # how often the occurrences of its words name something: of the word that does so most
    "inside",  # whether it stands within a longer span that may be a mention
    "said",  # coherence: each less that of the span's best document, so that it decides between them and no more
    "alike",
    "linked",
    "again",  # a longer mention before it ends or begins with this word and means the document
)


@dataclass(frozen=True)
class Support:
    """What the linker says of one document as the meaning of one span."""

    probability: float
    answerable: float
    name: float
    is_best: bool
    lead: float
    is_again: bool = False


def features_of(spotted: Spotted, support: Support, coherence: Coherence, usage: float) -> list[float]:
    """Return the numbers named in `FEATURES`."""
    n_words = len(spotted.words)
    is_word = n_words == 1
    is_beginning = is_word and not spotted.is_lower and spotted.words[0].begins
    return [
        log_odds(support.probability),
        log_odds(support.answerable),
        support.name,
        float(support.is_best),
        max(-2.0, min(2.0, support.lead / 10)),
        float(spotted.is_known),
        float(is_word and spotted.is_lower),
        float(not is_word and spotted.is_lower),
        is_beginning * (1 - usage),
        math.log(n_words),
        float(is_word and spotted.words[0].is_shouted),
        usage,
        float(spotted.is_inside),
        coherence.said,
        coherence.alike,
        coherence.linked,
        float(support.is_again),
    ]


def log_odds(probability: float) -> float:
    """Return the log odds of a probability, within ±5."""
    p = min(max(probability, 0.0067), 0.9933)
    return math.log(p / (1 - p))


@dataclass(frozen=True)
class MentionModel:
    """A logistic regression over `FEATURES`.

    Attributes:
        coefficients: One for each feature.
        intercept: What is there without any.
    """

    coefficients: tuple[float, ...]
    intercept: float

    def probability(self, features: Sequence[float]) -> float:
        """Return how probable it is that the span is a mention of the document."""
        total = self.intercept + sum(a * b for a, b in zip(self.coefficients, features, strict=True))
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))


# Fitted by `recipes/mention_model.py` on 832 texts of our own with all their names marked, over 65,965 Wikipedia pages.
# Those pages have no links: a link counts what being said does.
ALONE = MentionModel(
    coefficients=(
        *(0.846, 0.0, 0.0, 0.0, 0.0, 0.0, -3.729, -0.248, -0.391, -0.263, 0.907, 1.927, -3.333),
        *(0.0, 0.0, 0.0, 0.0),
    ),
    intercept=-2.197,
)
"""Of a document by itself: what is known before the mentions of a text are seen together."""
TOGETHER = MentionModel(
    coefficients=(
        *(0.835, 0.0, 0.0, 0.0, 0.0, 0.0, -3.544, -0.943, -0.739, -0.119, 0.993, 1.945, -3.215),
        *(0.946, 1.706, 0.946, 1.849),
    ),
    intercept=-2.042,
)
"""Of a document beside those of the other mentions."""
