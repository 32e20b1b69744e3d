"""Run by test_crash: forks children that do random operations on a knowledge base and note each one done.

Each line on standard input starts one child; when it was killed its status goes to standard output. A fork
costs milliseconds where starting Python costs a second. In the child's journal each line is one JSON object;
"intent" lines are written before an operation, "done" lines after it, both synced, so that the test knows which
operation was in flight.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np

from storage.alias_records import NewAlias, NewLink
from storage.errors import InvalidOptionError, UnknownAliasError, UnknownEncoderError
from storage.feedback_records import NewFeedback
from storage.reindexing import ReindexRequest
from storage.tuned_files import delete_tuned, write_tuned
from storage.writer import KBWriter
from tests.storage.small_world import random_document

KINDS = ["add"] * 8 + ["replace"] * 4 + ["delete"] * 4 + ["alias"] * 4 + ["unalias"] * 2
KINDS += ["merge_small"] * 2 + ["merge_all", "compact", "purge"]
KINDS += ["setting", "feedback", "tune", "untune", "reindex"]
INDEXES = ("ivf-sq8", "ivf-sq4")


def note(journal: int, entry: dict[str, Any]) -> None:
    """Write the line to the journal for good."""
    os.write(journal, (json.dumps(entry) + "\n").encode())
    os.fsync(journal)


def be_killed(delay_s: float) -> None:
    """Let the kernel end this process after so many seconds of its work, with nothing of it done any more."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, delay_s)


def work(directory: Path, journal_path: Path, *, seed: int, live: set[str], n_done: int, delay_s: float) -> None:
    """Work until killed: a moment after so many operations; after none of them, maybe while opening."""
    if n_done == 0:
        be_killed(delay_s)
    rng = np.random.default_rng(seed)
    journal = os.open(journal_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with KBWriter.open(directory) as writer:
        note(journal, {"event": "ready"})
        number = 0
        while True:
            number += 1
            kind = rng.choice(KINDS)
            ids: list[str] = []
            documents = []
            if kind == "add":
                ids = [f"{seed}-{number}-{i}" for i in range(int(rng.integers(1, 4)))]
            elif kind in ("replace", "delete", "alias", "unalias") and live:
                count = min(len(live), int(rng.integers(1, 3)))
                ids = sorted(rng.choice(sorted(live), size=count, replace=False).tolist())
            if kind in ("add", "replace"):
                links = [NewLink(f"link to {target}", str(target)) for target in sorted(live)[:3]]
                documents = [dataclasses.replace(random_document(doc_id, rng), links=tuple(links)) for doc_id in ids]
            texts = {doc.doc_id: [passage.text for passage in doc.passages] for doc in documents}
            entry = {"kind": str(kind), "ids": ids, "texts": texts, "alias": f"alias {number % 3}", "number": number}
            note(journal, {"event": "intent", **entry})
            if documents:
                writer.add(documents)
            elif kind == "delete" and ids:
                writer.delete(ids)
            elif kind == "alias" and ids:
                writer.add_aliases([(doc_id, NewAlias(entry["alias"])) for doc_id in ids], replace=True)
            elif kind == "unalias" and ids:
                with contextlib.suppress(UnknownAliasError):
                    writer.delete_aliases(ids[0], source="manual")
            elif kind == "merge_small":
                writer.merge_small()
            elif kind == "merge_all":
                writer.merge_all()
            elif kind in ("compact", "purge"):
                writer.compact(purge=kind == "purge")
            elif kind == "setting":
                writer.set_setting("note", number)
            elif kind == "feedback":
                writer.add_feedback([NewFeedback("question", f"Which {number % 9}?", str(number), "right")])
            elif kind == "tune":
                write_tuned(directory, "tuned", {}, str(number).encode() * 1000)
            elif kind == "untune":
                with contextlib.suppress(UnknownEncoderError):
                    delete_tuned(directory, "tuned")
            elif kind == "reindex":
                try:
                    writer.reindex(ReindexRequest(ann={"kind": INDEXES[number % 2]}))
                except InvalidOptionError:  # there is nothing to train it on
                    entry["kind"] = "nothing"
            note(journal, {"event": "done", **entry})
            if number == n_done:
                be_killed(delay_s)
            if kind in ("add", "replace", "delete"):
                live = live | set(texts) if documents else live - set(ids)


def serve(orders: Iterable[str], answers: IO[str]) -> None:
    """Start a child for each line and wait for its end."""
    for line in orders:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            work(
                Path(order["directory"]),
                Path(order["journal"]),
                seed=order["seed"],
                live=set(order["live"]),
                n_done=order["n_done"],
                delay_s=order["delay_s"],
            )
        _, status = os.waitpid(pid, 0)
        answers.write(f"{status}\n")
        answers.flush()


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout)
