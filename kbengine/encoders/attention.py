"""Attention for training: torch's own, or two batched products where its backward pass would be slow."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, dropout: float = 0.0) -> Tensor:
    """Return the attended values, three of (B, heads, T, D) → (B, heads, T, D).

    Args:
        query: what asks.
        key: what is compared with it.
        value: what is summed.
        mask: bool (B, 1, 1, T), true where a key may be attended to; None where all may.
        dropout: share of the attention's weights that is dropped.
    """
    # On a processor the backward pass of torch's fused attention takes three times as long in bfloat16 as products do.
    if query.device.type == "cpu" and query.dtype == torch.bfloat16 and not dropout:
        attended: Tensor = _ProductAttention.apply(query, key, value, mask)  # type: ignore[no-untyped-call]  # torch
        return attended
    return scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)


class _ProductAttention(torch.autograd.Function):
    """Attention whose weights are kept for the backward pass: more memory, (B, heads, T, T), and no second softmax."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        B, n_heads, T, D = query.shape
        query, key, value = (each.reshape(B * n_heads, T, D) for each in (query, key, value))
        added = query.new_zeros(1)
        if mask is not None:
            bias = torch.zeros(mask.shape, dtype=query.dtype, device=query.device).masked_fill_(~mask, -torch.inf)
            added = bias.expand(B, n_heads, 1, T).reshape(B * n_heads, 1, T)
        # (B heads, T, T)
        weights = torch.baddbmm(added, query, key.transpose(1, 2), alpha=D**-0.5).softmax(dim=-1)
        ctx.save_for_backward(query, key, value, weights)
        return torch.bmm(weights, value).view(B, n_heads, T, D)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        query, key, value, weights = ctx.saved_tensors
        B, n_heads, T, D = gradients[0].shape
        of_attended = gradients[0].reshape(B * n_heads, T, D)
        of_value = torch.bmm(weights.transpose(1, 2), of_attended)
        of_weights = torch.bmm(of_attended, value.transpose(1, 2))
        of_scores = torch._softmax_backward_data(of_weights, weights, -1, weights.dtype)  # (B heads, T, T)
        of_query = torch.bmm(of_scores, key).mul_(D**-0.5)
        of_key = torch.bmm(of_scores.transpose(1, 2), query).mul_(D**-0.5)
        shape = (B, n_heads, T, D)
        return of_query.view(shape), of_key.view(shape), of_value.view(shape), None
