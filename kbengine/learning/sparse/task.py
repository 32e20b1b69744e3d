"""Sparse encoders as something the training loop trains: batches, losses, mined negatives, a development score."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import normalize

from kbengine.encoders.model import PhraseModel
from kbengine.encoders.sparse.model import SparseHeads
from kbengine.errors import TrainingError
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.loop.order import grouped_order
from kbengine.learning.loop.processes import Processes
from kbengine.learning.loop.task import Evaluation, LossTerms, Position, TrainingTask
from kbengine.learning.sparse.batches import Featurizer, Inputs, SparseBatch, TokenRow, make_batch
from kbengine.learning.sparse.loss import SideLogits, in_batch_loss, sparse_loss
from kbengine.learning.sparse.negatives import TfIdf, disturbed, similar_questions
from kbengine.learning.sparse.options import SparseOptions

_ENCODE_ROWS = 64


class SparseModel(nn.Module):
    """A phrase encoder, its sparse heads, and the learned logits of "no answer"."""

    def __init__(self, encoder: PhraseModel, heads: SparseHeads, *, as_stored: bool, train_encoder: bool) -> None:
        super().__init__()
        self.as_stored = as_stored
        self.train_encoder = train_encoder
        self.encoder = encoder
        self.heads = heads
        self.no_answer = nn.Parameter(torch.zeros(2))

    def passage_states(self, inputs: Inputs) -> Tensor:
        """Return the phrase encoder's states, (B, T, H) float32."""
        with self._precision(inputs):
            return self.encoder.passage_states(inputs.ids, inputs.is_token).float()

    def query_states(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Return the query encoders' states for the start and the end side, two of (B, U, H)."""
        with self._precision(inputs):
            return self.encoder.query_states(inputs.ids, inputs.is_token)

    def _precision(self, inputs: Inputs) -> AbstractContextManager[object]:
        """Return what a frozen encoder computes in: its fused layers have their own dtypes and know no autocast."""
        return nullcontext() if self.train_encoder else torch.autocast(inputs.ids.device.type, enabled=False)

    def logits(
        self, passages: Inputs, queries: Inputs, query_states: tuple[Tensor, Tensor], *, every_query: bool = False
    ) -> tuple[SideLogits, SideLogits]:
        """Return dense and sparse scores of every token with its query, each two of (B, T) float32.

        With `every_query`, of every token with every query: each two of (B, T, Q).
        """
        states = self.passage_states(passages)  # (B, T, H)
        vectors = self.encoder.query_output(query_states, queries.is_token)
        sides = [
            (states @ (side.T if every_query else side[:, :, None])).float() for side in (vectors.start, vectors.end)
        ]
        dense = SideLogits(*(each if every_query else each.squeeze(2) for each in sides))
        grams = passages.grams, query_states, queries.grams
        return dense, SideLogits(*self.heads.scores(states, *grams, as_stored=self.as_stored, every_query=every_query))


class SparseTask(TrainingTask[SparseBatch]):
    """Trains `SparseHeads` on a phrase encoder, which stays as it is unless the options say otherwise."""

    def __init__(
        self,
        encoder: PhraseModel,
        heads: SparseHeads,
        featurizer: Featurizer,
        examples: Sequence[TrainingExample],
        options: SparseOptions,
        *,
        development: Sequence[TrainingExample] = (),
        seed: int = 0,
    ) -> None:
        """Keep examples whose query is answered in its passage or said not to be; others teach nothing here.

        Raises:
            TrainingError: no example is left.
        """
        self.examples = [example for example in examples if example.answers or not example.answerable]
        if not self.examples:
            raise TrainingError(f"none of {len(examples)} examples has an answer's place; sparse training needs them")
        self.sparse_model = SparseModel(
            encoder, heads, as_stored=options.as_stored, train_encoder=options.train_encoder
        )
        super().__init__(self.sparse_model, len(self.examples))
        self.options = options
        self.featurizer = featurizer
        self.development = [example for example in development if example.answers]
        self.seed = seed
        for name, parameter in encoder.named_parameters():
            # Word embeddings stay as they are, as in the papers: a batch moves few of them, and these too far.
            parameter.requires_grad_(options.train_encoder and "word_embeddings" not in name)
        self._negative_of: NDArray[np.int64] = np.full(len(self.examples), -1, dtype=np.int64)
        self._mined_epoch = -1
        numbers: dict[str, int] = {}
        pages = [numbers.setdefault(each.doc_id or each.title, len(numbers)) for each in self.examples]
        self._pages: NDArray[np.int64] = np.array(pages, dtype=np.int64)
        self._tf_idf = TfIdf([example.passage for example in self.examples])

    def begin_epoch(self, epoch: int, n_epochs: int) -> None:  # noqa: ARG002  # the loop's interface
        """Find each question's negative with the query encoder as it is now."""
        if not self.options.negatives or self._mined_epoch == epoch:
            return
        rng = np.random.default_rng([self.seed, epoch])
        self._negative_of = similar_questions(
            self._query_vectors(self.examples), self.examples, pool=self.options.mining_pool, rng=rng
        )
        self._mined_epoch = epoch

    def order(self, *, seed: int, epoch: int) -> NDArray[np.int64]:
        """Return an epoch's order: rows of one page side by side where the batch is what is compared with."""
        if not self.options.in_batch:
            return super().order(seed=seed, epoch=epoch)
        return grouped_order(self._pages, self.options.page_rows, seed=seed, epoch=epoch)

    def collate(self, indices: Sequence[int], *, epoch: int) -> SparseBatch:
        """Return the batch: gold passages, queries, and the negatives of this epoch."""
        examples = [self.examples[i] for i in indices]
        negatives: list[TokenRow | None] = []
        bonus: list[float] = []
        for i, example in zip(indices, examples, strict=True):
            other = int(self._negative_of[i])
            negatives.append(None if other < 0 else self._negative(i, self.examples[other], epoch))
            bonus.append(self._bonus(example, self.examples[other]) if other >= 0 else 0.0)
        return make_batch(self.featurizer, examples, negatives, bonus, [epoch + i for i in indices])

    def losses(self, batch: SparseBatch, position: Position, processes: Processes) -> LossTerms:  # noqa: ARG002
        """Return the combined loss and the auxiliary one."""
        batch = batch.to(processes.device)
        if not self.options.train_encoder:
            self.sparse_model.encoder.eval()  # the loop puts everything into training mode
        query_states = self.sparse_model.query_states(batch.queries)
        outside = ~batch.passages.is_text
        excluded = (outside | batch.other_starts, outside | batch.other_ends)
        gold = (batch.gold_start, batch.gold_end)
        share, of_batch = self.options.in_batch, batch.bonus.new_zeros(())
        if share > 0:
            all_dense, all_sparse = self.sparse_model.logits(
                batch.passages, batch.queries, query_states, every_query=True
            )
            both = _sum(all_dense, all_sparse, self.options.dense_scale)
            of_batch = in_batch_loss(both, gold, excluded, outside, batch.never)
            dense, sparse = _of_own(all_dense), _of_own(all_sparse)
        else:
            dense, sparse = self.sparse_model.logits(batch.passages, batch.queries, query_states)
        bonus: Tensor | None = None
        if batch.negatives is not None:
            more_dense, more_sparse = self.sparse_model.logits(batch.negatives, batch.queries, query_states)
            out = ~batch.negatives.is_text | ~batch.has_negative[:, None]
            bonus = torch.cat([torch.zeros_like(dense.start), batch.bonus[:, None].expand(out.shape)], dim=1)
            dense, sparse = _joined(dense, more_dense), _joined(sparse, more_sparse)
            excluded = (torch.cat([excluded[0], out], dim=1), torch.cat([excluded[1], out], dim=1))
        found = sparse_loss(
            dense,
            sparse,
            gold,
            excluded,
            no_answer=self.sparse_model.no_answer,
            bonus=bonus,
            dense_scale=self.options.dense_scale,
            dense_weight=self.options.dense_weight,
        )
        # `total` is `combined` and the auxiliary loss; the batch's loss takes its share from the former.
        total = found.total + share * (of_batch - found.combined)
        return LossTerms(total, {"combined": found.combined, "in_batch": of_batch, "dense": found.dense})

    def evaluate(self, processes: Processes) -> Evaluation | None:
        """Return how often phrases are right, by dense and by dense + sparse scores, in percent; the score is a mean.

        `exact`: the best first and last tokens of the gold passage are an answer's. `passage`: of 64 examples' passages
        (the last ones: fewer) the one with the best tokens is the gold one, or holds the answer too.
        """
        if not self.development:
            return None
        n_right = dict.fromkeys(("dense_exact", "combined_exact", "dense_passage", "combined_passage"), 0)
        for begin in range(0, len(self.development), _ENCODE_ROWS):
            examples = self.development[begin : begin + _ENCODE_ROWS]
            empty = [0] * len(examples)
            batch = make_batch(self.featurizer, examples, [None] * len(examples), empty, empty).to(processes.device)
            states = self.sparse_model.query_states(batch.queries)
            dense, sparse = self.sparse_model.logits(batch.passages, batch.queries, states, every_query=True)
            for name, scores in (("dense", dense), ("combined", _sum(dense, sparse))):
                n_right[f"{name}_exact"] += _n_exact(_of_own(scores), batch)
                n_right[f"{name}_passage"] += _n_passages(scores, batch)
        n = len(self.development)
        measures = {name: 100 * count / n for name, count in n_right.items()}
        return Evaluation((measures["combined_exact"] + measures["combined_passage"]) / 2, measures)

    def extra_state(self) -> dict[str, Tensor]:
        """Return the mined negatives: found by an encoder that has moved since, they could not be found again."""
        return {"negative_of": torch.from_numpy(self._negative_of), "mined_epoch": torch.tensor(self._mined_epoch)}

    def load_extra_state(self, state: Mapping[str, Tensor]) -> None:
        """Take over the mined negatives."""
        self._negative_of = state["negative_of"].numpy()
        self._mined_epoch = int(state["mined_epoch"])

    def fingerprint(self) -> str:
        """Return a digest of the examples and the options."""
        digest = hashlib.sha256(json.dumps(asdict(self.options), sort_keys=True).encode())
        for example in self.examples:
            digest.update(f"{example.id}\x1f{example.passage}\x1f{example.query}\x1e".encode())
        return digest.hexdigest()

    def _negative(self, index: int, example: TrainingExample, epoch: int) -> TokenRow:
        row = self.featurizer.passage(example)
        rng = np.random.default_rng([self.seed, epoch, index])
        if rng.random() >= self.options.noise_share:
            return row
        other = self.featurizer.passage(self.examples[int(rng.integers(len(self.examples)))])
        text = disturbed(
            row.ids[row.first_text : -1], other.ids[other.first_text : -1], rate=self.options.noise_rate, rng=rng
        )
        return TokenRow(np.concatenate([row.ids[: row.first_text], text, row.ids[-1:]]), row.first_text)

    def _bonus(self, example: TrainingExample, negative: TrainingExample) -> float:
        weight = self.options.bonus
        return weight * self._tf_idf.cosine(_text_of(example), negative.passage) if weight else 0.0

    def _query_vectors(self, examples: Sequence[TrainingExample]) -> NDArray[np.float32]:
        """Return start and end vectors of the queries side by side, float32 (n, 2 H), L2-normalised."""
        model = self.sparse_model.encoder
        was_training = model.training
        model.eval()
        device = next(model.parameters()).device
        rows = []
        with torch.no_grad():
            for begin in range(0, len(examples), _ENCODE_ROWS):
                queries = [self.featurizer.query(example) for example in examples[begin : begin + _ENCODE_ROWS]]
                inputs = self.featurizer.padded(queries)
                found = model.query_vectors(inputs.ids.to(device), inputs.is_token.to(device))
                rows.append(normalize(torch.cat([found.start, found.end], dim=1).float(), dim=1).cpu().numpy())
        model.train(was_training)
        vectors: NDArray[np.float32] = np.concatenate(rows)
        return vectors


def _joined(first: SideLogits, second: SideLogits) -> SideLogits:
    return SideLogits(*(torch.cat(pair, dim=1) for pair in zip(first, second, strict=True)))


def _sum(dense: SideLogits, sparse: SideLogits, dense_scale: float = 1.0) -> SideLogits:
    return SideLogits(dense_scale * dense.start + sparse.start, dense_scale * dense.end + sparse.end)


def _of_own(scores: SideLogits) -> SideLogits:
    """Return the scores of each query in its own passage, two of (B, T, B) → two of (B, T)."""
    own = torch.arange(scores.start.shape[2], device=scores.start.device)
    return SideLogits(*(side[own, :, own] for side in scores))


def _n_passages(scores: SideLogits, batch: SparseBatch) -> int:
    """Count the queries whose best tokens of all passages are in their own, or in one that answers them too."""
    outside = ~batch.passages.is_text[:, :, None]
    start, end = (side.masked_fill(outside, -torch.inf).amax(dim=1) for side in scores)  # (B, B)
    best = (start + end).argmax(dim=0)
    own = torch.arange(len(best), device=best.device)
    return int(((best == own) | batch.never[best, own]).sum())


def _n_exact(scores: SideLogits, batch: SparseBatch) -> int:
    """Count the rows whose best first token and best last token are those of right answers."""
    outside = ~batch.passages.is_text
    n = 0
    starts, ends = (side.masked_fill(outside, -torch.inf).argmax(dim=1) for side in scores)
    for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        right_start = start == int(batch.gold_start[i]) or bool(batch.other_starts[i, start])
        n += right_start and (end == int(batch.gold_end[i]) or bool(batch.other_ends[i, end]))
    return n


def _text_of(example: TrainingExample) -> str:
    """Return the words of a query, for lexical comparison."""
    query = example.query
    parts = [getattr(query, name) for name in getattr(query, "__dataclass_fields__", {})]
    return " ".join(part if isinstance(part, str) else " ".join(part) for part in parts)
