"""Of spans that overlap, those that together are most probable."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from adapters.annotating.weighed import Weighed

NAMELESS = 0.01
"""What a name without a link counts, so that it is kept where no link stands in its way, the longer one first."""


def best_apart(weighed: Sequence[Weighed], threshold: float) -> list[Weighed]:
    """Return the spans that do not overlap and have the largest sum of probabilities, in order.

    A link counts its probability, and a little more the longer it is; a capitalised name without one very little;
    anything else nothing, and is left out.

    Args:
        weighed: spans with what they may mean.
        threshold: the probability of a link.
    """
    spans = sorted(((each, _value(each, threshold)) for each in weighed), key=lambda each: each[0].spotted.span.end)
    spans = [(each, value) for each, value in spans if value > 0]
    ends = [each.spotted.span.end for each, _ in spans]
    # The best sum of the first n spans, and whether the n-th is of it: weighted interval scheduling.
    best = [0.0]
    taken: list[bool] = []
    before: list[int] = []
    for i, (each, value) in enumerate(spans):
        before.append(bisect_right(ends, each.spotted.span.start, 0, i))
        with_it = best[before[i]] + value
        taken.append(with_it > best[i])
        best.append(max(best[i], with_it))
    kept = []
    i = len(spans)
    while i > 0:
        if taken[i - 1]:
            kept.append(spans[i - 1][0])
            i = before[i - 1]
        else:
            i -= 1
    return kept[::-1]


def _value(weighed: Weighed, threshold: float) -> float:
    span = weighed.spotted.span
    length = min(1.0, (span.end - span.start) / 100)
    if weighed.probability >= threshold:
        return weighed.probability * (1 + length)
    return 0.0 if weighed.spotted.is_lower else NAMELESS * (1 + length)
