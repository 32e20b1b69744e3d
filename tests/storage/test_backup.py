"""Backups: of one commit whatever goes on beside them, whole or not there, small when little changed, and restored."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from storage.backup import back_up, restore
from storage.errors import CorruptError, InvalidOptionError, KnowledgeBaseExistsError, NotAKnowledgeBaseError
from storage.operating_system import using
from storage.reindexing import ReindexRequest
from storage.tuned_files import tuned_weights, write_tuned
from storage.verify import verify
from storage.writer import KBWriter
from tests.storage.failing_calls import AtCall
from tests.storage.small_world import content, make_document, make_settings


@pytest.fixture
def kb(tmp_path: Path) -> Path:
    """A knowledge base of two segments, a tombstone, an encoder and keys."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        writer.add([make_document(name, f"amber {name}", "basalt cedar") for name in "abc"])
        writer.add([make_document("d", "delta " * 50)])
        writer.delete(["b"])
    write_tuned(tmp_path / "kb", "tuned", {}, b"weights")
    (tmp_path / "kb" / "api-keys.json").write_text("{}")
    return tmp_path / "kb"


def test_a_backup_is_restored_as_it_was_and_the_next_one_costs_what_is_new(kb: Path, tmp_path: Path) -> None:
    """Content, encoders and keys; segments of an earlier backup are not written again; each commit can be had."""
    before = content(kb)
    first = back_up(kb, tmp_path / "backups")
    with KBWriter.open(kb) as writer:
        writer.add([make_document("e", "ember")])
        second = back_up(kb, tmp_path / "backups")  # beside a writer
    after = content(kb)
    assert second.generation == first.generation + 1
    database = (kb / "kb.sqlite").stat().st_size
    assert database < second.new_bytes < first.new_bytes < first.n_bytes + 1

    restore(tmp_path / "backups", tmp_path / "newest")
    restore(tmp_path / "backups", tmp_path / "first", generation=first.generation)
    assert (content(tmp_path / "newest"), content(tmp_path / "first")) == (after, before)
    for name in ("newest", "first"):
        assert verify(tmp_path / name, deep=True).clean
        assert tuned_weights(tmp_path / name, "tuned")[1] == b"weights"
        assert stat.S_IMODE((tmp_path / name / "api-keys.json").stat().st_mode) == 0o600
    with KBWriter.open(tmp_path / "newest") as writer:
        writer.delete(["e"])
    assert content(tmp_path / "newest") == before


def test_a_backup_with_codes_only_takes_its_quantiser_along(kb: Path, tmp_path: Path) -> None:
    """Without it nothing could be read of the vectors."""
    with KBWriter.open(kb) as writer:
        writer.reindex(ReindexRequest(ann={"kind": "ivf-sq4"}, drop_vectors=True))
    back_up(kb, tmp_path / "backups")
    restore(tmp_path / "backups", tmp_path / "again")
    assert verify(tmp_path / "again").clean
    assert len(list((tmp_path / "again" / "segments").glob("*.quantiser"))) == 1


def test_a_compaction_in_the_middle_changes_nothing_of_the_backup(kb: Path, tmp_path: Path) -> None:
    """The files of the commit are held open: unlinked, they are there until they are copied."""
    before = content(kb)
    with KBWriter.open(kb) as writer:
        segments = {path.stem for path in (kb / "segments").iterdir()}

        def compact() -> None:
            writer.delete(["c"])
            writer.compact(purge=True)
            assert not segments & {path.stem for path in (kb / "segments").iterdir()}

        (tmp_path / "backups").mkdir()
        with using(AtCall("", compact)):  # when the first file is complete
            back_up(kb, tmp_path / "backups")
        assert set(content(kb)) == {"a", "d"}
    restore(tmp_path / "backups", tmp_path / "again")
    assert content(tmp_path / "again") == before


def test_damage_is_neither_backed_up_nor_restored(kb: Path, tmp_path: Path) -> None:
    """A damaged segment ends the backup, earlier ones stay; a damaged object ends the restoring, nothing appears."""
    file = max((kb / "segments").iterdir(), key=lambda path: path.stat().st_size)
    sound = file.read_bytes()
    damaged = bytearray(sound)
    damaged[len(damaged) // 2] ^= 1
    file.write_bytes(damaged)
    with pytest.raises(CorruptError, match=file.name):
        back_up(kb, tmp_path / "backups")
    with pytest.raises(NotAKnowledgeBaseError, match="holds no backup"):
        restore(tmp_path / "backups", tmp_path / "again")
    file.write_bytes(sound)
    back_up(kb, tmp_path / "backups")
    for path in (tmp_path / "backups").rglob("*"):
        if not path.is_file() or path.name == "writer.lock":
            continue
        whole = path.read_bytes()
        changed = bytearray(whole)
        changed[len(changed) // 2] ^= 4
        path.write_bytes(changed)
        with pytest.raises(CorruptError):
            restore(tmp_path / "backups", tmp_path / "again")
        assert not (tmp_path / "again").exists()
        path.write_bytes(whole)
    restore(tmp_path / "backups", tmp_path / "again")
    with pytest.raises(KnowledgeBaseExistsError):
        restore(tmp_path / "backups", tmp_path / "again")


def test_old_backups_go_with_what_only_they_have(kb: Path, tmp_path: Path) -> None:
    """What a killed backup left goes, too."""
    back_up(kb, tmp_path / "backups")
    (tmp_path / "backups" / "objects" / "0123.tmp").write_bytes(b"half")
    with KBWriter.open(kb) as writer:
        for name in "xyz":
            writer.add([make_document(name, "amber")])
            back_up(kb, tmp_path / "backups", keep=2)
        writer.merge_all()
        back_up(kb, tmp_path / "backups", keep=1)
    n_files = len(list((tmp_path / "backups" / "objects").iterdir()))
    assert n_files == 1 + 1 + 2 + 1  # database, segment, encoder, keys
    restore(tmp_path / "backups", tmp_path / "again")
    assert content(tmp_path / "again") == content(kb)


def test_a_folder_of_something_else_is_refused(kb: Path, tmp_path: Path) -> None:
    """Anybody's files, another knowledge base's backups."""
    with pytest.raises(InvalidOptionError, match="no backup"):
        back_up(kb, kb)
    with pytest.raises(InvalidOptionError, match="keep is 0"):
        back_up(kb, tmp_path / "backups", keep=0)
    back_up(kb, tmp_path / "backups")
    with KBWriter.create(tmp_path / "other", make_settings()) as writer:
        for number in range(9):
            writer.set_setting("note", number)
    with pytest.raises(InvalidOptionError, match="another knowledge base"):
        back_up(tmp_path / "other", tmp_path / "backups")
