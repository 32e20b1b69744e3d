"""Text to word pieces (WordPiece or SentencePiece), each with its exact characters in the text as given."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from kbengine.errors import EncoderError, UsageError
from kbengine.span import Span

_UNKNOWN = "<unk>"
_FEW_TEXTS = 16
_SPECIAL = (("[CLS]", "<s>"), ("[SEP]", "</s>"), ("[PAD]", "<pad>"))
"""What begins an input, parts and ends it, and fills it up: BERT's name of each, and XLM-RoBERTa's."""


@dataclass(frozen=True)
class TextTokens:
    """The wordpieces of one text; three int32 arrays (t,).

    `text[starts[i]:ends[i]]` is what token i was made from, never empty. Starts and ends do not decrease;
    neighbours are disjoint, or equal where one character became several tokens (a Korean syllable).
    """

    ids: NDArray[np.int32]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]


def token_span(tokens: TextTokens, span: Span) -> tuple[int, int] | None:
    """Return the first and the last token (inclusive) that share a character with the span, None when none does."""
    first = int(np.searchsorted(tokens.ends, span.start, side="right"))
    last = int(np.searchsorted(tokens.starts, span.end, side="left")) - 1
    return (first, last) if first <= last else None


class TextTokenizer:
    """A tokenizer to which all text is plain text: "[SEP]" written by a user is three ordinary tokens.

    Special tokens come only from `cls_id`, `sep_id` and `pad_id`. Usable from several threads.
    """

    def __init__(self, tokenizer_json: str, *, uncased: bool, vocab_size: int, source: str) -> None:
        """Parse the text of a `tokenizer.json`.

        Raises:
            EncoderError: it is not one, lacks a special token, or does not fit the model.
        """
        try:
            self._tokenizer = Tokenizer.from_str(tokenizer_json)
            stored = json.loads(tokenizer_json)
            normalizer = stored.get("normalizer") or {}
            self._is_wordpiece = (stored.get("model") or {}).get("type") in (None, "WordPiece")
        except Exception as e:  # the library raises bare Exception on bad input
            raise EncoderError(f"{source}: tokenizer.json cannot be used ({e}); copy the model directory again") from e
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True
        lowers = normalizer.get("lowercase")
        if isinstance(lowers, bool) and lowers != uncased:
            raise EncoderError(
                f"{source}: config.json says uncased is {uncased}, tokenizer.json has lowercase {lowers}; "
                "use the tokenizer the model was trained with"
            )
        largest = max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
        if largest >= vocab_size:
            raise EncoderError(
                f"{source}: tokenizer.json has token ids up to {largest}, the model embeds {vocab_size}; "
                "use the tokenizer the model was trained with"
            )
        self.cls_id, self.sep_id, self.pad_id = (self._special(names, source) for names in _SPECIAL)
        self._never = frozenset() if self._is_wordpiece else frozenset((self.cls_id, self.sep_id, self.pad_id))
        unknown = self._tokenizer.token_to_id(_UNKNOWN)
        self._unknown_id = self.pad_id if unknown is None else int(unknown)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, without special tokens.

        Raises:
            UsageError: a text is not valid Unicode.
        """
        if not texts:
            return []
        try:
            if len(texts) <= _FEW_TEXTS:  # a batch is handed to threads, which takes longer than a query's few tokens
                encode = self._tokenizer.encode
                return [self._plain(encode(text, add_special_tokens=False).ids) for text in texts]
            encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        except TypeError as e:
            raise _not_unicode(texts, e) from e
        return [self._plain(encoding.ids) for encoding in encodings]

    def tokens(self, texts: Sequence[str]) -> list[TextTokens]:
        """Return the tokens of each text with their characters, without special tokens.

        Raises:
            UsageError: a text is not valid Unicode.
        """
        if not texts:
            return []
        try:
            encodings: list[Encoding] = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        except TypeError as e:
            raise _not_unicode(texts, e) from e
        # One array for all texts and views for each: converting text by text would cost several times as much.
        all_ids = [self._plain(encoding.ids) for encoding in encodings]
        cuts = np.cumsum([len(ids) for ids in all_ids])
        n = int(cuts[-1])
        ids = np.fromiter(chain.from_iterable(all_ids), dtype=np.int32, count=n)
        offsets = chain.from_iterable(chain.from_iterable(encoding.offsets for encoding in encodings))
        spans = np.fromiter(offsets, dtype=np.int32, count=2 * n).reshape(n, 2)
        starts, ends = spans[:, 0].copy(), spans[:, 1].copy()
        tokenized = []
        begin = 0
        for text, end in zip(texts, cuts.tolist(), strict=True):
            tokens = TextTokens(ids[begin:end], starts[begin:end], ends[begin:end])
            if not self._is_wordpiece:
                tokens = _without_blanks(text, tokens)
            tokenized.append(tokens if text.isascii() else _cover_marks(text, tokens))
            begin = end
        return tokenized

    def _plain(self, ids: list[int]) -> list[int]:
        """Return the ids without special ones: SentencePiece's vocabulary holds their names as ordinary pieces."""
        if self._never.isdisjoint(ids):
            return ids
        return [self._unknown_id if each in self._never else each for each in ids]

    def _special(self, names: Sequence[str], source: str) -> int:
        for name in names:
            token_id: int | None = self._tokenizer.token_to_id(name)
            if token_id is not None:
                return token_id
        raise EncoderError(
            f"{source}: tokenizer.json has no {names[0]} token (nor {names[1]}); use BERT's or XLM-RoBERTa's tokenizer"
        )


