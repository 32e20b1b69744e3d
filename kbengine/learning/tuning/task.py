"""Query-side fine-tuning as the training loop sees it: rows, candidates from the live index, losses, a score."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from kbengine.encoders.encoder import Encoder, QueryVectors
from kbengine.encoders.model import QueryOutput
from kbengine.encoders.query_input import QueryIds
from kbengine.encoders.windows import padded_rows
from kbengine.errors import TrainingDataError
from kbengine.learning.loop.processes import Processes
from kbengine.learning.loop.task import Evaluation, LossTerms, Position, TrainingTask
from kbengine.learning.tuning.candidates import Candidates, CandidateSource
from kbengine.learning.tuning.losses import closeness_loss, marginal_loss, phrase_loss, reader_loss
from kbengine.learning.tuning.mixing import epoch_rows, source_shares
from kbengine.learning.tuning.options import TuningOptions
from kbengine.learning.tuning.query_side import QuerySide
from kbengine.learning.tuning.rows import TuningRow, sources_of

Evaluate = Callable[[Encoder], Evaluation]

_REFRESHED = "refreshed:"
_COUNTS = "counts"


@dataclass(frozen=True)
class TuningBatch:
    """B rows: their places in the task's list, token ids int64 (B, T) and which are tokens, bool (B, T)."""

    rows: tuple[int, ...]
    ids: Tensor
    is_token: Tensor


