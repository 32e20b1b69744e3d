"""Messages between processes: what is written is read, and what is malformed is refused by its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, NewType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from kbengine.cluster.wire import MAGIC, decode, encode
from kbengine.errors import MessageError
from kbengine.search.query import SearchOptions, SomeWeights, Weights
from kbengine.span import Span
from tests.kbengine.cluster.damage import damaged

PassageId = NewType("PassageId", int)


class Pair(NamedTuple):
    left: int
    right: str


@dataclass(frozen=True)
class Leaf:
    rows: NDArray[np.int64]
    scores: NDArray[np.float32] | None
    name: str


@dataclass(frozen=True)
class Tree:
    flag: bool
    number: int
    real: float
    text: str
    raw: bytes
    maybe: str | None
    choice: Literal["a", "b", 3]
    pair: Pair
    passage: PassageId
    pairs: tuple[tuple[str, float], ...]
    leaves: tuple[Leaf, ...]
    either: Leaf | Span | None
    counts: Mapping[str, int]
    by_id: dict[int, NDArray[np.uint8]]
    plain: Any


def leaves() -> st.SearchStrategy[Leaf]:
    """Return leaves with arrays of any shape."""
    rows = hnp.arrays(np.int64, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    scores = hnp.arrays(np.float32, hnp.array_shapes(max_dims=2, max_side=4), elements=st.floats(width=32))
    return st.builds(Leaf, rows, st.none() | scores, st.text())


def spans() -> st.SearchStrategy[Span]:
    """Return spans of any numbers."""
    return st.builds(Span, st.integers(), st.integers())


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
TREES = st.builds(
    Tree,
    flag=st.booleans(),
    number=st.integers(),
    real=st.floats(),
    text=st.text(st.characters()),
    raw=st.binary(max_size=20),
    maybe=st.none() | st.text(),
    choice=st.sampled_from(["a", "b", 3]),
    pair=st.builds(Pair, st.integers(), st.text()),
    passage=st.integers(0).map(PassageId),
    pairs=st.lists(st.tuples(st.text(), st.floats()), max_size=3).map(tuple),
    leaves=st.lists(leaves(), max_size=3).map(tuple),
    either=st.none() | leaves() | spans(),
    counts=st.dictionaries(st.text(), st.integers(), max_size=3),
    by_id=st.dictionaries(st.integers(), hnp.arrays(np.uint8, 3), max_size=2),
    plain=PLAIN,
)


def same(left: object, right: object) -> bool:
    """Tell whether two values are the same to the bit; arrays with their dtypes and shapes."""
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())
    if hasattr(left, "__dataclass_fields__"):
        return type(left) is type(right) and same(list(vars(left).items()), list(vars(right).items()))
    if isinstance(left, dict) and isinstance(right, dict):
        return same(list(left.items()), list(right.items()))
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return type(left) is type(right) and len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and repr(left) == repr(right)


@settings(deadline=None, max_examples=60)
@given(TREES)
def test_what_is_written_is_read(tree):
    """Every field comes back to the bit, and the same value makes the same bytes."""
    message = encode(tree)

    assert same(decode(Tree, message), tree)
    assert encode(tree) == message


@settings(deadline=None, max_examples=150)
@given(TREES, st.data())
def test_damaged_messages_are_refused_or_read_but_never_anything_else(tree, data):
    """One byte changed, some cut off or added: a value of the kind asked for, or an error that names the place."""
    message = damaged(encode(tree), data)
    try:
        assert isinstance(decode(Tree, message), Tree)
    except MessageError as error:
        assert error.message


@given(st.binary(max_size=200))
def test_bytes_that_are_no_message_are_refused(junk):
    """Nothing is believed of them: no length allots memory, no text is loaded as code."""
    for message in (junk, MAGIC + junk):
        with pytest.raises(MessageError):
            decode(Tree, message)


def test_the_options_of_a_search_can_be_sent_as_it_is():
    """Options are dataclasses of the plain kinds."""
    for options in (SearchOptions(), SearchOptions(weights=SomeWeights(lexical=4.0)), SearchOptions(weights=Weights())):
        assert decode(SearchOptions, encode(options)) == options


def test_arrays_are_views_that_cannot_be_written():
    """Nothing is copied, so nothing may be changed."""
    leaf = decode(Leaf, encode(Leaf(np.arange(5), None, "")))

    assert not leaf.rows.flags.writeable
    assert not leaf.rows.flags.owndata


def test_big_endian_and_strided_arrays_arrive_as_they_read():
    """What travels is little-endian and contiguous; the values are the same."""
    rows = np.arange(12).reshape(3, 4)[:, ::2]

    assert np.array_equal(decode(Leaf, encode(Leaf(rows, None, ""))).rows, rows)


@pytest.mark.parametrize(
    ("leaf", "said"),
    [
        (Leaf(np.arange(3, dtype=np.int32), None, ""), r"value\.rows is an array of int32.*wanted an array of int64"),
        (Leaf(np.arange(3), None, 3), r"value\.name is 3, wanted a text"),
        (Leaf([1], None, ""), r"value\.rows is \[1\]"),
    ],
)
def test_a_value_that_breaks_its_type_hints_is_not_sent(leaf, said):
    """The sender hears of it, with the place."""
    with pytest.raises(MessageError, match=said):
        encode(leaf)


def test_an_array_of_objects_cannot_be_sent():
    """Objects would need pickle."""
    with pytest.raises(MessageError, match="dtype object"):
        encode(np.array([object()]), np.ndarray)


def test_a_field_too_many_or_missing_is_named():
    """As when two processes run different versions."""
    message = encode(Span(1, 2))
    for other, said in ((b'"end2":2', r"value\.end "), (b'"end":"2"', "whole number")):
        changed = message.replace(b'"end":2', other)
        length = int.from_bytes(message[4:8], "little") + len(other) - len(b'"end":2')
        header = changed[8 : 8 + length]
        with pytest.raises(MessageError, match=said):
            decode(Span, MAGIC + length.to_bytes(4, "little") + header + bytes(-(8 + length) % 8))


def test_large_messages_are_refused_on_both_sides():
    """Neither side holds more than it was told to."""
    leaf = Leaf(np.zeros(1000, dtype=np.int64), None, "")

    with pytest.raises(MessageError, match="wanted at most 1,000"):
        encode(leaf, max_bytes=1000)
    with pytest.raises(MessageError, match="wanted at most 1,000"):
        decode(Leaf, encode(leaf), max_bytes=1000)


def test_what_has_no_form_is_refused_by_its_type():
    """A set has no order, a dataclass that changes is no message."""

    @dataclass
    class Changing:
        x: int

    with pytest.raises(MessageError, match="not frozen"):
        encode(Changing(1))
    with pytest.raises(MessageError, match="cannot be sent"):
        encode({1}, set[int])


def test_a_deeply_nested_header_is_refused():
    """A hundred thousand brackets do not end the process."""
    header = b'{"arrays":[],"value":' + b"[" * 100_000 + b"]" * 100_000 + b"}"

    with pytest.raises(MessageError):
        decode(Tree, MAGIC + len(header).to_bytes(4, "little") + header + bytes(-(8 + len(header)) % 8))
