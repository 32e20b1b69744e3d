"""Which tokens are stored."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbengine.build.filtering import FilterOptions, kept_tokens, resolve_threshold
from kbengine.errors import InvalidOptionError


def test_a_token_is_kept_when_either_logit_reaches_the_threshold():
    """Start or end is enough, as in DensePhrases."""
    logits = np.array([[0.0, 2.0], [2.0, -5.0], [1.9, 1.9]], np.float32)

    assert kept_tokens(logits, 2.0).tolist() == [True, True, False]


def test_a_passage_keeps_its_best_token_when_none_reaches_the_threshold():
    """No passage becomes unfindable."""
    logits = np.array([[-4.0, -3.0], [-1.0, -9.0]], np.float32)

    assert kept_tokens(logits, 100.0).tolist() == [False, True]


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 1.0))
def test_a_kept_fraction_is_kept(seed, fraction):
    """Over passages encoded together the share of kept tokens is the one asked for."""
    rng = np.random.default_rng(seed)
    passages = [rng.normal(size=(int(n), 2)).astype(np.float32) for n in rng.integers(5, 200, size=60)]

    threshold = resolve_threshold(passages, FilterOptions(keep_fraction=fraction))
    kept = sum(int(kept_tokens(passage, threshold).sum()) for passage in passages)

    total = sum(len(passage) for passage in passages)
    assert kept / total == pytest.approx(fraction, abs=0.02)


def test_without_options_everything_is_kept():
    """No filter is the threshold minus infinity."""
    logits = np.full((3, 2), -1e30, np.float32)

    assert kept_tokens(logits, resolve_threshold([logits], FilterOptions())).all()


def test_a_passage_without_tokens_keeps_none():
    """A title alone has no passage token."""
    assert kept_tokens(np.zeros((0, 2), np.float32), 0.0).tolist() == []


@pytest.mark.parametrize("options", [{"keep_fraction": 0.0}, {"keep_fraction": 1.5}, {"threshold": float("nan")}])
def test_values_out_of_range_are_refused(options):
    """The error names the value seen and the value wanted."""
    with pytest.raises(InvalidOptionError, match="wanted"):
        FilterOptions(**options)


def test_both_kinds_of_filter_at_once_are_refused():
    """Which one should win is unknown."""
    with pytest.raises(InvalidOptionError, match="give one"):
        FilterOptions(threshold=1.0, keep_fraction=0.5)


def test_options_survive_being_stored():
    """What comes back from JSON is what went in."""
    options = FilterOptions(keep_fraction=0.3)

    assert FilterOptions.from_json(options.to_json()) == options
