"""The token ids that a query and a passage become together, long passages in overlapping windows.

`[CLS] query [SEP] title [SEP] passage [SEP]`, without the title and its [SEP] where there is none; the query as in
`kbengine.encoders.query_input`, so that a slot's subject and relation have a [SEP] between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kbengine.encoders.encoder import PassageText
from kbengine.encoders.query_input import query_ids
from kbengine.encoders.tokenization import TextTokenizer, TextTokens
from kbengine.encoders.windows import Window, padded_rows, windows
from kbengine.errors import UsageError
from kbengine.inputs import TaskInput
from kbengine.reading.config import ReaderConfig

Passage = str | PassageText
"""A passage alone, or with the title of its document."""


@dataclass(frozen=True, slots=True)
class ReaderInput:
    """One input of the cross-encoder: a query, a title, and a window of a passage.

    Attributes:
        pair: Number of the (query, passage) pair it belongs to.
        head: Token ids before the passage: [CLS] query [SEP], then title [SEP].
        n_query: How many of them belong to the query.
        tokens: The whole passage.
        window: Which of its tokens are here.
    """

    pair: int
    head: list[int]
    n_query: int
    tokens: TextTokens
    window: Window

    @property
    def n_tokens(self) -> int:
        """Return the input's length, with the last [SEP]."""
        return len(self.head) + self.window.end - self.window.begin + 1

    @property
    def own(self) -> slice:
        """Return where in the input the passage tokens stand that this window answers for."""
        shift = len(self.head) - self.window.begin
        return slice(self.window.own_begin + shift, self.window.own_end + shift)


def reader_inputs(
    queries: Sequence[TaskInput],
    passages: Sequence[Passage],
    tokenizer: TextTokenizer,
    config: ReaderConfig,
    *,
    truncate: bool,
) -> list[ReaderInput]:
    """Return the inputs of all (query, passage) pairs, those of one pair side by side.

    Args:
        queries: one for each passage.
        passages: texts, with titles or without.
        tokenizer: the reader's.
        config: the reader's.
        truncate: cut queries that are too long instead of refusing them.

    Raises:
        UsageError: there are not as many queries as passages, or a text is not valid Unicode.
        QueryError: a query is empty, or too long while `truncate` is not set.
    """
    if len(queries) != len(passages):
        raise UsageError(f"{len(queries)} queries came with {len(passages)} passages, wanted one query a passage")
    asked = query_ids(queries, tokenizer, config.max_query_tokens, truncate=truncate)
    texts = [PassageText("", passage) if isinstance(passage, str) else passage for passage in passages]
    distinct = list(dict.fromkeys(text.title for text in texts))
    cut = config.max_title_tokens
    titles = {title: ids[:cut] for title, ids in zip(distinct, tokenizer.ids(distinct), strict=True)}
    # A passage is often read with several queries (or a query's passages come again): tokenised once.
    bodies = list(dict.fromkeys(text.text for text in texts))
    tokens = dict(zip(bodies, tokenizer.tokens(bodies), strict=True))
    inputs: list[ReaderInput] = []
    for pair, (query, text) in enumerate(zip(asked, texts, strict=True)):
        title = titles[text.title]
        head = [*query.ids, *title, tokenizer.sep_id] if title else query.ids
        passage_tokens = tokens[text.text]
        room = config.max_tokens - len(head) - 1
        inputs += [
            ReaderInput(pair, head, len(query.ids), passage_tokens, window)
            for window in windows(len(passage_tokens.ids), room)
        ]
    return inputs


@dataclass(frozen=True, slots=True)
class InputArrays:
    """A padded batch: int64 (B, T) ids and token types, bool (B, T) which are tokens (None when all are)."""

    ids: NDArray[np.int64]
    types: NDArray[np.int64]
    is_token: NDArray[np.bool_] | None


def padded(inputs: Sequence[ReaderInput], tokenizer: TextTokenizer, config: ReaderConfig) -> InputArrays:
    """Return the inputs as one batch, padded to its longest."""
    rows = [
        [*each.head, *each.tokens.ids[each.window.begin : each.window.end].tolist(), tokenizer.sep_id]
        for each in inputs
    ]
    ids, is_token = padded_rows(rows, tokenizer.pad_id)
    types = np.zeros_like(ids)
    for row, each in enumerate(inputs):
        if config.backbone.type_vocab_size > 1:
            types[row, each.n_query : each.n_tokens] = 1
    return InputArrays(ids, types, None if is_token.all() else is_token)
