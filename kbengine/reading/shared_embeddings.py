"""Embeddings that a reader shares with a bundled encoder: taken from there when the reader is loaded, and checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from kbengine.encoders.checkpoint import WEIGHTS_FILE, tensor_digests
from kbengine.encoders.location import find_encoder
from kbengine.encoders.packing import read_packed, unpack_all
from kbengine.errors import EncoderError
from kbengine.reading.config import SharedEmbeddings

EMBEDDINGS_PREFIX = "embeddings."
"""How the names of a reader's embeddings begin, and of those of an encoder whose towers share them."""


def shared_embeddings(encoder: str, weights: Mapping[str, Tensor]) -> SharedEmbeddings:
    """Return what a reader's configuration says when its embeddings are those of an encoder.

    Args:
        encoder: the encoder's name.
        weights: the reader's, float32.

    Raises:
        EncoderError: there is no such encoder, or its embeddings are others.
    """
    path, stored = _stored(encoder)
    theirs = embeddings_sha256(unpack_all(stored, path))
    ours = embeddings_sha256(weights)
    if ours != theirs:
        raise EncoderError(
            f"the reader's embeddings (sha256 {ours[:12]}) are not those of {encoder} ({theirs[:12]}): store the "
            "reader with its own, or train it from them with a rate of 0 (rate_factors embeddings.=0)"
        )
    return SharedEmbeddings(encoder, theirs)


def read_shared_embeddings(shared: SharedEmbeddings) -> dict[str, Tensor]:
    """Return the embeddings that a reader's configuration names, as they are stored with the encoder.

    Raises:
        EncoderError: there is no such encoder, or it has other embeddings than the reader was trained with.
    """
    path, stored = _stored(shared.encoder)
    found = embeddings_sha256(unpack_all(stored, path))
    if found != shared.sha256:
        raise EncoderError(
            f"the reader shares embeddings of {shared.encoder} with sha256 {shared.sha256[:12]}, {path} holds others "
            f"({found[:12]}); use the kbengine that the reader came with, or train a reader for this encoder"
        )
    return stored


def embeddings_sha256(weights: Mapping[str, Tensor]) -> str:
    """Return the SHA-256, hex, of the float32 embeddings among the weights, however they are stored."""
    digests = tensor_digests({name: each for name, each in weights.items() if name.startswith(EMBEDDINGS_PREFIX)})
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


def _stored(encoder: str) -> tuple[Path, dict[str, Tensor]]:
    """Return the encoder's weights file and the embeddings in it, packed as they are there."""
    directory = find_encoder(encoder)
    if directory is None:
        raise EncoderError(
            f"embeddings are shared with the encoder {encoder!r}, which is not there; give the name of a bundled one"
        )
    path = directory / WEIGHTS_FILE
    stored = read_packed(path, prefix=EMBEDDINGS_PREFIX)
    if not stored:
        raise EncoderError(f"the encoder {encoder!r} has no embeddings that its towers share; store the reader's own")
    return path, stored
