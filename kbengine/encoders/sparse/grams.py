"""N-grams of token sequences as numbers: which positions have one, and what is stored of it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kbengine.errors import EncoderError

Int64 = NDArray[np.int64]

NO_GRAM: Final = -1
_BRACKETED: Final = re.compile(r"\[.*\]|<.*>")
_UINT32_VALUES: Final = 1 << 32


def content_ids(tokenizer_json: str, vocab_size: int, *, source: str = "tokenizer.json") -> NDArray[np.bool_]:
    """Return bool (vocab_size,): the tokens whose n-grams count.

    Not special tokens (SPARC zeroes the columns of word ids below 999: these, in BERT's uncased vocabulary) and not
    tokens without a letter or digit (SPARC drops `?` from queries): they say nothing, and stored rows are short.

    Raises:
        EncoderError: the text is no `tokenizer.json` with a vocabulary.
    """
    try:
        record = json.loads(tokenizer_json)
        vocabulary: dict[str, int] = record["model"]["vocab"]
        special = {int(entry["id"]) for entry in record.get("added_tokens") or [] if entry.get("special")}
        is_content = np.zeros(vocab_size, dtype=np.bool_)
        for token, number in vocabulary.items():
            plain = token.removeprefix("##")
            says = any(letter.isalnum() for letter in plain) and not _BRACKETED.fullmatch(plain)
            is_content[number] = says and number not in special
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as e:
        raise EncoderError(f"{source} has no vocabulary to take n-grams from ({e}); use a WordPiece tokenizer") from e
    return is_content


def gram_numbers(ids: Int64, is_content: NDArray[np.bool_], orders: Sequence[int]) -> Int64:
    """Return the n-gram that begins at each position, int64 (len(orders), …, T); −1 where there is none.

    A unigram is its token id, a bigram `V + V·first + second`, a trigram `V + V² + V²·first + V·second + third` for a
    vocabulary of V tokens: exact and distinct.

    Args:
        ids: int64 (…, T), token ids; padding must be a token without content.
        is_content: bool (V,), from `content_ids`.
        orders: Lengths of the n-grams.
    """
    V = len(is_content)
    counts = is_content[ids]  # (…, T)
    T = ids.shape[-1]
    grams = np.full((len(orders), *ids.shape), NO_GRAM, dtype=np.int64)
    for k, order in enumerate(orders):
        n = max(0, T - order + 1)  # positions that have tokens enough after them
        whole = np.ones((*ids.shape[:-1], n), dtype=np.bool_)
        number = np.zeros((*ids.shape[:-1], n), dtype=np.int64)
        for place in range(order):
            whole &= counts[..., place : place + n]
            number = number * V + ids[..., place : place + n]
        shorter = sum(V**length for length in range(1, order))
        grams[k, ..., :n] = np.where(whole, shorter + number, NO_GRAM)
    return grams


def stored_grams(grams: Int64, vocab_size: int) -> NDArray[np.uint32]:
    """Return n-grams (≥ 0) as they are stored: themselves where numbers of 32 bits suffice, else hashed.

    Trigrams are hashed; bigrams only with more than 65,535 tokens of vocabulary.
    """
    V = vocab_size
    exact = V * (V + 1) if V * (V + 1) <= _UINT32_VALUES else V
    if not (grams >= exact).any():
        return grams.astype(np.uint32)
    # Fibonacci hashing into the numbers that the shorter ones leave free.
    hashed = (grams.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    room = np.uint64(_UINT32_VALUES - exact)
    return np.where(grams < exact, grams.astype(np.uint64), np.uint64(exact) + hashed % room).astype(np.uint32)
