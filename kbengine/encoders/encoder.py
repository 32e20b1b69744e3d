"""The encoder as the rest of kbengine uses it: passages in, token vectors out; queries in, query vectors out."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kbengine.encoders.batch_threads import side_by_side
from kbengine.encoders.checkpoint import fingerprints, read_checkpoint
from kbengine.encoders.config import Architecture, EncoderConfig
from kbengine.encoders.device import DTypeChoice, choose_device, choose_dtype
from kbengine.encoders.location import DEFAULT_ENCODER, locate_encoder
from kbengine.encoders.model import PhraseModel
from kbengine.encoders.onnx_queries import OnnxQueries, can_compute
from kbengine.encoders.passage_windows import EncodedWindow, PassageVectors, PassageWindow, join_windows
from kbengine.encoders.query_input import QueryIds, query_ids
from kbengine.encoders.sparse.checkpoint import has_sparse
from kbengine.encoders.sparse.encoding import SparseEncoder, WindowRows
from kbengine.encoders.tokenization import TextTokenizer, TextTokens
from kbengine.encoders.truecasing import Truecaser, restored
from kbengine.encoders.windows import padded_rows, plan_batches, windows
from kbengine.inputs import TaskInput
from storage.sparse_scores import SparseQuery


@dataclass(frozen=True, slots=True)
class PassageText:
    """A passage and the title of its document, which is read but not stored; the title may be empty."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """n encoded queries.

    Attributes:
        start: float32 (n, d), not normalised.
        end: float32 (n, d), not normalised.
        passage: float32 (n, d), rows L2-normalised (zeros when the encoder has none).
        n_tokens: int64 (n,), tokens encoded, special ones included.
        truncated: bool (n,), whether some of the text was left out.
        sparse: sparse vectors of the n queries; None when the encoder has no sparse heads.
    """

    start: NDArray[np.float32]
    end: NDArray[np.float32]
    passage: NDArray[np.float32]
    n_tokens: NDArray[np.int64]
    truncated: NDArray[np.bool_]
    sparse: tuple[SparseQuery, ...] | None = None


@dataclass(frozen=True, slots=True)
class _BatchCosts:
    """How batches are made on one kind of device: most tokens in one, and what one more costs in tokens."""

    max_tokens: int
    overhead_tokens: int


# On a CPU throughput is flat from 500 tokens on, and larger batches leave its caches; a GPU wants many tokens at once.
_CPU = _BatchCosts(max_tokens=2048, overhead_tokens=24)
_CUDA = _BatchCosts(max_tokens=65536, overhead_tokens=4096)


class Encoder:
    """A phrase encoder ready for use. Nothing in it changes after loading: use it from several threads."""

    def __init__(
        self,
        model: PhraseModel,
        tokenizer: TextTokenizer,
        *,
        name: str,
        fingerprint: str,
        passage_fingerprint: str,
        device: torch.device,
        passage_dtype: torch.dtype,
        prepack: bool = True,
        sparse: SparseEncoder | None = None,
        truecaser: Truecaser | None = None,
        directory: Path | None = None,
        queries: OnnxQueries | None = None,
    ) -> None:
        """Take over the model, for inference only from now on; `load` and `from_model` are the usual ways in.

        Where `queries` are given they compute the query vectors, and the model's query side is let go.
        """
        self.directory = directory
        self._prepack = prepack
        self.name = name
        self.fingerprint = fingerprint
        self.passage_fingerprint = passage_fingerprint
        self.config: EncoderConfig = model.config
        self.device = device
        self.passage_dtype = passage_dtype
        self.tokenizer = tokenizer
        self.sparse = sparse
        self._truecaser = truecaser
        self._queries = queries
        self._model = model.prepare_inference(device, passage_dtype, prepack=prepack, with_queries=queries is None)
        self._costs = _CUDA if device.type == "cuda" else _CPU

    @classmethod
    def load(
        cls,
        name_or_path: str | Path = DEFAULT_ENCODER,
        *,
        device: str = "auto",
        dtype: DTypeChoice = "auto",
        prepack: bool = True,
    ) -> Encoder:
        """Load the encoder of a bundled model or of a model directory.

        Args:
            name_or_path: name of a bundled model, or a directory; `./name` for one called like a bundled model.
            device: "auto", "cpu", "cuda" or "cuda:1".
            dtype: what passages are computed in; "auto" is bfloat16 where the hardware has it. Queries are float32,
                but for "auto" on a CPU and an encoder stored as int8: int8, in ONNX Runtime.
            prepack: keep weights in oneDNN's layout on a CPU (same results, faster).

        Raises:
            EncoderError: there is no such model, or its directory is not whole.
            InvalidOptionError: the device or dtype is not available.
        """
        where = choose_device(device)
        passage_dtype = choose_dtype(dtype, where)
        name, directory = locate_encoder(name_or_path)
        checkpoint = read_checkpoint(directory)
        tokenizer = encoder_tokenizer(checkpoint.tokenizer_json, checkpoint.config, str(directory))
        sparse: SparseEncoder | None = None
        if has_sparse(directory):
            backbone = checkpoint.config.backbone
            sparse = SparseEncoder.load(
                directory,
                checkpoint.tokenizer_json,
                hidden_size=backbone.hidden_size,
                vocab_size=backbone.vocab_size,
                device=where,
            )
        in_int8 = where.type == "cpu" and dtype == "auto" and can_compute(checkpoint.stored)
        return cls(
            checkpoint.model(),
            tokenizer,
            name=name,
            fingerprint=checkpoint.fingerprint,
            passage_fingerprint=checkpoint.passage_fingerprint,
            device=where,
            passage_dtype=passage_dtype,
            prepack=prepack,
            sparse=sparse,
            truecaser=checkpoint.truecaser,
            directory=directory,
            queries=OnnxQueries(checkpoint.stored, checkpoint.config) if in_int8 else None,
        )

    @classmethod
    def from_model(
        cls,
        model: PhraseModel,
        tokenizer_json: str,
        *,
        name: str = "unsaved",
        device: str = "auto",
        dtype: DTypeChoice = "auto",
        truecaser: Truecaser | None = None,
    ) -> Encoder:
        """Return an encoder with a copy of a model's present weights, say in the middle of training."""
        where = choose_device(device)
        weights = {key: tensor.detach().to("cpu", torch.float32) for key, tensor in model.state_dict().items()}
        whole, passages = fingerprints(model.config, tokenizer_json, weights, truecaser)
        return cls(
            copy.deepcopy(model),
            encoder_tokenizer(tokenizer_json, model.config, name),
            name=name,
            fingerprint=whole,
            passage_fingerprint=passages,
            device=where,
            passage_dtype=choose_dtype(dtype, where),
            truecaser=truecaser,
        )

    def without_sparse(self) -> Encoder:
        """Return the same encoder, its model shared, that makes no sparse vectors."""
        plain = copy.copy(self)
        plain.sparse = None
        return plain

    def with_query_weights(self, weights: Mapping[str, Tensor], *, name: str, fingerprint: str) -> Encoder:
        """Return an encoder that shares everything with this one but query modules: its passage vectors are the same.

        Args:
            weights: float32 tensors of whole query modules, as in `PhraseModel.with_query_weights`.
            name: its name.
            fingerprint: what answers made with it carry.
        """
        tuned = copy.copy(self)
        tuned.name, tuned.fingerprint = name, fingerprint
        if self._queries is not None:
            tuned._queries = self._queries.with_weights(weights)
        else:
            tuned._model = self._model.with_query_weights(weights, self.device, prepack=self._prepack)
        return tuned

    def prepare_queries(self) -> None:
        """Make what computes queries now rather than at the first one (60 ms)."""
        if self._queries is not None:
            self._queries.prepare()

    @property
    def query_arithmetic(self) -> Literal["int8", "float32"]:
        """What queries are computed in."""
        return "float32" if self._queries is None else "int8"

    def query_ids(self, inputs: Sequence[TaskInput], *, truncate: bool = False) -> list[QueryIds]:
        """Return the token ids that each query becomes; arguments and errors as of `encode_queries`."""
        inputs = restored(inputs, self._truecaser)
        return query_ids(inputs, self.tokenizer, self.config.max_query_tokens, truncate=truncate)

    @property
    def d(self) -> int:
        """The dimension of all vectors."""
        return self.config.backbone.hidden_size

    @property
    def architecture(self) -> Architecture:
        """The architecture's name."""
        return self.config.architecture

    @property
    def limits(self) -> EncoderConfig:
        """The configuration, which holds the input lengths."""
        return self.config

    @property
    def max_phrase_tokens(self) -> int:
        """The longest phrase the encoder was trained for, in tokens."""
        return self.config.max_phrase_tokens

    def encode_passages(
        self, passages: Sequence[PassageText], *, progress: Callable[[int], None] | None = None
    ) -> list[PassageVectors]:
        """Encode passages: each one's vectors, in order.

        Passages are sorted by length inside: give some 2,000 at once for speed, not a corpus. Long ones are cut into
        overlapping windows; each token comes out once, from the window in which it is most central.

        Args:
            passages: titles and texts.
            progress: called after every batch with the number of tokens encoded in it.

        Raises:
            UsageError: a text is not valid Unicode.
        """
        tokens = self.tokenizer.tokens([passage.text for passage in passages])
        inputs = self._passage_inputs(passages, tokens)
        lengths = np.array([value.n_tokens for value in inputs], dtype=np.int64)
        encoded: list[EncodedWindow | None] = [None] * len(inputs)
        batches = self._plan(lengths)
        of_batches = [[inputs[i] for i in batch.tolist()] for batch in batches]
        compute = side_by_side if self.device.type == "cpu" else map
        for batch, results in zip(batches, compute(self._encode_inputs, of_batches), strict=True):
            for i, result in zip(batch.tolist(), results, strict=True):
                encoded[i] = result
            if progress is not None:
                progress(int(lengths[batch].sum()))
        return join_windows(tokens, inputs, [value for value in encoded if value is not None], self.sparse)

    def encode_queries(self, inputs: Sequence[TaskInput], *, truncate: bool = False) -> QueryVectors:
        """Encode queries of any mixture of kinds: their vectors, in order.

        They are computed in float32 or int8 (`load`); in int8 a query's vectors are the same to the bit in any company.

        Args:
            inputs: questions, slots, mentions, dialogues.
            truncate: cut queries that are too long instead of refusing them; `truncated` tells.

        Raises:
            EmptyQueryError: a query has no text.
            QueryTooLongError: a query is too long and `truncate` is not set.
            QueryError: a query is not valid Unicode or of no known kind.
        """
        queries = self.query_ids(inputs, truncate=truncate)
        n_tokens = np.array([len(query.ids) for query in queries], dtype=np.int64)
        truncated = np.array([query.truncated for query in queries], dtype=np.bool_)
        if self._queries is not None:
            return self._encoded_in_int8(self._queries, queries, n_tokens, truncated)
        start, end, passage = (np.empty((len(queries), self.d), dtype=np.float32) for _ in range(3))
        sparse: list[SparseQuery | None] = [None] * len(queries)
        for batch in self._plan(n_tokens):
            ids, is_token = self._padded([queries[i].ids for i in batch.tolist()])
            with torch.inference_mode():
                states = self._model.query_states(ids, is_token)
                output = self._model.query_output(states, is_token)
                if self.sparse is not None:
                    for i, found in zip(batch.tolist(), self.sparse.queries(states, ids.cpu().numpy()), strict=True):
                        sparse[i] = found
            for array, tensor in zip((start, end, passage), output, strict=True):
                array[batch] = tensor.cpu().numpy()
        of_queries = tuple(each for each in sparse if each is not None) if self.sparse is not None else None
        return QueryVectors(start, end, passage, n_tokens, truncated, of_queries)

    def _encoded_in_int8(
        self,
        compute: OnnxQueries,
        queries: Sequence[QueryIds],
        n_tokens: NDArray[np.int64],
        truncated: NDArray[np.bool_],
    ) -> QueryVectors:
        encoded = compute([query.ids for query in queries])
        start, end, passage = (
            np.array([getattr(each, name) for each in encoded], dtype=np.float32).reshape(-1, self.d)
            for name in ("start", "end", "passage")
        )
        sparse: list[SparseQuery] = []
        if self.sparse is not None:
            with torch.inference_mode():
                for each, query in zip(encoded, queries, strict=True):
                    of_start, of_end = (torch.from_numpy(states)[None] for states in each.states)
                    sparse += self.sparse.queries((of_start, of_end), np.asarray([query.ids], dtype=np.int64))
        of_queries = tuple(sparse) if self.sparse is not None else None
        return QueryVectors(start, end, passage, n_tokens, truncated, of_queries)

    def filter_logits(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the filter head's start and end logits of token vectors, float32 (n, d) → (n, 2)."""
        with torch.inference_mode():
            states = torch.from_numpy(np.ascontiguousarray(vectors, dtype=np.float32)).to(self.device)
            logits: NDArray[np.float32] = self._model.filter_logits(states).cpu().numpy()
        return logits

    def _plan(self, lengths: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        costs = self._costs
        return plan_batches(lengths, max_tokens=costs.max_tokens, overhead_tokens=costs.overhead_tokens)

    def _passage_inputs(self, passages: Sequence[PassageText], tokens: Sequence[TextTokens]) -> list[PassageWindow]:
        """Return the windows of all passages, those of one passage side by side."""
        distinct = list(dict.fromkeys(passage.title for passage in passages))
        cut = self.config.max_title_tokens
        titles = {title: ids[:cut] for title, ids in zip(distinct, self.tokenizer.ids(distinct), strict=True)}
        inputs = []
        for i, passage in enumerate(passages):
            title = titles[passage.title]
            room = self.config.max_passage_tokens - 3 - len(title)
            inputs += [PassageWindow(i, title, tokens[i], window) for window in windows(len(tokens[i].ids), room)]
        return inputs

    def _encode_inputs(self, inputs: Sequence[PassageWindow]) -> list[EncodedWindow]:
        """Return what a batch of inputs gives."""
        cls_id, sep_id = self.tokenizer.cls_id, self.tokenizer.sep_id
        rows = [
            [cls_id, *value.title, sep_id, *value.tokens.ids[value.window.begin : value.window.end].tolist(), sep_id]
            for value in inputs
        ]
        ids, is_token = self._padded(rows)
        own = [value.own_positions for value in inputs]
        sparse: list[WindowRows] | None = None
        with torch.inference_mode():
            states = self._model.passage_states(ids, is_token).float()  # (B, T, H)
            if self.sparse is not None:
                sparse = self.sparse.window_rows(states, ids.cpu().numpy(), own)
            logits = self._model.filter_logits(states).cpu().numpy()  # (B, T, 2)
            means = self._model.passage_vectors(states, is_token).cpu().numpy()  # (B, H)
            vectors = states.cpu().numpy()
        encoded = []
        for row, at in enumerate(own):
            rows_of = None if sparse is None else sparse[row]
            # Copied: a view would keep titles and padding, a third of a batch of short passages, as long as them.
            encoded.append(EncodedWindow(vectors[row, at].copy(), logits[row, at].copy(), means[row], rows_of))
        return encoded

    def _padded(self, rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the ids int64 (B, T) on the device and which are tokens, bool (B, T), or None when all are."""
        ids, is_token = padded_rows(rows, self.tokenizer.pad_id)
        mask = None if is_token.all() else torch.from_numpy(is_token).to(self.device)
        return torch.from_numpy(ids).to(self.device), mask


def encoder_tokenizer(tokenizer_json: str, config: EncoderConfig, source: str) -> TextTokenizer:
    """Return the tokenizer of an encoder, checked against its configuration; `source` is for messages."""
    return TextTokenizer(tokenizer_json, uncased=config.uncased, vocab_size=config.backbone.vocab_size, source=source)
