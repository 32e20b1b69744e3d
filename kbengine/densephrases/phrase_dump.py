"""Reading DensePhrases' phrase dumps: HDF5 files with a group for each document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbengine.densephrases.document import DumpDocument
from kbengine.errors import CorpusError, CorruptError, MissingExtraError

OFFSET, SCALE = -2.0, 20.0
"""What DensePhrases adds and multiplies with before rounding to int8; its attributes say so too."""


class DumpPosition(NamedTuple):
    """How far a dump was read: whole files, and documents of the next one."""

    file: int
    document: int


def open_hdf5(path: Path) -> Any:
    """Return the open file, to be closed by the caller.

    Raises:
        MissingExtraError: h5py is not installed.
        CorpusError: there is no such file.
        CorruptError: it is no HDF5 file.
    """
    try:
        import h5py
    except ImportError as e:
        raise MissingExtraError.of("reading DensePhrases' dumps", "h5py", "densephrases") from e
    if not path.is_file():
        raise CorpusError(f"{path} is not there; give DensePhrases' dump folder (the one with phrase/ in it)")
    try:
        return h5py.File(path, "r")
    except OSError as e:
        raise CorruptError(f"cannot read {path}: {e}; copy the dump again") from e


def dump_files(dump: Path) -> list[Path]:
    """Return the phrase files of a dump in the order of their numbers.

    Args:
        dump: the `dump` folder, its `phrase` folder, or one file.

    Raises:
        CorpusError: there is none.
    """
    if dump.is_file():
        return [dump]
    for folder in (dump / "phrase", dump / "dump" / "phrase", dump):
        files = [path for path in folder.glob("*.hdf5") if path.is_file()] if folder.is_dir() else []
        if files:
            return sorted(files, key=lambda path: ([int(n) for n in re.findall(r"\d+", path.stem)], path.name))
    raise CorpusError(f"{dump} has no phrase/*.hdf5; give DensePhrases' dump folder, its phrase folder or one file")


def read_dump(files: list[Path], start: DumpPosition | None = None) -> Iterator[tuple[DumpDocument, DumpPosition]]:
    """Give every document with the position after it, from `start` on.

    Raises:
        CorruptError: a file or a document is not what DensePhrases writes.
    """
    begin = start or DumpPosition(0, 0)
    for number, path in list(enumerate(files))[begin.file :]:
        with _opened(path) as file:
            skip = begin.document if number == begin.file else 0
            for i, key in enumerate(file):
                if i >= skip:
                    yield _document(path, key, file[key]), DumpPosition(number, i + 1)


def count_documents(files: list[Path]) -> int:
    """Return how many documents the files hold."""
    n = 0
    for path in files:
        with _opened(path) as file:
            n += len(file)
    return n


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    file = open_hdf5(path)
    try:
        yield file
    except OSError as e:  # h5py, on data that is cut short or damaged
        raise CorruptError(f"cannot read {path}: {e}; copy the dump again") from e
    finally:
        file.close()


def _document(path: Path, key: str, group: Any) -> DumpDocument:
    try:
        values = {name: group[name][:] for name in ("start", "f2o_start", "word2char_start", "word2char_end")}
        context, title = (_text(group.attrs[name]) for name in ("context", "title"))
        lengths = group["len_per_para"][:].astype(np.int64) if "len_per_para" in group else None
        offset, scale = float(group.attrs.get("offset", OFFSET)), float(group.attrs.get("scale", SCALE))
    except (KeyError, AttributeError, TypeError, ValueError) as e:
        raise CorruptError(f"{path}, document {key}: {e}; wanted DensePhrases' phrase dump") from e
    return DumpDocument(
        key,
        title,
        context,
        values["word2char_start"].astype(np.int32),
        values["word2char_end"].astype(np.int32),
        values["f2o_start"].astype(np.int64),
        dequantised(values["start"], offset=offset, scale=scale),
        lengths,
    )


def dequantised(codes: NDArray[Any], *, offset: float = OFFSET, scale: float = SCALE) -> NDArray[np.float32]:
    """Return the vectors, float32, that int8 codes stand for; other number types are the vectors themselves."""
    vectors = codes.astype(np.float32)
    return vectors / np.float32(scale) + np.float32(offset) if codes.dtype == np.int8 else vectors


def _text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)
