"""The cross-encoder reader: a query and a passage in, the span that answers out, or that none does."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from kbengine.encoders.device import DTypeChoice, choose_device, choose_dtype
from kbengine.encoders.tokenization import TextTokenizer
from kbengine.encoders.windows import plan_batches
from kbengine.inputs import TaskInput
from kbengine.reading.checkpoint import ReaderDType, read_reader, write_reader
from kbengine.reading.config import ReaderConfig
from kbengine.reading.inputs import Passage, ReaderInput, padded, reader_inputs
from kbengine.reading.location import find_reader
from kbengine.reading.model import CrossEncoder
from kbengine.reading.spans import PassageLogits, best_span, span_probability
from kbengine.span import Span

Float32 = NDArray[np.float32]

# As for the encoders: throughput is flat from 500 tokens on a CPU, a GPU wants many at once.
_MAX_BATCH_TOKENS = {"cpu": 4096, "cuda": 65536}
_OVERHEAD_TOKENS = {"cpu": 24, "cuda": 4096}


@dataclass(frozen=True, slots=True)
class Reading:
    """The best answer in one passage.

    Attributes:
        span: Its characters in the passage; empty when the passage has no token.
        score: Start + end logit; higher is better, comparable within one passage.
        no_answer_score: What the span competes with: the logit that this passage does not answer.
        probability: Of the span among all spans and no answer.
    """

    span: Span
    score: float
    no_answer_score: float
    probability: float

    @property
    def margin(self) -> float:
        """Return `score - no_answer_score`: comparable between passages, above 0 for "answered"."""
        return self.score - self.no_answer_score


class Reader:
    """A cross-encoder ready for use. Nothing in it changes after loading: use it from several threads."""

    def __init__(
        self,
        model: CrossEncoder,
        tokenizer_json: str,
        *,
        fingerprint: str,
        source: str,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        """Take over the model, for inference only from now on; `load` and `from_model` are the usual ways in."""
        self.config: ReaderConfig = model.config
        self.fingerprint = fingerprint
        self.device = device
        self.dtype = dtype
        self.tokenizer = reader_tokenizer(tokenizer_json, model.config, source)
        self._tokenizer_json = tokenizer_json
        self._weights = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
        self._model = model.prepare_inference(device, dtype)

    @classmethod
    def load(cls, directory: str | Path, *, device: str = "auto", dtype: DTypeChoice = "auto") -> Reader:
        """Return a bundled reader, or the one in a directory.

        Args:
            directory: the name of a bundled one, or what `save` or `kbengine train reader` made.
            device: "auto", "cpu", "cuda" or "cuda:1".
            dtype: what it computes in; "auto" is bfloat16 where the hardware has it.

        Raises:
            EncoderError: the directory holds no reader.
            CorruptError: a file is not what was written.
            InvalidOptionError: the device or dtype is not available.
        """
        where = choose_device(device)
        computed_in = choose_dtype(dtype, where)
        checkpoint = read_reader(find_reader(directory))
        return cls(
            checkpoint.model(),
            checkpoint.tokenizer_json,
            fingerprint=checkpoint.fingerprint,
            source=str(directory),
            device=where,
            dtype=computed_in,
        )

    @classmethod
    def from_model(
        cls, model: CrossEncoder, tokenizer_json: str, *, device: str = "auto", dtype: DTypeChoice = "auto"
    ) -> Reader:
        """Return a reader with a copy of a model's present weights, say in the middle of training."""
        where = choose_device(device)
        return cls(
            copy.deepcopy(model),
            tokenizer_json,
            fingerprint="unsaved",
            source="unsaved",
            device=where,
            dtype=choose_dtype(dtype, where),
        )

    def save(self, directory: str | Path, *, dtype: ReaderDType = "float16") -> None:
        """Write the reader durably to the directory, which must not exist before.

        Raises:
            EncoderError: the directory exists.
            StorageFullError: no space; nothing is left behind.
        """
        write_reader(Path(directory), self.config, self._tokenizer_json, self._weights, dtype=dtype)

    def read(
        self, queries: Sequence[TaskInput], passages: Sequence[Passage], *, truncate: bool = False
    ) -> list[Reading]:
        """Return the best answer of each query in its passage, in order, whether or not it beats "no answer".

        Args:
            queries: one for each passage.
            passages: texts, or `PassageText` with titles. Long ones are read in overlapping windows.
            truncate: cut queries that are too long instead of refusing them.

        Raises:
            QueryError: a query is empty, or too long and `truncate` is not set.
            UsageError: there are not as many queries as passages.
        """
        return [self._reading(logits) for logits in self.logits(queries, passages, truncate=truncate)]

    def passage_logits(
        self, queries: Sequence[TaskInput], passages: Sequence[Passage]
    ) -> list[tuple[Float32, Float32]]:
        """Return start and end logits, float32 (T,) each, of every passage's T wordpieces: the teacher's view (Eq. 7).

        Title, query and special tokens are left out; queries that are too long are cut, as in training.
        """
        return [(logits.start, logits.end) for logits in self.logits(queries, passages, truncate=True)]

    def logits(
        self,
        queries: Sequence[TaskInput],
        passages: Sequence[Passage],
        *,
        truncate: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> list[PassageLogits]:
        """Return all that the reader says about each pair, in order; arguments and errors as of `read`.

        Pairs are sorted by length inside: give some hundreds at once for speed. `progress` is called after every batch
        with the number of inputs in it.
        """
        inputs = reader_inputs(queries, passages, self.tokenizer, self.config, truncate=truncate)
        lengths = np.array([each.n_tokens for each in inputs], dtype=np.int64)
        kind = self.device.type
        batches = plan_batches(lengths, max_tokens=_MAX_BATCH_TOKENS[kind], overhead_tokens=_OVERHEAD_TOKENS[kind])
        found: list[tuple[Float32, float] | None] = [None] * len(inputs)
        for batch in batches:
            members = batch.tolist()
            logits, relevance = self._forward([inputs[i] for i in members])
            for row, i in enumerate(members):
                found[i] = logits[row], float(relevance[row])
            if progress is not None:
                progress(len(members))
        return _collect(inputs, [each for each in found if each is not None])

    def _forward(self, inputs: Sequence[ReaderInput]) -> tuple[Float32, Float32]:
        """Return the logits, float32 (B, T, 2), and the relevance, float32 (B,)."""
        arrays = padded(inputs, self.tokenizer, self.config)
        ids, types = (torch.from_numpy(array).to(self.device) for array in (arrays.ids, arrays.types))
        is_token = None if arrays.is_token is None else torch.from_numpy(arrays.is_token).to(self.device)
        with torch.inference_mode():
            output = self._model(ids, types, is_token)
        return output.logits.cpu().numpy(), output.relevance.cpu().numpy()

    def _reading(self, logits: PassageLogits) -> Reading:
        longest = self.config.max_answer_tokens
        best = best_span(logits.start, logits.end, max_tokens=longest)
        if best is None:
            return Reading(Span(0, 0), logits.no_answer, logits.no_answer, 0.0)
        span = Span(int(logits.starts[best.first]), int(logits.ends[best.last]))
        probability = span_probability(logits, best.score, max_tokens=longest)
        return Reading(span, best.score, logits.no_answer, probability)


def reader_tokenizer(tokenizer_json: str, config: ReaderConfig, source: str) -> TextTokenizer:
    """Return the reader's tokenizer; EncoderError when it does not fit the configuration."""
    return TextTokenizer(tokenizer_json, uncased=config.uncased, vocab_size=config.backbone.vocab_size, source=source)


def _collect(inputs: Sequence[ReaderInput], outputs: Sequence[tuple[Float32, float]]) -> list[PassageLogits]:
    """Return one result for each pair from those of its windows."""
    results = []
    for _, pairs in groupby(zip(inputs, outputs, strict=True), key=lambda pair: pair[0].pair):
        windows, of_windows = zip(*pairs, strict=True)
        own = np.concatenate([found[each.own] for each, (found, _) in zip(windows, of_windows, strict=True)])  # (T, 2)
        # SQuAD 2.0's rule for windows: the passage answers if one of its windows does.
        no_answer = min(float(found[0].sum()) for found, _ in of_windows)
        relevance = max(relevance for _, relevance in of_windows)
        start, end = (np.ascontiguousarray(side) for side in own.T)
        results.append(
            PassageLogits(start, end, no_answer, relevance, windows[0].tokens.starts, windows[0].tokens.ends)
        )
    return results
