"""Model directories: `config.json`, `tokenizer.json` and `model.safetensors`, read strictly and written whole."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor, nn

from kbengine.encoders.config import CONFIG_FILE, JSON, EncoderConfig
from kbengine.encoders.model import QUERY_PREFIX, PhraseModel, empty_model
from kbengine.encoders.packing import (
    SCALE,
    WEIGHTS_DTYPES,
    WeightsDType,
    check_finite,
    pack,
    read_packed,
    some_of,
    unpack,
    unpack_all,
)
from kbengine.encoders.truecasing import TRUECASE_FILE, Truecaser
from kbengine.errors import EncoderError, InvalidOptionError
from storage.durable import write_directory

TOKENIZER_FILE = "tokenizer.json"
WEIGHTS_FILE = "model.safetensors"
_WANTED_FILES = f"{CONFIG_FILE}, {TOKENIZER_FILE} and {WEIGHTS_FILE}"

# Present in Hugging Face and DensePhrases files, used by neither architecture here.
_UNUSED = re.compile(r"(^|\.)(pooler\.dense\.(weight|bias)|embeddings\.position_ids)$")
_ALIASES = {"filter_linear.weight": "filter_head.weight", "filter_linear.bias": "filter_head.bias"}
_SHARED_PREFIX = "embeddings."
_PASSAGE_SETTINGS = (
    "backbone",
    "uncased",
    "max_passage_tokens",
    "max_title_tokens",
    "passage_token_type",
    "passage_vector",
)


@dataclass(frozen=True)
class Checkpoint:
    """A model directory, read and checked.

    `fingerprint` is the SHA-256 (hex) of configuration, tokenizer and decoded weights, so that the same model stored
    in two dtypes has one fingerprint exactly when its decoded weights are equal. `passage_fingerprint` covers only
    what passage vectors depend on: it stays when only the query side is trained. `stored` holds the tensors of
    `weights` that queries go through as they are stored (`kbengine.encoders.packing`).
    """

    config: EncoderConfig
    tokenizer_json: str
    weights: Mapping[str, Tensor]
    fingerprint: str
    passage_fingerprint: str
    truecaser: Truecaser | None = None
    stored: Mapping[str, Tensor] = field(default_factory=dict)

    def model(self, *, dropout: float = 0.0) -> PhraseModel:
        """Return a model that holds these very tensors (float32), in evaluation mode."""
        model = empty_model(self.config, dropout=dropout)
        model.load_state_dict(dict(self.weights), strict=True, assign=True)
        return model.eval()


def read_checkpoint(directory: Path) -> Checkpoint:
    """Return the model in a directory, its weights decoded to float32.

    Raises:
        EncoderError: a file is missing or unreadable, a configuration key unknown, a tensor missing, unexpected,
            of another shape or dtype than the configuration says, or not finite.
    """
    texts = {name: _read_text(directory / name) for name in (CONFIG_FILE, TOKENIZER_FILE)}
    config = EncoderConfig.from_json(_parse_json(texts[CONFIG_FILE], directory / CONFIG_FILE))
    truecaser = _read_truecaser(directory, config)
    stored = _read_stored(directory / WEIGHTS_FILE)
    weights = _decoded(stored, directory / WEIGHTS_FILE)
    _check_encoder(weights, config, directory / WEIGHTS_FILE)
    whole, passages = fingerprints(config, texts[TOKENIZER_FILE], weights, truecaser)
    of_queries = {name: each for name, each in stored.items() if name.startswith((QUERY_PREFIX, _SHARED_PREFIX))}
    return Checkpoint(config, texts[TOKENIZER_FILE], weights, whole, passages, truecaser, of_queries)


def write_checkpoint(
    directory: Path,
    config: EncoderConfig,
    tokenizer_json: str,
    weights: Mapping[str, Tensor],
    *,
    dtype: WeightsDType = "int8",
    documents: Mapping[str, str] | None = None,
    like: Path | None = None,
) -> None:
    """Write a model directory durably, with all its files or else not at all.

    Args:
        directory: what to make; its parent exists, itself does not.
        config: the model's configuration.
        tokenizer_json: the text of its `tokenizer.json`.
        weights: the model's `state_dict()`.
        dtype: how to store the weights; int8 applies to matrices, whose other tensors are then float16.
        documents: further texts by file name, for people: a model card, a training report.
        like: a model directory; tensors that decode to the same values there are stored as they are there. Packing
            anew what was packed may round again: this keeps the passage fingerprint of a model whose query side
            changed.

    Raises:
        EncoderError: the directory exists, or the weights are not those of the configuration.
        StorageFullError: no space; nothing is left behind.
    """
    if dtype not in WEIGHTS_DTYPES:
        raise InvalidOptionError(f"weights dtype is {dtype!r}, wanted one of {', '.join(WEIGHTS_DTYPES)}")
    if directory.exists():
        raise EncoderError(f"{directory} already exists; choose another directory or remove it first")
    decoded = {name: tensor.detach().to("cpu", torch.float32) for name, tensor in weights.items()}
    _check_encoder(decoded, config, directory)
    check_finite(decoded, directory)
    there = {} if like is None else _read_stored(like / WEIGHTS_FILE)
    stored: dict[str, Tensor] = {}
    for name, tensor in decoded.items():
        kept = {each: there[each] for each in (name, name + SCALE) if each in there}
        is_same = name in kept and torch.equal(unpack(name, kept[name], kept.get(name + SCALE), directory), tensor)
        stored.update(kept if is_same else pack(name, tensor, dtype))
    files = {
        CONFIG_FILE: (json.dumps(config.to_json(), indent=2) + "\n").encode(),
        TOKENIZER_FILE: tokenizer_json.encode(),
        WEIGHTS_FILE: save(stored, metadata={"format": "pt", "dtype": dtype}),
        **{name: text.encode() for name, text in (documents or {}).items()},
    }
    write_directory(directory, files)


def fingerprints(
    config: EncoderConfig, tokenizer_json: str, weights: Mapping[str, Tensor], truecaser: Truecaser | None = None
) -> tuple[str, str]:
    """Return the fingerprints, hex, of the whole encoder and of the part that makes passage vectors."""
    digests = tensor_digests(weights)
    tokenizer = hashlib.sha256(tokenizer_json.encode()).hexdigest()
    settings = config.to_json()
    passage_settings = {name: settings[name] for name in _PASSAGE_SETTINGS}
    passage_weights = {name: digest for name, digest in digests.items() if not name.startswith(QUERY_PREFIX)}
    if truecaser is not None:
        settings |= {"truecaser": hashlib.sha256(truecaser.to_json().encode()).hexdigest()}
    return _sha256_of(settings, tokenizer, digests), _sha256_of(passage_settings, tokenizer, passage_weights)


def tensor_digests(weights: Mapping[str, Tensor]) -> dict[str, str]:
    """Return the SHA-256 (hex) of each tensor's shape and values."""
    with ThreadPoolExecutor(max_workers=4) as executor:  # hashing releases the interpreter lock
        names = sorted(weights)
        return dict(zip(names, executor.map(lambda name: _tensor_sha256(weights[name]), names), strict=True))


