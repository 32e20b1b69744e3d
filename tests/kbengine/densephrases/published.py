"""Synthetic files of exactly the layout that DensePhrases publishes, small enough for any test."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import Tensor

from tests.tiny_encoder import SENTENCES

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_SIGNS = "[]|.,;:?!'\"()-é"
_WORDS = sorted({w for s in SENTENCES for w in "".join(c if c.isalnum() else " " for c in s).split() if len(w) > 1})
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *_LETTERS, *(f"##{c}" for c in _LETTERS), *_SIGNS, *_WORDS]
LAYERS = 2


def published_tensors(*, seed: int = 0, hidden: int = 32, heads: int = 4) -> dict[str, Tensor]:
    """Return the tensors of a checkpoint: three towers with poolers, and `filter_linear`."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return 0.2 * torch.randn(shape, generator=generator)

    tensors: dict[str, Tensor] = {}
    for tower in ("phrase_encoder", "query_start_encoder", "query_end_encoder"):
        embeddings = f"{tower}.embeddings"
        tensors[f"{embeddings}.word_embeddings.weight"] = normal(len(VOCABULARY), hidden)
        tensors[f"{embeddings}.position_embeddings.weight"] = normal(512, hidden)
        tensors[f"{embeddings}.token_type_embeddings.weight"] = normal(2, hidden)
        norms = [f"{embeddings}.LayerNorm"]
        linears = {f"{tower}.pooler.dense": (hidden, hidden)}
        for i in range(LAYERS):
            layer = f"{tower}.encoder.layer.{i}"
            linears |= {f"{layer}.attention.self.{part}": (hidden, hidden) for part in ("query", "key", "value")}
            linears |= {f"{layer}.attention.output.dense": (hidden, hidden)}
            linears |= {f"{layer}.intermediate.dense": (2 * hidden, hidden)}
            linears |= {f"{layer}.output.dense": (hidden, 2 * hidden)}
            norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
        for name, shape in linears.items():
            tensors[f"{name}.weight"], tensors[f"{name}.bias"] = normal(*shape), normal(shape[0])
        for name in norms:
            tensors[f"{name}.weight"], tensors[f"{name}.bias"] = 1 + normal(hidden), normal(hidden)
    tensors["filter_linear.weight"], tensors["filter_linear.bias"] = normal(2, hidden), normal(2)
    return tensors


def write_checkpoint_folder(folder: Path, tensors: dict[str, Tensor]) -> Path:
    """Return the folder, which then holds `pytorch_model.bin` alone, as the published ones do."""
    folder.mkdir()
    torch.save(tensors, folder / "pytorch_model.bin")
    return folder


def write_base(folder: Path, *, hidden: int = 32, heads: int = 4) -> Path:
    """Return the folder, which then holds what SpanBERT's has: `config.json` and a cased `vocab.txt`."""
    folder.mkdir()
    config = {
        "model_type": "bert",
        "hidden_size": hidden,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": heads,
        "intermediate_size": 2 * hidden,
        "vocab_size": len(VOCABULARY),
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    return folder
