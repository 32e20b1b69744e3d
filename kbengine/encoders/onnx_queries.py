"""Query encoders in ONNX Runtime: int8 products, each text by itself, as many at once as there are cores."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kbengine.encoders.config import BackboneConfig, EncoderConfig
from kbengine.encoders.embedding_rows import EmbeddingRows
from kbengine.encoders.onnx_layers import OnnxLayers
from kbengine.encoders.onnx_model import OnnxModel
from kbengine.encoders.onnx_session import adds_int8_exactly, open_session, side_by_side
from kbengine.encoders.packing import unpack_all

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Float32 = NDArray[np.float32]

_TOWERS = {"shared-query": ("query_encoder",), "three-tower": ("query_start_encoder", "query_end_encoder")}
_HEADS = ("query_start_head", "query_end_head")
_LEAST_NORM = 1e-12


class EncodedText(NamedTuple):
    """One query of T tokens: its three vectors float32 (d,), the last of norm 1 or all zeros, and its hidden states.

    The states are float32 (T, d) for the start and the end side; the same array where one encoder makes both.
    """

    start: Float32
    end: Float32
    passage: Float32
    states: tuple[Float32, Float32]


class OnnxQueries:
    """Query encoders in ONNX Runtime. A text's vectors are the same to the bit whatever is encoded beside it."""

    def __init__(self, stored: Mapping[str, Tensor], config: EncoderConfig, *, signed: bool | None = None) -> None:
        """Take an encoder's tensors; the graphs are made of them at the first query, or by `prepare`.

        Args:
            stored: as they are stored (`kbengine.encoders.packing`): the query side and what it shares.
            config: the encoder's configuration.
            signed: how weights are written (`OnnxLayers`); by default as this processor wants it.
        """
        self._config = config
        signed = adds_int8_exactly() if signed is None else signed
        self._towers = tuple(
            _Tower.of(stored, name, config.backbone, signed=signed) for name in _TOWERS[config.architecture]
        )
        self._heads = {name: _Head.of(stored, name) for name in _HEADS if f"{name}.weight" in stored}

    def __call__(self, texts: Sequence[Sequence[int]]) -> list[EncodedText]:
        """Return each query's vectors, given the token ids of each."""
        # Longest first, so that no core has a long text left while the others have nothing to do.
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        found = dict(zip(order, side_by_side(self._one, [texts[i] for i in order]), strict=True))
        return [found[i] for i in range(len(texts))]

    def prepare(self) -> None:
        """Make the graphs now rather than at the first query."""
        for tower in self._towers:
            _ = tower.session

    def with_weights(self, weights: Mapping[str, Tensor]) -> OnnxQueries:
        """Return queries that share everything with these but the modules of these float32 weights.

        What tuning adds to a weight is often less than half a step of int8 and would be rounded away: matrices that are
        no int8 ones keep 15 bits (`OnnxLayers`).

        Args:
            weights: whole query modules, as in `PhraseModel.with_query_weights`.
        """
        tuned = copy.copy(self)
        tuned._towers = tuple(
            tower.with_weights(weights) if any(each.startswith(f"{tower.name}.encoder.") for each in weights) else tower
            for tower in self._towers
        )
        changed = {name: _Head.of(weights, name) for name in self._heads if f"{name}.weight" in weights}
        tuned._heads = self._heads | changed
        return tuned

    def _one(self, ids: Sequence[int]) -> EncodedText:
        states = [tower(ids) for tower in self._towers]
        start, end = states[0], states[-1]
        vectors = (start[0], end[0])
        if self._heads:
            vectors = (self._heads[_HEADS[0]](start[0]), self._heads[_HEADS[1]](end[0]))
        return EncodedText(*vectors, self._pooled(states), (start, end))

    def _pooled(self, states: Sequence[Float32]) -> Float32:
        if not self._config.has_passage_vector:
            return np.zeros(states[0].shape[1], dtype=np.float32)
        mean = np.mean([each.mean(axis=0) for each in states], axis=0)
        pooled: Float32 = (mean / max(float(np.linalg.norm(mean)), _LEAST_NORM)).astype(np.float32)
        return pooled


def can_compute(stored: Mapping[str, Tensor]) -> bool:
    """Return whether the query encoders are stored as int8: then ONNX Runtime computes with exactly these weights."""
    names = tuple(f"{name}.encoder." for towers in _TOWERS.values() for name in towers)
    return any(tensor.dtype == torch.int8 for name, tensor in stored.items() if name.startswith(names))


@dataclass(frozen=True)
class _Tower:
    """One query encoder: token ids in, hidden states float32 (T, d) out."""

    name: str
    embeddings: EmbeddingRows
    norms: Mapping[str, Tensor]
    weights: Mapping[str, Tensor]
    backbone: BackboneConfig
    signed: bool

    @classmethod
    def of(cls, stored: Mapping[str, Tensor], name: str, backbone: BackboneConfig, *, signed: bool) -> _Tower:
        own = f"{name}.embeddings."
        prefix = own if f"{own}LayerNorm.weight" in stored else "embeddings."
        norms = {key: each for key, each in stored.items() if key.startswith(f"{prefix}LayerNorm.")}
        return cls(name, EmbeddingRows(stored, prefix), norms, stored, backbone, signed)

    def with_weights(self, weights: Mapping[str, Tensor]) -> _Tower:
        """Return the tower with other layers; embeddings are not tuned."""
        return replace(self, weights={**weights, **self.norms})

    @cached_property
    def session(self) -> InferenceSession:
        """What computes, made when it is first asked for: a build encodes no query."""
        return open_session(query_graph(self.weights, self.name, self.backbone, signed=self.signed))

    def __call__(self, ids: Sequence[int]) -> Float32:
        given = np.asarray(ids, dtype=np.int64)
        (states,) = self.session.run(None, {"embedded": self.embeddings(given, np.zeros_like(given))})
        found: Float32 = states[0]
        return found


@dataclass(frozen=True)
class _Head:
    """A linear layer over [CLS], float32 whatever it is stored in: it takes a fiftieth of a query's time."""

    weight: Float32
    bias: Float32

    @classmethod
    def of(cls, stored: Mapping[str, Tensor], name: str) -> _Head:
        names = [each for each in stored if each.startswith(f"{name}.")]
        plain = unpack_all({each: stored[each] for each in names}, Path(name))
        return cls(plain[f"{name}.weight"].numpy(), plain[f"{name}.bias"].numpy())

    def __call__(self, cls_state: Float32) -> Float32:
        product: Float32 = self.weight @ cls_state + self.bias
        return product


def query_graph(stored: Mapping[str, Tensor], name: str, backbone: BackboneConfig, *, signed: bool) -> bytes:
    """Return the ONNX file's bytes of a query encoder, from summed embeddings to the last hidden states."""
    own = f"{name}.embeddings."
    model = OnnxModel()
    layers = OnnxLayers(model, stored, backbone, signed=signed, remainders=True)
    embedded = layers.embedded(prefix=own if f"{own}LayerNorm.weight" in stored else "embeddings.")
    states = layers.stack(embedded, f"{name}.encoder.")
    shape = (1, "T", backbone.hidden_size)
    return model.to_bytes({"embedded": shape}, {states: shape})
