"""Attention for training: the two ways agree, forwards and backwards."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from kbengine.encoders.attention import attend


def gradients(attention, dtype, mask):
    """Return the attended values and the gradients of query, key and value, float32."""
    generator = torch.Generator().manual_seed(3)
    inputs = [torch.randn(2, 3, 7, 8, generator=generator).to(dtype).requires_grad_() for _ in range(3)]
    attended = attention(*inputs, mask)
    (attended.float() * torch.randn(attended.shape, generator=generator)).sum().backward()
    return [attended.detach().float(), *(each.grad.float() for each in inputs)]


@pytest.mark.parametrize("masked", [True, False])
def test_products_in_bfloat16_give_what_torch_gives_in_float32(masked):
    """Values and all three gradients, with padding and without."""
    mask = torch.tensor([7, 4])[:, None] > torch.arange(7) if masked else None
    mask = None if mask is None else mask[:, None, None, :]

    got = gradients(attend, torch.bfloat16, mask)
    expected = gradients(lambda q, k, v, m: scaled_dot_product_attention(q, k, v, attn_mask=m), torch.float32, mask)

    for each, wanted in zip(got, expected, strict=True):
        assert (each - wanted).norm() < 0.02 * wanted.norm()
    if masked:
        assert not got[2][1, :, 4:].any(), "padding gets no gradient"


def test_dropout_falls_on_the_weights_in_training():
    """With dropout two calls differ; without, they do not."""
    query, key, value = torch.randn(3, 1, 2, 5, 4).bfloat16()

    assert not torch.equal(*(attend(query, key, value, None, dropout=0.5) for _ in range(2)))
    assert torch.equal(*(attend(query, key, value, None) for _ in range(2)))
