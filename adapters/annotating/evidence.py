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


# Fitted on the first half of the texts of Reuters-128, Derczynski and Spotlight over 65,965 Wikipedia pages
# (benchmarks/results/annotate.md): on gold labels, and where a span has none on what at least four of nine other
# systems agree about, since those texts name many entities that nobody labelled. Those pages have no links: a link
# counts what being said does.
ALONE = MentionModel(
    coefficients=(
        *(0.737, 0.0, 0.0, 0.0, 0.0, 0.0, -2.849, -2.024, -2.662, -0.608, 0.746, 1.525, -3.034),
        *(0.0, 0.0, 0.0, 0.0),
    ),
    intercept=-1.672,
)
"""Of a document by itself: what is known before the mentions of a text are seen together."""
TOGETHER = MentionModel(
    coefficients=(
        *(0.725, 0.0, 0.0, 0.0, 0.0, 0.0, -2.816, -1.974, -2.686, -0.6, 0.705, 1.554, -2.96),
        *(0.68, 0.48, 0.68, 1.117),
    ),
    intercept=-1.556,
)
"""Of a document beside those of the other mentions."""
