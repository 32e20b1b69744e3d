"""Training the cross-encoder reader: which passages it sees with a query, and what their logits should be.

Every answerable example is seen with a window of its passage that holds an answer. With some probability the query is
also seen with texts that do not answer it: another window of the same passage, mined negatives, or another page's
passage. There, and for unanswerable questions, [CLS] is the target, so that the margin over "no answer" compares
passages: the reader that ranks BM25's passages needs that. Firsts and lasts are learned by themselves and as spans
together (Fajcik et al., "Rethinking the Objectives of Extractive Question Answering", 2021): by themselves alone, the
start of one likely answer and the end of another make one long wrong one. The relevance of the gold passage competes
with that of the others (a listwise softmax, as in dense retrieval); of mentions and dialogues it is all that is
learned. On request the right spans compete with those of all texts that the query is seen with, as they do when the
best passages of a search are read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kbengine.encoders.encoder import PassageText
from kbengine.encoders.tokenization import TextTokens, token_span
from kbengine.errors import TrainingDataError
from kbengine.inputs import Dialogue, Mention
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.loop.batch import OnDevice
from kbengine.learning.loop.options import require, require_count
from kbengine.learning.loop.order import grouped_order
from kbengine.learning.loop.processes import Processes
from kbengine.learning.loop.task import Evaluation, LossTerms, Position, TrainingTask
from kbengine.learning.reading.evaluation import question_of, read_by_reader
from kbengine.learning.reading.losses import (
    marginal_loss,
    relevance_loss,
    shared_span_loss,
    span_loss,
    span_scores,
)
from kbengine.learning.reading.scores import score_guesses
from kbengine.reading.inputs import ReaderInput, padded, reader_inputs
from kbengine.reading.model import CrossEncoder
from kbengine.reading.reader import Reader, reader_tokenizer
from kbengine.span import Span

T = TypeVar("T")

_TRIES = 8
"""Random passages looked at for one that does not hold the answer."""
_CHARS_PER_GROUP = 100
_SIDE_BY_SIDE = 16
"""Examples of about one length that are seen side by side, so that little of a batch is padding."""


@dataclass(frozen=True)
class ReaderTrainingOptions:
    """What the reader sees beside the gold passages.

    Attributes:
        negative_fraction: Probability that an answerable query is also seen with text that does not answer it.
        n_negatives: With how many such texts at most; more than one only of mined ones.
        n_ranked_negatives: Likewise for mentions and dialogues, which are always seen with some.
        mined_weight: How often mined ones are drawn for each time that another window or another page is.
        shared_spans: Weight of the loss of right spans among those of all texts of a query (`shared_span_loss`).
        untitled_fraction: Probability that a passage is read without its title: a reader that is only used to titles
            reads worse where there are none.
        max_dev_examples: Development examples read at each evaluation, evenly spread; None: all.
        seed: Of the choice of windows and negatives.
    """

    negative_fraction: float = 0.5
    n_negatives: int = 1
    n_ranked_negatives: int = 4
    mined_weight: int = 2
    shared_spans: float = 0.0
    untitled_fraction: float = 0.2
    max_dev_examples: int | None = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("negative_fraction", "untitled_fraction"):
            require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "a share from 0 to 1")
        if self.max_dev_examples is not None:
            require_count("max_dev_examples", self.max_dev_examples)
        require_count("n_negatives", self.n_negatives)
        require_count("n_ranked_negatives", self.n_ranked_negatives)
        require_count("mined_weight", self.mined_weight)
        require(self.shared_spans >= 0, "shared_spans", self.shared_spans, "a weight of 0 or more")
        require_count("seed", self.seed, least=0)


@dataclass(frozen=True)
class ReaderBatch(OnDevice):
    """What the model reads and should say.

    Attributes:
        input_ids: int64 (B, T).
        token_types: int64 (B, T).
        is_token: bool (B, T), None without padding.
        is_candidate: bool (B, T), where an answer may begin or end: [CLS] and the passage.
        is_start: bool (B, T), where one does begin; only [CLS] when the text does not answer.
        is_end: bool (B, T), likewise.
        answers: int64 (N, 3), row, first and last token of every answer that is there.
        is_read: bool (B,), where a span is wanted, or that there is none; not where only relevance is.
        group: int64 (B,), the same for the texts that one query is seen with.
        is_gold: bool (B,), which of a group's texts is the right one, at most one each.
    """

    input_ids: Tensor
    token_types: Tensor
    is_token: Tensor | None
    is_candidate: Tensor
    is_start: Tensor
    is_end: Tensor
    answers: Tensor
    is_read: Tensor
    group: Tensor
    is_gold: Tensor


@dataclass(frozen=True, slots=True)
class _Seen:
    """One text that a query is seen with: the input, the answers that are right in it, and what it is there for."""

    input: ReaderInput
    spans: Sequence[Span]
    is_read: bool
    is_gold: bool


class ReaderTask(TrainingTask[ReaderBatch]):
    """A cross-encoder with its examples, for `kbengine.learning.loop.loop.train`."""

    model: CrossEncoder

    def __init__(
        self,
        model: CrossEncoder,
        tokenizer_json: str,
        examples: Sequence[TrainingExample],
        dev: Sequence[TrainingExample] = (),
        *,
        options: ReaderTrainingOptions | None = None,
    ) -> None:
        """Take mentions, dialogues and what has an answer span or says that there is none; `n_left_out`: the others.

        Raises:
            TrainingDataError: no example is left.
        """
        self._examples = [example for example in examples if _is_usable(example)]
        self.n_left_out = len(examples) - len(self._examples)
        if not self._examples:
            raise TrainingDataError(f"none of {len(examples)} examples has an answer span; give reading comprehension")
        super().__init__(model, len(self._examples))
        self._dev = _spread([e for e in dev if not _is_ranked(e) and _is_usable(e)], options)
        self._options = options or ReaderTrainingOptions()
        self._config = model.config
        self._tokenizer_json = tokenizer_json
        n_chars = [len(each.passage) + len(repr(each.query)) for each in self._examples]
        # Longer inputs are cut to one length; about four characters make a token.
        most = self._config.max_tokens * 4 // _CHARS_PER_GROUP
        self._lengths = np.minimum(np.array(n_chars, dtype=np.int64) // _CHARS_PER_GROUP, most)
        self._tokenizer = reader_tokenizer(tokenizer_json, model.config, "the initial model")

    def collate(self, indices: Sequence[int], *, epoch: int) -> ReaderBatch:
        """Return the batch of these examples: one input each, and those of the negatives drawn for this epoch."""
        groups = [self._draw(self._examples[i], self._rng(epoch, i)) for i in indices]
        if not any(groups):  # answers without a visible character, all of them: the loop needs a batch all the same
            groups = [[_Seen(self._inputs(self._examples[indices[0]], "", "")[0], (), is_read=True, is_gold=False)]]
        return self._batch(groups)

    def order(self, *, seed: int, epoch: int) -> NDArray[np.int64]:
        """Return an epoch's order, inputs of about one length side by side."""
        return grouped_order(self._lengths, _SIDE_BY_SIDE, seed=seed, epoch=epoch)

    def losses(self, batch: ReaderBatch, position: Position, processes: Processes) -> LossTerms:  # noqa: ARG002
        """Return the mean of what starts and ends cost by themselves and as spans, and the loss of relevance."""
        batch = batch.to(processes.device)
        output = self.model(batch.input_ids, batch.token_types, batch.is_token)
        relevance = relevance_loss(output.relevance, batch.group, batch.is_gold)
        read = batch.is_read
        if not bool(read.any()):
            return LossTerms(relevance, {"relevance": relevance})
        candidate, logits = batch.is_candidate[read], output.logits[read]  # (R, T), (R, T, 2)
        start = marginal_loss(logits[..., 0], candidate, batch.is_start[read])
        end = marginal_loss(logits[..., 1], candidate, batch.is_end[read])
        longest = self._config.max_answer_tokens
        spans = span_scores(output.logits, batch.is_candidate, batch.answers, max_tokens=longest)
        alone = span_loss(spans)[read].mean()
        terms = {"start": start, "end": end, "span": alone, "relevance": relevance}
        loss = (start + end) / 4 + alone / 2 + relevance
        if self._options.shared_spans:
            terms["shared"] = shared_span_loss(spans, output.relevance, batch.group, batch.is_gold & read)
            loss = loss + self._options.shared_spans * terms["shared"]
        return LossTerms(loss, terms)

    def evaluate(self, processes: Processes) -> Evaluation | None:
        """Return F1 on the development examples, each read in its own passage; every process reads its share."""
        if not self._dev:
            return None
        own = self._dev[processes.rank :: processes.world]
        sums = torch.zeros(3, dtype=torch.float64, device=processes.device)
        if own:
            reader = Reader.from_model(self.model, self._tokenizer_json, device=str(processes.device), dtype="float32")
            threshold = None if all(example.answerable for example in self._dev) else 0.0
            scores = score_guesses([question_of(e) for e in own], read_by_reader(own, reader), threshold=threshold)
            sums += torch.tensor([scores.em * len(own), scores.f1 * len(own), len(own)], device=processes.device)
        em, f1, n = processes.mean(sums.float()).tolist()
        return Evaluation(f1 / n, {"em": em / n, "f1": f1 / n})

    def fingerprint(self) -> str:
        """Return a checksum over the examples, the options and the tokenizer."""
        digest = hashlib.sha256(self._tokenizer_json.encode())
        digest.update(json.dumps([self._config.to_json(), repr(self._options)]).encode())
        for example in (*self._examples, *self._dev):
            digest.update(repr((example.id, example.query, example.title, example.passage, example.answers)).encode())
        return digest.hexdigest()

    def _rng(self, epoch: int, i: int) -> np.random.Generator:
        return np.random.default_rng((self._options.seed, epoch, i))

    def _draw(self, example: TrainingExample, rng: np.random.Generator) -> list[_Seen]:
        """Return what the model sees of an example in one epoch, the gold text first."""
        title = example.title if rng.random() >= self._options.untitled_fraction else ""
        is_read = not _is_ranked(example)
        if not example.answerable:
            return [_Seen(_one(self._inputs(example, title, example.passage), rng), (), is_read, is_gold=False)]
        others: list[ReaderInput] = []
        # What is only ranked teaches nothing alone.
        if rng.random() < self._options.negative_fraction or not is_read:
            others, has_title = self._negatives(example, rng, titled=bool(title))
            # A mined passage may come without its title; with one on the right passage alone, the title would tell.
            title = title if has_title else ""
        inputs = self._inputs(example, title, example.passage)
        if is_read:
            places = _places(inputs[0].tokens, example.answers)
            inputs = [each for each in inputs if any(_holds(each, place) for place in places)]
            # An answer longer than a window, or of no visible character, leaves nothing to point at.
            gold = [_Seen(_one(inputs, rng), example.answers, is_read, is_gold=True)] if inputs else []
        else:
            gold = [_Seen(inputs[0], (), is_read, is_gold=True)]
        return [*gold, *(_Seen(other, (), is_read, is_gold=False) for other in others)]

    def _negatives(
        self, example: TrainingExample, rng: np.random.Generator, *, titled: bool
    ) -> tuple[list[ReaderInput], bool]:
        """Return inputs whose text does not answer the query, as far as found, and whether they have their titles."""
        inputs = self._inputs(example, example.title if titled else "", example.passage)
        places = _places(inputs[0].tokens, example.answers)
        wrong = [each for each in inputs if not any(_touches(each, place) for place in places)]
        can_move = bool(wrong) and not _is_ranked(example)
        # Mined ones are what the reader will meet: they are drawn more often.
        n_mined = self._options.mined_weight if example.negatives else 0
        kinds = ["window"] * can_move + ["mined"] * n_mined + ["other"]
        kind = kinds[int(rng.integers(len(kinds)))]
        if kind == "window":
            return [_one(wrong, rng)], True
        if kind == "mined":
            most = self._options.n_ranked_negatives if _is_ranked(example) else self._options.n_negatives
            n = min(most, len(example.negatives))
            chosen = rng.choice(len(example.negatives), size=n, replace=False).tolist()
            has_titles = bool(example.negative_titles)
            titles = [example.negative_titles[i] if has_titles and titled else "" for i in chosen]
            return [
                _one(self._inputs(example, each, example.negatives[i]), rng)
                for i, each in zip(chosen, titles, strict=True)
            ], has_titles
        answers = [answer.casefold() for answer in example.answer_texts]
        for _ in range(_TRIES):
            other = _one(self._examples, rng)
            text = other.passage.casefold()
            if other.title != example.title and not any(answer in text for answer in answers):
                return [_one(self._inputs(example, other.title if titled else "", other.passage), rng)], True
        return [], True

    def _inputs(self, example: TrainingExample, title: str, passage: str) -> list[ReaderInput]:
        return reader_inputs(
            [example.query], [PassageText(title, passage)], self._tokenizer, self._config, truncate=True
        )

    def _batch(self, groups: Sequence[Sequence[_Seen]]) -> ReaderBatch:
        chosen = [seen for group in groups for seen in group]
        arrays = padded([seen.input for seen in chosen], self._tokenizer, self._config)
        candidate, start, end = (np.zeros(arrays.ids.shape, dtype=np.bool_) for _ in range(3))
        answers: list[tuple[int, int, int]] = []
        for row, seen in enumerate(chosen):
            each, spans = seen.input, seen.spans
            begin = len(each.head)
            candidate[row, 0] = True
            candidate[row, begin : each.n_tokens - 1] = True
            for first, last in (place for place in _places(each.tokens, spans) if _holds(each, place)):
                answers.append((row, first - each.window.begin + begin, last - each.window.begin + begin))
                start[row, answers[-1][1]] = end[row, answers[-1][2]] = True
            if not start[row].any():
                start[row, 0] = end[row, 0] = True
        return ReaderBatch(
            torch.from_numpy(arrays.ids),
            torch.from_numpy(arrays.types),
            None if arrays.is_token is None else torch.from_numpy(arrays.is_token),
            torch.from_numpy(candidate),
            torch.from_numpy(start),
            torch.from_numpy(end),
            torch.tensor(answers, dtype=torch.int64).reshape(-1, 3),
            torch.tensor([seen.is_read for seen in chosen]),
            torch.tensor([number for number, group in enumerate(groups) for _ in group]),
            torch.tensor([seen.is_gold for seen in chosen]),
        )


