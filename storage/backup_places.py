"""Where backups may be: a folder, or an address with a scheme."""

from __future__ import annotations

import re
from pathlib import Path

from storage.backup_address import BackupAddress
from storage.backup_folder import BackupFolder
from storage.backup_store import BackupStore

__all__ = ["open_store"]

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def open_store(place: str | Path) -> BackupStore:
    """Return the backups at a place: a folder's path, or an address such as s3://bucket/kb."""
    if isinstance(place, str) and _ADDRESS.match(place):
        return BackupAddress(place)
    return BackupFolder(Path(place))
