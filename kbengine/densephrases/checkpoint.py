"""A published DensePhrases checkpoint becomes a `three-tower` model directory.

The checkpoint folder holds the weights (`pytorch_model.bin`, read without running any code of it, or
`model.safetensors`); the tokenizer, and where the folder has none the configuration, come from the folder of the BERT
model it was made of: SpanBERT-base-cased for all published ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from kbengine.densephrases.keys import PHRASE_ENCODER, MappedTensors, map_tensors, missing_parts
from kbengine.encoders.checkpoint import read_checkpoint, write_checkpoint
from kbengine.encoders.config import BackboneConfig, EncoderConfig, QueryLimits
from kbengine.encoders.location import find_encoder
from kbengine.encoders.packing import WeightsDType, some_of
from kbengine.encoders.pretrained import read_backbone, read_tokenizer
from kbengine.errors import EncoderError

WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
_HEAD_SIZE = 64  # of every BERT; a configuration, where there is one, says it itself

# As DensePhrases encodes: titles of at most 10 tokens, windows of 512, token type 1 on the passage side, queries of at
# most 64 tokens (384 for mentions and dialogues), phrases of at most 10 tokens in search.
PASSAGE_TOKENS, TITLE_TOKENS, PHRASE_TOKENS = 512, 10, 10
QUERY_LIMITS = QueryLimits(question=64, slot_filling=64, entity_linking=384, dialogue=384)


@dataclass(frozen=True)
class ImportedCheckpoint:
    """What was made of a checkpoint.

    Attributes:
        directory: The model directory.
        n_parameters: Of the model.
        renamed: Names that were mapped, by their first parts.
        left_out: Groups of tensors that are not needed.
        phrase_encoder_from: Where the phrase encoder is from when the checkpoint has none.
    """

    directory: Path
    n_parameters: int
    renamed: tuple[str, ...]
    left_out: tuple[str, ...]
    phrase_encoder_from: Path | None

    def facts(self) -> dict[str, Any]:
        """Return the report as named values, for people and for JSON."""
        return {
            "encoder": str(self.directory),
            "architecture": "three-tower",
            "parameters": self.n_parameters,
            "renamed": list(self.renamed),
            "left_out": list(self.left_out),
            "phrase_encoder_from": None if self.phrase_encoder_from is None else str(self.phrase_encoder_from),
        }


def import_checkpoint(
    checkpoint: Path,
    out: Path,
    *,
    base: Path | None = None,
    phrase_encoder: Path | None = None,
    max_phrase_tokens: int = PHRASE_TOKENS,
    dtype: WeightsDType = "float16",
) -> ImportedCheckpoint:
    """Return the report of making a model directory of a checkpoint.

    Args:
        checkpoint: its folder, or the weights file itself.
        out: the model directory to make.
        base: folder of the BERT model with its tokenizer (`vocab.txt` or `tokenizer.json`) and `config.json`; by
            default the checkpoint's own folder.
        phrase_encoder: where the phrase encoder is taken from when the checkpoint has none: another checkpoint, or an
            imported model directory.
        max_phrase_tokens: longest phrase in search.
        dtype: how to store the weights.

    Raises:
        EncoderError: files are missing or unreadable, tensors are unknown, missing or do not fit each other.
    """
    if out.exists():
        raise EncoderError(f"{out} already exists; choose another directory or remove it first")
    folder = checkpoint if checkpoint.is_dir() else checkpoint.parent
    base = base or folder
    mapped = map_tensors(_read_tensors(checkpoint))
    if mapped.unknown:
        raise EncoderError(
            f"{checkpoint} holds {some_of(mapped.unknown)}, which no DensePhrases model has; wanted "
            "phrase_encoder.…, query_start_encoder.…, query_end_encoder.… and filter_linear.…"
        )
    weights, source = _completed(mapped, checkpoint, phrase_encoder)
    tokenizer_json, uncased = read_tokenizer(base, str(base))
    config = EncoderConfig(
        "three-tower",
        _backbone(weights, (folder, base)),
        uncased=uncased,
        max_passage_tokens=PASSAGE_TOKENS,
        max_title_tokens=TITLE_TOKENS,
        max_query_tokens=QUERY_LIMITS,
        max_phrase_tokens=max_phrase_tokens,
        passage_token_type=1,
        passage_input="[CLS] title [SEP] passage [SEP]",
        passage_vector="none",
    )
    write_checkpoint(out, config, tokenizer_json, weights, dtype=dtype)
    n_parameters = sum(tensor.numel() for tensor in weights.values())
    return ImportedCheckpoint(out, n_parameters, tuple(mapped.renamed), tuple(mapped.left_out), source)


def _completed(
    mapped: MappedTensors, checkpoint: Path, phrase_encoder: Path | None
) -> tuple[dict[str, Tensor], Path | None]:
    """Return the tensors of the whole model, and where the phrase encoder is from if not from the checkpoint."""
    weights = dict(mapped.weights)
    missing = missing_parts(weights)
    source: Path | None = None
    if "phrase_encoder" in missing and phrase_encoder is not None:
        source = phrase_encoder
        wanted = (PHRASE_ENCODER, "filter_head.") if "filter_head" in missing else (PHRASE_ENCODER,)
        weights |= {name: each for name, each in _other_weights(source).items() if name.startswith(wanted)}
        missing = missing_parts(weights)
    if missing:
        remedy = (
            "a query encoder trained with version 1.1.0 comes without: name the checkpoint it was trained from with "
            "--phrase-encoder"
            if missing[0] == "phrase_encoder"
            else "use the whole checkpoint"
        )
        raise EncoderError(f"{source or checkpoint} has no {' and no '.join(missing)}; {remedy}")
    return weights, source


def _other_weights(source: Path) -> Mapping[str, Tensor]:
    """Return the tensors of a model directory of ours or of another checkpoint."""
    ours = find_encoder(source) if source.is_dir() else None
    return read_checkpoint(ours).weights if ours is not None else map_tensors(_read_tensors(source)).weights


def _read_tensors(checkpoint: Path) -> Mapping[str, Tensor]:
    """Return the tensors of a checkpoint; a pickle is read by torch with everything but tensors refused."""
    path = checkpoint
    if checkpoint.is_dir():
        files = [checkpoint / name for name in WEIGHT_FILES if (checkpoint / name).is_file()]
        if not files:
            raise EncoderError(f"{checkpoint} has neither {' nor '.join(WEIGHT_FILES)}; give a DensePhrases checkpoint")
        path = files[0]
    try:
        stored: Any = (
            load_file(path)
            if path.suffix == ".safetensors"
            else torch.load(path, map_location="cpu", weights_only=True, mmap=_is_zip(path))
        )
    except FileNotFoundError as e:
        raise EncoderError(f"{path} is not there; give a folder with {' or '.join(WEIGHT_FILES)}") from e
    except Exception as e:  # torch raises what the damaged bytes lead to: UnpicklingError, RuntimeError, KeyError …
        raise EncoderError(f"cannot read tensors from {path}: {str(e).splitlines()[0]}; copy it again") from e
    if not isinstance(stored, Mapping) or not all(isinstance(each, Tensor) for each in stored.values()):
        raise EncoderError(f"{path} holds {type(stored).__name__}, wanted tensors by name (a state_dict)")
    return stored


def _is_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"PK"


def _backbone(weights: Mapping[str, Tensor], folders: tuple[Path, ...]) -> BackboneConfig:
    """Return the shape of the towers: as a `config.json` says, else as the tensors have it."""
    for folder in folders:
        path = folder / "config.json"
        try:
            values = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        except ValueError as e:
            raise EncoderError(f"{path} is not JSON ({e}); copy it again") from e
        if isinstance(values, dict) and "hidden_size" in values:
            return read_backbone(values, str(path))
    embeddings = f"{PHRASE_ENCODER}embeddings"
    try:
        vocab_size, hidden_size = weights[f"{embeddings}.word_embeddings.weight"].shape
        layers = {int(name.split(".")[3]) for name in weights if name.startswith(f"{PHRASE_ENCODER}encoder.layer.")}
        return BackboneConfig(
            hidden_size=hidden_size,
            num_hidden_layers=max(layers) + 1,
            num_attention_heads=max(1, hidden_size // _HEAD_SIZE),
            intermediate_size=weights[f"{PHRASE_ENCODER}encoder.layer.0.intermediate.dense.weight"].shape[0],
            vocab_size=vocab_size,
            max_position_embeddings=weights[f"{embeddings}.position_embeddings.weight"].shape[0],
            type_vocab_size=weights[f"{embeddings}.token_type_embeddings.weight"].shape[0],
        )
    except (KeyError, ValueError, IndexError) as e:
        raise EncoderError(f"the phrase encoder lacks {e}; use the whole checkpoint, or add its config.json") from e