def _is_ranked(example: TrainingExample) -> bool:
    """Return whether only passages are ranked: a mention and a dialogue are answered by a page."""
    return isinstance(example.query, Mention | Dialogue)


def _is_usable(example: TrainingExample) -> bool:
    return bool(example.answers) or not example.answerable or _is_ranked(example)


def _one(values: Sequence[T], rng: np.random.Generator) -> T:
    return values[int(rng.integers(len(values)))]


def _places(tokens: TextTokens, spans: Sequence[Span]) -> list[tuple[int, int]]:
    found = [token_span(tokens, span) for span in spans]
    return [place for place in found if place is not None]


def _holds(each: ReaderInput, place: tuple[int, int]) -> bool:
    return each.window.begin <= place[0] and place[1] < each.window.end


def _touches(each: ReaderInput, place: tuple[int, int]) -> bool:
    return place[0] < each.window.end and each.window.begin <= place[1]


def _spread(examples: Sequence[TrainingExample], options: ReaderTrainingOptions | None) -> list[TrainingExample]:
    """Return at most as many examples as are wanted, evenly spread over the set."""
    wanted = (options or ReaderTrainingOptions()).max_dev_examples
    if wanted is None or len(examples) <= wanted:
        return list(examples)
    places: NDArray[np.int64] = np.linspace(0, len(examples) - 1, wanted).astype(np.int64)
    return [examples[i] for i in places.tolist()]
