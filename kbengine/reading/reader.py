"""The cross-encoder reader: a query and a passage in, the span that answers out, or that none does."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kbengine.encoders.device import DTypeChoice, choose_device, choose_dtype
from kbengine.encoders.packing import WeightsDType, unpack_all
from kbengine.encoders.tokenization import TextTokenizer
from kbengine.inputs import TaskInput
from kbengine.reading.checkpoint import read_reader, write_reader
from kbengine.reading.config import ReaderConfig
from kbengine.reading.forward import Forward, InputLogits, Runtime, RuntimeChoice, choose_runtime
from kbengine.reading.inputs import Passage, ReaderInput, reader_inputs
from kbengine.reading.location import find_reader
from kbengine.reading.model import CrossEncoder
from kbengine.reading.onnx_forward import OnnxForward
from kbengine.reading.spans import PassageLogits
from kbengine.reading.torch_forward import TorchForward
from kbengine.span import Span

Float32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Reading:
    """The best answer in one passage.

    Attributes:
        span: Its characters in the passage; empty when the passage has no token.
        score: Of the span (`PassageLogits.score`); higher is better, comparable within one passage.
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
        config: ReaderConfig,
        tokenizer_json: str,
        tokenizer: TextTokenizer,
        forward: Forward,
        stored: Mapping[str, Tensor],
        *,
        fingerprint: str,
        runtime: Runtime,
        device: torch.device,
    ) -> None:
        """Take over what computes; `load` and `from_model` are the usual ways in.

        Args:
            config: its configuration.
            tokenizer_json: the text of its `tokenizer.json`, for `save`.
            tokenizer: its tokenizer.
            forward: what computes the logits.
            stored: its tensors, as they are stored, for `save`.
            fingerprint: of all its files.
            runtime: what `forward` computes with.
            device: where.
        """
        self.config = config
        self.tokenizer = tokenizer
        self.fingerprint = fingerprint
        self.runtime: Runtime = runtime
        self.device = device
        self._forward = forward
        self._stored = stored
        self._tokenizer_json = tokenizer_json

    @classmethod
    def load(
        cls,
        directory: str | Path,
        *,
        device: str = "auto",
        dtype: DTypeChoice = "auto",
        runtime: RuntimeChoice = "auto",
    ) -> Reader:
        """Return a bundled reader, or the one in a directory.

        Args:
            directory: the name of a bundled one, or what `save` or `kbengine train reader` made.
            device: "auto", "cpu", "cuda" or "cuda:1".
            dtype: what torch computes in; "auto" is bfloat16 where the hardware has it.
            runtime: "onnx" (int8 on a CPU), "torch", or "auto": ONNX Runtime on a CPU for a reader stored as int8,
                where no dtype is asked for.

        Raises:
            EncoderError: the directory holds no reader.
            CorruptError: a file is not what was written.
            InvalidOptionError: the device, dtype or runtime is not available.
        """
        where = choose_device(device)
        computed_in = choose_dtype(dtype, where)
        checkpoint = read_reader(find_reader(directory))
        config, stored = checkpoint.config, checkpoint.stored
        chosen = choose_runtime(runtime, dtype, where, stored)
        tokenizer = reader_tokenizer(checkpoint.tokenizer_json, config, str(directory))
        forward: Forward
        if chosen == "onnx":
            forward = OnnxForward(stored, config, tokenizer)
        else:
            forward = TorchForward(checkpoint.model(), tokenizer, device=where, dtype=computed_in)
        return cls(
            config,
            checkpoint.tokenizer_json,
            tokenizer,
            forward,
            stored,
            fingerprint=checkpoint.fingerprint,
            runtime=chosen,
            device=where,
        )

    @classmethod
    def from_model(
        cls, model: CrossEncoder, tokenizer_json: str, *, device: str = "auto", dtype: DTypeChoice = "auto"
    ) -> Reader:
        """Return a reader with a copy of a model's present weights, say in the middle of training."""
        where = choose_device(device)
        weights = {name: tensor.detach().to("cpu", copy=True) for name, tensor in model.state_dict().items()}
        tokenizer = reader_tokenizer(tokenizer_json, model.config, "unsaved")
        forward = TorchForward(copy.deepcopy(model), tokenizer, device=where, dtype=choose_dtype(dtype, where))
        return cls(
            model.config,
            tokenizer_json,
            tokenizer,
            forward,
            weights,
            fingerprint="unsaved",
            runtime="torch",
            device=where,
        )

    def save(
        self, directory: str | Path, *, dtype: WeightsDType = "float16", share_embeddings: str | None = None
    ) -> None:
        """Write the reader durably to the directory, which must not exist before; arguments as of `write_reader`.

        Raises:
            EncoderError: the directory exists, or the embeddings to share are not the reader's.
            StorageFullError: no space; nothing is left behind.
        """
        write_reader(
            Path(directory),
            self.config,
            self._tokenizer_json,
            unpack_all(self._stored, Path(directory)),
            dtype=dtype,
            share_embeddings=share_embeddings,
        )

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
        return _collect(inputs, self._forward(inputs, progress))

    def _reading(self, logits: PassageLogits) -> Reading:
        longest = self.config.max_answer_tokens
        found = logits.best(max_tokens=longest, n=1)
        if not found:
            return Reading(Span(0, 0), logits.no_answer, logits.no_answer, 0.0)
        best = found[0]
        span = Span(int(logits.starts[best.first]), int(logits.ends[best.last]))
        probability = logits.probability(best.score, max_tokens=longest)
        return Reading(span, best.score, logits.no_answer, probability)


def reader_tokenizer(tokenizer_json: str, config: ReaderConfig, source: str) -> TextTokenizer:
    """Return the reader's tokenizer; EncoderError when it does not fit the configuration."""
    return TextTokenizer(tokenizer_json, uncased=config.uncased, vocab_size=config.backbone.vocab_size, source=source)


def _collect(inputs: Sequence[ReaderInput], outputs: Sequence[InputLogits]) -> list[PassageLogits]:
    """Return one result for each pair from those of its windows."""
    results = []
    for _, of_pair in groupby(zip(inputs, outputs, strict=True), key=lambda pair: pair[0].pair):
        windows, of_windows = zip(*of_pair, strict=True)
        own = np.concatenate([found[each.own] for each, (found, _) in zip(windows, of_windows, strict=True)])  # (T, …)
        # SQuAD 2.0's rule for windows: the passage answers if one of its windows does.
        no_answer = min(float(found[0, :2].sum()) for found, _ in of_windows)
        relevance = max(relevance for _, relevance in of_windows)
        start, end = (np.ascontiguousarray(side) for side in own[:, :2].T)
        size = own.shape[1] // 2 - 1
        pairs = np.stack([own[:, 2 : 2 + size], own[:, 2 + size :]])  # (2, T, P)
        tokens = windows[0].tokens
        results.append(PassageLogits(start, end, no_answer, relevance, tokens.starts, tokens.ends, pairs))
    return results
