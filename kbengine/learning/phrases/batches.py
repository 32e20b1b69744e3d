"""A batch of examples as padded arrays, with what tells right answers of others from wrong ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kbengine.encoders.tokenization import TextTokenizer
from kbengine.encoders.windows import Window, padded_rows
from kbengine.learning.loop.batch import OnDevice
from kbengine.learning.phrases.prepared import Gold, PreparedExample, PreparedPassage, PreparedSet, window_of

Int64 = NDArray[np.int64]
Float32 = NDArray[np.float32]
Teacher = tuple[NDArray[np.float16], NDArray[np.float16]]
"""Start and end logits of a cross-encoder for the tokens of one passage."""


@dataclass(frozen=True)
class Inputs(OnDevice):
    """Padded token ids.

    Attributes:
        ids: int64 (B, T).
        is_token: bool (B, T), false at padding.
        is_text: bool (B, T), the passage's own tokens: neither title nor special; all false for queries.
        keys: int64 (B,), equal for equal passages; 0 for queries.
    """

    ids: Tensor
    is_token: Tensor
    is_text: Tensor
    keys: Tensor


@dataclass(frozen=True)
class PhraseBatch(OnDevice):
    """B examples.

    Attributes:
        queries: The queries.
        passages: Their gold passages, one a row.
        gold_start: int64 (B,), position of the gold phrase's first token in its row; 0, [CLS], for an unanswerable
            example; −1 where the passage as a whole is the answer.
        gold_end: int64 (B,).
        answerable: bool (B,).
        answer_keys: int64 (B,), equal for equal answer strings; 0 without a phrase.
        accepted_keys: int64 (B, A), those of all answers that the row accepts, padded with 0: none of them is wrong.
        right_start: int64 (2, n), (row, position in the flattened (B·T,)) pairs of first tokens that say the same as
            the row's answer, or give another right one.
        right_end: int64 (2, m), the same of last tokens.
        teacher_start: float32 (B, T), 0 where there is none.
        teacher_end: float32 (B, T).
        has_teacher: bool (B,).
        negatives: Mined passages of all examples, or None.
        negative_rows: int64 (M,), whose negative each is, or None.
    """

    queries: Inputs
    passages: Inputs
    gold_start: Tensor
    gold_end: Tensor
    answerable: Tensor
    answer_keys: Tensor
    accepted_keys: Tensor
    right_start: Tensor
    right_end: Tensor
    teacher_start: Tensor
    teacher_end: Tensor
    has_teacher: Tensor
    negatives: Inputs | None = None
    negative_rows: Tensor | None = None


class _Row(NamedTuple):
    """One example as it will stand in the batch: the gold phrase chosen, the window around it."""

    example: PreparedExample
    passage: PreparedPassage
    gold: Gold | None
    window: Window

    @property
    def shift(self) -> int:
        """What to add to a token's place in the passage to get its position in the row."""
        return 2 + len(self.passage.title) - self.window.begin