def _sha256_of(settings: JSON, tokenizer: str, digests: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps([settings, tokenizer, digests], sort_keys=True).encode()).hexdigest()


def _tensor_sha256(tensor: Tensor) -> str:
    digest = hashlib.sha256(json.dumps(list(tensor.shape)).encode())
    digest.update(tensor.contiguous().numpy().reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as e:
        raise EncoderError(f"{path} is missing; a model directory holds {_WANTED_FILES}") from e
    except (OSError, UnicodeDecodeError) as e:
        raise EncoderError(f"cannot read {path}: {e}; copy the model directory again") from e


def _read_truecaser(directory: Path, config: EncoderConfig) -> Truecaser | None:
    """Return the truecaser of a cased model, where its directory has one."""
    if not (directory / TRUECASE_FILE).exists():
        return None
    if config.uncased:
        raise EncoderError(f"{directory} has a {TRUECASE_FILE}, but config.json says uncased is true; remove the file")
    return Truecaser.from_json(_read_text(directory / TRUECASE_FILE), str(directory))


def _parse_json(text: str, path: Path) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as e:
        raise EncoderError(f"{path} is not JSON ({e}); copy the model directory again") from e


def _decoded(stored: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Return a file's tensors as float32, scales applied, unused ones left out, aliases resolved."""
    check_finite(stored, path)
    used = {name: tensor for name, tensor in stored.items() if not _UNUSED.search(name.removesuffix(SCALE))}
    weights: dict[str, Tensor] = {}
    for name, tensor in unpack_all(used, path).items():
        ours = _ALIASES.get(name, name)
        if ours in weights:
            raise EncoderError(f"{path} holds both {ours} and {name}, which mean the same; remove one")
        weights[ours] = tensor
    return weights


def _read_stored(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise EncoderError(f"{path} is missing; a model directory holds {_WANTED_FILES}")
    return read_packed(path)


def check_weights(weights: Mapping[str, Tensor], model: nn.Module, kind: str, source: Path) -> None:
    """Refuse tensors that are not the model's: missing, unexpected, of another shape.

    Args:
        weights: the tensors by name.
        model: on any device, also on none.
        kind: what errors call it.
        source: where the tensors are from.

    Raises:
        EncoderError: a tensor is missing, unexpected or of another shape.
    """
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    if missing := expected.keys() - weights.keys():
        raise EncoderError(f"{source} lacks {some_of(missing)} of {kind}; use the whole checkpoint")
    if unexpected := weights.keys() - expected.keys():
        raise EncoderError(
            f"{source} holds {some_of(unexpected)}, unknown to {kind}; correct config.json or remove the tensors"
        )
    misshapen = [
        f"{name} is {tuple(tensor.shape)}, wanted {expected[name]}"
        for name, tensor in weights.items()
        if tuple(tensor.shape) != expected[name]
    ]
    if misshapen:
        raise EncoderError(f"{source} does not fit its configuration: {some_of(misshapen)}; correct config.json")


def _check_encoder(weights: Mapping[str, Tensor], config: EncoderConfig, source: Path) -> None:
    kind = f"the {config.architecture} architecture with {config.backbone.num_hidden_layers} layers"
    check_weights(weights, empty_model(config), kind, source)
