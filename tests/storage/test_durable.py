"""Files that are wholly there or not, and the checks before they are used."""

from __future__ import annotations

import errno
import hashlib
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.durable import DurableFile, check_file, hash_file, read_error, write_durably, write_error
from storage.errors import CorruptError, StateError, StorageFullError


@pytest.fixture
def small_files_only() -> Iterator[int]:
    """A limit of 64 KiB on the size of files this process writes, as a full disk would set."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    yield 1 << 16
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_committed_bytes_size_and_checksum_agree(tmp_path: Path) -> None:
    """What was written is what is there, under the final name only."""
    data = [b"abc", b"", bytes(range(256)) * 1000]
    n_bytes, sha256 = write_durably(tmp_path / "file", data)
    assert (tmp_path / "file").read_bytes() == b"".join(data)
    assert (n_bytes, sha256) == (256_003, hashlib.sha256(b"".join(data)).hexdigest())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_nothing_is_visible_before_commit_and_nothing_stays_without_it(tmp_path: Path) -> None:
    """An exception in the middle leaves the directory as it was."""
    with pytest.raises(ZeroDivisionError), DurableFile(tmp_path / "file") as file:
        file.write(b"half")
        assert not (tmp_path / "file").exists()
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_only_overwritten_on_request(tmp_path: Path) -> None:
    """A segment name is never used twice; a derived file may be replaced."""
    write_durably(tmp_path / "file", [b"old"])
    with pytest.raises(StateError, match="exists"):
        write_durably(tmp_path / "file", [b"new"])
    assert (tmp_path / "file").read_bytes() == b"old"
    write_durably(tmp_path / "file", [b"new"], replace=True)
    assert (tmp_path / "file").read_bytes() == b"new"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_full_disk_raises_and_leaves_nothing(tmp_path: Path, small_files_only: int) -> None:
    """Running out of space is StorageFullError, after which the same write works once there is space."""
    with pytest.raises(StorageFullError, match="nothing was changed"):
        write_durably(tmp_path / "file", [b"x" * 5000] * 20)
    assert list(tmp_path.iterdir()) == []
    write_durably(tmp_path / "file", [b"x" * small_files_only])
    assert (tmp_path / "file").stat().st_size == small_files_only


def test_a_finished_file_takes_no_more_bytes(tmp_path: Path) -> None:
    """After commit the object is spent."""
    with DurableFile(tmp_path / "file") as file:
        file.write(b"x")
        file.commit()
        with pytest.raises(StateError, match="already committed"):
            file.write(b"y")
        with pytest.raises(StateError, match="already committed"):
            file.commit()
    assert (tmp_path / "file").read_bytes() == b"x"


def test_a_missing_directory_is_a_named_error(tmp_path: Path) -> None:
    """The path is in the message, the operating system's error behind it."""
    with pytest.raises(StateError, match="nowhere") as caught:
        write_durably(tmp_path / "nowhere" / "file", [b"x"])
    assert isinstance(caught.value.__cause__, FileNotFoundError)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_every_kind_of_full_is_storage_full(number: int) -> None:
    """Disk, quota and file-size limit are told apart by the message only."""
    assert isinstance(write_error(OSError(number, "full"), Path("f")), StorageFullError)


def test_unreadable_bytes_are_corrupt_but_missing_rights_are_not() -> None:
    """EIO says that the file is damaged; EACCES and EMFILE say nothing about it."""
    assert isinstance(read_error(OSError(errno.EIO, "input/output error"), Path("f")), CorruptError)
    assert isinstance(read_error(OSError(errno.ENOENT, "gone"), Path("f")), CorruptError)
    assert isinstance(read_error(OSError(errno.EACCES, "denied"), Path("f")), StateError)
    assert isinstance(read_error(OSError(errno.EMFILE, "too many"), Path("f")), StateError)


def test_check_file_names_file_seen_and_expected(tmp_path: Path) -> None:
    """Size first, then checksum; both values are in the message."""
    path = tmp_path / "file"
    n_bytes, sha256 = write_durably(path, [b"hello"])
    check_file(path, n_bytes=n_bytes, sha256=sha256)
    path.write_bytes(b"hellO")
    with pytest.raises(CorruptError, match=rf"file has sha256 [0-9a-f]{{64}}, expected {sha256}"):
        check_file(path, n_bytes=n_bytes, sha256=sha256)
    path.write_bytes(b"hell")
    with pytest.raises(CorruptError, match="has 4 bytes, expected 5"):
        check_file(path, n_bytes=n_bytes, sha256=sha256)
    path.unlink()
    with pytest.raises(CorruptError, match="cannot read") as caught:
        check_file(path, n_bytes=n_bytes, sha256=sha256)
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_part_of_a_file_can_be_hashed(tmp_path: Path) -> None:
    """`end` stops the reading."""
    path = tmp_path / "file"
    path.write_bytes(b"a" * 3_000_000)
    assert hash_file(path, end=2_500_001) == (2_500_001, hashlib.sha256(b"a" * 2_500_001).hexdigest())
