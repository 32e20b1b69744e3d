"""A seeded two-layer encoder of 32 dimensions in a directory: a real model directory, small enough for any test."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from torch import Tensor

from kbengine.encoders.checkpoint import write_checkpoint
from kbengine.encoders.config import Architecture, BackboneConfig, EncoderConfig, QueryLimits
from kbengine.encoders.model import PhraseModel, build_model
from kbengine.encoders.packing import WeightsDType

SENTENCES = (
    "The Amazon rainforest is a moist broadleaf forest that covers most of the Amazon basin of South America.",
    "Marie Curie was a Polish and French physicist and chemist who conducted research on radioactivity.",
    "She was the first woman to win a Nobel Prize and the first person to win it twice.",
    "The café in the old town of Paris was founded by a family from Brazil in the year of the great fire.",
    "A knowledge base answers questions with phrases from its own passages, each with exact provenance.",
    "Who wrote the novel? Where was the author born, and when did she die? Which river crosses the city?",
    "The capital of France is Paris; the capital of Germany is Berlin; the capital of Japan is Tokyo.",
    "place of birth, date of death, country of citizenship, occupation, spouse, head of government, author",
    "The band released an album in March, sold one million copies and toured Europe for two years.",
    "Water boils at one hundred degrees; light travels faster than sound in air, glass and water.",
)
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_SIGNS = "[]|.,;:?!'\"()-/&%$€"
_CJK = "日本語東京"


def tiny_config(architecture: Architecture = "shared-query", *, max_passage_tokens: int = 64) -> EncoderConfig:
    """Return the tiny encoder's configuration."""
    return EncoderConfig(
        architecture=architecture,
        backbone=BackboneConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            vocab_size=len(_vocabulary()),
            max_position_embeddings=128,
        ),
        max_passage_tokens=max_passage_tokens,
        max_title_tokens=20,
        max_query_tokens=QueryLimits(),
    )


def tiny_tokenizer_json(*, uncased: bool = True) -> str:
    """Return the text of the tiny encoder's `tokenizer.json`."""
    vocabulary = {token: i for i, token in enumerate(_vocabulary())}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.add_special_tokens(list(_SPECIAL))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=uncased)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return str(tokenizer.to_str())


def tiny_model(config: EncoderConfig, *, seed: int = 0) -> PhraseModel:
    """Return the tiny encoder's model: weights large enough for attention and every bias to matter."""
    generator = torch.Generator().manual_seed(seed)
    model = build_model(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(1 + 0.1 * noise if name.endswith("LayerNorm.weight") else 0.2 * noise)
    return model.eval()


def tiny_weights(config: EncoderConfig, *, seed: int = 0) -> dict[str, Tensor]:
    """Return the tiny model's tensors by name."""
    return dict(tiny_model(config, seed=seed).state_dict())


def write_tiny_encoder(
    directory: Path,
    *,
    architecture: Architecture = "shared-query",
    dtype: WeightsDType = "float32",
    seed: int = 0,
    max_passage_tokens: int = 64,
) -> Path:
    """Return the directory, which then holds a whole encoder; it must not exist before."""
    config = tiny_config(architecture, max_passage_tokens=max_passage_tokens)
    write_checkpoint(directory, config, tiny_tokenizer_json(), tiny_weights(config, seed=seed), dtype=dtype)
    return directory


def _vocabulary() -> list[str]:
    words = {
        word
        for sentence in SENTENCES
        for word in "".join(c if c.isalnum() else " " for c in sentence.lower().replace("é", "e")).split()
        if len(word) > 1
    }
    return [*_SPECIAL, *_LETTERS, *(f"##{c}" for c in _LETTERS), *_SIGNS, *_CJK, *sorted(words)]
