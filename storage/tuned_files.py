"""Encoders tuned for a knowledge base, as files: `encoders/NAME/` holds `encoder.json` and the weights that it names.

The record names its weights file with size and SHA-256 and is replaced in one rename: a reader sees the encoder before
or after, never a mixture, and a crash leaves files that nothing names. What the weights mean is the reader's business.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storage.creation import ENCODER_DIRECTORY
from storage.durable import (
    TEMPORARY_SUFFIX,
    check_file,
    fsync_directory,
    is_abandoned,
    make_directories,
    read_error,
    remove_file,
    write_durably,
    write_error,
)
from storage.errors import CorruptError, FormatTooNewError, InvalidOptionError, UnknownEncoderError
from storage.findings import Findings
from storage.operating_system import operating_system

__all__ = [
    "TunedFiles",
    "changing_encoders",
    "check_name",
    "check_tuned",
    "delete_tuned",
    "list_tuned",
    "read_tuned",
    "remove_tuned_leftovers",
    "tuned_identity",
    "tuned_weights",
    "write_tuned",
]

RECORD_FILE = "encoder.json"
FORMAT_VERSION = 1
"""Raised when an older kbengine could not read what this one writes."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_READS = 5

Identity = tuple[int, int, int]


@dataclass(frozen=True)
class TunedFiles:
    """One stored encoder.

    Attributes:
        name: Its name.
        facts: What was written with it.
        weights: The file of its weights.
        n_bytes: Size of that file.
        sha256: Its checksum, hex.
        identity: Changes whenever the encoder is written again: what `tuned_identity` gives.
    """

    name: str
    facts: Mapping[str, Any]
    weights: Path
    n_bytes: int
    sha256: str
    identity: Identity


def check_name(name: str) -> str:
    """Return the name itself; raise InvalidOptionError when no encoder may be called so."""
    if not _NAME.fullmatch(name):
        raise InvalidOptionError(
            f"the encoder's name is {name!r}, wanted 1 to 64 of a-z, 0-9, '.', '_' and '-', beginning with a letter or "
            "digit"
        )
    return name


def tuned_identity(directory: Path, name: str) -> Identity:
    """Return number, size and time of the encoder's record: cheap to ask, another one after every change.

    Raises:
        UnknownEncoderError: The knowledge base in `directory` has no encoder of the name.
    """
    try:
        status = (_folder(directory) / check_name(name) / RECORD_FILE).stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _unknown(directory, name) from error
    return status.st_ino, status.st_size, status.st_mtime_ns


def write_tuned(directory: Path, name: str, facts: Mapping[str, Any], weights: bytes) -> TunedFiles:
    """Store the encoder durably, instead of the one of the same name if there was one, and return it.

    Raises:
        StorageFullError: No space; what was there before is untouched.
    """
    folder = _folder(directory) / check_name(name)
    try:
        make_directories(folder.parent)
        with changing_encoders(folder.parent):
            if not folder.is_dir():
                operating_system().mkdir(folder)
            fsync_directory(folder.parent)  # also of one that a killed process made
            sha256 = hashlib.sha256(weights).hexdigest()
            file = folder / f"{sha256[:16]}.safetensors"
            write_durably(file, [weights], replace=True)
            record = {
                "format": FORMAT_VERSION,
                "weights": {"file": file.name, "bytes": len(weights), "sha256": sha256},
                "facts": dict(facts),
            }
            text = json.dumps(record | {"checksum": _checksum(record)}, indent=2) + "\n"
            write_durably(folder / RECORD_FILE, [text.encode()], replace=True)
            for path in _leftovers(folder, file.name):
                remove_file(path)
            fsync_directory(folder)
            return read_tuned(directory, name)
    except OSError as error:
        raise write_error(error, folder) from error


def read_tuned(directory: Path, name: str) -> TunedFiles:
    """Read the stored encoder, its record checked and its weights not yet: see `tuned_weights`.

    Raises:
        UnknownEncoderError: There is none of the name.
        CorruptError: The record is not what was written.
        FormatTooNewError: A newer kbengine wrote it.
    """
    path = _folder(directory) / check_name(name) / RECORD_FILE
    identity = tuned_identity(directory, name)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise _unknown(directory, name) from error
    except (OSError, UnicodeDecodeError) as error:
        raise CorruptError(f"cannot read {path}: {error}; tune the encoder again or restore it") from error
    try:
        record = json.loads(text)
        checksum = record.pop("checksum")
        if record["format"] > FORMAT_VERSION:
            raise FormatTooNewError(
                f"{path} has format {record['format']}, this kbengine reads up to {FORMAT_VERSION}: upgrade kbengine"
            )
        if checksum != _checksum(record):
            raise ValueError(f"checksum {checksum}, expected {_checksum(record)}")
        weights = record["weights"]
        file = path.parent / Path(weights["file"]).name
        return TunedFiles(name, record["facts"], file, int(weights["bytes"]), str(weights["sha256"]), identity)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptError(
            f"{path} is not what was written ({error}); tune the encoder again, restore it, or remove {path.parent}"
        ) from error


