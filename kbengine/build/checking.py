"""Verify and repair with the encoder at hand: storage asks for vectors again, this is what makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kbengine.build.document_encoder import new_passage
from kbengine.build.identity import check_encoder
from kbengine.corpus.document import CorpusPassage
from kbengine.encoders.agreement import agreeing_encoder
from kbengine.errors import CorruptError
from storage.records import NewPassage, StoredPassage

if TYPE_CHECKING:
    from kbengine.encoders.encoder import Encoder
    from storage.verify import VerifyReport


def reencoder(encoder: Encoder) -> Callable[[Sequence[StoredPassage]], list[NewPassage]]:
    """Return the function that encodes stored passages again and gives the tokens that were kept.

    It raises CorruptError when a passage has fewer tokens than were stored of it: its text or the encoder changed.
    """

    def encode(passages: Sequence[StoredPassage]) -> list[NewPassage]:
        from kbengine.encoders.encoder import PassageText

        encoded = encoder.encode_passages([PassageText(passage.title, passage.text) for passage in passages])
        again = []
        for passage, vectors in zip(passages, encoded, strict=True):
            kept = passage.token_ordinals.astype("int64")
            if len(kept) and int(kept[-1]) >= len(vectors.starts):
                raise CorruptError(
                    f"passage {passage.passage_id} has {len(vectors.starts)} tokens, token {int(kept[-1])} was stored; "
                    "its text is not what was encoded: restore kb.sqlite from a backup"
                )
            keep = np.zeros(len(vectors.starts), dtype=np.bool_)
            keep[kept] = True
            again.append(new_passage(CorpusPassage(passage.ordinal, passage.text), vectors, keep))
        return again

    return encode


def verify_kb(path: Path, *, deep: bool = False, encoder: Encoder | None = None) -> VerifyReport:
    """Return what is wrong with the knowledge base; with `deep`, a sample is encoded again and compared."""
    from storage.verify import verify

    return verify(path, deep=deep, reencode=reencoder(_own_encoder(path, encoder)) if deep else None)


def record_kb_answers(path: Path) -> str:
    """Record what the sound knowledge base finds for queries of its own, for later verifications; return the digest."""
    from storage.recorded_answers import record_answers

    return record_answers(path).digest


def repair_kb(path: Path, *, accept_loss: bool = False, encoder: Encoder | None = None) -> list[str]:
    """Return what was rebuilt from the stored text.

    Args:
        path: the knowledge base.
        accept_loss: go on from the newest commit that can be read where the log lost later ones.
        encoder: its own encoder, where it is loaded already.

    Raises:
        CorruptError: the text itself is damaged, or commits are lost, so that a backup is needed.
    """
    from storage.loss import accept_loss as accept
    from storage.repair import repair

    accepted = accept(path) if accept_loss else []
    return accepted + repair(path, reencoder(_own_encoder(path, encoder)))


def _own_encoder(path: Path, encoder: Encoder | None) -> Encoder:
    """Return the encoder that made the knowledge base's vectors."""
    from kbengine.encoders.encoder import Encoder
    from storage.reader import KBReader

    with KBReader.open(path, allow_incomplete=True) as reader:
        settings = reader.settings
    encoder = encoder or Encoder.load(settings.encoder_name)
    check_encoder(encoder, settings, path)
    return agreeing_encoder(encoder, settings.sparse_model, path)
