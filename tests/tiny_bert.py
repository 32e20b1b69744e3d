"""A BERT of the tiny encoder's shape in a folder as Hugging Face writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from tests.tiny_encoder import tiny_config, tiny_tokenizer_json, tiny_weights


def bert_config(**changes: Any) -> dict[str, Any]:
    """Return a Hugging Face `config.json` of the tiny backbone."""
    b = tiny_config().backbone
    values = {
        "model_type": "bert",
        "hidden_size": b.hidden_size,
        "num_hidden_layers": b.num_hidden_layers,
        "num_attention_heads": b.num_attention_heads,
        "intermediate_size": b.intermediate_size,
        "vocab_size": b.vocab_size,
        "max_position_embeddings": b.max_position_embeddings,
        "hidden_act": "gelu",
        "pad_token_id": 0,
    }
    return values | changes


def bert_weights(prefix: str = "") -> dict[str, Tensor]:
    """Return the tiny phrase encoder's tensors as a Hugging Face BertModel has them, with a pooler."""
    weights = {}
    for name, tensor in tiny_weights(tiny_config()).items():
        if name.startswith("embeddings."):
            weights[prefix + name] = tensor
        elif name.startswith("phrase_encoder."):
            weights[prefix + name.removeprefix("phrase_encoder.")] = tensor
    weights[f"{prefix}pooler.dense.weight"] = torch.zeros(32, 32)
    weights["cls.predictions.bias"] = torch.zeros(3)
    return weights


def write_bert(
    folder: Path,
    *,
    prefix: str = "",
    torch_file: bool = False,
    vocabulary: bool = False,
    cased: bool = False,
    **changes: Any,
) -> Path:
    """Return a folder with a BERT model."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(bert_config(**changes)))
    weights = bert_weights(prefix)
    if (n_positions := changes.get("max_position_embeddings")) is not None:
        positions = weights[f"{prefix}embeddings.position_embeddings.weight"]
        weights[f"{prefix}embeddings.position_embeddings.weight"] = positions.repeat(4, 1)[:n_positions].clone()
    if torch_file:
        torch.save(weights, folder / "pytorch_model.bin")
    else:
        save_file(weights, folder / "model.safetensors")
    if vocabulary:
        words = json.loads(tiny_tokenizer_json())["model"]["vocab"]
        lines = sorted(words, key=lambda word: words[word])
        if cased:
            lines[-1] = "Zurich"
        (folder / "vocab.txt").write_text("\n".join(lines) + "\n")
    else:
        (folder / "tokenizer.json").write_text(tiny_tokenizer_json(uncased=not cased))
    return folder
