"""Whether an encoder's sparse heads are those that made a knowledge base's sparse rows. No torch here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kbengine.errors import EncoderMismatchError

if TYPE_CHECKING:
    from kbengine.encoders.encoder import Encoder


def agreeing_encoder(encoder: Encoder, sparse_model: str | None, path: Path) -> Encoder:
    """Return the encoder as a knowledge base needs it: without sparse heads where no sparse rows are stored.

    An encoder without heads can search a knowledge base that has sparse rows, by dense vectors alone.

    Args:
        encoder: What is at hand.
        sparse_model: Fingerprint of the sparse encoder whose rows are stored, None without any.
        path: The knowledge base, for the message.

    Raises:
        EncoderMismatchError: the encoder has other sparse heads than those that made the rows.
    """
    if encoder.sparse is None:
        return encoder
    if sparse_model is None:
        return encoder.without_sparse()
    if encoder.sparse.fingerprint != sparse_model:
        raise EncoderMismatchError(
            f"{path} holds sparse rows of the heads with fingerprint {sparse_model[:12]}, encoder {encoder.name!r} has "
            f"{encoder.sparse.fingerprint[:12]}; bring the heads it was built with back, or build it anew"
        )
    return encoder
