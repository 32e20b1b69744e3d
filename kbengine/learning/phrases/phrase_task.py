"""Training a phrase encoder: the weighted sum of the losses over a batch (DensePhrases, Eq. 9) and its score."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor
from torch.nn.functional import normalize

from kbengine.encoders.model import PhraseModel, QueryOutput
from kbengine.encoders.tokenization import TextTokenizer
from kbengine.errors import InvalidOptionError
from kbengine.learning.loop.options import require, require_count
from kbengine.learning.loop.processes import Processes
from kbengine.learning.loop.task import Evaluation, LossTerms, Position, TrainingTask
from kbengine.learning.phrases.batches import Collator, Inputs, PhraseBatch, Teacher
from kbengine.learning.phrases.losses import (
    DIRECTIONS,
    Direction,
    distillation_loss,
    filter_loss,
    negative_loss,
    passage_loss,
    single_passage_loss,
)
from kbengine.learning.phrases.pre_batches import GoldPhrases, PreBatchQueue
from kbengine.learning.phrases.prepared import PreparedSet

Negatives = Literal["none", "golds", "tokens"]
NEGATIVES: tuple[Negatives, ...] = get_args(Negatives)
NoAnswer = Literal["skip", "cls"]
NO_ANSWER: tuple[NoAnswer, ...] = get_args(NoAnswer)

Evaluate = Callable[[PhraseModel], Evaluation]


@dataclass(frozen=True)
class LossOptions:
    """Which losses there are and how much each counts (the λ of Eq. 9); a weight of 0 leaves a loss out.

    Attributes:
        single: Weight of L_single (Eq. 5 and 6).
        negative: Weight of L_neg (Eq. 8).
        negatives: What L_neg compares with: "golds" (the other gold phrases of the batch, as in the papers), "tokens"
            (all tokens of the batch's passages), "none" (pre-batch and mined ones alone).
        pre_batches: C, earlier batches whose gold phrases are further columns.
        pre_batch_warmup: Share of the epochs before which there are none: early vectors are soon out of date.
        hard_negatives: Whether mined passages are further columns, each by its best token.
        distillation: Weight of L_distill (Eq. 7).
        direction: Of its divergence.
        temperature: Of its two distributions.
        filter: Weight of the filter head's binary cross-entropy.
        filter_trains_encoder: Whether its gradient flows into the phrase encoder.
        passage: Weight of the contrastive loss of passage vectors.
        passage_temperature: Its temperature.
        similarity: Weight of keeping the passage vectors' similarities as they are in another model, usually the one
            that training began with: divergence of the shares that the batch's passages have for a query.
        no_answer: "cls": the [CLS] state is the gold phrase of unanswerable examples; "skip": they are negatives only.
    """

    single: float = 1.0
    negative: float = 1.0
    negatives: Negatives = "tokens"
    pre_batches: int = 2
    pre_batch_warmup: float = 0.25
    hard_negatives: bool = False
    distillation: float = 0.0
    direction: Direction = "teacher-student"
    temperature: float = 1.0
    filter: float = 0.1
    filter_trains_encoder: bool = True
    passage: float = 1.0
    passage_temperature: float = 0.05
    similarity: float = 0.0
    no_answer: NoAnswer = "skip"

    def __post_init__(self) -> None:
        for name in ("single", "negative", "distillation", "filter", "passage", "similarity"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "0 (off) or more")
        for name in ("temperature", "passage_temperature"):
            require(getattr(self, name) > 0, name, getattr(self, name), "more than 0")
        require(self.negatives in NEGATIVES, "negatives", self.negatives, f"one of {', '.join(NEGATIVES)}")
        require(self.direction in DIRECTIONS, "direction", self.direction, f"one of {', '.join(DIRECTIONS)}")
        require(self.no_answer in NO_ANSWER, "no_answer", self.no_answer, f"one of {', '.join(NO_ANSWER)}")
        require(0 <= self.pre_batch_warmup <= 1, "pre_batch_warmup", self.pre_batch_warmup, "a share from 0 to 1")
        require_count("pre_batches", self.pre_batches, least=0)
        if not any((self.single, self.negative, self.distillation, self.filter, self.passage, self.similarity)):
            raise InvalidOptionError("every loss has the weight 0; give one of them a weight")


class PhraseTask(TrainingTask[PhraseBatch]):
    """A phrase model with its examples, for `kbengine.learning.loop.loop.train`."""

    model: PhraseModel

    def __init__(
        self,
        model: PhraseModel,
        data: PreparedSet,
        tokenizer: TextTokenizer,
        options: LossOptions,
        *,
        seed: int = 0,
        teacher: Sequence[Teacher | None] | None = None,
        similar_to: PhraseModel | None = None,
        evaluate: Evaluate | None = None,
    ) -> None:
        """Put together what is trained.

        Args:
            model: the model, dropout set, frozen parameters marked.
            data: the examples.
            tokenizer: the model's.
            options: the losses.
            seed: of the choice among several right answers.
            teacher: a cross-encoder's logits of each example that `data` was made from, where there are any.
            similar_to: the model whose similarities are kept, of the same tokenizer; it is only used, never trained.
            evaluate: gives the development score of the model.

        Raises:
            InvalidOptionError: the losses want a teacher, a similar model, or passage vectors, that are not there.
        """
        super().__init__(model, len(data.examples))
        if options.distillation and teacher is None:
            raise InvalidOptionError("distillation has a weight, but no teacher is given; pass --reader or weight 0")
        if (options.passage or options.similarity) and not model.config.has_passage_vector:
            raise InvalidOptionError("the model has no passage vectors, wanted weight 0 for passage and similarity")
        if options.similarity and (similar_to is None or not similar_to.config.has_passage_vector):
            raise InvalidOptionError("similarity has a weight, but there is no model with passage vectors to be like")
        self.options = options
        self._data = data
        self._evaluate = evaluate
        self._similar_to = None if similar_to is None else similar_to.eval().requires_grad_(False)
        self._queue = PreBatchQueue(options.pre_batches)
        self._queue_is_open = False
        self._collator = Collator(
            data,
            tokenizer,
            max_passage_tokens=model.config.max_passage_tokens,
            seed=seed,
            teacher=teacher if options.distillation else None,
        )

    def collate(self, indices: Sequence[int], *, epoch: int) -> PhraseBatch:
        """Return the batch of these examples."""
        return self._collator.batch(indices, epoch=epoch)

    def begin_epoch(self, epoch: int, n_epochs: int) -> None:
        """Open the queue of pre-batch negatives once the warm-up's share of the epochs is over."""
        self._queue_is_open = self.options.pre_batches > 0 and epoch >= self.options.pre_batch_warmup * n_epochs

    def losses(self, batch: PhraseBatch, position: Position, processes: Processes) -> LossTerms:  # noqa: ARG002
        """Return the weighted sum of the losses, and each of them."""
        batch = batch.to(processes.device)
        vectors = self._encode(batch)
        like = self._similar_vectors(batch, processes)
        # Scores are sums over hundreds of products: in bfloat16 they would be off by more than a logit.
        with torch.autocast(processes.device.type, enabled=False):
            parts = self._parts(batch, vectors, processes)
            if like is not None:
                parts["similarity"] = self._similarity_loss(batch, vectors, like, processes)
        weights = asdict(self.options)
        total = sum((weights[name] * part for name, part in parts.items()), torch.zeros((), device=processes.device))
        return LossTerms(total, parts)

    def evaluate(self, processes: Processes) -> Evaluation | None:  # noqa: ARG002  # every process computes the same
        """Return the development score."""
        return None if self._evaluate is None else self._evaluate(self.model)

    def extra_state(self) -> dict[str, Tensor]:
        """Return the pre-batch negatives."""
        return self._queue.state()

    def load_extra_state(self, state: Mapping[str, Tensor]) -> None:
        """Take the pre-batch negatives back."""
        self._queue.load_state(state, next(self.model.parameters()).device)

    def fingerprint(self) -> str:
        """Return a hash of data, losses and the model's configuration."""
        facts = json.dumps([asdict(self.options), self.model.config.to_json()], sort_keys=True)
        return hashlib.sha256((facts + self._data.fingerprint()).encode()).hexdigest()

    def _encode(self, batch: PhraseBatch) -> _Vectors:
        """Return all vectors of a batch, float32."""
        states = self.model.passage_states(batch.passages.ids, batch.passages.is_token)  # (B, T, H)
        queries = self.model.query_vectors(batch.queries.ids, batch.queries.is_token)
        mined = None
        if batch.negatives is not None and self.options.hard_negatives:
            mined = self.model.passage_states(batch.negatives.ids, batch.negatives.is_token).float()  # (M, T', H)
        logits = self.model.filter_logits(states if self.options.filter_trains_encoder else states.detach())
        pooled = self.model.passage_vectors(states, batch.passages.is_token)
        return _Vectors(
            states.float(), QueryOutput(*(each.float() for each in queries)), pooled.float(), logits.float(), mined
        )

    def _similar_vectors(self, batch: PhraseBatch, processes: Processes) -> tuple[Tensor, Tensor] | None:
        """Return the passage vectors of queries and passages in the model to be like, where it is asked for."""
        if not self.options.similarity or self._similar_to is None:
            return None
        model = self._similar_to.to(processes.device)
        with torch.no_grad():
            states = model.passage_states(batch.passages.ids, batch.passages.is_token)
            pooled = model.passage_vectors(states, batch.passages.is_token)
            queries = model.query_vectors(batch.queries.ids, batch.queries.is_token).passage
        return queries.float(), pooled.float()

    def _similarity_loss(
        self, batch: PhraseBatch, vectors: _Vectors, like: tuple[Tensor, Tensor], processes: Processes
    ) -> Tensor:
        sides = []
        for queries, passages in ((vectors.queries.passage, vectors.pooled), like):
            everyone = normalize(processes.gather(passages), dim=1)
            sides.append(normalize(queries, dim=1) @ everyone.T / self.options.passage_temperature)
        everything = torch.ones_like(sides[0], dtype=torch.bool)
        return distillation_loss(sides[0], sides[1], everything, torch.ones_like(batch.answerable))

    def _parts(self, batch: PhraseBatch, vectors: _Vectors, processes: Processes) -> dict[str, Tensor]:
        options = self.options
        rows = torch.arange(len(batch.gold_start), device=batch.gold_start.device)
        with_phrase = batch.gold_start >= 0
        if options.no_answer == "skip":
            with_phrase = with_phrase & batch.answerable
        gold_start = torch.where(with_phrase, batch.gold_start, -1)
        gold_end = torch.where(with_phrase, batch.gold_end, -1)
        start = torch.einsum("bth,bh->bt", vectors.states, vectors.queries.start)
        end = torch.einsum("bth,bh->bt", vectors.states, vectors.queries.end)
        parts: dict[str, Tensor] = {}
        if options.single:
            parts["single"] = single_passage_loss(start, end, gold_start, gold_end, self._outside(batch))
        if options.negative:
            golds = GoldPhrases(
                vectors.states[rows, gold_start.clamp_min(0)],
                vectors.states[rows, gold_end.clamp_min(0)],
                # Rows without a gold phrase are no columns: −1 marks them.
                torch.where(with_phrase, batch.answer_keys, -1),
            )
            parts["negative"] = self._negative_loss(batch, vectors, golds, (gold_start, gold_end), processes)
        if options.distillation:
            sides = (start, batch.teacher_start), (end, batch.teacher_end)
            among, how = (batch.passages.is_text, batch.has_teacher), (options.direction, options.temperature)
            losses = [distillation_loss(*logits, *among, direction=how[0], temperature=how[1]) for logits in sides]
            parts["distillation"] = (losses[0] + losses[1]) / 2
        if options.filter:
            answered = with_phrase & batch.answerable
            text_start, text_end = (torch.where(answered, gold, -1) for gold in (gold_start, gold_end))
            parts["filter"] = filter_loss(vectors.filter_logits, text_start, text_end, batch.passages.is_text)
        if options.passage:
            parts["passage"] = self._passage_loss(batch, vectors, processes)
        return parts

    def _outside(self, batch: PhraseBatch) -> tuple[Tensor, Tensor]:
        """Return which positions are outside the softmax over a row's own passage, bool (B, T) for starts and ends."""
        outside = ~batch.passages.is_text
        if self.options.no_answer == "cls":
            outside[:, 0] = False
        T = outside.shape[1]
        sides = []
        for right in (batch.right_start, batch.right_end):
            row, place = right
            own = place // T == row
            side = outside.clone()
            side[row[own], place[own] % T] = True
            sides.append(side)
        return sides[0], sides[1]

    def _negative_loss(
        self,
        batch: PhraseBatch,
        vectors: _Vectors,
        golds: GoldPhrases,
        positions: tuple[Tensor, Tensor],
        processes: Processes,
    ) -> Tensor:
        """Return L_neg over all the columns asked for, then push the gold phrases to the queue."""
        everyone = GoldPhrases(*(processes.gather(tensor) for tensor in golds))
        rows = torch.arange(len(golds), device=golds.start.device)
        first = processes.rank * len(golds)
        columns: list[_Columns] = []
        if self.options.negatives == "tokens":
            columns.append(self._token_columns(batch, vectors))
            T = vectors.states.shape[1]
            gold = torch.stack([torch.where(each >= 0, rows * T + each, -1) for each in positions])
            if processes.world > 1:
                others = _gold_columns(vectors.queries, everyone, batch.accepted_keys)
                own = slice(first, first + len(golds))
                for side in others.excluded:
                    side[:, own] = True  # their tokens are columns already
                columns.append(others)
        else:
            among = _gold_columns(vectors.queries, everyone, batch.accepted_keys)
            if self.options.negatives == "none":
                for side in among.excluded:
                    side[:] = True
            columns.append(among)
            gold = torch.where(positions[0] >= 0, rows + first, -1)
        earlier = self._queue.columns() if self._queue_is_open else None
        if earlier is not None:
            columns.append(_gold_columns(vectors.queries, earlier, batch.accepted_keys))
        if vectors.mined is not None and batch.negatives is not None and batch.negative_rows is not None:
            columns.append(_mined_columns(vectors.queries, vectors.mined, batch.negatives, batch.passages.keys))
        if self._queue_is_open:
            self._queue.push(everyone)
        logits = [torch.cat([each.logits[side] for each in columns], dim=1) for side in (0, 1)]
        excluded = [torch.cat([each.excluded[side] for each in columns], dim=1) for side in (0, 1)]
        return negative_loss(logits[0], logits[1], gold, (excluded[0], excluded[1]))

    def _token_columns(self, batch: PhraseBatch, vectors: _Vectors) -> _Columns:
        """Return all tokens of the batch as columns, (B, B·T); tokens that are right for a row are excluded."""
        B, T, H = vectors.states.shape
        flat = vectors.states.reshape(B * T, H)
        outside = ~batch.passages.is_text.reshape(1, B * T)
        sides = []
        for right in (batch.right_start, batch.right_end):
            side = outside.repeat(B, 1)
            side[right[0], right[1]] = True
            sides.append(side)
        return _Columns((vectors.queries.start @ flat.T, vectors.queries.end @ flat.T), (sides[0], sides[1]))

    def _passage_loss(self, batch: PhraseBatch, vectors: _Vectors, processes: Processes) -> Tensor:
        passages, keys = processes.gather(vectors.pooled), processes.gather(batch.passages.keys)
        rows = torch.arange(len(vectors.pooled), device=keys.device) + processes.rank * len(vectors.pooled)
        if vectors.mined is not None and batch.negatives is not None:
            mined = self.model.passage_vectors(vectors.mined, batch.negatives.is_token).float()
            passages, keys = torch.cat([passages, mined]), torch.cat([keys, batch.negatives.keys])
        return passage_loss(
            vectors.queries.passage,
            passages,
            torch.where(batch.answerable, rows, -1),
            temperature=self.options.passage_temperature,
            excluded=batch.passages.keys[:, None] == keys,
        )


class _Vectors(NamedTuple):
    """What a batch is encoded to, float32: states (B, T, H), queries, pooled (B, H), filter logits, mined states."""

    states: Tensor
    queries: QueryOutput
    pooled: Tensor
    filter_logits: Tensor
    mined: Tensor | None


class _Columns(NamedTuple):
    """Start and end logits (B, N), and which columns are no negatives of a row, bool (B, N)."""

    logits: tuple[Tensor, Tensor]
    excluded: tuple[Tensor, Tensor]


def _gold_columns(queries: QueryOutput, golds: GoldPhrases, accepted_keys: Tensor) -> _Columns:
    """Return gold phrases as columns; those that a row accepts as an answer, and rows without one, are excluded."""
    same = (accepted_keys[:, :, None] == golds.answer_keys).any(dim=1) & (golds.answer_keys > 0)
    excluded = same | (golds.answer_keys < 0)
    return _Columns((queries.start @ golds.start.T, queries.end @ golds.end.T), (excluded, excluded.clone()))


def _mined_columns(queries: QueryOutput, states: Tensor, inputs: Inputs, passage_keys: Tensor) -> _Columns:
    """Return mined passages as columns, each by its best token; a row's own gold passage is excluded."""
    logits = []
    for query in (queries.start, queries.end):
        scores = torch.einsum("bh,mth->bmt", query, states).masked_fill(~inputs.is_text, -torch.inf)
        logits.append(scores.amax(dim=2))
    excluded = (passage_keys[:, None] == inputs.keys) | ~inputs.is_text.any(dim=1)
    return _Columns((logits[0], logits[1]), (excluded, excluded.clone()))
