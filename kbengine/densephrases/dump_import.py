"""A phrase dump or a published index becomes a knowledge base: the vectors as they are, nothing encoded anew."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kbengine.build.builder import build_writer
from kbengine.build.document_encoder import CHUNK_PASSAGES, Background
from kbengine.build.filtering import FilterOptions
from kbengine.build.storing import StoreOptions
from kbengine.densephrases.document import DumpDocument, DumpPassage, TokenCounts, dump_passages
from kbengine.densephrases.phrase_dump import DumpPosition, count_documents, dump_files, read_dump
from kbengine.errors import (
    CorpusError,
    EncoderMismatchError,
    InvalidOptionError,
)
from kbengine.progress import NoProgress, ProgressSink
from storage.records import NewDocument, NewPassage

if TYPE_CHECKING:
    from kbengine.densephrases.phrase_index import IndexFiles
    from kbengine.encoders.encoder import Encoder

MIN_COSINE = 0.5
"""Between a stored vector and the encoder's own: 0.9 and more when they belong together, about 0 when not."""
_CHECKED_PASSAGES = 16
_CHUNK_ROWS = 200_000

Float32 = NDArray[np.float32]


@dataclass(frozen=True)
class DumpSource:
    """What is imported: a phrase dump, or an index with its metadata.

    Attributes:
        dump: The dump folder, its phrase folder or one file; None when an index is given.
        index: Folder with `index.faiss` and `idx2id.hdf5`.
        metadata: `meta_compressed.pkl`, when it is not beside or above the index.
    """

    dump: Path | None = None
    index: Path | None = None
    metadata: Path | None = None

    def __post_init__(self) -> None:
        if (self.dump is None) == (self.index is None):
            raise InvalidOptionError("give either a phrase dump or an index folder (with --index), not both or none")

    def to_json(self) -> dict[str, Any]:
        """Return what identifies the source: an interrupted import is only resumed from the same."""
        return {name: None if value is None else str(value) for name, value in asdict(self).items()}


@dataclass
class DumpImport:
    """What an import did in this run."""

    documents: int = 0
    passages: int = 0
    counts: TokenCounts = field(default_factory=TokenCounts)
    cosine: float | None = None
    resumed: bool = False
    elapsed_s: float = 0.0

    def facts(self) -> dict[str, Any]:
        """Return the report as named values, for people and for JSON."""
        return {
            "documents": self.documents,
            "passages": self.passages,
            "tokens": self.counts.tokens - self.counts.repeated,
            "stored_vectors": self.counts.kept,
            "tokens_repeated_at_window_joins": self.counts.repeated,
            "tokens_without_a_place": self.counts.misplaced,
            "vectors_left_out": self.counts.left_out,
            "cosine_with_the_encoder": self.cosine,
            "resumed": self.resumed,
            "elapsed_s": round(self.elapsed_s, 2),
        }


@dataclass
class _Chunk:
    documents: list[NewDocument] = field(default_factory=list)
    n_passages: int = 0
    n_rows: int = 0


def import_dump(
    source: DumpSource,
    path: Path,
    *,
    encoder: Encoder,
    filter_threshold: float = -2.0,
    progress: ProgressSink | None = None,
) -> DumpImport:
    """Return the report of making the knowledge base `path` of a phrase dump or of a published index.

    Each paragraph becomes a passage with the tokens that the dump stores, each once. Filter logits are those of the
    encoder's filter head on the stored vectors. Interrupted, the same call goes on where it stopped.

    Args:
        source: what to read.
        path: the directory, not there yet, empty, or of an interrupted import.
        encoder: the imported checkpoint whose phrase encoder made the vectors; queries are asked with it. The first
            passages are encoded with it and compared.
        filter_threshold: what later additions keep; the published Wikipedia dump was made with 1.0, others with -2.0.
        progress: shown the documents.

    Raises:
        MissingExtraError: h5py or blosc is not installed.
        CorpusError: files are missing, or hold no document.
        CorruptError: a file is not what DensePhrases writes.
        EncoderMismatchError: the encoder did not make these vectors.
        KnowledgeBaseExistsError: the directory holds something else.
    """
    progress = progress or NoProgress()
    began = time.perf_counter()
    report = DumpImport()
    reading = _Reading(source)
    filter_options = FilterOptions(threshold=filter_threshold)

    def check() -> None:
        report.cosine = check_encoder(_first_documents(reading), encoder)

    writer = build_writer(
        path,
        encoder.without_sparse(),
        filter_options,
        request={**source.to_json(), "filter": filter_options.to_json()},
        before=check,
        store=StoreOptions("indexed", 8),  # as the dump has them
        what="import",
    )
    background = Background()
    with writer:
        start = writer.settings.build_position.get("dump")
        report.resumed = start is not None
        progress.begin("importing documents", reading.total(), "")
        try:
            for chunk, position in _chunks(reading, start, encoder, report):
                place: dict[str, Any] = {**writer.settings.build_position, "dump": position}
                background.submit(writer.add, chunk.documents, replace=True, build_position=place)
                progress.advance(len(chunk.documents))
            background.wait()
        finally:
            background.close()
        progress.begin("merging and clustering", None, "")
        writer.merge_all()
        writer.finish_build()
    report.elapsed_s = time.perf_counter() - began
    return report


