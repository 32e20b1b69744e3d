"""A model for ONNX Runtime, written as the bytes of an ONNX file: operators, constants, inputs and outputs.

The format is protocol buffers (onnx.proto3); the few messages that a graph needs are written here, so that neither the
onnx package nor a file is needed.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

MICROSOFT = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""

_OPSET, _IR_VERSION = 18, 8
_ELEMENT_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int64": 7}
_FLOAT, _INT = 1, 2  # AttributeProto.AttributeType

Attribute = int | float
Shape = Sequence[int | str]
"""Sizes, those that change from run to run as names."""


class OnnxModel:
    """A graph under construction.

    >>> model = OnnxModel()
    >>> double = model.node("Add", ["x", "x"], "double")
    >>> len(model.to_bytes({"x": ("n",)}, {double: ("n",)})) < 120
    True
    """

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: dict[str, bytes] = {}

    def constant(self, name: str, values: NDArray[np.generic]) -> str:
        """Return the name, under which the values are known from now on."""
        if name not in self._constants:
            array = np.ascontiguousarray(values)
            dims = b"".join(_number(1, size) for size in array.shape)
            kind = _number(2, _ELEMENT_TYPES[array.dtype.name])
            self._constants[name] = dims + kind + _bytes(8, name) + _bytes(9, array.tobytes())
        return name

    def node(
        self, operator: str, inputs: Sequence[str], *outputs: str, domain: str = "", **attributes: Attribute
    ) -> str:
        """Return the first output's name after adding an operator."""
        parts = [_bytes(1, name) for name in inputs] + [_bytes(2, name) for name in outputs]
        parts += [_bytes(3, outputs[0]), _bytes(4, operator)]
        parts += [_bytes(5, _attribute(name, value)) for name, value in attributes.items()]
        if domain:
            parts.append(_bytes(7, domain))
        self._nodes.append(b"".join(parts))
        return outputs[0]

    def to_bytes(self, inputs: Mapping[str, Shape], outputs: Mapping[str, Shape]) -> bytes:
        """Return the finished model; inputs and outputs are float32."""
        graph = [_bytes(1, node) for node in self._nodes]
        graph.append(_bytes(2, "kbengine"))
        graph += [_bytes(5, constant) for constant in self._constants.values()]
        graph += [_bytes(11, _value(name, shape)) for name, shape in inputs.items()]
        graph += [_bytes(12, _value(name, shape)) for name, shape in outputs.items()]
        opsets = _bytes(8, _bytes(1, "") + _number(2, _OPSET)) + _bytes(8, _bytes(1, MICROSOFT) + _number(2, 1))
        return _number(1, _IR_VERSION) + _bytes(2, "kbengine") + _bytes(7, b"".join(graph)) + opsets


def _value(name: str, shape: Shape) -> bytes:
    dims = b"".join(_bytes(1, _number(1, size) if isinstance(size, int) else _bytes(2, size)) for size in shape)
    tensor_type = _number(1, _ELEMENT_TYPES["float32"]) + _bytes(2, dims)
    return _bytes(1, name) + _bytes(2, _bytes(1, tensor_type))


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        return _bytes(1, name) + _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, _FLOAT)
    return _bytes(1, name) + _number(3, value) + _number(20, _INT)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # negative numbers are written as 64-bit two's complement
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
