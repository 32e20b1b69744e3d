"""The judge: claims and passages in, SUPPORTS or REFUTES out, with a probability and what each passage contributes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from kbengine.encoders.device import DTypeChoice, choose_device, choose_dtype
from kbengine.encoders.packing import WeightsDType
from kbengine.encoders.windows import plan_batches
from kbengine.errors import UsageError
from kbengine.inputs import Question
from kbengine.reading.inputs import Passage, ReaderInput, padded, reader_inputs
from kbengine.reading.reader import reader_tokenizer
from kbengine.verdicts.checkpoint import VerdictConfig, read_verdict_model, write_verdict_model
from kbengine.verdicts.model import VerdictNetwork
from kbengine.verdicts.verdict import Judgement, judgement_of

Float32 = NDArray[np.float32]

# As for the reader.
_MAX_BATCH_TOKENS = {"cpu": 4096, "cuda": 65536}
_OVERHEAD_TOKENS = {"cpu": 24, "cuda": 4096}


class Judge:
    """A verdict model ready for use. Nothing in it changes after loading: use it from several threads."""

    def __init__(
        self,
        config: VerdictConfig,
        tokenizer_json: str,
        model: VerdictNetwork,
        *,
        fingerprint: str,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        """Take over the model; `load` and `from_model` are the usual ways in."""
        self.config = config
        self.fingerprint = fingerprint
        self.device = device
        self._tokenizer_json = tokenizer_json
        self._tokenizer = reader_tokenizer(tokenizer_json, config.reader, "the verdict model")
        self._weights = {name: tensor.detach().to("cpu", copy=True) for name, tensor in model.state_dict().items()}
        self._model = model.prepare_inference(device, dtype)

    @classmethod
    def load(cls, directory: str | Path, *, device: str = "auto", dtype: DTypeChoice = "auto") -> Judge:
        """Return the judge in a directory that `save` or `kbengine train verdict` made.

        Raises:
            EncoderError: the directory holds no verdict model.
            CorruptError: a file is not what was written.
            InvalidOptionError: the device or dtype is not available.
        """
        where = choose_device(device)
        found = read_verdict_model(Path(directory).expanduser())
        computed_in = choose_dtype(dtype, where)
        return cls(
            found.config,
            found.tokenizer_json,
            found.model(),
            fingerprint=found.fingerprint,
            device=where,
            dtype=computed_in,
        )

    @classmethod
    def from_model(
        cls,
        model: VerdictNetwork,
        tokenizer_json: str,
        *,
        n_passages: int = 5,
        device: str = "auto",
        dtype: DTypeChoice = "auto",
    ) -> Judge:
        """Return a judge with a copy of a model's present weights, say in the middle of training."""
        where = choose_device(device)
        return cls(
            VerdictConfig(model.config, n_passages),
            tokenizer_json,
            copy.deepcopy(model),
            fingerprint="unsaved",
            device=where,
            dtype=choose_dtype(dtype, where),
        )

    @property
    def n_passages(self) -> int:
        """Return how many of the best passages found for a claim should be given."""
        return self.config.n_passages

    def save(self, directory: str | Path, *, dtype: WeightsDType = "float16", card: str = "") -> None:
        """Write the model durably to the directory, which must not exist before; arguments as of its checkpoint.

        Raises:
            EncoderError: the directory exists.
            StorageFullError: no space; nothing is left behind.
        """
        write_verdict_model(Path(directory), self.config, self._tokenizer_json, self._weights, dtype=dtype, card=card)

    def judge(
        self, claims: Sequence[Question], passages: Sequence[Sequence[Passage]], *, truncate: bool = False
    ) -> list[Judgement | None]:
        """Return what the passages say about each claim, in order; None for a claim that came without any.

        Args:
            claims: statements, as questions are asked.
            passages: those of each claim: texts, or `PassageText` with titles. Long ones are read in windows.
            truncate: cut claims that are too long instead of refusing them.

        Raises:
            QueryError: a claim is empty, or too long and `truncate` is not set.
            UsageError: there are not as many claims as lists of passages.
        """
        if len(claims) != len(passages):
            raise UsageError(f"{len(claims)} claims came with {len(passages)} lists of passages, wanted one a claim")
        owners = [(number, place) for number, own in enumerate(passages) for place in range(len(own))]
        inputs = reader_inputs(
            [claims[number] for number, _ in owners],
            [passages[number][place] for number, place in owners],
            self._tokenizer,
            self.config.reader,
            truncate=truncate,
        )
        log_odds, relevance = self._scores(inputs)
        found: list[Judgement | None] = [None] * len(claims)
        for number, rows in groupby(range(len(inputs)), key=lambda row: owners[inputs[row].pair][0]):
            own = list(rows)
            places = [owners[inputs[row].pair][1] for row in own]
            found[number] = judgement_of(log_odds[own], relevance[own], places)
        return found

    def _scores(self, inputs: Sequence[ReaderInput]) -> tuple[Float32, Float32]:
        """Return log-odds and relevance of each input, float32 (n,) each."""
        lengths = np.array([each.n_tokens for each in inputs], dtype=np.int64)
        kind = self.device.type
        log_odds, relevance = (np.zeros(len(inputs), dtype=np.float32) for _ in range(2))
        for members in plan_batches(
            lengths, max_tokens=_MAX_BATCH_TOKENS[kind], overhead_tokens=_OVERHEAD_TOKENS[kind]
        ):
            arrays = padded([inputs[i] for i in members.tolist()], self._tokenizer, self.config.reader)
            ids, types = (torch.from_numpy(array).to(self.device) for array in (arrays.ids, arrays.types))
            is_token = None if arrays.is_token is None else torch.from_numpy(arrays.is_token).to(self.device)
            with torch.inference_mode():
                output = self._model(ids, types, is_token)
            log_odds[members], relevance[members] = (each.cpu().numpy() for each in output)
        return log_odds, relevance
