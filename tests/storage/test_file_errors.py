"""Disks that are full, broken, read-only or somebody else's, and what killed processes left: named, or passed over."""

from __future__ import annotations

import errno
import os
import shutil
import time
import uuid
from datetime import datetime, tzinfo
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from storage import catalog
from storage.acknowledged import read_acknowledged
from storage.backup import back_up, restore
from storage.creation import copy_without_segments
from storage.durable import DurableFile
from storage.errors import KBError, LockedError, StateError, StorageFullError
from storage.lock import LOCK_NAME, is_locked
from storage.operating_system import OperatingSystem, using
from storage.reader import KBReader
from storage.reindexing import ReindexRequest
from storage.tuned_files import write_tuned
from storage.verify import verify
from storage.writer import KBWriter
from tests.storage.failing_calls import FailingCalls, ReadOnlyMount, failing
from tests.storage.small_world import content, make_document, make_settings, random_document


def make(path: Path) -> Path:
    """A knowledge base of a few documents."""
    rng = np.random.default_rng(0)
    with KBWriter.create(path, make_settings(ann={"exact_below_rows": 20, "nlist": 4})) as writer:
        writer.add([random_document(f"d{number}", rng, passages=3) for number in range(12)])
    with KBReader.open(path) as reader:
        reader.snapshot()
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One to be copied, not changed."""
    return make(tmp_path_factory.mktemp("made") / "kb")


@pytest.fixture
def kb(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path / "kb"))


@pytest.mark.parametrize(
    ("number", "kind", "remedy"),
    [
        (errno.EROFS, StateError, "writable"),
        (errno.EIO, StateError, "check the disk"),
        (errno.ENOSPC, StorageFullError, "free space"),
        (errno.EACCES, LockedError, "user who owns"),
    ],
)
def test_a_lock_that_cannot_be_made_is_a_named_error(kb: Path, number: int, kind: type[KBError], remedy: str) -> None:
    """Whatever the operating system says."""
    with using(failing(number, "open", LOCK_NAME)), pytest.raises(kind, match=remedy):
        KBWriter.open(kb)
    KBWriter.open(kb, lock_timeout_s=0).close()


@pytest.mark.parametrize("number", [errno.EROFS, errno.EIO, errno.ENOSPC, errno.EACCES, errno.EDQUOT])
@pytest.mark.parametrize("call", ["open", "write", "fsync", "rename"])
def test_no_raw_error_and_nothing_half_done(kb: Path, call: str, number: int) -> None:
    """Each call of an addition may fail: a named error, the content as before, and a sound knowledge base."""
    before = content(kb)
    writer = KBWriter.open(kb)
    with using(failing(number, call, "segments" if call == "open" else "")), pytest.raises(KBError):
        writer.add([make_document("new", "amber basalt")])
    writer.close()
    assert content(kb) == before
    KBWriter.open(kb).close()
    assert verify(kb).clean


def test_a_reindex_is_done_when_what_it_replaced_cannot_be_removed(kb: Path) -> None:
    """It was committed: the writer goes on by the new settings, the next one tries again to remove."""
    old = {path.name for path in (kb / "index").iterdir()}
    assert old
    stuck = FailingCalls(errno.EPERM, lambda call, path: call == "unlink" and path is not None and path.name in old)
    with using(stuck), KBWriter.open(kb) as writer:
        writer.reindex(ReindexRequest(ann={"kind": "ivf-sq4"}, drop_vectors=True))
        assert writer.settings.drops_vectors
        writer.add([make_document("after", "amber basalt cedar")])
    assert stuck.failed
    with using(stuck):
        KBWriter.open(kb).close()
    assert {finding.severity for finding in verify(kb).findings} == {"leftover"}
    KBWriter.open(kb).close()
    assert verify(kb).clean
    with KBReader.open(kb) as reader:
        assert all(loaded.segment.arrays.codes is None for loaded in reader.snapshot().segments)


def test_what_killed_processes_left_is_seen_and_removed(kb: Path) -> None:
    """A key being made, an encoder being stored, a derived file, whatever the clock says now."""
    write_tuned(kb, "kept", {}, b"weights")
    kept = sorted(path for path in kb.rglob("*") if path.is_file())
    left = [kb, kb / "segments", kb / "index", kb / "encoders" / "kept", kb / "encoders" / "never"]
    (kb / "encoders" / "never").mkdir()
    for number, folder in enumerate(left):
        file = folder / f"{uuid.uuid4().hex}.tmp"
        file.write_bytes(b"half")
        os.utime(file, (time.time() + (number - 2) * 1e8,) * 2)
    (kb / "encoders" / "never" / "0123456789abcdef.safetensors").write_bytes(b"weights")
    report = verify(kb)
    assert report.ok and len(report.findings) == 6 and {each.severity for each in report.findings} == {"leftover"}
    KBWriter.open(kb).close()
    assert verify(kb).clean
    assert not (kb / "encoders" / "never").exists()
    assert [path for path in kept if path.suffix != ".ann" and not path.exists()] == []


def test_a_copy_without_empty_directories_opens_and_is_tidied_up(kb: Path) -> None:
    """Git and object stores keep files only; what a killed process left there goes all the same."""
    shutil.rmtree(kb / "index")
    shutil.rmtree(kb / "encoders")
    (kb / "segments" / f"{uuid.uuid4().hex}.tmp").write_bytes(b"half")
    with KBWriter.open(kb) as writer:
        writer.add([make_document("new", "amber")])
    assert verify(kb).clean and "new" in content(kb)


def test_what_is_being_written_is_no_leftover(kb: Path) -> None:
    """However old the clock says that it is."""
    with DurableFile(kb / "api-keys.json") as file:
        file.write(b"{}")
        (being_written,) = kb.glob("*.tmp")
        os.utime(being_written, (0, 0))
        assert verify(kb).clean
        KBWriter.open(kb).close()
        file.commit()
    assert (kb / "api-keys.json").read_bytes() == b"{}"


class InParts(OperatingSystem):
    """Writes seven bytes at a time where it is told the place."""

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        return super().pwrite(descriptor, data[:7], offset)


def test_a_note_that_is_written_in_parts_is_whole(kb: Path) -> None:
    """A write may do less than it was asked: the commit is noted all the same, and its loss would be seen."""
    with using(InParts()), KBWriter.open(kb) as writer:
        for number in range(3):
            generation = writer.add([make_document(f"n{number}", "amber")]).generation
            assert read_acknowledged(kb) == generation


def test_a_clock_that_jumps_changes_nothing_but_the_times_shown(kb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits are in the order of their numbers, and the newest one is served, whatever the clock said."""

    class Jumping(datetime):
        years: ClassVar[list[int]] = [1971, 2199, 2001, 1971]

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Jumping:
            return cls(cls.years.pop(0) if cls.years else 2020, 1, 1, tzinfo=tz)

    monkeypatch.setattr(catalog, "datetime", Jumping)
    before = content(kb)
    with KBWriter.open(kb) as writer:
        writer.add([make_document("new", "amber")])
        writer.add([make_document("new", "basalt")])
        writer.delete(["d0"])
        writer.compact()
    expected = {doc_id: texts for doc_id, texts in before.items() if doc_id != "d0"} | {"new": ("basalt",)}
    assert content(kb) == expected
    assert verify(kb, deep=True).clean
    with KBReader.open(kb) as reader:
        numbers = [commit.generation for commit in reader.info().last_commits]
        assert numbers == sorted(numbers, reverse=True)
    back_up(kb, kb.parent / "backups")
    restore(kb.parent / "backups", kb.parent / "again")
    assert content(kb.parent / "again") == expected


