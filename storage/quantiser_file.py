"""The file of a quantiser: arrays of our own, checked by size and SHA-256 before anything uses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.container import ArraySource, ArraySpec, Container, open_container, write_container
from storage.durable import DurableFile, check_file
from storage.errors import CorruptError, KBError
from storage.index_kind import IndexKind
from storage.quantiser import Quantiser

__all__ = [
    "QUANTISER_SUFFIX",
    "QuantiserFile",
    "quantiser_path",
    "read_quantiser",
    "read_quantiser_of",
    "write_quantiser",
    "write_quantiser_of",
]

QUANTISER_SUFFIX = ".quantiser"
_FORMAT = "kbengine-quantiser"
_VERSION = "1"


@dataclass(frozen=True)
class QuantiserFile:
    """What the settings know of a quantiser's file."""

    name: str
    kind: str
    n_bytes: int
    sha256: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> QuantiserFile:
        """Return the file that a record names; CorruptError when it does not name one."""
        try:
            return cls(str(record["name"]), str(record["kind"]), int(record["n_bytes"]), str(record["sha256"]))
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptError(
                f"setting 'quantiser' is {dict(record)}, expected name, kind, n_bytes and sha256; restore kb.sqlite "
                "from a backup"
            ) from error


def quantiser_path(directory: Path, name: str) -> Path:
    """Return the path of the quantiser's file in `directory`."""
    return directory / f"{name}{QUANTISER_SUFFIX}"


def write_quantiser(directory: Path, quantiser: Quantiser) -> QuantiserFile:
    """Return the record of the quantiser's new file, which on return is durable in `directory`."""
    return _write(quantiser_path(directory, quantiser.name), quantiser, {})


def write_quantiser_of(path: Path, quantiser: Quantiser, *, passage_fingerprint: str) -> None:
    """Write a quantiser that belongs to an encoder to a file of its own, beside the encoder's weights."""
    _write(path, quantiser, {"encoder": passage_fingerprint})


def _write(path: Path, quantiser: Quantiser, more: Mapping[str, str]) -> QuantiserFile:
    arrays: dict[str, NDArray[Any]] = {"centroids": quantiser.centroids.astype(np.float16)}
    for name in ("rotation", "codebooks", "ranges", "bits"):
        array = getattr(quantiser, name)
        if array is not None:
            # A mixed one's rotation has float16 values, as centroids have.
            arrays[name] = array.astype(np.float16) if name == "rotation" and quantiser.bits is not None else array
    specs = [ArraySpec(name, array.dtype, array.shape) for name, array in arrays.items()]
    sources: dict[str, ArraySource] = dict(arrays)
    metadata = {"format": _FORMAT, "version": _VERSION, "kind": quantiser.kind.name, "name": quantiser.name, **more}
    with DurableFile(path) as file:
        write_container(file, specs, sources, metadata=metadata)
        file.commit(replace=True)
        return QuantiserFile(quantiser.name, quantiser.kind.name, file.n_bytes, file.sha256)


def read_quantiser(directory: Path, expected: QuantiserFile) -> Quantiser:
    """Return the quantiser, after its file was checked.

    Raises:
        CorruptError: The file is missing (`__cause__` is a FileNotFoundError then), or is not what was written.
    """
    path = quantiser_path(directory, expected.name)
    check_file(path, n_bytes=expected.n_bytes, sha256=expected.sha256)
    container = open_container(path)
    return _parsed(container, {"kind": expected.kind, "name": expected.name})


def read_quantiser_of(path: Path, *, passage_fingerprint: str) -> Quantiser:
    """Return the quantiser in an encoder's own file; CorruptError when it is damaged or of another encoder."""
    return _parsed(open_container(path), {"encoder": passage_fingerprint})


def _parsed(container: Container, about: Mapping[str, str]) -> Quantiser:
    path = container.path
    wanted = {"format": _FORMAT, "version": _VERSION, **about}
    seen = {key: container.metadata.get(key) for key in wanted}
    if seen != wanted:
        raise CorruptError(f"{path} is about {seen}, expected {wanted}; was it written by a newer kbengine?")
    arrays: dict[str, Any] = {
        name: np.array(array, dtype=np.uint8 if name == "bits" else np.float32)
        for name, array in container.arrays.items()
    }
    try:
        return Quantiser(
            container.metadata["name"],
            IndexKind.of(container.metadata["kind"]),
            arrays["centroids"],
            rotation=arrays.get("rotation"),
            codebooks=arrays.get("codebooks"),
            ranges=arrays.get("ranges"),
            bits=arrays.get("bits"),
        )
    except (KBError, KeyError) as error:
        raise CorruptError(f"{path}: {error}; restore it from a backup") from error
