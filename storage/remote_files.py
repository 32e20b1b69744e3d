"""Files below an address that fsspec knows: object storage, another machine by SSH, WebDAV, memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from storage.errors import InvalidOptionError, KBError, StateError

__all__ = ["RemoteFiles"]


class RemoteFiles:
    """The files below one address, such as s3://bucket/kb; credentials come from the environment, as fsspec says.

    Attributes:
        place: What messages call it.
        system: The file system, as fsspec gives it.
    """

    def __init__(self, address: str, *, safe: str) -> None:
        """Look the file system up; nothing is asked of it yet. `safe` ends messages: what a failure has not touched."""
        import fsspec  # late: a folder needs none

        self.place = address.rstrip("/")
        self._safe = safe
        try:
            self.system, root = fsspec.core.url_to_fs(self.place)
        except (ImportError, ValueError) as error:
            raise InvalidOptionError(
                f"{address} cannot be opened: {error}; install the package of this kind of address (s3fs for s3://, "
                "gcsfs for gs://, adlfs for az://), or give a folder"
            ) from error
        self._root = str(root).rstrip("/")

    def path(self, *names: str) -> str:
        """Return a path as the file system wants it; of the address itself without names."""
        return "/".join((self._root, *names))

    @contextlib.contextmanager
    def told(self, doing: str) -> Iterator[None]:
        """Turn whatever a client library raises into one error that names the address."""
        try:
            yield
        except KBError:
            raise
        except Exception as error:  # each library has errors of its own
            reason = str(error) or type(error).__name__
            raise StateError(
                f"cannot {doing} {self.place}: {reason}; check the address, the credentials and the network, then try "
                f"again: {self._safe}"
            ) from error

    def names(self, *below: str) -> list[str]:
        """Return the names that a folder has, of files and folders; none where it is not there."""
        try:
            found: list[Any] = self.system.ls(self.path(*below), detail=False)
        except FileNotFoundError:
            return []
        return [str(each).rstrip("/").rpartition("/")[2] for each in found]

    def size(self, *names: str) -> int | None:
        """Return a file's size in bytes, None where there is none."""
        try:
            return int(self.system.size(self.path(*names)))
        except FileNotFoundError:
            return None
