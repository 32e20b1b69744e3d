"""Tokens lie exactly where they came from, windows cover each token once, batches hold each input once."""

from __future__ import annotations

import json
import unicodedata
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbengine.encoders.tokenization import TextTokenizer
from kbengine.encoders.windows import plan_batches, windows
from kbengine.errors import EncoderError, UsageError
from tests.tiny_encoder import tiny_config, tiny_tokenizer_json

VOCAB_SIZE = tiny_config().backbone.vocab_size
TOKENIZER = TextTokenizer(tiny_tokenizer_json(), uncased=True, vocab_size=VOCAB_SIZE, source="tiny")
CASED = TextTokenizer(tiny_tokenizer_json(uncased=False), uncased=False, vocab_size=VOCAB_SIZE, source="tiny")

PIECES = st.sampled_from(
    [
        *("Paris", "café", "cafe\u0301", "ÉCOLE", "naı\u0308ve", "year", "zzz", "İstanbul", "ﬁre", "ß", "Ǆ", "x²", "½"),
        *("👨\u200d👩\u200d👧", "❤\ufe0f", "🇫🇷", "日本語", "東京", "한국어", "שָׁלוֹם", "مَرْحَبًا", "नमस्ते", "\U0001d400bc"),
        *(" ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u200b", "\u200d", "\u2028", "\u3000", "\ufeff", "\x00", "\u00ad"),
        *(".", ",", "[SEP]", "[CLS]", "[UNK]", "(", "'", "“", "—", "\u0301", "\u20dd", "\ufffd", "a" * 101),
    ]
)
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=4)), max_size=12).map("".join)
TEXTS = TEXTS.filter(lambda text: not any(0xD800 <= ord(c) < 0xE000 for c in text))


def folded(text: str) -> str:
    """Return the text without case and accents."""
    return "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")


@pytest.mark.parametrize("tokenizer", [TOKENIZER, CASED], ids=["uncased", "cased"])
@settings(max_examples=300, deadline=None)
@given(text=TEXTS)
def test_every_token_has_its_own_characters_within_the_text(tokenizer: TextTokenizer, text: str) -> None:
    """Spans are non-empty, inside the text, in order, and disjoint or equal."""
    tokens = tokenizer.tokens([text])[0]
    spans = list(zip(tokens.starts.tolist(), tokens.ends.tolist(), strict=True))
    assert len(spans) == len(tokens.ids)
    for start, end in spans:
        assert 0 <= start < end <= len(text)
    for before, after in pairwise(spans):
        assert before[1] <= after[0] or before == after


@settings(max_examples=200, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=5))
def test_a_batch_gives_the_tokens_of_each_text_alone(texts: list[str]) -> None:
    """Ids with and without offsets agree, alone and in a batch."""
    together = TOKENIZER.tokens(texts)
    assert [tokens.ids.tolist() for tokens in together] == TOKENIZER.ids(texts)
    for text, tokens in zip(texts, together, strict=True):
        alone = TOKENIZER.tokens([text])[0]
        for name in ("ids", "starts", "ends"):
            assert getattr(alone, name).tolist() == getattr(tokens, name).tolist()


@settings(max_examples=200, deadline=None)
@given(
    words=st.lists(st.text(alphabet="abcxyzABCéÉüñÇe\u0301u\u0308", min_size=1, max_size=8), min_size=1, max_size=6),
    gap=st.sampled_from([" ", "  ", "\t", "\u00a0", " \u200b "]),
)
def test_characters_of_a_wordpiece_spell_it(words: list[str], gap: str) -> None:
    """Lower-cased and without accents, the characters of plain words are the wordpieces."""
    text = gap.join(words)
    vocabulary = {i: token for token, i in json.loads(tiny_tokenizer_json())["model"]["vocab"].items()}
    tokens = TOKENIZER.tokens([text])[0]
    for token_id, start, end in zip(tokens.ids.tolist(), tokens.starts.tolist(), tokens.ends.tolist(), strict=True):
        assert folded(text[start:end]) == vocabulary[token_id].removeprefix("##")


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("the cafe\u0301 here", "cafe\u0301"),
        ("the café here", "café"),
        ("the cafe\u0301\u0302", "cafe\u0301\u0302"),
        ("in e\u0301", "e\u0301"),
    ],
)
def test_an_accent_after_the_last_letter_belongs_to_the_word(text: str, quoted: str) -> None:
    """A phrase is quoted with its accents, composed or not."""
    tokens = TOKENIZER.tokens([text])[0]
    begin = text.index(quoted)
    inside = (tokens.starts >= begin) & (tokens.starts < begin + len(quoted))
    assert text[tokens.starts[inside][0] : tokens.ends[inside][-1]] == quoted


