"""A small knowledge base with every kind of file, and all that can be asked of it as one value."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np

from storage.alias_records import NewAlias
from storage.backup import back_up
from storage.feedback_records import NewFeedback
from storage.reader import KBReader
from storage.recorded_answers import record_answers
from storage.reindexing import ReindexRequest
from storage.tuned_files import write_tuned
from storage.writer import KBWriter
from tests.storage.power.state import State, state_of
from tests.storage.small_world import WORDS, D, make_settings, random_document


def make_world(folder: Path) -> None:
    """Make `kb`, with a log that was not copied into the database, and `backups`; what opening makes is there, too."""
    rng = np.random.default_rng(0)
    kb = folder / "whole"
    settings = make_settings(ann={"kind": "ivf-sq4", "exact_below_rows": 20, "nlist": 4})
    with KBWriter.create(kb, settings) as writer:
        writer.add([random_document(f"d{number}", rng, passages=3) for number in range(12)])
        writer.reindex(ReindexRequest(ann={"kind": "ivf-sq4"}, drop_vectors=True))
        writer.add_feedback([NewFeedback("question", f"Which {n}?", "amber", "right") for n in range(9)])
    write_tuned(kb, "tuned", {"n": 1}, b"w" * 5000)
    from web.keys import KeyFile

    KeyFile(kb / "api-keys.json").create("operator", "admin")
    record_answers(kb)
    back_up(kb, folder / "backups")
    with KBWriter.open(kb, background_merging=False) as writer:
        writer.delete(["d3"])
        writer.add_aliases([("d4", NewAlias("Fourth"))])
        writer.add([random_document("new", rng, passages=2)])
        asked(kb)
        shutil.copytree(kb, folder / "kb", ignore=shutil.ignore_patterns("*-shm"))
    shutil.rmtree(kb)


def asked(kb: Path) -> State:
    """Everything stored, compared with its vectors, what each word and some vectors find, and who has keys."""
    state = state_of(kb)
    queries = np.random.default_rng(1).normal(size=(5, D)).astype(np.float32)
    with KBReader.open(kb) as reader:
        snapshot = reader.snapshot()
        for word in WORDS:
            state[f"word {word}"] = snapshot.lexical_scores(word).tolist()
        for name, search in (("tokens", snapshot.search_tokens), ("passages", snapshot.search_passages)):
            scores, found = search(queries, 5)
            state[name] = (np.round(scores, 4).tolist(), found.tolist())
    if os.path.lexists(kb / "api-keys.json"):
        from web.keys import KeyFile

        state["keys"] = [(key.id, key.name, key.scope, key.sha256) for key in KeyFile(kb / "api-keys.json").all()]
    return state
