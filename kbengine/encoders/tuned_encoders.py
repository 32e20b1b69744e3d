"""Encoders tuned for a knowledge base: stored with it, loaded when they are asked for, loaded anew when they change."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbengine.encoders.tuned_info import TunedInfo
from kbengine.errors import EncoderMismatchError
from storage.tuned_files import (
    TunedFiles,
    tuned_identity,
    tuned_weights,
    write_tuned,
)

if TYPE_CHECKING:
    from torch import Tensor

    from kbengine.encoders.checkpoint import Checkpoint
    from kbengine.encoders.deltas import ParameterOptions
    from kbengine.encoders.encoder import Encoder
    from kbengine.encoders.packing import WeightsDType

MAX_LOADED = 8
"""Tuned encoders kept in memory, those used last: one with a query encoder of its own takes some 45 MB at d = 384."""


class TunedEncoders:
    """The tuned encoders of one knowledge base over one encoder; usable from several threads at once."""

    def __init__(self, path: Path, base: Encoder) -> None:
        self._path = path
        self._base = base
        self._lock = threading.Lock()
        self._loaded: OrderedDict[str, tuple[tuple[int, int, int], Encoder]] = OrderedDict()
        self._base_weights: dict[str, Tensor] | None = None

    def get(self, name: str) -> Encoder:
        """Return the encoder as it is stored now: asking costs one look at its file while that is the same.

        Raises:
            UnknownEncoderError: there is none of the name.
            EncoderMismatchError: it was tuned from another encoder.
            CorruptError: its files are not what was written.
        """
        identity = tuned_identity(self._path, name)
        with self._lock:
            loaded = self._loaded.get(name)
            if loaded is None or loaded[0] != identity:
                files, data = tuned_weights(self._path, name)
                loaded = self._loaded[name] = (files.identity, self._load(files, data))
            self._loaded.move_to_end(name)
            while len(self._loaded) > MAX_LOADED:
                self._loaded.popitem(last=False)
            return loaded[1]

    def _load(self, files: TunedFiles, data: bytes) -> Encoder:
        from kbengine.encoders.model import query_weights

        info = TunedInfo.of_files(files)
        _check_base(info, self._base)
        if self._base_weights is None:
            self._base_weights = query_weights(base_checkpoint(self._base).weights)
        weights = _applied(self._base_weights, info, files, data)
        return self._base.with_query_weights(weights, name=info.name, fingerprint=info.fingerprint)


def base_checkpoint(encoder: Encoder) -> Checkpoint:
    """Return an encoder as its directory holds it: its weights in use are packed for inference.

    Raises:
        EncoderMismatchError: the encoder is of no directory, or the directory holds another one now.
    """
    from kbengine.encoders.checkpoint import read_checkpoint

    if encoder.directory is None:
        raise EncoderMismatchError(
            f"encoder {encoder.name!r} is of no directory, so nothing can be tuned from it; save it and open the "
            "knowledge base with the directory"
        )
    checkpoint = read_checkpoint(encoder.directory)
    if checkpoint.fingerprint != encoder.fingerprint:
        raise EncoderMismatchError(
            f"{encoder.directory} holds an encoder of fingerprint {checkpoint.fingerprint[:12]} now, the one in use "
            f"has {encoder.fingerprint[:12]}; start again"
        )
    return checkpoint


def tuned_fingerprint(base_fingerprint: str, options: ParameterOptions, data: bytes) -> str:
    """Return the fingerprint of a tuned encoder, hex: that of its start, and of what was changed and how."""
    parts = ["tuned", base_fingerprint, options.parameters, options.scale, hashlib.sha256(data).hexdigest()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def store_tuned(
    path: Path,
    name: str,
    deltas: Mapping[str, Tensor],
    *,
    base: Encoder,
    options: ParameterOptions,
    tasks: tuple[str, ...],
    report: Mapping[str, Any],
) -> TunedInfo:
    """Store an encoder with the knowledge base under the name; searches use it from the next one on.

    Args:
        path: the knowledge base.
        name: what searches name; an encoder of the name is replaced.
        deltas: what tuning changed.
        base: the encoder that it was tuned from.
        options: what kind of deltas these are.
        tasks: what it was tuned for.
        report: how tuning went, plain JSON values.

    Raises:
        InvalidOptionError: nothing may be called so.
        StorageFullError: no space; what was there before is untouched.
    """
    from kbengine.encoders.deltas import encode_deltas

    data = encode_deltas(deltas)
    facts = {
        "fingerprint": tuned_fingerprint(base.fingerprint, options, data),
        "base": base.name,
        "base_fingerprint": base.fingerprint,
        "passage_fingerprint": base.passage_fingerprint,
        "parameters": options.parameters,
        "scale": options.scale,
        "tasks": list(tasks),
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "report": dict(report),
    }
    return TunedInfo.of_files(write_tuned(path, name, facts, data))


def export_tuned(path: Path, name: str, out: Path, *, base: Encoder, dtype: WeightsDType = "int8") -> TunedInfo:
    """Return what is known of a stored encoder that was written as a model directory of its own.

    The passage side is its start's to the bit, so that it opens the same knowledge bases.

    Args:
        path: the knowledge base.
        name: the encoder's.
        out: the directory to make.
        base: the encoder that it was tuned from.
        dtype: how changed weights are stored; "int8" rounds them, "float16" keeps what the knowledge base has.

    Raises:
        UnknownEncoderError: there is none of the name.
        EncoderMismatchError: it was tuned from another encoder.
        EncoderError: the directory exists.
        CorruptError: its files are not what was written.
    """
    from kbengine.encoders.checkpoint import write_checkpoint

    files, data = tuned_weights(path, name)
    info = TunedInfo.of_files(files)
    _check_base(info, base)
    checkpoint = base_checkpoint(base)
    weights = dict(checkpoint.weights) | _applied(dict(checkpoint.weights), info, files, data)
    write_checkpoint(
        out,
        checkpoint.config,
        checkpoint.tokenizer_json,
        weights,
        dtype=dtype,
        documents={"README.md": info.card()},
        like=base.directory,
    )
    return info


def _check_base(info: TunedInfo, base: Encoder) -> None:
    """Raise EncoderMismatchError unless the encoder was tuned from this one."""
    if info.base_fingerprint != base.fingerprint:
        raise EncoderMismatchError(
            f"encoder {info.name!r} was tuned from {info.base!r} (fingerprint {info.base_fingerprint[:12]}), the "
            f"knowledge base is open with {base.name!r} ({base.fingerprint[:12]}); open it with the first, or tune "
            "again"
        )


def _applied(weights: Mapping[str, Tensor], info: TunedInfo, files: TunedFiles, data: bytes) -> dict[str, Tensor]:
    """Return the tuned query modules."""
    from kbengine.encoders.deltas import applied, decode_deltas
    from kbengine.encoders.model import query_weights

    return applied(query_weights(weights), decode_deltas(data, str(files.weights)), info.scale)
