"""The sparse heads in a model directory: `sparse.json` and `sparse.safetensors` beside the phrase encoder's files."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from kbengine.encoders.sparse.config import SparseConfig
from kbengine.encoders.sparse.model import SparseHeads
from kbengine.errors import EncoderError
from storage.durable import write_durably

SPARSE_CONFIG_FILE = "sparse.json"
SPARSE_WEIGHTS_FILE = "sparse.safetensors"


def has_sparse(directory: Path) -> bool:
    """Return whether a model directory holds sparse heads."""
    return (directory / SPARSE_CONFIG_FILE).exists()


def read_sparse(directory: Path, *, hidden_size: int) -> SparseHeads:
    """Return the sparse heads of a model directory, float32, in evaluation mode.

    Raises:
        EncoderError: a file is missing, damaged, or of another hidden size than the encoder.
    """
    path = directory / SPARSE_WEIGHTS_FILE
    try:
        value = json.loads((directory / SPARSE_CONFIG_FILE).read_text(encoding="utf-8"))
        weights = {name: tensor.float() for name, tensor in load(path.read_bytes()).items()}
    except (OSError, ValueError, SafetensorError) as e:
        raise EncoderError(f"{directory}: the sparse heads cannot be read: {e}; copy the model directory again") from e
    config = SparseConfig.from_json(value, str(directory / SPARSE_CONFIG_FILE))
    if config.hidden_size != hidden_size:
        raise EncoderError(
            f"{directory}: the sparse heads read states of {config.hidden_size} dimensions, the encoder gives "
            f"{hidden_size}; use the heads that were trained on it"
        )
    heads = SparseHeads(config)
    expected = {name: tuple(tensor.shape) for name, tensor in heads.state_dict().items()}
    if {name: tuple(tensor.shape) for name, tensor in weights.items()} != expected:
        raise EncoderError(f"{path} does not hold the tensors of its sparse.json; copy the model directory again")
    if not all(math.isfinite(float(tensor.sum())) for tensor in weights.values()):
        raise EncoderError(f"{path} holds NaN or infinite values; train or copy it anew")
    heads.load_state_dict(weights)
    return heads.eval().requires_grad_(False)


def sparse_files(heads: SparseHeads) -> dict[str, bytes]:
    """Return the files of the heads by name, weights as float16; the configuration comes last: heads are whole then.

    Raises:
        EncoderError: a weight is too large for float16.
    """
    halves = {name: tensor.detach().cpu().to(torch.float16).contiguous() for name, tensor in heads.state_dict().items()}
    if not all(bool(torch.isfinite(tensor).all()) for tensor in halves.values()):
        raise EncoderError("a weight of the sparse heads is not finite in float16; train anew at a lower rate")
    config = json.dumps(heads.config.to_json(), indent=2) + "\n"
    return {SPARSE_WEIGHTS_FILE: save(halves), SPARSE_CONFIG_FILE: config.encode()}


def write_sparse(directory: Path, heads: SparseHeads) -> None:
    """Write the heads durably into an existing model directory.

    Raises:
        EncoderError: the directory holds sparse heads already, or a weight is too large for float16.
    """
    if has_sparse(directory):
        raise EncoderError(f"{directory} holds sparse heads already; choose another directory")
    for name, content in sparse_files(heads).items():
        write_durably(directory / name, [content], replace=True)


def sparse_fingerprint(heads: SparseHeads) -> str:
    """Return the SHA-256 (hex) of the heads' configuration and present weights."""
    digest = hashlib.sha256(json.dumps(heads.config.to_json(), sort_keys=True).encode())
    for name, tensor in sorted(heads.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().float().contiguous().numpy().tobytes())
    return digest.hexdigest()
