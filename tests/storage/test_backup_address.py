"""Backups at an address, as on object storage: the same as in a folder, and every error is named."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from storage.backup import back_up, restore
from storage.errors import CorruptError, InvalidOptionError, NotAKnowledgeBaseError, StateError
from storage.verify import verify
from storage.writer import KBWriter
from tests.storage.small_world import content, make_document, make_settings


@pytest.fixture
def kb(tmp_path: Path) -> Path:
    """A knowledge base of two segments."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        writer.add([make_document("a", "amber"), make_document("b", "basalt")])
        writer.add([make_document("c", "cedar " * 30)])
    return tmp_path / "kb"


@pytest.fixture
def address() -> Iterator[str]:
    """An address in memory that nobody else uses."""
    found = f"memory://{uuid.uuid4().hex}/backups"
    yield found
    files, root = fsspec.core.url_to_fs(found)
    if files.exists(root):
        files.rm(root, recursive=True)


def test_what_was_backed_up_is_restored_and_the_next_backup_costs_what_is_new(
    kb: Path, address: str, tmp_path: Path
) -> None:
    """Each commit can be had; what only old backups need goes with them."""
    before = content(kb)
    first = back_up(kb, address)
    with KBWriter.open(kb) as writer:
        writer.add([make_document("d", "delta")])
        second = back_up(kb, address)
    assert second.new_bytes < first.new_bytes == first.n_bytes
    restore(address, tmp_path / "old", generation=first.generation)
    restore(address, tmp_path / "new")
    assert (content(tmp_path / "old"), content(tmp_path / "new")) == (before, content(kb))
    assert verify(tmp_path / "new", deep=True).clean

    with KBWriter.open(kb) as writer:
        writer.merge_all()
    back_up(kb, address, keep=1)
    files, root = fsspec.core.url_to_fs(address)
    assert len(files.ls(f"{root}/objects")) == 2  # the database and the one segment
    with pytest.raises(NotAKnowledgeBaseError, match=f"{address} holds no backup of commit {first.generation}"):
        restore(address, tmp_path / "gone", generation=first.generation)


def test_an_upload_that_was_cut_short_is_made_again(kb: Path, address: str, tmp_path: Path) -> None:
    """It has its name, but not its size."""
    back_up(kb, address)
    files, root = fsspec.core.url_to_fs(address)
    for path in [*files.ls(f"{root}/objects", detail=False)]:
        files.pipe_file(path, files.cat_file(path)[:-9])
    for path in files.glob(f"{root}/backup-*"):
        files.rm_file(path)
    with pytest.raises(NotAKnowledgeBaseError):
        restore(address, tmp_path / "again")
    back_up(kb, address)
    restore(address, tmp_path / "again")
    assert content(tmp_path / "again") == content(kb)


def test_damage_is_neither_backed_up_nor_restored(kb: Path, address: str, tmp_path: Path) -> None:
    """Of a segment on its way there, of an object and of a list."""
    (file, *_) = (kb / "segments").iterdir()
    sound = file.read_bytes()
    file.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    with pytest.raises(CorruptError, match=file.name):
        back_up(kb, address)
    file.write_bytes(sound)
    back_up(kb, address)
    files, root = fsspec.core.url_to_fs(address)
    for path in files.find(root):
        whole = files.cat_file(path)
        files.pipe_file(path, whole[:70] + bytes([whole[70] ^ 4]) + whole[71:])
        with pytest.raises(CorruptError):
            restore(address, tmp_path / "again")
        assert not (tmp_path / "again").exists()
        files.pipe_file(path, whole)
    restore(address, tmp_path / "again")


def test_other_things_and_other_knowledge_bases_are_refused(kb: Path, address: str, tmp_path: Path) -> None:
    """As in a folder; and an address of a kind that nothing here knows."""
    files, root = fsspec.core.url_to_fs(address)
    files.pipe_file(f"{root}/letters.txt", b"Dear")
    with pytest.raises(InvalidOptionError, match="no backup"):
        back_up(kb, address)
    files.rm(root, recursive=True)
    back_up(kb, address)
    with KBWriter.create(tmp_path / "other", make_settings()) as writer:
        for number in range(9):
            writer.set_setting("note", number)
    with pytest.raises(InvalidOptionError, match="another knowledge base"):
        back_up(tmp_path / "other", address)
    with pytest.raises(InvalidOptionError, match="s3fs"):
        back_up(kb, "nosuchstore://bucket/kb")


class Refusing(fsspec.AbstractFileSystem):
    """A store that refuses everything with an error of its own."""

    protocol = "refusing"

    def ls(self, path: str, detail: bool = True, **options: object) -> list[str]:
        raise RuntimeError("403: the key is not valid")


def test_an_error_of_a_client_library_names_the_address(kb: Path, tmp_path: Path) -> None:
    """Whatever it raises."""
    fsspec.register_implementation("refusing", Refusing, clobber=True)
    for act in (lambda: back_up(kb, "refusing://bucket/kb"), lambda: restore("refusing://bucket/kb", tmp_path / "x")):
        with pytest.raises(StateError, match="refusing://bucket/kb: 403: the key is not valid; check"):
            act()