def tuned_weights(directory: Path, name: str) -> tuple[TunedFiles, bytes]:
    """Return the stored encoder and its weights, checked; replaced meanwhile, it is the new one."""
    for attempt in range(_READS):
        files = read_tuned(directory, name)
        try:
            data = files.weights.read_bytes()
        except FileNotFoundError as error:
            if attempt + 1 < _READS:
                continue
            raise read_error(error, files.weights) from error
        except OSError as error:
            raise read_error(error, files.weights) from error
        seen = hashlib.sha256(data).hexdigest()
        if seen != files.sha256:
            raise CorruptError(
                f"{files.weights} has {len(data)} bytes and sha256 {seen}, expected {files.n_bytes} and "
                f"{files.sha256}; tune the encoder again or restore it"
            )
        return files, data
    raise AssertionError("unreachable")


def list_tuned(directory: Path) -> list[str]:
    """Return the names of all stored encoders, sorted."""
    return sorted(path.parent.name for path in _folder(directory).glob(f"*/{RECORD_FILE}"))


def delete_tuned(directory: Path, name: str) -> None:
    """Delete the encoder.

    Raises:
        UnknownEncoderError: There is none of the name.
    """
    tuned_identity(directory, name)
    folder = _folder(directory) / name
    try:
        with changing_encoders(folder.parent):
            error = remove_file(folder / RECORD_FILE)
            if error is not None:
                raise error
            fsync_directory(folder)
            for path in _leftovers(folder, ""):
                remove_file(path)
            with contextlib.suppress(OSError):  # somebody's own file in it
                operating_system().rmdir(folder)
            fsync_directory(folder.parent)
    except OSError as error:
        raise write_error(error, folder) from error


def check_tuned(directory: Path, findings: Findings) -> None:
    """Note what is wrong with the stored encoders."""
    for name in list_tuned(directory):
        with findings.checking(f"{ENCODER_DIRECTORY}/{name}"):
            files = read_tuned(directory, name)
            check_file(files.weights, n_bytes=files.n_bytes, sha256=files.sha256)
    for path in tuned_leftovers(directory):
        findings.add(str(path.relative_to(directory)), "belongs to no stored encoder", "leftover")


def tuned_leftovers(directory: Path) -> list[Path]:
    """Return the files that no stored encoder names; none while an encoder is being stored."""
    folder = _folder(directory)
    found: list[Path] = []
    if not folder.is_dir():
        return found
    try:
        with changing_encoders(folder, wait=False):
            for part in sorted(path for path in folder.iterdir() if path.is_dir()):
                # What a damaged record named is not known, so nothing is left over there.
                with contextlib.suppress(CorruptError, FormatTooNewError, InvalidOptionError):
                    has_record = (part / RECORD_FILE).exists()
                    found += _leftovers(part, read_tuned(directory, part.name).weights.name if has_record else "")
    except OSError:
        return []
    return found


def remove_tuned_leftovers(directory: Path) -> None:
    """Remove what the killed storing of an encoder left."""
    for path in tuned_leftovers(directory):
        remove_file(path)
        with contextlib.suppress(OSError):  # there is more in it
            operating_system().rmdir(path.parent)


def _folder(directory: Path) -> Path:
    return directory / ENCODER_DIRECTORY


def _leftovers(folder: Path, kept: str) -> list[Path]:
    """Return the weights and temporary files in an encoder's folder that its record does not name."""
    weights = [path for path in folder.glob("*.safetensors") if path.name != kept]
    return sorted([*weights, *(path for path in folder.glob(f"*{TEMPORARY_SUFFIX}") if is_abandoned(path))])


def _checksum(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _unknown(directory: Path, name: str) -> UnknownEncoderError:
    names = list_tuned(directory)
    return UnknownEncoderError(
        f"{directory} has no tuned encoder {name!r}, it has {', '.join(names) or 'none'}; name one of these, or tune it"
    )


@contextlib.contextmanager
def changing_encoders(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Let one change of the stored encoders run at a time, over all processes; BlockingIOError without waiting."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)
