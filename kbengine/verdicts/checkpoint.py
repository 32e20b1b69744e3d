"""Directories of verdict models: `config.json`, `tokenizer.json`, `model.safetensors`, a model card, checksums."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from kbengine.encoders.checkpoint import TOKENIZER_FILE, WEIGHTS_FILE, check_weights
from kbengine.encoders.config import CONFIG_FILE, require_int
from kbengine.encoders.packing import WEIGHTS_DTYPES, WeightsDType, check_finite, pack, read_packed, unpack_all
from kbengine.errors import EncoderError, InvalidOptionError
from kbengine.reading.checkpoint_files import CHECKSUM_FILE, check_files, kind_of
from kbengine.reading.config import ReaderConfig
from kbengine.verdicts.model import VerdictNetwork, empty_network
from storage.durable import write_directory

VERDICT_KIND = "verdict-model"
CARD_FILE = "README.md"
_FILES = (CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_FILE)


@dataclass(frozen=True)
class VerdictConfig:
    """A whole `config.json` of a verdict model, checked.

    Attributes:
        reader: Shape and input lengths, as of the reader that it was made from.
        n_passages: How many of the best passages found for a claim are read.
    """

    reader: ReaderConfig
    n_passages: int = 5

    def __post_init__(self) -> None:
        require_int("n_passages", self.n_passages, 1)

    @classmethod
    def from_json(cls, value: object) -> VerdictConfig:
        """Return the configuration in a parsed `config.json`.

        Raises:
            EncoderError: it is not a verdict model's, or a value is not what it may be.
        """
        known = {"kind", "reader", "n_passages"}
        if not isinstance(value, Mapping) or value.get("kind") != VERDICT_KIND or set(value) != known:
            raise EncoderError(
                f"config.json is none of a verdict model (kind {VERDICT_KIND!r}, reader, n_passages); give a directory "
                "that 'kbengine train verdict' made"
            )
        return cls(ReaderConfig.from_json(value["reader"]), value["n_passages"])

    def to_json(self) -> dict[str, Any]:
        """Return what `config.json` holds."""
        own = replace(self.reader, embeddings_of=None)  # the embeddings were trained too
        return {"kind": VERDICT_KIND, "n_passages": self.n_passages, "reader": own.to_json()}


@dataclass(frozen=True)
class VerdictCheckpoint:
    """A directory with a verdict model, read and checked; its weights are float32."""

    config: VerdictConfig
    tokenizer_json: str
    weights: Mapping[str, Tensor]
    fingerprint: str

    def model(self) -> VerdictNetwork:
        """Return a model that holds these very tensors, in evaluation mode."""
        model = empty_network(self.config.reader)
        model.load_state_dict(dict(self.weights), strict=True, assign=True)
        return model.eval()


def read_verdict_model(directory: Path) -> VerdictCheckpoint:
    """Return the verdict model in a directory, every file checked against its checksum.

    Raises:
        EncoderError: the directory holds none, or its parts do not fit each other.
        CorruptError: a file is not what was written.
    """
    if (seen := kind_of(directory)) != VERDICT_KIND:
        raise EncoderError(
            f"{directory} holds no verdict model (its configuration says {seen!r}, wanted {VERDICT_KIND!r}); give a "
            "directory that 'kbengine train verdict' made"
        )
    digests = check_files(directory, _FILES, "verdict model")
    config = VerdictConfig.from_json(json.loads((directory / CONFIG_FILE).read_text(encoding="utf-8")))
    weights = unpack_all(read_packed(directory / WEIGHTS_FILE), directory / WEIGHTS_FILE)
    check_weights(weights, empty_network(config.reader), "the verdict model", directory)
    tokenizer_json = (directory / TOKENIZER_FILE).read_text(encoding="utf-8")
    return VerdictCheckpoint(config, tokenizer_json, weights, "".join(digest[:16] for digest in digests))


def write_verdict_model(
    directory: Path,
    config: VerdictConfig,
    tokenizer_json: str,
    weights: Mapping[str, Tensor],
    *,
    dtype: WeightsDType = "float16",
    card: str = "",
) -> None:
    """Write a verdict model's directory durably, with all its files or else not at all.

    Args:
        directory: what to make; its parent exists, itself does not.
        config: the model's configuration.
        tokenizer_json: the text of its `tokenizer.json`.
        weights: the model's `state_dict()`.
        dtype: how to store the weights; int8 applies to matrices, whose other tensors are then float16.
        card: Markdown that tells people what it is.

    Raises:
        EncoderError: the directory exists, or the weights do not fit the configuration or are not finite.
        StorageFullError: no space; nothing is left behind.
    """
    if dtype not in WEIGHTS_DTYPES:
        raise InvalidOptionError(f"weights dtype is {dtype!r}, wanted one of {', '.join(WEIGHTS_DTYPES)}")
    if directory.exists():
        raise EncoderError(f"{directory} already exists; choose another directory or remove it first")
    plain = {name: tensor.detach().to("cpu", torch.float32) for name, tensor in weights.items()}
    check_weights(plain, empty_network(config.reader), "the verdict model", directory)
    check_finite(plain, directory)
    stored: dict[str, Tensor] = {}
    for name, tensor in plain.items():
        stored |= pack(name, tensor, dtype)
    files = {
        CONFIG_FILE: (json.dumps(config.to_json(), indent=2) + "\n").encode(),
        TOKENIZER_FILE: tokenizer_json.encode(),
        WEIGHTS_FILE: save(stored, metadata={"format": "pt", "dtype": dtype}),
    }
    if card:
        files[CARD_FILE] = card.encode()
    write_directory(directory, files, checksums=CHECKSUM_FILE)
