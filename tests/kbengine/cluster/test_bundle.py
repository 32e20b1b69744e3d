"""Several messages as one: each comes back as it is, whatever else comes is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbengine.cluster.bundle import MAGIC, bundled, unbundled
from kbengine.errors import MessageError
from tests.kbengine.cluster.damage import damaged

PARTS = st.lists(st.binary(max_size=40), max_size=6)


@settings(deadline=None)
@given(PARTS)
def test_what_is_bundled_comes_back(parts):
    """As views, each at a multiple of eight bytes, also out of a bundle of bundles."""
    assert [bytes(each) for each in unbundled(bundled(parts))] == parts
    (inner,) = unbundled(bundled([bundled(parts)]))
    assert [bytes(each) for each in unbundled(inner)] == parts
    assert len(bundled(parts)) % 8 == 0


@settings(deadline=None, max_examples=200)
@given(PARTS, st.data())
def test_a_damaged_bundle_is_refused_or_read_but_never_anything_else(parts, data):
    """One byte changed, some cut off or added: no length is believed beyond what is there."""
    message = damaged(bundled(parts), data)
    try:
        assert sum(map(len, unbundled(message))) <= len(message)
    except MessageError as error:
        assert error.message


@given(st.binary(max_size=100))
def test_bytes_that_are_no_bundle_are_refused(junk):
    """Neither what begins otherwise, nor what ends too early."""
    with pytest.raises(MessageError, match="begin with"):
        unbundled(b"x" + junk)
    with pytest.raises(MessageError, match="ends"):
        unbundled(MAGIC + b"\xff" * 4 + junk)


def test_large_bundles_are_refused_on_both_sides():
    """Neither side holds more than it was told to."""
    with pytest.raises(MessageError, match="wanted at most 100"):
        bundled([bytes(200)], max_bytes=100)
    with pytest.raises(MessageError, match="wanted at most 100"):
        unbundled(bundled([bytes(200)]), max_bytes=100)
