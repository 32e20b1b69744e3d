"""Which files tell a directory that holds a reader, and whether they are what was written. No torch here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from kbengine.encoders.config import CONFIG_FILE
from kbengine.errors import CorruptError, EncoderError
from kbengine.reading.config import READER_KIND
from storage.durable import check_file

CHECKSUM_FILE = "checksums.json"


def is_reader(directory: Path) -> bool:
    """Return whether the directory holds a reader, as far as its files' names and its configuration tell."""
    return kind_of(directory) == READER_KIND


def kind_of(directory: Path) -> object:
    """Return what the configuration in a directory says that it holds; None where there is no such directory."""
    if not (directory / CHECKSUM_FILE).is_file():
        return None
    try:
        config = json.loads((directory / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return config.get("kind") if isinstance(config, dict) else None


def check_files(directory: Path, names: Sequence[str], kind: str) -> list[str]:
    """Return the SHA-256 (hex) of each file, which is what was written.

    Args:
        directory: what holds them, and their checksums.
        names: of the files.
        kind: what errors call the directory's content, say "reader".

    Raises:
        EncoderError: the directory has no checksums.
        CorruptError: a file is not what was written.
    """
    path = directory / CHECKSUM_FILE
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        checksums = [(int(value[name]["bytes"]), str(value[name]["sha256"])) for name in names]
    except FileNotFoundError as e:
        raise EncoderError(
            f"{path} is missing, so {directory} holds no {kind}; give a directory that 'kbengine train' made"
        ) from e
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise CorruptError(f"cannot read {path}: {e}; copy the {kind} again") from e
    for name, (n_bytes, sha256) in zip(names, checksums, strict=True):
        check_file(directory / name, n_bytes=n_bytes, sha256=sha256)
    return [sha256 for _, sha256 in checksums]
