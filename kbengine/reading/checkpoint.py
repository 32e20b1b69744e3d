"""Reader directories: `config.json`, `tokenizer.json`, `model.safetensors` and their checksums, all or nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from kbengine.encoders.checkpoint import TOKENIZER_FILE, WEIGHTS_FILE, check_weights
from kbengine.encoders.config import CONFIG_FILE
from kbengine.encoders.packing import WEIGHTS_DTYPES, WeightsDType, check_finite, pack, read_packed, unpack_all
from kbengine.errors import EncoderError, InvalidOptionError
from kbengine.reading.checkpoint_files import CHECKSUM_FILE, check_files
from kbengine.reading.config import ReaderConfig
from kbengine.reading.model import CrossEncoder, empty_cross_encoder
from kbengine.reading.shared_embeddings import EMBEDDINGS_PREFIX, read_shared_embeddings, shared_embeddings
from storage.durable import write_directory


@dataclass(frozen=True)
class ReaderCheckpoint:
    """A reader directory, read and checked.

    Attributes:
        config: The reader's configuration.
        tokenizer_json: The text of its `tokenizer.json`.
        weights: All tensors, float32.
        stored: The same as they are stored (`kbengine.encoders.packing`), shared embeddings among them.
        fingerprint: Of the files, and so of everything: the configuration names the digest of shared embeddings.
    """

    config: ReaderConfig
    tokenizer_json: str
    weights: Mapping[str, Tensor]
    stored: Mapping[str, Tensor]
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
    digests = check_files(directory, (CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_FILE), "reader")
    config = ReaderConfig.from_json(json.loads((directory / CONFIG_FILE).read_text(encoding="utf-8")))
    stored = read_packed(directory / WEIGHTS_FILE)
    if config.embeddings_of is not None:
        stored |= read_shared_embeddings(config.embeddings_of)
    weights = unpack_all(stored, directory / WEIGHTS_FILE)
    check_weights(weights, empty_cross_encoder(config), "the reader", directory)
    fingerprint = "".join(digest[:16] for digest in digests)
    tokenizer_json = (directory / TOKENIZER_FILE).read_text(encoding="utf-8")
    return ReaderCheckpoint(config, tokenizer_json, weights, stored, fingerprint)


def write_reader(
    directory: Path,
    config: ReaderConfig,
    tokenizer_json: str,
    weights: Mapping[str, Tensor],
    *,
    dtype: WeightsDType = "float16",
    share_embeddings: str | None = None,
) -> None:
    """Write a reader's directory durably, with all its files or else not at all.

    Args:
        directory: what to make; its parent exists, itself does not.
        config: the reader's configuration.
        tokenizer_json: the text of its `tokenizer.json`.
        weights: the model's `state_dict()`.
        dtype: how to store the weights; int8 applies to matrices, whose other tensors are then float16.
        share_embeddings: the bundled encoder whose embeddings the reader has; they are then not stored again.

    Raises:
        EncoderError: the directory exists, the weights do not fit the configuration or are not finite, or the
            embeddings are not those of the encoder.
        StorageFullError: no space; nothing is left behind.
    """
    if dtype not in WEIGHTS_DTYPES:
        raise InvalidOptionError(f"weights dtype is {dtype!r}, wanted one of {', '.join(WEIGHTS_DTYPES)}")
    if directory.exists():
        raise EncoderError(f"{directory} already exists; choose another directory or remove it first")
    plain = {name: tensor.detach().to("cpu", torch.float32) for name, tensor in weights.items()}
    check_weights(plain, empty_cross_encoder(config), "the reader", directory)
    check_finite(plain, directory)
    shared = None if share_embeddings is None else shared_embeddings(share_embeddings, plain)
    own = {name: each for name, each in plain.items() if shared is None or not name.startswith(EMBEDDINGS_PREFIX)}
    stored: dict[str, Tensor] = {}
    for name, tensor in own.items():
        stored |= pack(name, tensor, dtype)
    files = {
        CONFIG_FILE: (json.dumps(replace(config, embeddings_of=shared).to_json(), indent=2) + "\n").encode(),
        TOKENIZER_FILE: tokenizer_json.encode(),
        WEIGHTS_FILE: save(stored, metadata={"format": "pt", "dtype": dtype}),
    }
    write_directory(directory, files, checksums=CHECKSUM_FILE)
