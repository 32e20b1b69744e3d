"""Reader directories: `config.json`, `tokenizer.json`, `model.safetensors` and their checksums, all or nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from kbengine.encoders.checkpoint import TOKENIZER_FILE, WEIGHTS_FILE, check_weights
from kbengine.encoders.config import CONFIG_FILE
from kbengine.errors import CorruptError, EncoderError, InvalidOptionError
from kbengine.reading.checkpoint_files import CHECKSUM_FILE
from kbengine.reading.config import ReaderConfig
from kbengine.reading.model import CrossEncoder, empty_cross_encoder
from storage.durable import check_file, write_directory

ReaderDType = Literal["float16", "float32"]
READER_DTYPES: tuple[ReaderDType, ...] = get_args(ReaderDType)


@dataclass(frozen=True)
class ReaderCheckpoint:
    """A reader directory, read and checked; weights are float32. `fingerprint` is that of the files."""

    config: ReaderConfig
    tokenizer_json: str
    weights: Mapping[str, Tensor]
    fingerprint: str

    def model(self, *, dropout: float = 0.0) -> CrossEncoder:
        """Return a model that holds these very tensors, in evaluation mode."""
        model = empty_cross_encoder(self.config, dropout=dropout)
        model.load_state_dict(dict(self.weights), strict=True, assign=True)
        return model.eval()


def read_reader(directory: Path) -> ReaderCheckpoint:
    """Return the reader in a directory, every file checked against its checksum.

    Raises:
        EncoderError: the directory holds no reader, or its parts do not fit each other.
        CorruptError: a file is not what was written.
    """
    checksums = _checksums(directory)
    data = {}
    for name in (CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_FILE):
        check_file(directory / name, n_bytes=checksums[name][0], sha256=checksums[name][1])
        data[name] = (directory / name).read_bytes()
    config = ReaderConfig.from_json(json.loads(data[CONFIG_FILE]))
    try:
        weights = {name: tensor.float() for name, tensor in load(data[WEIGHTS_FILE]).items()}
    except SafetensorError as e:
        raise CorruptError(f"cannot read {directory / WEIGHTS_FILE}: {e}; copy the reader again") from e
    check_weights(weights, empty_cross_encoder(config), "the reader", directory)
    fingerprint = "".join(checksums[name][1][:16] for name in (CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_FILE))
    return ReaderCheckpoint(config, data[TOKENIZER_FILE].decode(), weights, fingerprint)


def write_reader(
    directory: Path,
    config: ReaderConfig,
    tokenizer_json: str,
    weights: Mapping[str, Tensor],
    *,
    dtype: ReaderDType = "float16",
) -> None:
    """Write a reader's directory durably, with all its files or else not at all.

    Args:
        directory: what to make; its parent exists, itself does not.
        config: the reader's configuration.
        tokenizer_json: the text of its `tokenizer.json`.
        weights: the model's `state_dict()`.
        dtype: how to store the weights.

    Raises:
        EncoderError: the directory exists, or the weights do not fit the configuration or are not finite.
        StorageFullError: no space; nothing is left behind.
    """
    if dtype not in READER_DTYPES:
        raise InvalidOptionError(f"weights dtype is {dtype!r}, wanted one of {', '.join(READER_DTYPES)}")
    if directory.exists():
        raise EncoderError(f"{directory} already exists; choose another directory or remove it first")
    plain = {name: tensor.detach().to("cpu", torch.float32) for name, tensor in weights.items()}
    check_weights(plain, empty_cross_encoder(config), "the reader", directory)
    stored = {name: tensor.to(getattr(torch, dtype)).contiguous() for name, tensor in plain.items()}
    if spoilt := sorted(name for name, tensor in stored.items() if not bool(torch.isfinite(tensor).all())):
        raise EncoderError(f"NaN or beyond {dtype}: {', '.join(spoilt[:5])}; use float32 or train anew")
    files = {
        CONFIG_FILE: (json.dumps(config.to_json(), indent=2) + "\n").encode(),
        TOKENIZER_FILE: tokenizer_json.encode(),
        WEIGHTS_FILE: save(stored, metadata={"format": "pt", "dtype": dtype}),
    }
    write_directory(directory, files, checksums=CHECKSUM_FILE)


def _checksums(directory: Path) -> dict[str, tuple[int, str]]:
    """Return size and sha256 of each file, as written beside them."""
    path = directory / CHECKSUM_FILE
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        return {
            name: (int(value[name]["bytes"]), str(value[name]["sha256"]))
            for name in (CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_FILE)
        }
    except FileNotFoundError as e:
        raise EncoderError(
            f"{path} is missing, so {directory} holds no reader; give a directory that 'kbengine train' made"
        ) from e
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise CorruptError(f"cannot read {path}: {e}; copy the reader again") from e