class _Reading:
    """The documents of a source, from a position on."""

    def __init__(self, source: DumpSource) -> None:
        self._files = dump_files(source.dump) if source.dump is not None else []
        self._index: IndexFiles | None = None
        if source.index is not None:
            from kbengine.densephrases.phrase_index import index_files

            self._index = index_files(source.index, source.metadata)

    def total(self) -> int | None:
        """Return how many documents there are, None where only reading all of them would tell."""
        return count_documents(self._files) if self._index is None else None

    def documents(self, start: Any = None) -> Iterator[tuple[DumpDocument, Any]]:
        """Give every document with the position after it."""
        if self._index is None:
            for document, position in read_dump(self._files, None if start is None else DumpPosition(*start)):
                yield document, list(position)
            return
        from kbengine.densephrases.phrase_index import read_index

        skip = int(start or 0)
        for number, document in enumerate(read_index(self._index, skip=skip), start=skip + 1):
            yield document, number


def _chunks(reading: _Reading, start: Any, encoder: Encoder, report: DumpImport) -> Iterator[tuple[_Chunk, Any]]:
    """Give documents ready to be stored, some thousand passages together, with the position after the last."""
    chunk, last = _Chunk(), start
    for document, position in reading.documents(start):
        passages = dump_passages(document, report.counts)
        chunk.documents.append(_new_document(document, passages, encoder))
        chunk.n_passages += len(passages)
        chunk.n_rows += len(document.vectors)
        report.documents += 1
        report.passages += len(passages)
        last = position
        if chunk.n_passages >= CHUNK_PASSAGES or chunk.n_rows >= _CHUNK_ROWS:
            yield chunk, last
            chunk = _Chunk()
    if chunk.documents:
        yield chunk, last


def _new_document(document: DumpDocument, passages: list[DumpPassage], encoder: Encoder) -> NewDocument:
    logits = encoder.filter_logits(document.vectors)
    nothing = np.zeros(encoder.d, np.float32)  # DensePhrases has no passage vector
    return NewDocument(
        doc_id=document.key,
        title=document.title,
        passages=tuple(
            NewPassage(
                ordinal=passage.ordinal,
                text=passage.text,
                vectors=document.vectors[passage.rows],
                token_ordinals=passage.ordinals,
                starts=passage.starts,
                ends=passage.ends,
                filter_logits=logits[passage.rows],
                passage_vector=nothing,
                n_tokens=passage.n_tokens,
            )
            for passage in passages
        ),
    )


def _first_documents(reading: _Reading) -> list[DumpDocument]:
    documents: list[DumpDocument] = []
    n_rows = 0
    for document, _ in reading.documents():
        documents.append(document)
        n_rows += len(document.kept)
        if len(documents) >= _CHECKED_PASSAGES and n_rows:
            break
    if not documents:
        raise CorpusError("the dump holds no document, so there is nothing to import")
    return documents


def check_encoder(documents: list[DumpDocument], encoder: Encoder) -> float | None:
    """Return the mean cosine of stored vectors and the encoder's own for the same characters; None without any.

    Raises:
        EncoderMismatchError: they have other dimensions, or the mean is below `MIN_COSINE`.
    """
    from kbengine.encoders.encoder import PassageText

    seen = documents[0].vectors.shape[1]
    if seen != encoder.d:
        raise EncoderMismatchError(
            f"the dump holds vectors of {seen} dimensions, encoder {encoder.name!r} has {encoder.d}; give the "
            "checkpoint that made the dump"
        )
    pairs: list[tuple[DumpDocument, DumpPassage]] = []
    for document in documents:
        pairs += [(document, passage) for passage in dump_passages(document, TokenCounts()) if len(passage.rows)]
    pairs = pairs[:_CHECKED_PASSAGES]
    encoded = encoder.encode_passages([PassageText(document.title, passage.text) for document, passage in pairs])
    cosines: list[float] = []
    for (document, passage), own in zip(pairs, encoded, strict=True):
        at = {(int(start), int(end)): i for i, (start, end) in enumerate(zip(own.starts, own.ends, strict=True))}
        for row, start, end in zip(passage.rows, passage.starts, passage.ends, strict=True):
            place = at.get((int(start), int(end)))
            if place is not None:
                cosines.append(_cosine(document.vectors[row], own.vectors[place]))
    if not cosines:
        return None
    mean = float(np.mean(cosines))
    if mean < MIN_COSINE:
        raise EncoderMismatchError(
            f"the dump's vectors and those of encoder {encoder.name!r} have a mean cosine of {mean:.2f}, wanted "
            f"{MIN_COSINE} or more; give the checkpoint whose phrase encoder made the dump"
        )
    return round(mean, 4)


def _cosine(one: Float32, other: Float32) -> float:
    norms = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / norms if norms else 0.0
