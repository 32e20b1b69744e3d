"""Changes of the code that would break a promise, and the checks that notice them: the gate of `test_mutations`."""

from __future__ import annotations

import errno
from pathlib import Path

from tests.storage.power.mutation import Mutation


def new_files_are_synced(scratch: Path) -> None:
    """A segment is on disk, with its name, before a commit tells of it."""
    from tests.storage.power import scenarios as s
    from tests.storage.power import steps

    s.check_all(s.record(scratch / "run", [steps.CREATE, steps.ADD]), scratch, s.Cuts(since=2, modes=("drop",)))


def tuned_encoders_are_whole(scratch: Path) -> None:
    """The old encoder or the new one, whatever is left of files and names."""
    from tests.storage.power import scenarios as s
    from tests.storage.power import steps

    recording = s.record(scratch / "run", [steps.CREATE, steps.TUNE, steps.RETUNE])
    for modes in (("keep",), ("names",)):
        s.check_all(recording, scratch, s.Cuts(since=2, modes=modes))


def merging_keeps_what_is_named(scratch: Path) -> None:
    """Old segments go when nothing names them any more."""
    from tests.storage.power import scenarios as s
    from tests.storage.power import steps

    recording = s.record(scratch / "run", [steps.CREATE, steps.ADD, steps.REPLACE, steps.MERGE])
    s.check_all(recording, scratch, s.Cuts(since=3, modes=("keep",), stride=2))


def compaction_is_one_commit(scratch: Path) -> None:
    """Segments, texts and tombstones go together, and old files after that."""
    from tests.storage.power import scenarios as s
    from tests.storage.power import steps

    recording = s.record(scratch / "run", [steps.CREATE, steps.ADD, steps.REPLACE, steps.COMPACT])
    s.check_all(recording, scratch, s.Cuts(since=3, modes=("keep",), stride=2))


def what_dies_during_a_compaction_stays_dead(scratch: Path) -> None:
    """A document that is deleted while segments are rewritten is in none of them to be forgotten."""
    from storage.operating_system import using
    from storage.verify import verify
    from storage.writer import KBWriter
    from tests.storage.failing_calls import AtCall
    from tests.storage.small_world import content, make_document, make_settings

    kb = scratch / "kb"
    with KBWriter.create(kb, make_settings()) as writer:
        writer.add([make_document(name, f"amber {name}") for name in "abc"])
        writer.delete(["a"])
        with using(AtCall(".seg", lambda: writer.delete(["b"]))):
            writer.compact()
    assert content(kb) == {"c": ("amber c",)}
    assert verify(kb).clean


def compacted_documents_are_in_no_answer(scratch: Path) -> None:
    """Of a reader, too, that opens large segments later and answers from their sources meanwhile."""
    from storage.reader import KBReader
    from storage.writer import KBWriter
    from tests.storage.small_world import make_document, make_settings

    kb = scratch / "kb"
    with KBWriter.create(kb, make_settings()) as writer:
        writer.add([make_document(name, f"amber {name}") for name in "abc"])
        with KBReader.open(kb, defer_rows=1) as reader:
            assert reader.snapshot().n_live_passages == 3
            writer.delete(["a"])
            writer.compact()
            assert reader.snapshot().n_live_passages == 2


def a_failed_commit_ends_the_session(scratch: Path) -> None:
    """After a failed sync nothing is known of what is on disk: no further write is taken until it is opened again."""
    from storage.errors import KBError, StateError
    from storage.operating_system import using
    from storage.verify import verify
    from storage.writer import KBWriter
    from tests.storage.power.machine import Machine
    from tests.storage.small_world import make_document, make_settings

    (scratch / "disk").mkdir()
    with Machine(scratch / "disk") as machine, using(machine):
        kb = scratch / "disk" / "kb"
        writer = KBWriter.create(kb, make_settings())
        log = machine.place(kb / "kb.sqlite-wal")[2]

        def fail(event: tuple[object, ...]) -> None:
            if event == ("sync", log):
                raise OSError(errno.EIO, "Input/output error")

        machine.hook = fail
        try:
            writer.add([make_document("a", "amber")])
        except KBError:
            machine.hook = lambda _event: None
        else:
            raise AssertionError("the sync did not fail")
        try:
            writer.add([make_document("b", "basalt")])
        except StateError as error:
            assert "takes no more writes" in error.message
        else:
            raise AssertionError("a write was taken after a failed sync")
        writer.close()
        with KBWriter.open(kb) as writer:
            writer.add([make_document("c", "cedar")])
        assert verify(kb).clean