def _without_blanks(text: str, tokens: TextTokens) -> TextTokens:
    """Return SentencePiece's tokens without the blanks that belong to them ("▁Paris" is " Paris").

    A piece that is a blank alone, or the mark of a beginning word that no blank stands for, has the characters of the
    piece after it, or of the one before it at the end of the text: it is read by the encoder and stands for none of its
    own.
    """
    n = len(tokens.ids)
    if not n:
        return tokens
    starts, ends = tokens.starts.tolist(), tokens.ends.tolist()
    for i in range(n):
        while starts[i] < ends[i] and text[starts[i]].isspace():
            starts[i] += 1
        while ends[i] > starts[i] and text[ends[i] - 1].isspace():
            ends[i] -= 1
    for i in (*range(n - 2, -1, -1), *range(1, n)):
        other = i + 1 if i + 1 < n and starts[i + 1] < ends[i + 1] else i - 1
        if other >= 0 and (starts[i] == ends[i] or starts[i] == starts[other]):
            starts[i], ends[i] = starts[other], ends[other]
    filled = [i for i in range(n) if starts[i] < ends[i]]
    return TextTokens(*(np.asarray(each, dtype=np.int32)[filled] for each in (tokens.ids, starts, ends)))


def _cover_marks(text: str, tokens: TextTokens) -> TextTokens:
    """Return the tokens with each end moved over the combining marks that follow it.

    An uncased tokenizer drops accents written as characters of their own. Those inside a word lie between the offsets
    of its letters, but one after the last letter would be left outside: the phrase "café" would be quoted as "cafe".
    """
    if not len(tokens.ids):
        return tokens
    ends = tokens.ends.copy()
    marks = _marks_in(text)
    if marks:
        codes = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
        is_mark = np.append(np.isin(codes, marks), False)
        limits = np.append(tokens.starts[1:], np.int32(len(text)))
        while (moving := is_mark[ends] & (ends < limits)).any():
            ends += moving
    # Tokens that share one character share its marks too.
    same = tokens.starts[:-1] == tokens.starts[1:]
    for i in np.flatnonzero(same)[::-1]:
        ends[i] = max(ends[i], ends[i + 1])
    return TextTokens(tokens.ids, tokens.starts, ends)


def _marks_in(text: str) -> list[int]:
    """Return the codes of the non-spacing and enclosing marks of the first two planes that a text has."""
    return [ord(each) for each in set(text) if "\u0300" <= each < "\U0001ffff" and unicodedata.category(each) in _MARKS]


_MARKS = ("Mn", "Me")


def _not_unicode(texts: Sequence[str], error: TypeError) -> UsageError:
    """Return the error for a text that cannot be written as UTF-8 (a lone surrogate), or that is no text."""
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            return UsageError(f"text {i} is {type(text).__name__}, wanted str")
        try:
            text.encode()
        except UnicodeEncodeError as e:
            return UsageError(
                f"text {i} has {text[e.start]!r} at character {e.start}, which is half of a surrogate pair and no "
                "character; decode the input as UTF-8 or remove it"
            )
    return UsageError(f"a text cannot be tokenised: {error}")
