"""An SQLite VFS that does what the usual one does and tells a machine of every write, sync, truncation and deletion.

Made of copies of the usual tables of functions, with those that change files replaced.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pysqlite3

if TYPE_CHECKING:
    from tests.storage.power.machine import Machine

_OK, _IOERR_WRITE, _IOERR_FSYNC, _IOERR_TRUNCATE, _IOERR_DELETE = 0, 778, 1034, 1546, 2570
_CANTOPEN, _FULL = 14, 13
_JOURNALS = 0x80000 | 0x800 | 0x4000  # log, journal, super-journal: their first sync syncs the directory, too
_DELETE_ON_CLOSE, _NO_ENTRY = 0x8, 5898
_P = ctypes.c_void_p
_OPEN = ctypes.CFUNCTYPE(ctypes.c_int, _P, _P, _P, ctypes.c_int, _P)
_DELETE = ctypes.CFUNCTYPE(ctypes.c_int, _P, ctypes.c_char_p, ctypes.c_int)
_CLOSE = ctypes.CFUNCTYPE(ctypes.c_int, _P)
_WRITE = ctypes.CFUNCTYPE(ctypes.c_int, _P, _P, ctypes.c_int, ctypes.c_int64)
_TRUNCATE = ctypes.CFUNCTYPE(ctypes.c_int, _P, ctypes.c_int64)
_SYNC = ctypes.CFUNCTYPE(ctypes.c_int, _P, ctypes.c_int)


class _Vfs(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_int),
        ("file_bytes", ctypes.c_int),
        ("max_path", ctypes.c_int),
        ("next", _P),
        ("name", ctypes.c_char_p),
        ("data", _P),
        ("open", _P),
        ("delete", _P),
        *((f"other{number}", _P) for number in range(13)),
    ]


class _Methods(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_int),
        ("close", _P),
        ("read", _P),
        ("write", _P),
        ("truncate", _P),
        ("sync", _P),
        *((f"other{number}", _P) for number in range(13)),
    ]


def _library() -> ctypes.CDLL:
    (path,) = Path(pysqlite3.__file__).parent.glob("_sqlite3*.so")
    library = ctypes.CDLL(str(path))
    library.sqlite3_vfs_find.restype = _P
    library.sqlite3_vfs_find.argtypes = [ctypes.c_char_p]
    library.sqlite3_vfs_register.argtypes = [_P, ctypes.c_int]
    library.sqlite3_vfs_unregister.argtypes = [_P]
    return library


_KEPT: dict[str, list[Any]] = {}
"""What SQLite points to while a VFS is registered."""


def register(name: str, machine: Machine) -> None:
    """Make the VFS known to SQLite."""
    usual = _Vfs.from_address(_library().sqlite3_vfs_find(None))
    ours = _Vfs.from_buffer_copy(usual)
    files: dict[int, int] = {}
    unsynced: set[int] = set()
    paths: dict[int, str] = {}
    tables: dict[int, _Methods] = {}
    open_, delete = _OPEN(usual.open), _DELETE(usual.delete)

    def code_of(error: OSError, otherwise: int) -> int:
        return _FULL if error.errno == 28 else otherwise

    def opened(vfs: int, path: int | None, file: int, flags: int, out: int | None) -> int:
        if path is None or flags & _DELETE_ON_CLOSE:
            return int(open_(vfs, path, file, flags, out))
        text = ctypes.string_at(path).decode()
        if machine.is_watched(text) and flags & 0x4:
            try:
                machine.sqlite_opened(text)
            except OSError:
                return _CANTOPEN
        code = int(open_(vfs, path, file, flags, out))
        methods = ctypes.cast(file, ctypes.POINTER(_P))
        if code == _OK and methods[0] and machine.is_watched(text):
            files[file] = machine.sqlite_opened(text)
            paths[file] = text
            if flags & _JOURNALS:
                unsynced.add(file)
            methods[0] = _P(ctypes.addressof(table_for(methods[0])))
        return code

    def table_for(address: int) -> _Methods:
        if address not in tables:
            real = _Methods.from_address(address)
            close, write, truncate, sync = (
                _CLOSE(real.close),
                _WRITE(real.write),
                _TRUNCATE(real.truncate),
                _SYNC(real.sync),
            )

            def closed(file: int) -> int:
                files.pop(file, None)
                unsynced.discard(file)
                return int(close(file))

            def written(file: int, data: int, n: int, offset: int) -> int:
                try:
                    machine.note("write", files[file], offset, ctypes.string_at(data, n))
                except OSError as error:
                    if hasattr(error, "n_bytes"):  # a short write: SQLite writes on, and then the disk is full
                        write(file, data, error.n_bytes, offset)
                    return code_of(error, _IOERR_WRITE)
                return int(write(file, data, n, offset))

            def truncated(file: int, n_bytes: int) -> int:
                try:
                    machine.note("truncate", files[file], n_bytes)
                except OSError as error:
                    return code_of(error, _IOERR_TRUNCATE)
                return int(truncate(file, n_bytes))

            def synced(file: int, flags: int) -> int:
                try:
                    machine.note("sync", files[file])
                    if file in unsynced:
                        unsynced.discard(file)
                        machine.note("sync", machine.place(paths[file])[0])
                except OSError as error:
                    return code_of(error, _IOERR_FSYNC)
                return _OK

            patched = _Methods.from_buffer_copy(real)
            callbacks = [_CLOSE(closed), _WRITE(written), _TRUNCATE(truncated), _SYNC(synced)]
            for field, callback in zip(("close", "write", "truncate", "sync"), callbacks, strict=True):
                setattr(patched, field, ctypes.cast(callback, _P).value)
            kept.extend([*callbacks, close, write, truncate, sync, patched])
            tables[address] = patched
        return tables[address]

    def deleted(vfs: int, path: bytes, sync_directory: int) -> int:
        text = path.decode()
        if machine.is_watched(text):
            directory, name, number = machine.place(text)
            if number is not None:
                try:
                    machine.note("unlink", directory, name)
                    if sync_directory:
                        machine.note("sync", directory)
                except OSError:
                    return _IOERR_DELETE
        return int(delete(vfs, path, sync_directory))

    callbacks = [_OPEN(opened), _DELETE(deleted)]
    kept: list[Any] = [ours, open_, delete, *callbacks]
    encoded = name.encode()
    kept.append(encoded)
    ours.name = encoded
    ours.next = None
    ours.open, ours.delete = (ctypes.cast(callback, _P).value for callback in callbacks)
    _KEPT[name] = kept
    _library().sqlite3_vfs_register(ctypes.addressof(ours), 0)


def unregister(name: str) -> None:
    """Let SQLite forget the VFS; nothing may be open in it any more."""
    library = _library()
    found = library.sqlite3_vfs_find(name.encode())
    if found:
        library.sqlite3_vfs_unregister(found)
    _KEPT.pop(name, None)
