"""A reader's model in ONNX Runtime: int8 products, each input by itself, as many at once as there are cores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from kbengine.encoders.embedding_rows import EmbeddingRows
from kbengine.encoders.onnx_layers import OnnxLayers
from kbengine.encoders.onnx_model import OnnxModel
from kbengine.encoders.onnx_session import adds_int8_exactly, open_session, side_by_side
from kbengine.encoders.tokenization import TextTokenizer
from kbengine.reading.config import ReaderConfig
from kbengine.reading.forward import InputLogits, Progress
from kbengine.reading.inputs import ReaderInput, padded

_HEADS = ("qa_outputs", "pair_outputs", "relevance_output")


class OnnxForward:
    """A cross-encoder in ONNX Runtime. An input's logits are the same to the bit whatever is read beside it."""

    def __init__(
        self,
        stored: Mapping[str, Tensor],
        config: ReaderConfig,
        tokenizer: TextTokenizer,
        *,
        signed: bool | None = None,
    ) -> None:
        """Make the graph of the tensors.

        Args:
            stored: a reader's tensors as they are stored (`kbengine.encoders.packing`).
            config: its configuration.
            tokenizer: its tokenizer.
            signed: how weights are written (`OnnxLayers`); by default as this processor wants it.
        """
        self._config, self._tokenizer = config, tokenizer
        self._embeddings = EmbeddingRows(stored)
        self._session = open_session(
            reader_graph(stored, config, signed=adds_int8_exactly() if signed is None else signed)
        )

    def __call__(self, inputs: Sequence[ReaderInput], progress: Progress | None = None) -> list[InputLogits]:
        """Return the logits of each input, in order; `progress` is called after every input."""
        longest_first = sorted(range(len(inputs)), key=lambda i: -inputs[i].n_tokens)
        found: dict[int, InputLogits] = {}
        for i, result in zip(longest_first, side_by_side(self._one, [inputs[i] for i in longest_first]), strict=True):
            found[i] = result
            if progress is not None:
                progress(1)
        return [found[i] for i in range(len(inputs))]

    def _one(self, given: ReaderInput) -> InputLogits:
        arrays = padded([given], self._tokenizer, self._config)
        embedded = self._embeddings(arrays.ids[0], arrays.types[0])
        (logits,) = self._session.run(None, {"embedded": embedded})  # (1, T, 2 + 2 pair_size + 1)
        return InputLogits(logits[0, :, :-1], float(logits[0, 0, -1]))


def reader_graph(stored: Mapping[str, Tensor], config: ReaderConfig, *, signed: bool) -> bytes:
    """Return the ONNX file's bytes of a reader, from summed embeddings to logits and relevance of each token."""
    model = OnnxModel()
    layers = OnnxLayers(model, stored, config.backbone, signed=signed)
    states = layers.stack(layers.embedded())
    heads = tuple(name for name in _HEADS if f"{name}.bias" in stored)
    layers.linear(states, heads, "logits")
    n_out = 3 + 2 * config.pair_size
    return model.to_bytes({"embedded": (1, "T", config.backbone.hidden_size)}, {"logits": (1, "T", n_out)})