class TuningTask(TrainingTask[TuningBatch]):
    """A query side with its rows, for `kbengine.learning.loop.loop.train`.

    Candidates are retrieved by a copy of the encoder, renewed every `refresh_steps`; the copy is kept in checkpoints,
    so that a resumed run sees what it would have seen.
    """

    model: QuerySide

    def __init__(
        self,
        model: QuerySide,
        base: Encoder,
        rows: Sequence[TuningRow],
        ids: Sequence[QueryIds],
        source: CandidateSource,
        options: TuningOptions,
        *,
        evaluate: Evaluate | None = None,
    ) -> None:
        """Put together what is tuned.

        Args:
            model: the query side.
            base: the encoder that it began as, which encodes with the copies' weights.
            rows: what is learned from.
            ids: the token ids of each row's query.
            source: gives candidates.
            options: the losses.
            evaluate: gives the development score of an encoder.

        Raises:
            TrainingDataError: there are no rows.
        """
        if not rows:
            raise TrainingDataError("there is no row to tune on; give more data, or another --loss")
        self.rows, self._ids = list(rows), list(ids)
        self.sources = sources_of(rows)
        numbers = {source_name: i for i, source_name in enumerate(self.sources)}
        self._source_of = np.array([numbers[row.source] for row in rows], dtype=np.int64)
        self._rows_of = [np.flatnonzero(self._source_of == i) for i in range(len(self.sources))]
        total = options.rows_per_epoch or len(rows)
        self._shares = source_shares([len(each) for each in self._rows_of], options.mixing, total)
        super().__init__(model, sum(self._shares))
        self.base = base
        self.options = options
        self._source = source
        self._orders: dict[int, NDArray[np.int64]] = {}
        self._evaluate = evaluate
        self._retriever: Encoder | None = None
        self._refreshed: dict[str, Tensor] = {}
        self._counts = torch.zeros(options.loop.epochs, len(self.sources), 2, dtype=torch.int64)

    def collate(self, indices: Sequence[int], *, epoch: int) -> TuningBatch:
        """Return the batch of these places of the epoch's rows, on the CPU."""
        chosen = self._order(epoch)[list(indices)].tolist()
        ids, is_token = padded_rows([self._ids[i].ids for i in chosen], self.base.tokenizer.pad_id)
        return TuningBatch(tuple(chosen), torch.from_numpy(ids), torch.from_numpy(is_token))

    def losses(self, batch: TuningBatch, position: Position, processes: Processes) -> LossTerms:
        """Return what the batch costs, with the share of rows that have a right candidate."""
        ids, is_token = batch.ids.to(processes.device), batch.is_token.to(processes.device)
        query = QueryOutput(*(each.float() for each in self.model(ids, is_token)))
        # Scores are sums over hundreds of products of which the softmax takes differences: never in bfloat16.
        begun = self.model.start_vectors(ids, is_token) if self.options.kl else None
        with torch.autocast(processes.device.type, enabled=False):
            return self._losses(batch, query, begun, position)

    def _losses(
        self, batch: TuningBatch, query: QueryOutput, begun: QueryOutput | None, position: Position
    ) -> LossTerms:
        options, device = self.options, query.start.device
        rows = [self.rows[i] for i in batch.rows]
        found = self._source.find(rows, self._vectors_to_search_with(rows, query, position.step))
        self._count(batch, np.any(found.is_right, axis=1).tolist(), position.epoch)
        start, end = _products(query.start, found.start), _products(query.end, found.end)
        is_phrase, is_right = (_tensor(each, device) for each in (found.is_phrase, found.is_right))
        cosines = torch.einsum("bd,bpd->bp", normalize(query.passage.float(), dim=1), _tensor(found.passage, device))
        scored = [(start, end)] if options.scores in ("phrase", "both") else []
        if options.scores in ("fused", "both"):
            scored.append(self._fused(batch, found, start, end, cosines))
        losses = [phrase_loss(*each, is_right, is_phrase, separate_ends=options.separate_ends) for each in scored]
        loss = torch.stack(losses).mean()
        parts: dict[str, Tensor] = {options.loss: loss}
        total = loss
        is_tuned = options.parameters.parameters != "heads" and self.base.config.has_passage_vector
        if options.passage and is_tuned:
            parts["passage_vector"] = marginal_loss(
                cosines / options.passage_temperature,
                _tensor(found.is_right_passage, device),
                _tensor(found.is_passage, device),
            )
            total = total + options.passage * parts["passage_vector"]
        if self._source.reader_fingerprint is not None and options.reader_weight:
            reader, is_read = (_tensor(each, device) for each in (found.reader, found.is_read))
            parts["reader"] = torch.stack([reader_loss(first + last, reader, is_read) for first, last in scored]).mean()
            total = total + options.reader_weight * parts["reader"]
        if begun is not None:
            before = _products(begun.start, found.start) + _products(begun.end, found.end)
            parts["kl"] = closeness_loss(start + end, before, is_phrase)
            total = total + options.kl * parts["kl"]
        if options.l2:
            parts["l2"] = self.model.squared_change()
            total = total + options.l2 * parts["l2"]
        parts["with_right_candidate"] = (is_right & is_phrase).any(dim=1).float().mean()
        return LossTerms(total, parts)

    def _fused(
        self, batch: TuningBatch, found: Candidates, start: Tensor, end: Tensor, cosines: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the two halves of each phrase's fused score, (B, C) each, by its row's weights.

        Half of what passage vectors and lexical search add goes to either end.
        """
        device = start.device
        weights = [self.rows[i].query.weights for i in batch.rows]
        phrase = torch.tensor([each.phrase for each in weights], device=device)[:, None]
        passage = torch.tensor([each.passage for each in weights], device=device)[:, None]
        rest = passage * cosines.gather(1, _tensor(found.passage_of, device)) + _tensor(found.lexical, device)
        return phrase * start + rest / 2, phrase * end + rest / 2

    def evaluate(self, processes: Processes) -> Evaluation | None:  # noqa: ARG002  # every process measures the same
        """Return the development score of the encoder as it is."""
        return None if self._evaluate is None else self._evaluate(self.encoder())

    def encoder(self, deltas: Mapping[str, Tensor] | None = None) -> Encoder:
        """Return an encoder by these deltas or by the present ones, as a search would use it."""
        weights = {name: each.detach().float().cpu() for name, each in self.model.weights(deltas).items()}
        # A fingerprint of the start would be a lie, one of the weights costs time nobody needs before they are stored.
        return self.base.with_query_weights(weights, name="being-tuned", fingerprint="being-tuned")

    def without_right(self) -> dict[str, dict[str, int]]:
        """Return by source how many rows were seen and how many had no right candidate, in the last epoch begun."""
        seen = self._counts.sum(dim=(1, 2)).nonzero().flatten().tolist()
        if not seen:
            return {}
        last = self._counts[seen[-1]].tolist()
        return {
            source: {"seen": n_seen, "without_right_candidate": n_without}
            for source, (n_seen, n_without) in zip(self.sources, last, strict=True)
        }

    def was_taught(self) -> bool:
        """Return whether any row that was seen had a right candidate, or a reader; else steps follow rounding alone."""
        if self._source.reader_fingerprint is not None and self.options.reader_weight:
            return bool(self._counts[..., 0].any())
        return bool((self._counts[..., 0] > self._counts[..., 1]).any())

    def extra_state(self) -> dict[str, Tensor]:
        """Return the retrieving copy and the counts."""
        return {_COUNTS: self._counts, **{_REFRESHED + name: each for name, each in self._refreshed.items()}}

    def load_extra_state(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `extra_state` gave."""
        self._counts = state[_COUNTS].clone()
        self._refreshed = {
            name.removeprefix(_REFRESHED): each for name, each in state.items() if name.startswith(_REFRESHED)
        }
        if self._refreshed:
            device = next(iter(self.model.parameters())).device
            self._retriever = self.encoder({name: each.to(device) for name, each in self._refreshed.items()})

    def fingerprint(self) -> str:
        """Return a text that differs when rows, losses or the start differ."""
        made_by = [self.base.fingerprint, self._source.reader_fingerprint, self.options.to_json()]
        digest = hashlib.sha256(json.dumps(made_by, sort_keys=True).encode())
        for row in self.rows:
            digest.update(repr((row.id, row.source, row.query, sorted(row.answers), sorted(row.doc_ids))).encode())
            digest.update(repr(sorted(row.passages)).encode())
        return digest.hexdigest()

    def _order(self, epoch: int) -> NDArray[np.int64]:
        """Return the rows of the epoch; threads that ask at once draw the same."""
        order = self._orders.get(epoch)
        if order is None:
            rows = [each.tolist() for each in self._rows_of]
            order = epoch_rows(rows, self._shares, seed=self.options.loop.seed, epoch=epoch)
            self._orders = {epoch: order}
        return order

    def _vectors_to_search_with(self, rows: Sequence[TuningRow], query: QueryOutput, step: int) -> QueryVectors:
        """Return the vectors that retrieve: those that are being trained, where no older copy is asked for."""
        if self.options.refresh_steps == 1 and not self.options.dropout:
            start, end, passage = (each.detach().cpu().numpy() for each in query)
            n = len(rows)
            return QueryVectors(start, end, passage, np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.bool_))
        return self._retriever_at(step).encode_queries([row.query.input for row in rows], truncate=True)

    def _retriever_at(self, step: int) -> Encoder:
        """Return the encoder that retrieves at the step: a copy, renewed when its time has come."""
        if self._retriever is None or step % self.options.refresh_steps == 0:
            self._refreshed = {name: each.detach().cpu().clone() for name, each in self.model.deltas().items()}
            self._retriever = self.encoder()
        return self._retriever

    def _count(self, batch: TuningBatch, has_right: Sequence[bool], epoch: int) -> None:
        for row, found in zip(batch.rows, has_right, strict=True):
            self._counts[epoch, self._source_of[row], 0] += 1
            self._counts[epoch, self._source_of[row], 1] += not found


def _products(queries: Tensor, candidates: NDArray[np.float32]) -> Tensor:
    """Return the inner products of queries (B, d) with their own candidates (B, C, d), float32 (B, C)."""
    return torch.einsum("bd,bcd->bc", queries.float(), _tensor(candidates, queries.device))


def _tensor(array: NDArray[Any], device: torch.device) -> Tensor:
    return torch.from_numpy(array).to(device)
