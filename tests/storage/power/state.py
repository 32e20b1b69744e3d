"""Everything that was acknowledged of a knowledge base, as one value."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from storage.backup import restore
from storage.backup_places import open_store
from storage.errors import UnknownEncoderError
from storage.reader import KBReader
from storage.tuned_files import tuned_weights
from storage.verify import verify
from tests.storage.small_world import content

State = dict[str, object]
Read = Callable[[Path], State]
OUT, BACKUPS, TOY = "out", "backups", "toy"


def state_of(kb: Path) -> State:
    """Everything that was acknowledged of a knowledge base: texts compared with vectors, names, settings, encoders."""
    if not kb.exists():
        return {}
    with KBReader.open(kb, allow_incomplete=True) as reader:
        state: State = {f"text {doc_id}": texts for doc_id, texts in _texts(kb).items()}
        named = reader.list_aliases(source="manual", limit=100_000)
        state |= {f"alias {each.alias} of {each.doc_id}": True for each in named}
        state |= {f"feedback {each.input}": each.answer for each in reader.list_feedback()}
        settings = reader.settings
        state["settings"] = (
            settings.ann_options.kind,
            settings.drops_vectors,
            json.dumps(settings.filter, sort_keys=True),
        )
        state["note"] = reader.setting("note")
    with contextlib.suppress(UnknownEncoderError):
        state["encoder"] = tuned_weights(kb, "tuned")[1]
    return state


def state_beside(kb: Path) -> State:
    """What there is of a knowledge base and beside it: a copy that was reindexed, the newest backup, restored."""
    state = state_of(kb)
    if (kb.parent / OUT).exists():
        state["out"] = state_of(kb.parent / OUT)
        assert verify(kb.parent / OUT).clean
    if open_store(kb.parent / BACKUPS).generations():
        with tempfile.TemporaryDirectory() as scratch:
            restore(kb.parent / BACKUPS, Path(scratch) / "again")
            state["backup"] = state_of(Path(scratch) / "again")
    return state


def _texts(kb: Path) -> dict[str, tuple[str, ...]]:
    with KBReader.open(kb) as reader:
        settings = reader.settings
        if settings.encoder_name == TOY and not settings.drops_vectors and not settings.filter:
            return content(kb)
        reader.snapshot()  # every segment's checksum
        return {
            document.doc_id: tuple(passage.text for passage in passages)
            for document, passages in reader.iterate_documents()
        }
