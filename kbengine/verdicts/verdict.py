"""What can be said about a claim, and how the passages read for it come to one verdict. No torch here.

Each passage says how much it speaks for the claim (its log-odds) and how much it has to do with it (its relevance).
The claim's log-odds are the passages' own, weighted by the softmax of their relevances: a passage that has nothing to
do with the claim counts next to nothing, and two of equal relevance that contradict each other leave it open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

Verdict = Literal["SUPPORTS", "REFUTES"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

Float32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one passage says about a claim.

    Attributes:
        log_odds: Of SUPPORTS against REFUTES, by this passage alone; above 0 it supports.
        weight: Its share in the verdict, 0 to 1; those of a claim's passages sum to 1.
    """

    log_odds: float
    weight: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the passages read say about a claim together.

    >>> Judgement(log_odds=-1.0, evidence=()).verdict
    'REFUTES'

    Attributes:
        log_odds: Of SUPPORTS against REFUTES: the passages' own, weighted.
        evidence: What each passage contributes, in the order in which they were given.
    """

    log_odds: float
    evidence: tuple[Evidence, ...]

    @property
    def verdict(self) -> Verdict:
        """Return the more probable verdict."""
        return "SUPPORTS" if self.log_odds >= 0 else "REFUTES"

    @property
    def probability(self) -> float:
        """Return the probability of the verdict, 0.5 to 1."""
        return 1 / (1 + math.exp(-abs(self.log_odds)))


def judgement_of(log_odds: Float32, relevance: Float32, passages: Sequence[int]) -> Judgement:
    """Return what the inputs read for one claim say together.

    >>> found = judgement_of(np.float32([2, -4]), np.float32([0, 0]), [0, 1])
    >>> found.verdict, found.log_odds
    ('REFUTES', -1.0)

    Args:
        log_odds: float32 (n,), of SUPPORTS against REFUTES, by each input; n is 1 or more.
        relevance: float32 (n,), how much each has to do with the claim.
        passages: of which passage each is a window; numbers from 0 up, rising.
    """
    shares = np.exp(relevance.astype(np.float64) - float(relevance.max()))
    shares /= shares.sum()
    n = passages[-1] + 1
    weights = np.bincount(passages, weights=shares, minlength=n)
    weighted = np.bincount(passages, weights=shares * log_odds, minlength=n)
    own = weighted / np.maximum(weights, np.finfo(np.float64).tiny)
    evidence = tuple(Evidence(float(each), float(weight)) for each, weight in zip(own, weights, strict=True))
    return Judgement(float(weighted.sum()), evidence)
