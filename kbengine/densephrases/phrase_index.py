"""Reading a published phrase index: vectors out of FAISS, places out of idx2id, texts out of the metadata.

The downloads hold no phrase dump: `start/<name>/index.faiss`, `start/<name>/idx2id.hdf5` and `meta_compressed.pkl`. The
vectors are those that the quantiser kept (96 bytes for OPQ96); FAISS itself undoes the rotation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbengine.densephrases.document import DumpDocument
from kbengine.densephrases.metadata import read_metadata
from kbengine.densephrases.phrase_dump import open_hdf5
from kbengine.errors import CorpusError, CorruptError

INDEX_FILE, PLACES_FILE, METADATA_FILE = "index.faiss", "idx2id.hdf5", "meta_compressed.pkl"

Int64 = NDArray[np.int64]
Float32 = NDArray[np.float32]


@dataclass(frozen=True)
class IndexFiles:
    """The three files of a published index."""

    index: Path
    places: Path
    metadata: Path


def index_files(index: Path, metadata: Path | None = None) -> IndexFiles:
    """Return the files of an index folder; the metadata is looked for above it, as it is published.

    Raises:
        CorpusError: one of them is not there.
    """
    candidates = (
        [metadata] if metadata is not None else [folder / METADATA_FILE for folder in (index, *index.parents[:3])]
    )
    found = next((path for path in candidates if path.is_file()), candidates[0])
    files = IndexFiles(index / INDEX_FILE, index / PLACES_FILE, found)
    for path in (files.index, files.places, files.metadata):
        if not path.is_file():
            raise CorpusError(
                f"{path} is not there; an index folder holds {INDEX_FILE} and {PLACES_FILE}, and {METADATA_FILE} is "
                "beside or above it (or named with --metadata)"
            )
    return files


@dataclass(frozen=True, eq=False)
class VectorPlaces:
    """Which vectors are of which document: ranges of index ids, sorted by document.

    Attributes:
        documents: int64 (r,), rising.
        first_ids: int64 (r,), id of the range's first vector.
        rows: int64 (r,), where the range begins in `words`.
        counts: int64 (r,), its vectors.
        words: int32 (n,), for each vector its place among the stored tokens of its document.
    """

    documents: Int64
    first_ids: Int64
    rows: Int64
    counts: Int64
    words: NDArray[np.int32]

    def of(self, document: int) -> tuple[Int64, Int64]:
        """Return ids and words of a document's vectors, both int64, words rising."""
        begin, end = np.searchsorted(self.documents, [document, document + 1])
        ranges = range(int(begin), int(end))
        ids = [np.arange(self.first_ids[r], self.first_ids[r] + self.counts[r]) for r in ranges]
        words = [self.words[self.rows[r] : self.rows[r] + self.counts[r]] for r in ranges]
        if not ranges:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        joined = np.concatenate(words).astype(np.int64)
        order = np.argsort(joined, kind="stable")
        return np.concatenate(ids).astype(np.int64)[order], joined[order]


def read_places(path: Path) -> VectorPlaces:
    """Return what `idx2id.hdf5` says: groups named by their offset, in each a document and a word for every vector.

    Raises:
        CorruptError: it is not what DensePhrases writes.
    """
    file = open_hdf5(path)
    columns: list[list[Int64]] = [[], [], [], []]
    words: list[NDArray[np.int32]] = []
    n_before = 0
    try:
        for name, group in file.items():
            documents, of_group = group["doc"][:].astype(np.int64), group["word"][:].astype(np.int32)
            if documents.shape != of_group.shape:
                raise CorruptError(f"{path}, group {name}: {documents.shape} documents, {of_group.shape} words")
            if len(documents):
                cuts = np.concatenate([[0], np.flatnonzero(np.diff(documents)) + 1])
                counts = np.diff(np.append(cuts, len(documents)))
                for column, values in zip(
                    columns, (documents[cuts], cuts + int(name), cuts + n_before, counts), strict=True
                ):
                    column.append(values)
            words.append(of_group)
            n_before += len(of_group)
    except (KeyError, ValueError, AttributeError, OSError) as e:
        raise CorruptError(f"cannot read {path}: {e}; wanted DensePhrases' idx2id.hdf5") from e
    finally:
        file.close()
    documents, first_ids, rows, counts = (
        np.concatenate(column) if column else np.zeros(0, np.int64) for column in columns
    )
    order = np.argsort(documents, kind="stable")
    all_words = np.concatenate(words) if words else np.zeros(0, np.int32)
    return VectorPlaces(documents[order], first_ids[order], rows[order], counts[order], all_words)


class StoredVectors:
    """The vectors of a FAISS index by their ids, as its quantiser kept them and in their own basis."""

    def __init__(self, path: Path) -> None:
        """Open the index; its lists stay on disk where FAISS can leave them there.

        Raises:
            CorruptError: FAISS cannot read it, or cannot give vectors back from it.
        """
        import faiss as untyped

        faiss: Any = untyped  # its stubs lack what only few need
        try:
            self._index: Any = faiss.read_index(str(path), faiss.IO_FLAG_ONDISK_SAME_DIR)
            ivf = faiss.try_extract_index_ivf(self._index)
            if ivf is not None and ivf.direct_map.type == faiss.DirectMap.NoMap:
                ivf.set_direct_map_type(faiss.DirectMap.Hashtable)
        except RuntimeError as e:
            raise CorruptError(f"cannot read {path}: {str(e).splitlines()[-1]}; copy the index again") from e
        self._path = path

    @property
    def d(self) -> int:
        """Return the dimension of the vectors."""
        return int(self._index.d)

    def vectors(self, ids: Int64) -> Float32:
        """Return the vectors with these ids, float32 (n, d); CorruptError for an id that the index does not hold."""
        if not len(ids):
            return np.zeros((0, self.d), np.float32)
        try:
            # The whole index undoes its rotation; the inner one alone would not.
            found: Float32 = self._index.reconstruct_batch(ids)
        except RuntimeError as e:
            raise CorruptError(
                f"{self._path} has no vector with one of the ids {int(ids[0])} … {int(ids[-1])}; are index and "
                f"{PLACES_FILE} of one download?"
            ) from e
        return found


def read_index(files: IndexFiles, *, skip: int = 0) -> Iterator[DumpDocument]:
    """Give every document of the metadata that has vectors in the index, in the metadata's order.

    Args:
        files: of the index.
        skip: documents of the metadata that are passed over, because they are imported already.

    Raises:
        CorruptError: a file is not what DensePhrases writes, or the files are not of one index.
    """
    places, stored = read_places(files.places), StoredVectors(files.index)
    for number, metadata in enumerate(read_metadata(files.metadata)):
        if number < skip:
            continue
        ids, words = places.of(int(metadata.key))
        if len(words) and int(words[-1]) >= len(metadata.kept):
            raise CorruptError(
                f"document {metadata.key} has a vector for word {int(words[-1])}, its metadata {len(metadata.kept)} "
                f"words; are {PLACES_FILE} and {METADATA_FILE} of one index?"
            )
        yield DumpDocument(
            metadata.key,
            metadata.title,
            metadata.context,
            metadata.starts,
            metadata.ends,
            metadata.kept[words],
            stored.vectors(ids),
        )