class Collator:
    """Makes batches of a prepared set; the same indices, epoch and seed give the same batch."""

    def __init__(
        self,
        data: PreparedSet,
        tokenizer: TextTokenizer,
        *,
        max_passage_tokens: int,
        seed: int,
        teacher: Sequence[Teacher | None] | None = None,
    ) -> None:
        self.data = data
        self.max_passage_tokens = max_passage_tokens
        self.seed = seed
        self.teacher = teacher
        self._cls, self._sep, self._pad = tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id

    def batch(self, indices: Sequence[int], *, epoch: int) -> PhraseBatch:
        """Return the batch of these examples; where several answers are right, each epoch draws one of them."""
        rows = [self._row(self.data.examples[i], epoch, i) for i in indices]
        passages = self._passages([(row.passage, row.window) for row in rows])
        ids = passages.ids.numpy()
        width = ids.shape[1]
        gold_start, gold_end = (np.full(len(rows), -1, dtype=np.int64) for _ in range(2))
        teacher = np.zeros((2, len(rows), width), dtype=np.float32)
        has_teacher = np.zeros(len(rows), dtype=np.bool_)
        for number, row in enumerate(rows):
            if row.gold is not None:
                gold_start[number], gold_end[number] = row.gold.first + row.shift, row.gold.last + row.shift
            elif not row.example.answerable:
                gold_start[number] = gold_end[number] = 0
            logits = None if self.teacher is None else self.teacher[row.example.number]
            if logits is not None and row.gold is not None:
                place = slice(row.window.begin + row.shift, row.window.end + row.shift)
                for side in (0, 1):
                    teacher[side, number, place] = logits[side][row.window.begin : row.window.end]
                has_teacher[number] = True
        right_start, right_end = _right_tokens(rows, ids, passages.is_text.numpy())
        mined = [(number, p) for number, row in enumerate(rows) for p in row.example.negatives]
        negatives = None
        if mined:
            parts = [self.data.passages[p] for _, p in mined]
            negatives = self._passages([(part, _first_window(part, self.max_passage_tokens)) for part in parts])
        return PhraseBatch(
            queries=self._padded([row.example.query for row in rows], [0] * len(rows)),
            passages=passages,
            gold_start=torch.from_numpy(gold_start),
            gold_end=torch.from_numpy(gold_end),
            answerable=torch.tensor([row.example.answerable for row in rows]),
            answer_keys=torch.tensor([0 if row.gold is None else row.gold.key for row in rows]),
            accepted_keys=_accepted_keys(rows),
            right_start=torch.from_numpy(right_start),
            right_end=torch.from_numpy(right_end),
            teacher_start=torch.from_numpy(teacher[0]),
            teacher_end=torch.from_numpy(teacher[1]),
            has_teacher=torch.from_numpy(has_teacher),
            negatives=negatives,
            negative_rows=torch.tensor([number for number, _ in mined]) if mined else None,
        )

    def _row(self, example: PreparedExample, epoch: int, index: int) -> _Row:
        passage = self.data.passages[example.passage]
        gold = None
        if example.golds:
            draw = np.random.default_rng((self.seed, epoch, index)).integers(len(example.golds))
            gold = example.golds[int(draw)] if len(example.golds) > 1 else example.golds[0]
        window = window_of(passage, gold, self.max_passage_tokens)
        if window is None:
            gold, window = None, _first_window(passage, self.max_passage_tokens)
        return _Row(example, passage, gold, window)

    def _passages(self, parts: Sequence[tuple[PreparedPassage, Window]]) -> Inputs:
        rows = [
            [self._cls, *p.title, self._sep, *p.ids[window.begin : window.end].tolist(), self._sep]
            for p, window in parts
        ]
        inputs = self._padded(rows, [passage.key for passage, _ in parts])
        for number, (passage, window) in enumerate(parts):
            begin = 2 + len(passage.title)
            inputs.is_text[number, begin : begin + window.end - window.begin] = True
        return inputs

    def _padded(self, rows: Sequence[Sequence[int]], keys: Sequence[int]) -> Inputs:
        ids, is_token = (torch.from_numpy(array) for array in padded_rows(rows, self._pad))
        return Inputs(ids, is_token, torch.zeros_like(is_token), torch.tensor(keys, dtype=torch.int64))


def _first_window(passage: PreparedPassage, max_passage_tokens: int) -> Window:
    window = window_of(passage, None, max_passage_tokens)
    assert window is not None  # without a gold phrase every window will do
    return window


def _accepted_keys(rows: Sequence[_Row]) -> Tensor:
    """Return the keys of the answers that each row accepts, int64 (B, A), padded with 0."""
    keys = [[] if row.gold is None else sorted({gold.key for gold in row.example.golds}) for row in rows]
    padded, _ = padded_rows(keys, 0)
    return torch.from_numpy(padded)


def _right_tokens(rows: Sequence[_Row], ids: Int64, is_text: NDArray[np.bool_]) -> tuple[Int64, Int64]:
    """Return the (row, flat position) pairs of first and of last tokens that are right for a row, int64 (2, n) each.

    Right are: the row's other answers, every place of the batch where the tokens of one of its answers stand, and in
    another copy of the row's own passage everything.
    """
    starts: list[tuple[int, int]] = []
    ends: list[tuple[int, int]] = []
    width = ids.shape[1]
    flat = np.where(is_text, ids, -1).reshape(-1)
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    text_of_row = [np.flatnonzero(mask) + number * width for number, mask in enumerate(is_text)]
    copies: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        copies.setdefault(row.passage.key, []).append(number)
    for number, row in enumerate(rows):
        if row.gold is None:
            continue
        for other in row.example.golds:
            if other.first + row.shift < width and other.last + row.shift < width:
                if row.window.begin <= other.first < row.window.end:
                    starts.append((number, number * width + other.first + row.shift))
                if row.window.begin <= other.last < row.window.end:
                    ends.append((number, number * width + other.last + row.shift))
        answers = {tuple(row.passage.ids[gold.first : gold.last + 1].tolist()) for gold in row.example.golds}
        for answer in sorted(answers):
            begin, end = (np.searchsorted(ordered, answer[0], side=side) for side in ("left", "right"))
            for place in order[begin:end].tolist():
                if np.array_equal(flat[place : place + len(answer)], answer):
                    starts.append((number, place))
                    ends.append((number, place + len(answer) - 1))
        for copy in copies[row.passage.key]:
            if copy != number:
                starts += [(number, place) for place in text_of_row[copy].tolist()]
                ends += [(number, place) for place in text_of_row[copy].tolist()]
    return _pairs(starts), _pairs(ends)


def _pairs(pairs: list[tuple[int, int]]) -> Int64:
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T.copy()
