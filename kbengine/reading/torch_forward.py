"""A reader's model in torch: batches of inputs of similar length, on a CPU or a GPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from kbengine.encoders.tokenization import TextTokenizer
from kbengine.encoders.windows import plan_batches
from kbengine.reading.forward import InputLogits, Progress
from kbengine.reading.inputs import ReaderInput, padded
from kbengine.reading.model import CrossEncoder

# As for the encoders: throughput is flat from 500 tokens on a CPU, a GPU wants many at once.
_MAX_BATCH_TOKENS = {"cpu": 4096, "cuda": 65536}
_OVERHEAD_TOKENS = {"cpu": 24, "cuda": 4096}


class TorchForward:
    """A cross-encoder in torch, for inference only. Nothing in it changes: use it from several threads."""

    def __init__(
        self, model: CrossEncoder, tokenizer: TextTokenizer, *, device: torch.device, dtype: torch.dtype
    ) -> None:
        """Take over the model."""
        self._config = model.config
        self._tokenizer, self._device = tokenizer, device
        self._model = model.prepare_inference(device, dtype)

    def __call__(self, inputs: Sequence[ReaderInput], progress: Progress | None = None) -> list[InputLogits]:
        """Return the logits of each input, in order; `progress` is called after every batch."""
        lengths = np.array([each.n_tokens for each in inputs], dtype=np.int64)
        kind = self._device.type
        batches = plan_batches(lengths, max_tokens=_MAX_BATCH_TOKENS[kind], overhead_tokens=_OVERHEAD_TOKENS[kind])
        found: dict[int, InputLogits] = {}
        for batch in batches:
            members = batch.tolist()
            found.update(zip(members, self._batch([inputs[i] for i in members]), strict=True))
            if progress is not None:
                progress(len(members))
        return [found[i] for i in range(len(inputs))]

    def _batch(self, inputs: Sequence[ReaderInput]) -> list[InputLogits]:
        arrays = padded(inputs, self._tokenizer, self._config)
        ids, types = (torch.from_numpy(array).to(self._device) for array in (arrays.ids, arrays.types))
        is_token = None if arrays.is_token is None else torch.from_numpy(arrays.is_token).to(self._device)
        with torch.inference_mode():
            output = self._model(ids, types, is_token)
        rows = zip(output.logits.cpu().numpy(), output.relevance.cpu().tolist(), strict=True)  # (B, T, …), (B,)
        return [InputLogits(logits, relevance) for logits, relevance in rows]
