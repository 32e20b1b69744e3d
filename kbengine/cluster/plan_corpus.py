"""Dealing a corpus out to chunks: records as they are, a file's bytes cut between lines, each chunk an object."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kbengine.build.builder import CorpusOptions
from kbengine.cluster.plan import Chunk
from kbengine.corpus.compression import STDIN_NAME, CorpusFile, file_size
from kbengine.corpus.detect import detect_format
from kbengine.corpus.document import CorpusDocument
from kbengine.errors import CorpusError, EmptyCorpusError
from kbengine.progress import ProgressSink
from storage.exchange import PlainDocument, PlainPassage
from storage.object_store import ObjectStore

LINE_FORMATS = ("kilt", "beir", "kbengine", "plain")
"""Formats of a record a line: these are cut without being parsed."""


@dataclass(frozen=True)
class _Piece:
    """Bytes of a chunk to be."""

    data: bytes
    format: str
    origin: str


def stage_corpus(
    corpus: CorpusOptions, store: ObjectStore, *, chunk_bytes: int, progress: ProgressSink
) -> tuple[Chunk, ...]:
    """Store the corpus as chunks and return them, in order; what is stored already is not stored again.

    Files of a record a line, packed or not, are cut as they are; other formats are read, and written in kbengine's own.

    Args:
        corpus: what to read.
        store: where chunks go.
        chunk_bytes: how large they are; a record is never cut.
        progress: shown how much is done.

    Raises:
        CorpusError: a file cannot be read, or a record of another than a line format is bad.
    """
    if any(str(path) == STDIN_NAME for path in corpus.paths):
        raise CorpusError("standard input cannot be read again when a build goes on; write it to a file and name that")
    missing = [path for path in corpus.paths if not path.exists()]
    if missing:
        raise EmptyCorpusError(f"{missing[0]}: does not exist; check the path")
    total = sum(file_size(path) for path in corpus.paths)
    progress.begin("dealing out the corpus", total or None, "bytes")
    chunks: list[Chunk] = []
    ordinal = 0
    with tempfile.TemporaryDirectory(prefix="kbengine-chunk-") as folder:
        written = Path(folder) / "chunk"
        for piece in _pieces(corpus, chunk_bytes, progress):
            written.write_bytes(piece.data)
            file = store.put_file(written, f"chunk {len(chunks)}")
            chunks.append(Chunk(len(chunks), file, piece.format, ordinal, piece.origin))
            ordinal += file.n_bytes
    if not chunks:
        raise EmptyCorpusError(f"{corpus.paths[0]}: no document in the corpus, wanted at least one with text")
    return tuple(chunks)


def _pieces(corpus: CorpusOptions, chunk_bytes: int, progress: ProgressSink) -> Iterator[_Piece]:
    for path in corpus.paths:
        format_name = corpus.format or detect_format(path)
        if format_name in LINE_FORMATS and path.is_file():
            yield from _lines(path, format_name, chunk_bytes, progress)
        else:
            yield from _read(path, corpus, chunk_bytes, progress)


def _lines(path: Path, format_name: str, chunk_bytes: int, progress: ProgressSink) -> Iterator[_Piece]:
    """Cut a file of a record a line."""
    gathered: list[bytes] = []
    size = first = done = 0
    with CorpusFile(path) as file:
        for number, line in file.lines():
            if not line or line.isspace():
                continue
            first = first or number
            gathered.append(line if line.endswith(b"\n") else line + b"\n")
            size += len(gathered[-1])
            if size >= chunk_bytes:
                yield _Piece(b"".join(gathered), format_name, f"{path}, lines {first} to {number}")
                gathered, size, first = [], 0, 0
                progress.advance(file.bytes_read - done)
                done = file.bytes_read
        if gathered:
            yield _Piece(b"".join(gathered), format_name, f"{path}, lines {first} to the end")
            progress.advance(file.bytes_read - done)


def _read(path: Path, corpus: CorpusOptions, chunk_bytes: int, progress: ProgressSink) -> Iterator[_Piece]:
    """Read a corpus of another format, and write what it has as records a line."""
    gathered: list[bytes] = []
    size = done = 0
    reading = CorpusOptions((path,), format=corpus.format, skip_bad=corpus.skip_bad).read()
    for document, position in reading:
        gathered.append(_exported(document))
        size += len(gathered[-1])
        if size >= chunk_bytes:
            yield _Piece(b"".join(gathered), "kbengine", f"{path}, up to document {document.doc_id!r}")
            gathered, size = [], 0
            progress.advance(position.bytes_read - done)
            done = position.bytes_read
    if gathered:
        yield _Piece(b"".join(gathered), "kbengine", f"{path}, its last documents")


def _exported(document: CorpusDocument) -> bytes:
    plain = PlainDocument(
        document.doc_id,
        document.title,
        document.url,
        dict(document.meta),
        tuple(PlainPassage(each.ordinal, each.text, each.section, each.char_offset) for each in document.passages),
        document.aliases,
        document.links,
    )
    return plain.to_json().encode() + b"\n"


def shard_ends(chunks: Sequence[Chunk], *, shards: int | None, shard_bytes: int) -> tuple[int, ...]:
    """Return for each shard the number after that of its last chunk: neighbours, of about equally many bytes.

    Args:
        chunks: of the corpus.
        shards: how many shards are wanted; there are never more than chunks.
        shard_bytes: how large a shard is where their number is not given.
    """
    total = sum(chunk.text.n_bytes for chunk in chunks)
    wanted = min(len(chunks), shards or max(1, round(total / shard_bytes)))
    ends: list[int] = []
    done = 0
    for chunk in chunks:
        done += chunk.text.n_bytes
        left = len(chunks) - chunk.number - 1
        due = done >= total * (len(ends) + 1) / wanted or left == wanted - len(ends) - 1
        if due and len(ends) < wanted - 1:
            ends.append(chunk.number + 1)
    return (*ends, len(chunks))
