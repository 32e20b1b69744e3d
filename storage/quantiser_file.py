"""The file of a quantiser: arrays of our own, checked by size and SHA-256 before anything uses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.container import ArraySource, ArraySpec, open_container, write_container
from storage.durable import DurableFile, check_file
from storage.errors import CorruptError, KBError
from storage.index_kind import IndexKind
from storage.quantiser import Quantiser

__all__ = ["QUANTISER_SUFFIX", "QuantiserFile", "quantiser_path", "read_quantiser", "write_quantiser"]

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
    arrays: dict[str, NDArray[Any]] = {"centroids": quantiser.centroids.astype(np.float16)}
    for name in ("rotation", "codebooks", "ranges"):
        array = getattr(quantiser, name)
        if array is not None:
            arrays[name] = array
    specs = [ArraySpec(name, array.dtype, array.shape) for name, array in arrays.items()]
    sources: dict[str, ArraySource] = dict(arrays)
    metadata = {"format": _FORMAT, "version": _VERSION, "kind": quantiser.kind.name, "name": quantiser.name}
    with DurableFile(quantiser_path(directory, quantiser.name)) as file:
        write_container(file, specs, sources, metadata=metadata)
        file.commit()
        return QuantiserFile(quantiser.name, quantiser.kind.name, file.n_bytes, file.sha256)


def read_quantiser(directory: Path, expected: QuantiserFile) -> Quantiser:
    """Return the quantiser, after its file was checked.

    Raises:
        CorruptError: The file is missing (`__cause__` is a FileNotFoundError then), or is not what was written.
    """
    path = quantiser_path(directory, expected.name)
    check_file(path, n_bytes=expected.n_bytes, sha256=expected.sha256)
    container = open_container(path)
    seen = {key: container.metadata.get(key) for key in ("format", "version", "kind", "name")}
    wanted = {"format": _FORMAT, "version": _VERSION, "kind": expected.kind, "name": expected.name}
    if seen != wanted:
        raise CorruptError(f"{path} is about {seen}, expected {wanted}; was it written by a newer kbengine?")
    arrays = {name: np.array(array, dtype=np.float32) for name, array in container.arrays.items()}
    try:
        return Quantiser(
            expected.name,
            IndexKind.of(expected.kind),
            arrays["centroids"],
            rotation=arrays.get("rotation"),
            codebooks=arrays.get("codebooks"),
            ranges=arrays.get("ranges"),
        )
    except (KBError, KeyError) as error:
        raise CorruptError(f"{path}: {error}; restore it from a backup") from error
