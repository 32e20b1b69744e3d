"""The best spans of a passage's logits, against every span looked at one by one."""

import numpy as np
import pytest

from kbengine.reading.spans import best_spans


def _every_span(
    start: np.ndarray, end: np.ndarray, ordinals: np.ndarray, max_tokens: int
) -> list[tuple[float, int, int]]:
    n = len(start)
    spans = [(i, j) for i in range(n) for j in range(i, n) if ordinals[j] - ordinals[i] < max_tokens]
    return sorted((-float(start[i] + end[j]), i, j) for i, j in spans)


@pytest.mark.parametrize("seed", range(20))
def test_the_best_spans_are_those_of_a_search_through_all(seed: int) -> None:
    """Best first, none that overlaps a better one; also where tokens are left out."""
    rng = np.random.default_rng(seed)
    n, longest = int(rng.integers(1, 30)), int(rng.integers(1, 8))
    start, end = (rng.normal(size=n).astype(np.float32) for _ in range(2))
    ordinals = np.sort(rng.choice(60, size=n, replace=False)).astype(np.int64)
    expected: list[tuple[int, int]] = []
    for _, i, j in _every_span(start, end, ordinals, longest):
        if len(expected) < 4 and not any(i <= last and first <= j for first, last in expected):
            expected.append((i, j))
    found = best_spans(start, end, max_tokens=longest, n=4, ordinals=ordinals)
    assert [(span.first, span.last) for span in found] == expected
    for span in found:
        assert span.score == pytest.approx(float(start[span.first] + end[span.last]))


def test_no_token_has_no_span() -> None:
    """Nothing to point at."""
    empty = np.zeros(0, dtype=np.float32)
    assert best_spans(empty, empty, max_tokens=3, n=1) == []