CHECKS = (
    new_files_are_synced,
    tuned_encoders_are_whole,
    merging_keeps_what_is_named,
    compaction_is_one_commit,
    what_dies_during_a_compaction_stays_dead,
    compacted_documents_are_in_no_answer,
    a_failed_commit_ends_the_session,
)

_COMMIT = """            calls.fsync(self._descriptor)
            descriptor, self._descriptor = self._descriptor, None
            calls.close(descriptor)
            calls.rename(self._temporary, self.path)
"""
_RENAMED_FIRST = """            calls.rename(self._temporary, self.path)
            calls.fsync(self._descriptor)
            descriptor, self._descriptor = self._descriptor, None
            calls.close(descriptor)
"""
_MERGED = "    new_files: list[SegmentFile] = [] if replacement.new is None else [replacement.new.file]\n"
_COMPACTING = "        with session.writing() as connection:\n            if purge:\n"
_FORGET = "forget_dead(connection, up_to=generation)"
_WEIGHTS = "            write_durably(file, [weights], replace=True)\n"
_RECORD = "            write_durably(folder / RECORD_FILE, [text.encode()], replace=True)\n"

MUTATIONS = (
    Mutation(
        "no sync of files",
        new_files_are_synced,
        [("durable", "            calls.fsync(self._descriptor)\n", "            pass\n")],
    ),
    Mutation(
        "no sync of directories",
        new_files_are_synced,
        [
            (
                "durable",
                "O_DIRECTORY)\n        try:\n            calls.fsync(descriptor)\n",
                "O_DIRECTORY)\n        try:\n            pass\n",
            )
        ],
    ),
    Mutation("rename before sync", tuned_encoders_are_whole, [("durable", _COMMIT, _RENAMED_FIRST)]),
    Mutation(
        "unlink before commit (merging)",
        merging_keeps_what_is_named,
        [("merging", _MERGED, _MERGED + "    session.unlink([row.file.name for row in rows])\n")],
    ),
    Mutation(
        "unlink before commit (compaction)",
        compaction_is_one_commit,
        [
            (
                "compaction",
                _COMPACTING,
                "        session.unlink([row.file.name for replacement in replacements for row in replacement.old])\n"
                + _COMPACTING,
            )
        ],
    ),
    Mutation(
        "compaction in two transactions, texts first",
        compaction_is_one_commit,
        [
            (
                "compaction",
                _COMPACTING,
                f"        with session.writing() as connection:\n            {_FORGET}\n" + _COMPACTING,
            )
        ],
    ),
    Mutation(
        "compaction in two transactions, segments first",
        compaction_is_one_commit,
        [
            ("compaction", f"n_forgotten = {_FORGET} if after is not None else 0", "pass"),
            (
                "compaction",
                "    session.unlink(",
                f"    with session.writing() as connection:\n        n_forgotten = {_FORGET}\n    session.unlink(",
            ),
        ],
    ),
    Mutation(
        "forgetting what died during a compaction",
        what_dies_during_a_compaction_stays_dead,
        [("compaction", _FORGET, "forget_dead(connection, up_to=after.number)")],
    ),
    Mutation(
        "answering from old segments after a compaction",
        compacted_documents_are_in_no_answer,
        [
            ("reader", "                sources = {}\n", "                pass\n"),
            (
                "catalog",
                "    connection.execute(delete(segments).where(segments.c.dead_generation.is_not(None)))\n",
                "",
            ),
        ],
    ),
    Mutation(
        "no poisoning after a failed commit",
        a_failed_commit_ends_the_session,
        [
            (
                "session",
                "                    self.poison(error)\n                raise\n",
                "                    pass\n                raise\n",
            )
        ],
    ),
    Mutation(
        "a tuned encoder's record before its weights",
        tuned_encoders_are_whole,
        [("tuned_files", _WEIGHTS, ""), ("tuned_files", _RECORD, _RECORD + _WEIGHTS)],
    ),
)
