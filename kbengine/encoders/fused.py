"""The BERT layers for inference: query, key and value in one product, weights in the processor's own layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu as gelu_function
from torch.nn.functional import layer_norm, linear, scaled_dot_product_attention

from kbengine.encoders.bert import BertLayer, BertStack

LinearFunction = Callable[[Tensor], Tensor]


class FusedStack(nn.Module):
    """The same function as a `BertStack`, for inference only.

    The weights are copies without gradients: they neither move with `.to()` nor appear in `state_dict()`. Products and
    attention are computed in `dtype`; what they are added to, its normalisation and the states returned are float32.
    """

    def __init__(
        self, stack: BertStack, *, device: torch.device, dtype: torch.dtype, usual_rows: int, prepack: bool = True
    ) -> None:
        """Copy the weights.

        Args:
            stack: the layers to copy.
            device: where to compute.
            dtype: of the products' factors.
            usual_rows: tokens in a usual batch; only the layout of the weights depends on it.
            prepack: whether to reorder weights for oneDNN on a CPU that has it.
        """
        super().__init__()
        self.dtype = dtype
        packs = prepack and device.type == "cpu" and can_prepack(dtype)
        self._layers = [_fuse(layer, device, dtype, usual_rows if packs else None) for layer in _layers(stack)]

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        """Return the last hidden states, (B, T, H) → (B, T, H) float32."""
        B, T, H = hidden.shape
        # In bfloat16 the sum over the layers would lose as much as all products together (benchmarks/arithmetic.py).
        hidden = hidden.float()
        bias = None if mask is None else torch.zeros(mask.shape, dtype=self.dtype, device=hidden.device)
        if bias is not None and mask is not None:
            bias.masked_fill_(~mask, -torch.inf)  # (B, 1, 1, T)
        for layer in self._layers:
            qkv = layer.qkv(hidden.to(self.dtype)).view(B, T, 3, layer.n_heads, -1).permute(2, 0, 3, 1, 4)
            attended = scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], attn_mask=bias)  # (B, heads, T, H/heads)
            added = layer.attention_output(attended.transpose(1, 2).reshape(B, T, H))
            hidden = layer.attention_norm(hidden + added)
            hidden = layer.output_norm(hidden + layer.down(layer.up(hidden.to(self.dtype))))
        return hidden


@dataclass(frozen=True)
class _FusedLayer:
    n_heads: int
    qkv: LinearFunction
    attention_output: LinearFunction
    attention_norm: LinearFunction
    up: LinearFunction
    down: LinearFunction
    output_norm: LinearFunction


def can_prepack(dtype: torch.dtype) -> bool:
    """Tell whether this torch runs a linear layer over weights in oneDNN's layout, in this dtype, and gets it right."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]  # torch
        return False
    generator = torch.Generator().manual_seed(0)
    weight, inputs = torch.randn(16, 16, generator=generator), torch.randn(4, 16, generator=generator)
    expected = gelu_function(linear(inputs.to(dtype), weight.to(dtype)))
    try:
        # Internal operators: they may be renamed or refuse a processor, and then F.linear does the same more slowly.
        got = _packed_linear(weight.to(dtype), torch.zeros(16, dtype=dtype), 4, gelu=True)(inputs.to(dtype))
    except (AttributeError, RuntimeError, TypeError, NotImplementedError):
        return False
    return bool(torch.allclose(got.float(), expected.float(), atol=0.1))


def _layers(stack: BertStack) -> list[BertLayer]:
    return [layer for layer in stack.layer if isinstance(layer, BertLayer)]


def _fuse(layer: BertLayer, device: torch.device, dtype: torch.dtype, packed_rows: int | None) -> _FusedLayer:
    def product(*parts: nn.Linear, gelu: bool = False) -> LinearFunction:
        weight = _joined([part.weight.detach().to(device, dtype) for part in parts])
        bias = _joined([part.bias.detach().to(device, dtype) for part in parts])
        if packed_rows is not None:
            return _packed_linear(weight, bias, packed_rows, gelu=gelu)
        return _plain_linear(weight, bias, gelu=gelu)

    def norm(module: nn.LayerNorm) -> LinearFunction:
        weight, bias = module.weight.detach().to(device, torch.float32), module.bias.detach().to(device, torch.float32)
        shape, eps = list(module.normalized_shape), module.eps
        return lambda hidden: layer_norm(hidden, shape, weight, bias, eps)

    attention = layer.attention
    return _FusedLayer(
        n_heads=attention.self.n_heads,
        qkv=product(attention.self.query, attention.self.key, attention.self.value),
        attention_output=product(attention.output.dense),
        attention_norm=norm(attention.output.LayerNorm),
        up=product(layer.intermediate.dense, gelu=True),
        down=product(layer.output.dense),
        output_norm=norm(layer.output.LayerNorm),
    )


def _joined(tensors: list[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors)


def _plain_linear(weight: Tensor, bias: Tensor, *, gelu: bool) -> LinearFunction:
    if gelu:
        return lambda inputs: gelu_function(linear(inputs, weight, bias))
    return lambda inputs: linear(inputs, weight, bias)


def _packed_linear(weight: Tensor, bias: Tensor, rows: int, *, gelu: bool) -> LinearFunction:
    # Reordering once instead of at every call makes a 12-token query nearly twice as fast (5.8 → 3.1 ms on two cores).
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), rows)
    apply = torch.ops.mkldnn._linear_pointwise
    if gelu:
        return lambda inputs: apply(inputs, packed, bias, "gelu", [], "none")
    return lambda inputs: apply(inputs, packed, bias, "none", [], "")