def test_special_tokens_in_text_are_plain_text() -> None:
    """A user who writes [SEP] or [CLS] gets brackets and letters, never the special token."""
    text = "[SEP] Paris [CLS][MASK][PAD]"
    ids = TOKENIZER.ids([text])[0]
    assert not {TOKENIZER.cls_id, TOKENIZER.sep_id, TOKENIZER.pad_id, 4} & set(ids)
    assert text[TOKENIZER.tokens([text])[0].starts[0]] == "["


def test_half_a_surrogate_pair_is_refused_by_position() -> None:
    """Text that is not Unicode is named, not mangled."""
    with pytest.raises(UsageError, match=r"text 1 has .* at character 3"):
        TOKENIZER.tokens(["fine", "bad\ud800"])


@pytest.mark.parametrize(
    ("text", "uncased", "vocab_size", "message"),
    [
        ("{", True, VOCAB_SIZE, "cannot be used"),
        (tiny_tokenizer_json(), False, VOCAB_SIZE, "lowercase True"),
        (tiny_tokenizer_json(), True, 10, "embeds 10"),
        (
            json.dumps({**json.loads(tiny_tokenizer_json()), "added_tokens": []}).replace("[CLS]", "[X]"),
            True,
            999,
            "CLS",
        ),
    ],
)
def test_a_tokenizer_that_does_not_fit_is_refused(text: str, uncased: bool, vocab_size: int, message: str) -> None:
    """Broken, cased where uncased is wanted, of another vocabulary, without [CLS]."""
    with pytest.raises(EncoderError, match=message):
        TextTokenizer(text, uncased=uncased, vocab_size=vocab_size, source="here")


@settings(max_examples=200, deadline=None)
@given(n_tokens=st.integers(0, 1000), room=st.integers(2, 200), min_overlap=st.integers(1, 80))
def test_windows_own_every_token_once_where_it_is_most_central(n_tokens: int, room: int, min_overlap: int) -> None:
    """The owned ranges are the passage; no other window has more context on the token's shorter side."""
    found = windows(n_tokens, room, min_overlap=min_overlap)
    owned = [i for window in found for i in range(window.own_begin, window.own_end)]
    assert owned == list(range(n_tokens))
    for window in found:
        assert window.end - window.begin <= room
        assert 0 <= window.begin <= window.own_begin <= window.own_end <= window.end <= n_tokens
        if len(found) > 1:
            assert window.end - window.begin == room

    def context(i: int, begin: int, end: int) -> int:
        left = i - begin if begin else n_tokens
        right = end - 1 - i if end < n_tokens else n_tokens
        return min(left, right)

    for window in found:
        for i in (window.own_begin, window.own_end - 1):
            if window.own_begin <= i < window.own_end:
                best = max(context(i, w.begin, w.end) for w in found if w.begin <= i < w.end)
                assert context(i, window.begin, window.end) >= best - 1


def test_neighbouring_windows_share_half_a_window_at_most() -> None:
    """A little over one window becomes two, not three."""
    assert len(windows(177, 176)) == 2
    assert len(windows(2 * 176 - 64, 176)) == 2
    assert len(windows(2 * 176 - 63, 176)) == 3


@settings(max_examples=300, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 200), max_size=60),
    max_tokens=st.integers(1, 1000),
    overhead=st.integers(0, 300),
)
def test_batches_hold_every_input_once_within_bounds(lengths: list[int], max_tokens: int, overhead: int) -> None:
    """No input lost, no batch too large (unless one input is), no more padding than a batch costs."""
    array = np.array(lengths, dtype=np.int64)
    batches = plan_batches(array, max_tokens=max_tokens, overhead_tokens=overhead)
    assert sorted(i for batch in batches for i in batch.tolist()) == list(range(len(lengths)))
    for batch in batches:
        padded = int(array[batch].max()) * len(batch)
        assert len(batch) == 1 or padded <= max_tokens
        assert padded - int(array[batch].sum()) <= overhead