class Synced(OperatingSystem):
    """Notes which files and directories were synced."""

    def __init__(self) -> None:
        self.synced: set[int] = set()

    def fsync(self, descriptor: int) -> None:
        super().fsync(descriptor)
        self.synced.add(os.fstat(descriptor).st_ino)


def test_a_copy_with_other_segments_syncs_the_encoders_that_it_takes_along(kb: Path, tmp_path: Path) -> None:
    """`reindex --out` answers when all of it is on disk."""
    write_tuned(kb, "tuned", {}, b"weights")
    (tmp_path / "out").mkdir()
    calls = Synced()
    with using(calls):
        copy_without_segments(kb, tmp_path / "out")
    encoders = tmp_path / "out" / "encoders"
    assert len(list(encoders.rglob("*"))) == 3
    assert {path.stat().st_ino for path in (encoders, *encoders.rglob("*"))} <= calls.synced


def test_a_reader_on_a_read_only_mount_keeps_writers_out(kb: Path) -> None:
    """It could not see what they change; when it is closed they may."""
    before = content(kb)
    KBWriter.open(kb).close()  # the last one that closes removes log and shared memory
    assert not list(kb.glob("kb.sqlite-*"))
    with using(ReadOnlyMount()), KBReader.open(kb) as reader:
        assert reader.snapshot().n_live_passages == sum(map(len, before.values()))
        with pytest.raises(LockedError, match="read-only mount"):
            KBWriter.open(kb, lock_timeout_s=0)
        with KBReader.open(kb) as second:
            assert second.snapshot().generation == reader.snapshot().generation
    assert not is_locked(kb)
    with KBWriter.open(kb, lock_timeout_s=0) as writer:
        writer.delete(["d0"])


def test_a_reader_on_a_read_only_mount_follows_a_writer_that_is_there(kb: Path) -> None:
    """Through the shared memory of the log: a document that is deleted elsewhere is in no answer."""
    with KBWriter.open(kb) as writer:
        writer.add([make_document("new", "amber")])
        with using(ReadOnlyMount()), KBReader.open(kb) as reader:
            assert set(reader.titles_of(["new", "d0"])) == {"new", "d0"}
            before = reader.snapshot()
            writer.delete(["d0"])
            assert reader.snapshot().generation == before.generation + 1
            assert reader.snapshot().n_live_passages == before.n_live_passages - 3


def test_a_log_is_never_passed_over_on_a_read_only_mount(kb: Path, tmp_path: Path) -> None:
    """What a killed writer acknowledged may be in it alone."""
    with KBWriter.open(kb) as writer:
        writer.add([make_document("new", "amber")])
        shutil.copytree(kb, tmp_path / "crashed", ignore=shutil.ignore_patterns("*-shm"))
    with using(ReadOnlyMount()), pytest.raises(StateError, match="log"):
        KBReader.open(tmp_path / "crashed")
    (kb / LOCK_NAME).unlink()
    with using(ReadOnlyMount()), pytest.raises(StateError, match=f"touch {LOCK_NAME}"):
        KBReader.open(kb)
    assert "new" in content(tmp_path / "crashed")
