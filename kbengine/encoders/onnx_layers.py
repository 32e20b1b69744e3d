"""The BERT layers as a graph for ONNX Runtime: products of int8 weights with tokens that are rounded to 8 bits.

Each token is rounded by its own largest value, so that neither its neighbours nor what else is computed change it (one
scale for a whole text moves a third of a cross-encoder's best spans). Products are summed exactly in int32; attention,
GELU and normalisation are float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from kbengine.encoders.config import BackboneConfig
from kbengine.encoders.onnx_model import MICROSOFT, OnnxModel
from kbengine.encoders.packing import SCALE, pack

Int8 = NDArray[np.int8]
Float32 = NDArray[np.float32]

_ZERO_POINT = 128
_LARGEST = 127
_SMALLEST_SCALE = 1e-30


class OnnxLayers:
    """Adds BERT's parts to a graph over one text: names of float32 (1, T, H) in, names out."""

    def __init__(
        self,
        model: OnnxModel,
        stored: Mapping[str, Tensor],
        backbone: BackboneConfig,
        *,
        signed: bool,
        remainders: bool = False,
    ) -> None:
        """Take the weights as they are stored; float matrices are rounded to int8 here.

        Args:
            model: the graph.
            stored: tensors by name, int8 ones with their scales.
            backbone: shape of the stack.
            signed: whether weights are written as int8: right where the processor adds products of uint8 and int8
                without saturation, else as uint8, which every processor adds exactly.
            remainders: whether what rounding leaves of float matrices is rounded and multiplied as well: 15 bits a
                weight, for twice the products.
        """
        self._model, self._stored, self._backbone, self._signed = model, stored, backbone, signed
        self._remainders = remainders
        self._rounded: dict[str, tuple[str, str]] = {}
        length = model.node("Shape", ["embedded"], "length", start=1, end=2)
        self._zero_point = model.constant("zero_point", np.array([_ZERO_POINT], dtype=np.uint8))
        self._zero_points = model.node("Expand", [self._zero_point, length], "zero_points")

    def embedded(self, name: str = "embedded", prefix: str = "embeddings.") -> str:
        """Return the normalised embeddings, given their sum."""
        return self._normalised(name, f"{prefix}LayerNorm", "embedded.normalised")

    def stack(self, states: str, prefix: str = "encoder.") -> str:
        """Return the last hidden states."""
        for i in range(self._backbone.num_hidden_layers):
            states = self._layer(states, f"{prefix}layer.{i}.")
        return states

    def linear(self, states: str, names: tuple[str, ...], out: str) -> str:
        """Return float32 products with small heads, side by side in one output, their biases added."""
        weight = np.concatenate([self._float(f"{name}.weight") for name in names])
        bias = np.concatenate([self._float(f"{name}.bias") for name in names])
        model = self._model
        product = model.node("MatMul", [states, model.constant(f"{out}.weight", weight.T)], f"{out}.product")
        return model.node("Add", [product, model.constant(f"{out}.bias", bias)], out)

    def _layer(self, states: str, prefix: str) -> str:
        model = self._model
        attention = f"{prefix}attention."
        names = [f"{attention}self.{each}" for each in ("query", "key", "value")]
        qkv = self._product(states, names, f"{attention}qkv")
        qkv = model.node("Add", [qkv, self._bias(names, f"{attention}qkv.bias")], f"{attention}qkv.added")
        thirds = model.constant("thirds", np.full(3, self._backbone.hidden_size, dtype=np.int64))
        model.node("Split", [qkv, thirds], *names, axis=2)
        n_heads = self._backbone.num_attention_heads
        attended = model.node("MultiHeadAttention", names, f"{attention}attended", domain=MICROSOFT, num_heads=n_heads)
        states = self._added(states, attended, f"{attention}output")
        widened = self._product(states, [f"{prefix}intermediate.dense"], f"{prefix}widened")
        bias = self._bias([f"{prefix}intermediate.dense"], f"{prefix}intermediate.dense.bias")
        widened = model.node("BiasGelu", [widened, bias], f"{prefix}gelu", domain=MICROSOFT)
        return self._added(states, widened, f"{prefix}output")

    def _added(self, residual: str, inputs: str, name: str) -> str:
        """Return the inputs projected, added to the residual and normalised (not fused: five times as slow)."""
        model = self._model
        product = self._product(inputs, [f"{name}.dense"], f"{name}.product")
        product = model.node("Add", [product, self._bias([f"{name}.dense"], f"{name}.dense.bias")], f"{name}.biased")
        total = model.node("Add", [residual, product], f"{name}.sum")
        return self._normalised(total, f"{name}.LayerNorm", f"{name}.normalised")

    def _normalised(self, states: str, name: str, out: str) -> str:
        model = self._model
        weight, bias = (model.constant(f"{name}.{each}", self._float(f"{name}.{each}")) for each in ("weight", "bias"))
        eps = float(self._backbone.layer_norm_eps)
        return model.node("LayerNormalization", [states, weight, bias], out, axis=-1, epsilon=eps)

    def _product(self, inputs: str, names: list[str], out: str) -> str:
        """Return the inputs times the joined matrices, biases not yet added."""
        model = self._model
        rounded, scale = self._round(inputs)
        parts = [self._int8(f"{name}.weight") for name in names]
        product = self._integer_product(rounded, [part[:2] for part in parts], out)
        if any(part.remainder is not None for part in parts):
            rest = [part.remainder or _nothing_of(part.codes) for part in parts]
            product = model.node("Add", [product, self._integer_product(rounded, rest, f"{out}.rest")], f"{out}.whole")
        return model.node("Mul", [product, scale], out)

    def _integer_product(self, rounded: str, parts: Sequence[tuple[Int8, Float32]], out: str) -> str:
        model = self._model
        codes = np.concatenate([each for each, _ in parts]).T  # (inputs, outputs)
        scales = np.concatenate([each for _, each in parts])
        if not self._signed:
            codes = codes.view(np.uint8) ^ np.uint8(_ZERO_POINT)
        zeros = np.full(len(scales), 0 if self._signed else _ZERO_POINT, dtype=codes.dtype)
        operands = [
            rounded,
            model.constant(f"{out}.codes", codes),
            model.constant("one", np.ones(1, dtype=np.float32)),
            model.constant(f"{out}.scales", scales),
            self._zero_point,
            model.constant(f"zeros.{len(scales)}", zeros),
        ]
        return model.node("MatMulIntegerToFloat", operands, f"{out}.unscaled", domain=MICROSOFT)

    def _round(self, states: str) -> tuple[str, str]:
        """Return each token's values as 8-bit numbers around 128, and their scales, float32 (1, T, 1)."""
        if states not in self._rounded:
            model = self._model
            last = model.constant("last", np.array([-1], dtype=np.int64))
            largest = model.node("ReduceMax", [model.node("Abs", [states], f"{states}.abs"), last], f"{states}.largest")
            factor = model.constant("step", np.array([1 / _LARGEST], dtype=np.float32))
            scale = model.node("Mul", [largest, factor], f"{states}.step")
            least = model.constant("least", np.array([_SMALLEST_SCALE], dtype=np.float32))
            scale = model.node("Max", [scale, least], f"{states}.scale")  # a token of zeros
            flat = model.node("Reshape", [scale, last], f"{states}.scales")
            rounded = model.node("QuantizeLinear", [states, flat, self._zero_points], f"{states}.rounded", axis=1)
            self._rounded[states] = rounded, scale
        return self._rounded[states]

    def _bias(self, names: list[str], out: str) -> str:
        return self._model.constant(out, np.concatenate([self._float(f"{name}.bias") for name in names]))

    def _int8(self, name: str) -> _Rounded:
        """Return the matrix as integers; what is stored as int8 is taken as it is."""
        packed = self._stored
        if f"{name}{SCALE}" in packed:
            return _Rounded(packed[name].numpy(), packed[f"{name}{SCALE}"].float().numpy())
        matrix = packed[name].float()
        packed = pack(name, matrix, "int8")
        scale = packed.get(f"{name}{SCALE}")
        if scale is None:  # narrower than what is packed: exact enough as it is, by rows of one scale
            codes, scales = _by_rows(matrix.numpy())
        else:
            codes, scales = packed[name].numpy(), scale.float().numpy()
        if not self._remainders:
            return _Rounded(codes, scales)
        return _Rounded(codes, scales, _by_rows(matrix.numpy() - codes * scales[:, None]))

    def _float(self, name: str) -> Float32:
        tensor, scale = self._stored[name].float(), self._stored.get(f"{name}{SCALE}")
        array: Float32 = (tensor if scale is None else tensor * scale.float()[:, None]).numpy()
        return array


class _Rounded(NamedTuple):
    """A matrix as int8 codes (outputs, inputs) and float32 scales (outputs,), and its remainder likewise."""

    codes: Int8
    scales: Float32
    remainder: tuple[Int8, Float32] | None = None


def _nothing_of(codes: Int8) -> tuple[Int8, Float32]:
    return np.zeros_like(codes), np.full(len(codes), _SMALLEST_SCALE, dtype=np.float32)


def _by_rows(matrix: Float32) -> tuple[Int8, Float32]:
    scale = np.maximum(np.abs(matrix).max(axis=1) / _LARGEST, _SMALLEST_SCALE).astype(np.float32)
    return np.rint(matrix / scale[:, None]).astype(np.int8), scale
