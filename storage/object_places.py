"""Where the objects of a cluster may be: below a folder, or at an address with a scheme."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from storage.errors import InvalidOptionError
from storage.object_address import ObjectAddress
from storage.object_folder import ObjectFolder
from storage.object_store import ObjectStore

__all__ = ["folder_of", "open_objects"]


def folder_of(address: str) -> Path | None:
    """Return the folder of an address that begins with file://, None for any other.

    Raises:
        InvalidOptionError: It has no scheme, or its path is not absolute.
    """
    parts = urlsplit(address)
    if not parts.scheme:
        raise InvalidOptionError(
            f"the cluster's address is {address!r}; wanted one with a scheme: s3://bucket/prefix or file:///folder"
        )
    if parts.scheme != "file":
        return None
    path = Path(unquote(parts.path))
    if parts.netloc not in ("", "localhost") or not path.is_absolute() or path == Path("/"):
        raise InvalidOptionError(f"the cluster's address is {address!r}; wanted an absolute path: file:///folder")
    return path


def open_objects(address: str) -> ObjectStore:
    """Return the objects at an address: file:///folder, or one that fsspec knows, such as s3://bucket/prefix."""
    folder = folder_of(address)
    return ObjectAddress(address) if folder is None else ObjectFolder(folder)
