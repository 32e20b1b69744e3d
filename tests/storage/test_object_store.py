"""Objects and records: immutable, checked when they are read, written once."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.errors import CorruptError, InvalidOptionError
from storage.object_folder import ObjectFolder
from storage.object_places import folder_of, open_objects
from storage.object_store import ObjectStore


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    """Both kinds of place: a folder, and an address that fsspec opens."""
    address = f"file://{tmp_path}/cluster" if request.param == "folder" else f"memory://{uuid.uuid4().hex}"
    yield open_objects(address)


def path_of(store: ObjectStore, sha256: str) -> Path:
    """Where a folder keeps an object."""
    assert isinstance(store, ObjectFolder)
    return store.folder / "objects" / sha256[:2] / sha256


def test_what_was_stored_comes_back(store: ObjectStore, tmp_path: Path) -> None:
    """Under the checksum of its bytes, once however often it is put."""
    (tmp_path / "a").write_bytes(b"x" * 3_000_000)
    file = store.put_file(tmp_path / "a", "segments/a.seg")
    assert store.put_file(tmp_path / "a", "segments/a.seg") == file
    assert (file.path, file.n_bytes) == ("segments/a.seg", 3_000_000)
    assert store.has(file.sha256, file.n_bytes) and not store.has(file.sha256, 1) and not store.has("0" * 64, 1)
    store.fetch(file, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b"x" * 3_000_000
    other = store.put_bytes(b"small", "small")
    assert store.read(other) == b"small"
    assert {each.sha256 for each in store.stored()} == {file.sha256, other.sha256}
    store.remove(other.sha256)
    store.remove(other.sha256)
    assert [(each.sha256, each.n_bytes) for each in store.stored()] == [(file.sha256, file.n_bytes)]


def test_an_object_that_is_gone_is_named(store: ObjectStore, tmp_path: Path) -> None:
    """And nothing is left where it was to be copied to."""
    file = store.put_bytes(b"here today", "kb.sqlite")
    store.remove(file.sha256)
    with pytest.raises(CorruptError, match=rf"{file.sha256} \(kb.sqlite\) is missing; restore it"):
        store.fetch(file, tmp_path / "copy")
    assert list(tmp_path.glob("copy*")) == []


def test_a_damaged_object_is_refused_and_made_again(tmp_path: Path) -> None:
    """A changed letter, a shorter file: both are told with what was expected; a new upload heals a short one."""
    store = open_objects(f"file://{tmp_path}/cluster")
    file = store.put_bytes(b"twelve bytes", "kb.sqlite")
    path_of(store, file.sha256).write_bytes(b"twelve bites")
    with pytest.raises(CorruptError, match=r"has 12 bytes with sha256 \w+, expected 12 bytes with its name"):
        store.fetch(file, tmp_path / "copy")
    with pytest.raises(CorruptError, match="expected 12 bytes"):
        store.check(file)
    path_of(store, file.sha256).write_bytes(b"twelve")
    assert not store.has(file.sha256, 12)
    assert store.read(store.put_bytes(b"twelve bytes", "kb.sqlite")) == b"twelve bytes"


def test_a_record_is_written_by_one(store: ObjectStore) -> None:
    """The second is told no, and changes nothing, unless it says that it replaces."""
    assert store.read_record("generations/1.json") is None and store.record_names("generations") == []
    assert store.write_record("generations/1.json", b"first")
    assert not store.write_record("generations/1.json", b"second")
    assert store.read_record("generations/1.json") == b"first"
    assert store.write_record("generations/1.json", b"third", replace=True)
    assert store.read_record("generations/1.json") == b"third"
    assert store.record_names("generations") == ["1.json"]
    store.remove_record("generations/1.json")
    store.remove_record("generations/1.json")
    assert store.record_names("generations") == []


def test_of_many_at_once_one_makes_a_record(tmp_path: Path) -> None:
    """In a folder the file system decides."""
    address = f"file://{tmp_path}/cluster"
    made: list[bytes] = []

    def write(data: bytes) -> None:
        if open_objects(address).write_record("one", data):
            made.append(data)

    threads = [threading.Thread(target=write, args=(bytes([number]),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and open_objects(address).read_record("one") == made[0]


def test_what_killed_uploads_left_is_removed(tmp_path: Path) -> None:
    """Listing objects clears it away; it never was an object."""
    store = open_objects(f"file://{tmp_path}/cluster")
    file = store.put_bytes(b"whole", "whole")
    part = path_of(store, file.sha256).with_name(f"{file.sha256}.{'0' * 32}.part")
    part.write_bytes(b"who")
    assert [each.sha256 for each in store.stored()] == [file.sha256]
    assert not part.exists()


def test_an_address_says_what_it_is() -> None:
    """A plain path could be meant for anything."""
    assert folder_of("file:///some/folder") == Path("/some/folder")
    assert folder_of("s3://bucket/prefix") is None
    with pytest.raises(InvalidOptionError, match="wanted one with a scheme"):
        folder_of("/some/folder")
    with pytest.raises(InvalidOptionError, match="wanted an absolute path"):
        folder_of("file://some/folder")
