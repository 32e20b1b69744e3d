"""The four kinds of queries become the token ids the encoder was trained on, or a clear refusal."""

from __future__ import annotations

import json

import pytest

from kbengine.encoders.config import QueryLimits
from kbengine.encoders.query_input import QueryIds, query_ids
from kbengine.encoders.tokenization import TextTokenizer
from kbengine.errors import EmptyQueryError, QueryError, QueryTooLongError
from kbengine.inputs import Dialogue, Mention, Question, Slot, TaskInput
from tests.tiny_encoder import tiny_config, tiny_tokenizer_json

TOKENIZER = TextTokenizer(
    tiny_tokenizer_json(), uncased=True, vocab_size=tiny_config().backbone.vocab_size, source="tiny"
)
WORDS = {i: token for token, i in json.loads(tiny_tokenizer_json())["model"]["vocab"].items()}
LIMITS = QueryLimits()


def encoded(value: TaskInput, *, truncate: bool = False) -> QueryIds:
    """Return the ids of one query."""
    return query_ids([value], TOKENIZER, LIMITS, truncate=truncate)[0]


def spelt(ids: QueryIds) -> str:
    """Return the tokens as words."""
    return " ".join(WORDS[i] for i in ids.ids)


def test_a_question_is_kept_as_it_is() -> None:
    """[CLS] text [SEP], with its question mark."""
    assert spelt(encoded(Question("Where was the author born?"))) == "[CLS] where was the author born ? [SEP]"


def test_a_slot_has_the_special_separator_between_subject_and_relation() -> None:
    """The same ids as the text "subject [SEP] relation" where [SEP] is special."""
    assert spelt(encoded(Slot("Marie Curie", "place of birth"))) == ("[CLS] marie curie [SEP] place of birth [SEP]")


def test_a_separator_typed_by_a_user_is_not_special() -> None:
    """Only the boundaries that kbengine sets are."""
    assert encoded(Question("Paris [SEP] Berlin")).ids.count(TOKENIZER.sep_id) == 1
    assert encoded(Slot("Paris [SEP]", "author")).ids.count(TOKENIZER.sep_id) == 2


def test_a_mention_stands_alone_and_in_its_context() -> None:
    """Mention, separator, left context, bracketed mention, right context."""
    found = encoded(Mention.from_parts("The capital of ", "France", " is Paris."))
    assert spelt(found) == "[CLS] france [SEP] the capital of [ france ] is paris . [SEP]"
    assert not found.truncated


def test_context_is_cut_around_the_mention() -> None:
    """The nearest 32 tokens on each side stay, and the answer says that the rest was not read."""
    left = " ".join(["water"] * 40 + ["forest"])
    right = " ".join(["river"] + ["glass"] * 5000)
    found = encoded(Mention.from_parts(left, "Paris", right))
    assert spelt(found).startswith("[CLS] paris [SEP] water")
    assert "forest [ paris ] river" in spelt(found)
    assert len(found.ids) == 3 + 2 + 2 + 64
    assert found.truncated


@pytest.mark.parametrize(("n_left", "n_right"), [(40, 40), (2, 40), (40, 2), (0, 0)])
def test_a_long_mention_takes_room_from_its_context(n_left: int, n_right: int) -> None:
    """What one side of the context does not need, the other gets."""
    found = encoded(Mention.from_parts("water " * n_left, "paris " * 50, "glass " * n_right))
    assert len(found.ids) == min(128, 105 + min(n_left, 32) + min(n_right, 32))
    words = spelt(found).split()
    assert words.count("paris") == 100
    room = 23
    assert words.count("water") >= min(n_left, room // 2)
    assert words.count("glass") >= min(n_right, room // 2)


def test_a_dialogue_is_read_from_its_newest_turn() -> None:
    """Newest first, joined by bars, blank turns skipped."""
    assert spelt(encoded(Dialogue(["Who wrote it?", "  ", "Marie Curie", "When?"]))) == (
        "[CLS] when ? | marie curie | who wrote it ? [SEP]"
    )


def test_a_long_dialogue_loses_its_oldest_turns_and_says_so() -> None:
    """At most 96 tokens, the newest ones."""
    found = encoded(Dialogue(["water"] * 500 + ["paris"]))
    assert len(found.ids) == 96
    assert found.truncated
    assert spelt(found).startswith("[CLS] paris | water | water")
    assert not encoded(Dialogue(["water"] * 47)).truncated
    assert len(encoded(Dialogue(["water"] * 47)).ids) == 95
    assert encoded(Dialogue(["water"] * 48)).truncated


@pytest.mark.parametrize(
    "value",
    [
        Question("  "),
        Question(""),
        Question("\u200b\ufeff"),
        Slot(" ", "author"),
        Slot("Paris", "\n"),
        Slot("Paris", "\u200b"),
        Mention.from_parts("left", "", "right"),
        Dialogue([]),
        Dialogue(["", " "]),
        Dialogue(["\u200b"]),
    ],
)
def test_a_query_without_text_is_refused(value: TaskInput) -> None:
    """Blank and invisible text alike; the message says which query and which field."""
    with pytest.raises(EmptyQueryError, match=r"query 1 .*"):
        query_ids([Question("Paris"), value], TOKENIZER, LIMITS)


@pytest.mark.parametrize(
    ("value", "n_tokens", "limit"),
    [
        (Question("water " * 47), 49, 48),
        (Slot("water " * 40, "author " * 6), 49, 48),
        (Mention.from_parts("", "water " * 62, ""), 129, 128),
    ],
)
def test_a_query_that_is_too_long_is_refused_with_its_numbers(value: TaskInput, n_tokens: int, limit: int) -> None:
    """Tokens seen, tokens allowed and the way out; cut only on request, and then it says so."""
    with pytest.raises(QueryTooLongError, match=rf"{n_tokens} tokens.* at most {limit} .*truncate=True"):
        encoded(value)
    cut = encoded(value, truncate=True)
    assert cut.truncated
    assert len(cut.ids) <= limit
    assert cut.ids[-1] == TOKENIZER.sep_id


@pytest.mark.parametrize(
    "value",
    [Question("water " * 46), Slot("water " * 40, "author " * 5), Mention.from_parts("", "water " * 61, "")],
)
def test_a_query_of_just_the_limit_is_whole(value: TaskInput) -> None:
    """The limit counts the special tokens and is inclusive."""
    assert not encoded(value).truncated


def test_a_cut_slot_keeps_its_relation() -> None:
    """The subject gives way first; a relation that is long itself takes half."""
    words = spelt(encoded(Slot("water " * 90, "place of birth"), truncate=True))
    assert words.endswith("water [SEP] place of birth [SEP]")
    both = spelt(encoded(Slot("water " * 90, "author " * 90), truncate=True)).split()
    assert (both.count("water"), both.count("author")) == (23, 22)
    short = spelt(encoded(Slot("water", "author " * 90), truncate=True)).split()
    assert (short.count("water"), short.count("author")) == (1, 44)


def test_inputs_of_a_wrong_kind_are_refused() -> None:
    """A bare string, a dialogue given as one string, text that is not Unicode."""
    with pytest.raises(QueryError, match="query 0 is a str"):
        query_ids(["Paris"], TOKENIZER, LIMITS)  # type: ignore[list-item]  # the point of the test
    with pytest.raises(QueryError, match="one string"):
        encoded(Dialogue("hello"))
    with pytest.raises(QueryError, match="surrogate"):
        encoded(Question("bad \udc00"))
