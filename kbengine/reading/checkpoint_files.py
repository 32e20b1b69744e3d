"""Which files tell a directory that holds a reader. No torch here."""

from __future__ import annotations

import json
from pathlib import Path

from kbengine.encoders.config import CONFIG_FILE
from kbengine.reading.config import READER_KIND

CHECKSUM_FILE = "checksums.json"


def is_reader(directory: Path) -> bool:
    """Return whether the directory holds a reader, as far as its files' names and its configuration tell."""
    if not (directory / CHECKSUM_FILE).is_file():
        return False
    try:
        config = json.loads((directory / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("kind") == READER_KIND
