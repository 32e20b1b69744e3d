"""Training examples as padded tensors: passages and queries with their n-grams, gold positions, negatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kbengine.encoders.config import EncoderConfig
from kbengine.encoders.query_input import query_ids
from kbengine.encoders.sparse.grams import gram_numbers
from kbengine.encoders.tokenization import TextTokenizer, token_span
from kbengine.encoders.truecasing import Truecaser, restored
from kbengine.encoders.windows import padded_rows, windows
from kbengine.errors import TrainingError
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.loop.batch import OnDevice
from kbengine.learning.sparse.negatives import answers_it

Int64 = NDArray[np.int64]

NO_ANSWER, NOT_HERE = -1, -2


@dataclass(frozen=True)
class TokenRow:
    """One passage as the phrase encoder reads it, or the part of it that fits.

    Attributes:
        ids: int64 (T,), [CLS] title [SEP] text [SEP].
        first_text: Position of the first token of the text.
        gold: Pairs of positions of an answer's first and last token; empty when none of them is in this part.
    """

    ids: Int64
    first_text: int
    gold: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Inputs(OnDevice):
    """Padded inputs.

    Attributes:
        ids: int64 (N, T).
        is_token: bool (N, T), false at padding.
        is_text: bool (N, T), true at tokens of the text itself.
        grams: int64 (N, K, T), see `gram_numbers`.
    """

    ids: Tensor
    is_token: Tensor
    is_text: Tensor
    grams: Tensor


@dataclass(frozen=True)
class SparseBatch(OnDevice):
    """B examples.

    Attributes:
        passages: Of the B gold passages.
        queries: Of the B queries.
        gold_start: int64 (B,), −1 for rows without an answer, −2 for rows whose answer is not in this part.
        gold_end: int64 (B,).
        other_starts: bool (B, T), first tokens of further right answers, which are no negatives.
        other_ends: bool (B, T).
        negatives: Of B negative passages; None without any.
        has_negative: bool (B,).
        never: bool (B, B), passage and query: other queries' passages that are this one's own or hold its answer.
        bonus: float32 (B,), added to the logits of the negative passage's tokens.
    """

    passages: Inputs
    queries: Inputs
    gold_start: Tensor
    gold_end: Tensor
    other_starts: Tensor
    other_ends: Tensor
    negatives: Inputs | None
    has_negative: Tensor
    never: Tensor
    bonus: Tensor


class Featurizer:
    """Turns texts into token rows and these into padded inputs; depends on its arguments alone."""

    def __init__(
        self,
        tokenizer: TextTokenizer,
        config: EncoderConfig,
        is_content: NDArray[np.bool_],
        orders: Sequence[int],
        *,
        truecaser: Truecaser | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.config = config
        self._is_content = is_content
        self._orders = tuple(orders)
        self._truecaser = truecaser

    def passage(self, example: TrainingExample) -> TokenRow:
        """Return the gold passage: the window that has the first answer in it, or the first one."""
        tokens = self.tokenizer.tokens([example.passage])[0]
        title = self.tokenizer.ids([example.title])[0][: self.config.max_title_tokens]
        spans = [found for span in example.answers if (found := token_span(tokens, span)) is not None]
        room = self.config.max_passage_tokens - 3 - len(title)
        parts = windows(len(tokens.ids), room)
        part = parts[0]
        if spans:
            begin, end = spans[0]
            inside = [each for each in parts if each.begin <= begin and end < each.end]
            part = max(inside, key=lambda each: min(begin - each.begin, each.end - end), default=part)
        first = 2 + len(title)
        ids = [
            self.tokenizer.cls_id,
            *title,
            self.tokenizer.sep_id,
            *tokens.ids[part.begin : part.end].tolist(),
            self.tokenizer.sep_id,
        ]
        shift = first - part.begin
        gold = tuple((begin + shift, end + shift) for begin, end in spans if part.begin <= begin and end < part.end)
        return TokenRow(np.array(ids, dtype=np.int64), first, gold)

    def query(self, example: TrainingExample) -> TokenRow:
        """Return the query, cut where it is too long."""
        asked = restored([example.query], self._truecaser)
        (row,) = query_ids(asked, self.tokenizer, self.config.max_query_tokens, truncate=True)
        return TokenRow(np.array(row.ids, dtype=np.int64), 1)

    def padded(self, rows: Sequence[TokenRow]) -> Inputs:
        """Return the rows as padded tensors with their n-grams."""
        ids, is_token = padded_rows([row.ids for row in rows], self.tokenizer.pad_id)
        is_text = np.zeros_like(is_token)
        for i, row in enumerate(rows):
            is_text[i, row.first_text : len(row.ids) - 1] = True
        if self._is_content[self.tokenizer.pad_id]:
            raise TrainingError("the padding token counts as content, and padding would match; use a BERT tokenizer")
        grams = gram_numbers(ids, self._is_content, self._orders).transpose(1, 0, 2)  # (N, K, T)
        arrays = (ids, is_token, is_text, np.ascontiguousarray(grams))
        return Inputs(*(torch.from_numpy(array) for array in arrays))


def make_batch(
    featurizer: Featurizer,
    examples: Sequence[TrainingExample],
    negatives: Sequence[TokenRow | None],
    bonus: Sequence[float],
    chosen: Sequence[int],
) -> SparseBatch:
    """Return the batch of examples.

    Args:
        featurizer: Makes the inputs.
        examples: B examples.
        negatives: For each the negative passage, or None.
        bonus: For each what its negative's tokens get on top.
        chosen: For each a number that picks one of its answers (modulo how many there are).
    """
    rows = [featurizer.passage(example) for example in examples]
    inputs = featurizer.padded(rows)
    B, T = inputs.ids.shape
    start, end = torch.full((B,), NOT_HERE), torch.full((B,), NOT_HERE)
    others = [torch.zeros(B, T, dtype=torch.bool), torch.zeros(B, T, dtype=torch.bool)]
    for i, (row, example) in enumerate(zip(rows, examples, strict=True)):
        if not example.answerable:
            start[i] = end[i] = NO_ANSWER
        if not row.gold or not example.answerable:
            continue
        gold = row.gold[chosen[i] % len(row.gold)]
        start[i], end[i] = gold
        for begin, last in row.gold:
            others[0][i, begin] = begin != gold[0]
            others[1][i, last] = last != gold[1]
    has_negative = torch.tensor([row is not None for row in negatives])
    padded = None
    if bool(has_negative.any()):
        # Rows without one get their own passage in its place, which the loss leaves out.
        padded = featurizer.padded([own if row is None else row for row, own in zip(negatives, rows, strict=True)])
    return SparseBatch(
        passages=inputs,
        queries=featurizer.padded([featurizer.query(example) for example in examples]),
        gold_start=start,
        gold_end=end,
        other_starts=others[0],
        other_ends=others[1],
        negatives=padded,
        has_negative=has_negative,
        never=torch.tensor([[answers_it(other, example) for example in examples] for other in examples]),
        bonus=torch.tensor(bonus, dtype=torch.float32),
    )
