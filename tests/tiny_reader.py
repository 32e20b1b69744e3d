"""A seeded two-layer reader of 32 dimensions in a directory: a real reader, small enough for any test."""

from __future__ import annotations

from pathlib import Path

import torch

from kbengine.encoders.config import QueryLimits
from kbengine.reading.checkpoint import write_reader
from kbengine.reading.config import ReaderConfig
from kbengine.reading.model import CrossEncoder, build_cross_encoder
from tests.tiny_encoder import tiny_config, tiny_tokenizer_json


def tiny_reader_config(*, max_tokens: int = 96) -> ReaderConfig:
    """Return the tiny reader's configuration."""
    return ReaderConfig(
        tiny_config().backbone,
        max_tokens=max_tokens,
        max_title_tokens=8,
        max_query_tokens=QueryLimits(32, 32, 32, 32),
        pair_size=4,
    )


def tiny_cross_encoder(config: ReaderConfig, *, seed: int = 0) -> CrossEncoder:
    """Return the tiny reader's model: weights large enough for attention and every bias to matter."""
    generator = torch.Generator().manual_seed(seed)
    model = build_cross_encoder(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(1 + 0.1 * noise if name.endswith("LayerNorm.weight") else 0.2 * noise)
    return model.eval()


def write_tiny_reader(directory: Path, *, seed: int = 0, max_tokens: int = 96) -> Path:
    """Return the directory, which then holds a whole reader; it must not exist before."""
    config = tiny_reader_config(max_tokens=max_tokens)
    weights = tiny_cross_encoder(config, seed=seed).state_dict()
    write_reader(directory, config, tiny_tokenizer_json(), weights, dtype="float32")
    return directory
