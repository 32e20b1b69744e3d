"""Whether an encoder belongs to a knowledge base: it does when it makes the very passage vectors that are stored.

Two fingerprints: the whole encoder's, which answers carry, and that of its passage side, which stored vectors depend
on. Encoders that differ in their query side alone share the second and open the same knowledge bases.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kbengine.errors import EncoderError, EncoderMismatchError

if TYPE_CHECKING:
    from kbengine.encoders.encoder import Encoder
    from storage.settings import KBSettings


def check_encoder(encoder: Encoder, settings: KBSettings, path: Path) -> None:
    """Check that the encoder made the stored vectors, or makes the same.

    Raises:
        EncoderMismatchError: it makes others.
    """
    if encoder.fingerprint == settings.encoder_fingerprint:
        return
    stored = settings.passage_fingerprint or _passage_fingerprint_of(settings)
    if stored is None or encoder.passage_fingerprint != stored:
        raise EncoderMismatchError(
            f"{path} was built with encoder {settings.encoder_name!r} (fingerprint "
            f"{settings.encoder_fingerprint[:12]}), the one given ({encoder.name!r}, fingerprint "
            f"{encoder.fingerprint[:12]}) makes other passage vectors; open it with the encoder it was built with "
            "(leave --encoder out) or one tuned from that, or build it anew"
        )


def _passage_fingerprint_of(settings: KBSettings) -> str | None:
    """Return the passage fingerprint of the encoder that a knowledge base of an earlier version names; None without it.

    Such a knowledge base holds the whole encoder's fingerprint only: the encoder itself tells the other.
    """
    from kbengine.encoders.checkpoint import read_checkpoint
    from kbengine.encoders.location import find_encoder

    directory = find_encoder(settings.encoder_name)
    if directory is None:
        return None
    try:
        built_with = read_checkpoint(directory)
    except EncoderError:
        return None
    return built_with.passage_fingerprint if built_with.fingerprint == settings.encoder_fingerprint else None
