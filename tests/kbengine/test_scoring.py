"""Best phrases inside candidate windows, against a plain double loop."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kbengine.search.scoring import best_phrases, best_phrases_of_ends, expand_ranges, merge_ranges


def slow_best(start, end, stops, ordinals, longest):
    """Return (score, last position) of each row by trying every end."""
    best = []
    for i in range(len(start)):
        options = [(-(start[i] + end[j]), j) for j in range(i, int(stops[i])) if ordinals[j] - ordinals[i] < longest]
        best.append(min(options))
    return best


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 25))
def test_best_phrases_are_those_of_a_double_loop(seed, n_ranges, longest):
    """Every row gets the best end within the limit of tokens and inside its own range."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 30, size=n_ranges)
    total = int(lengths.sum())
    stops = np.repeat(np.cumsum(lengths), lengths)
    furthest = rng.choice([2, 4])  # tokens that are all stored, or with others between them
    ordinals = np.concatenate([np.cumsum(rng.integers(1, furthest, size=n)) for n in lengths]).astype(np.int64)
    start = rng.normal(size=total).astype(np.float32)
    # Either all ends differ, or many are equal: then the nearest counts.
    end = (rng.normal(size=total) if furthest == 2 else rng.integers(-2, 3, size=total)).astype(np.float32)
    rows = np.arange(100, 100 + total, dtype=np.int64)

    best = best_phrases(
        start,
        end,
        rows=rows,
        range_stops=stops,
        token_ordinals=ordinals,
        passages=np.zeros(total, dtype=np.int64),
        max_phrase_tokens=longest,
    )

    for i, (negative, j) in enumerate(slow_best(start, end, stops, ordinals, longest)):
        assert best.last_rows[i] == rows[j]
        assert np.isclose(best.start[i] + best.end[i], -negative)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 25))
def test_best_phrases_of_ends_are_those_of_all_spans(seed, n_ranges, longest):
    """Every row gets the best start within the limit of tokens and inside its own range: the table of all spans."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 30, size=n_ranges)
    total = int(lengths.sum())
    numbers = np.repeat(np.arange(n_ranges), lengths)
    furthest = rng.choice([2, 4])  # tokens that are all stored, or with others between them
    ordinals = np.concatenate([np.cumsum(rng.integers(1, furthest, size=n)) for n in lengths]).astype(np.int64)
    start, end = (rng.integers(-9, 9, size=total).astype(np.float32) for _ in range(2))  # ties happen
    rows = np.arange(100, 100 + total, dtype=np.int64)

    best = best_phrases_of_ends(
        start,
        end,
        rows=rows,
        range_firsts=(np.cumsum(lengths) - lengths)[numbers],
        token_ordinals=ordinals,
        passages=numbers.astype(np.int64),
        max_phrase_tokens=longest,
    )

    at = np.arange(total)
    distance = ordinals[None, :] - ordinals[:, None]
    is_phrase = (at[:, None] <= at[None, :]) & (numbers[:, None] == numbers[None, :]) & (distance < longest)
    scores = np.where(is_phrase, start[:, None] + end[None, :], -np.inf)  # first token, last token
    nearest = total - 1 - np.argmax(scores[::-1], axis=0)
    assert best.last_rows.tolist() == rows.tolist()
    assert best.first_rows.tolist() == rows[nearest].tolist()
    assert best.passages.tolist() == numbers.tolist()
    np.testing.assert_array_equal(best.start + best.end, scores.max(axis=0))
    np.testing.assert_array_equal(best.end, end)


def test_of_equal_ends_the_nearest_is_taken():
    """Ties give the shortest phrase, always the same one."""
    n = 5
    best = best_phrases(
        np.zeros(n, np.float32),
        np.ones(n, np.float32),
        rows=np.arange(n),
        range_stops=np.full(n, n),
        token_ordinals=np.arange(n),
        passages=np.zeros(n, np.int64),
        max_phrase_tokens=20,
    )

    assert best.last_rows.tolist() == [0, 1, 2, 3, 4]


def test_a_phrase_has_at_most_the_given_number_of_tokens_counted_before_filtering():
    """Two stored tokens twenty apart in the text are not one phrase of twenty tokens (DensePhrases was off by one)."""
    arrays = {"rows": np.arange(2), "range_stops": np.array([2, 2]), "passages": np.zeros(2, np.int64)}
    start, end = np.array([1, 0], np.float32), np.array([0, 9], np.float32)

    at_limit = best_phrases(start, end, token_ordinals=np.array([3, 22]), max_phrase_tokens=20, **arrays)
    beyond = best_phrases(start, end, token_ordinals=np.array([3, 23]), max_phrase_tokens=20, **arrays)

    assert at_limit.last_rows.tolist() == [1, 1]
    assert beyond.last_rows.tolist() == [0, 1]


def test_ranges_expand_to_their_rows_in_order():
    """Each row knows the number of its range."""
    rows, numbers = expand_ranges(np.array([3, 10, 20]), np.array([5, 10, 23]))

    assert rows.tolist() == [3, 4, 20, 21, 22]
    assert numbers.tolist() == [0, 0, 2, 2, 2]


def test_overlapping_ranges_become_one():
    """Windows around neighbouring hits are rescored once."""
    first, stop, passages = merge_ranges(np.array([10, 4, 30, 12]), np.array([20, 11, 35, 14]), np.array([7, 7, 9, 7]))

    assert first.tolist() == [4, 30]
    assert stop.tolist() == [20, 35]
    assert passages.tolist() == [7, 9]
