"""Encoding a chunk of a plan: its documents as a small shard, uploaded, with a record that says so written last."""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbengine.build.document_encoder import DocumentEncoder, chunks
from kbengine.build.filtering import FilterOptions
from kbengine.cluster.plan import TOKENS_PER_ORDINAL, BuildPlan, Chunk
from kbengine.corpus.document import CorpusDocument
from kbengine.corpus.reader import read_corpus
from kbengine.errors import CorpusError, CorruptError, EncoderMismatchError
from storage.backup_store import StoredFile
from storage.common_settings import CommonSettings, create_with
from storage.creation import FirstIds
from storage.database import reader_engine, translated
from storage.object_store import ObjectStore
from storage.records import NewDocument
from storage.shard_files import put_files

if TYPE_CHECKING:
    from kbengine.encoders.encoder import Encoder


@dataclass(frozen=True)
class BuiltChunk:
    """An encoded chunk.

    Attributes:
        number: of the chunk.
        files: of its small shard; none where it has no document.
        names: object with the ids, titles and links of its documents; None where it has none.
        documents: how many.
        passages: of them.
        tokens: encoded, for the rate.
        bad_records: left out.
    """

    number: int
    files: tuple[StoredFile, ...]
    names: StoredFile | None
    documents: int
    passages: int
    tokens: int
    bad_records: int

    def objects(self) -> tuple[StoredFile, ...]:
        """Return its objects."""
        return self.files if self.names is None else (*self.files, self.names)

    def to_bytes(self) -> bytes:
        """Return the record."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> BuiltChunk:
        """Return the chunk of a record; CorruptError when it is damaged."""
        try:
            record: dict[str, Any] = json.loads(data)
            names = record.pop("names")
            files = tuple(StoredFile(**each) for each in record.pop("files"))
            return cls(files=files, names=None if names is None else StoredFile(**names), **record)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptError(f"the record of a chunk is damaged ({error}); remove it and build again") from error


def built_chunk(plan: BuildPlan, store: ObjectStore, number: int) -> BuiltChunk | None:
    """Return a chunk that was built before and whose objects are there, None for another."""
    data = store.read_record(plan.record("chunks", f"{number:08d}.json"))
    if data is None:
        return None
    try:
        built = BuiltChunk.from_bytes(data)
    except CorruptError:
        return None  # cut short: it is built again
    return built if all(store.has(file.sha256, file.n_bytes) for file in built.objects()) else None


def build_chunk(
    plan: BuildPlan, store: ObjectStore, number: int, *, encoder: Encoder, common: CommonSettings
) -> BuiltChunk:
    """Encode a chunk and upload it; return what it has.

    Args:
        plan: of the build.
        store: where objects go.
        number: of the chunk.
        encoder: as the plan names it.
        common: the settings that all shards share.

    Raises:
        CorpusError: a record cannot be read, and the plan does not leave such out.
        CorruptError: the chunk's text is missing or damaged.
    """
    chunk = plan.chunks[number]
    with tempfile.TemporaryDirectory(prefix="kbengine-chunk-") as scratch:
        folder = Path(scratch)
        documents, bad = read_chunk(plan, chunk, store, folder)
        stored, n_tokens = encode_documents(documents, encoder, common)
        if not stored:
            built = BuiltChunk(number, (), None, 0, 0, 0, bad)
        else:
            kb = folder / "kb"
            write_part(kb, stored, common, first_ordinal=chunk.first_ordinal, end_ordinal=chunk.end_ordinal)
            names = _names(kb)
            built = BuiltChunk(
                number,
                put_files(store, kb),
                store.put_bytes(names, f"names of chunk {number}"),
                len(stored),
                sum(len(each.passages) for each in stored),
                n_tokens,
                bad,
            )
        shutil.rmtree(folder / "kb", ignore_errors=True)
    store.write_record(plan.record("chunks", f"{number:08d}.json"), built.to_bytes(), replace=True)
    return built


def read_chunk(plan: BuildPlan, chunk: Chunk, store: ObjectStore, folder: Path) -> tuple[list[CorpusDocument], int]:
    """Return the documents of a chunk and how many records were left out.

    Args:
        plan: says whether any may be.
        chunk: which.
        store: has its text.
        folder: for temporary files.

    Raises:
        CorpusError: a record cannot be read.
    """
    text = folder / "chunk.jsonl"
    store.fetch(chunk.text, text)
    reading = read_corpus([text], format=chunk.format, skip_bad=True)
    documents: list[CorpusDocument] = []
    try:
        documents.extend(document for document, _ in reading)
    except CorpusError:
        # Raised at the end of a reading without one passage: pages that are only titles may fill a chunk.
        if reading.report.passages:
            raise
    finally:
        text.unlink()
    report = reading.report
    if report.bad_records and not plan.skip_bad:
        raise CorpusError(
            f"{chunk.origin}: record {report.bad[0].line} of chunk {chunk.number}: {report.bad[0].reason}; fix it or "
            "pass --skip-bad"
        )
    return documents, report.bad_records


def encode_documents(
    documents: list[CorpusDocument], encoder: Encoder, common: CommonSettings
) -> tuple[list[NewDocument], int]:
    """Return documents with the vectors that common settings want stored, and how many tokens were encoded."""
    settings = common.settings
    threshold = common_threshold(common)
    document_encoder = DocumentEncoder(encoder, FilterOptions(threshold=None), store_all=settings.stores_all)
    stored: list[NewDocument] = []
    n_tokens = 0
    for group, _ in chunks((document, place) for place, document in enumerate(documents)):
        encoded = document_encoder.encode(group, threshold=threshold)
        stored += encoded.documents
        n_tokens += encoded.n_encoded_tokens
    return stored, n_tokens


def common_threshold(common: CommonSettings) -> float | None:
    """Return the filter logit that common settings index from, None where all tokens are."""
    from kbengine.build.builder import stored_threshold

    return stored_threshold(common.settings)


def write_part(
    path: Path, documents: list[NewDocument], common: CommonSettings, *, first_ordinal: int, end_ordinal: int
) -> None:
    """Write documents as a knowledge base whose ids lie in a range of ordinals.

    Raises:
        CorpusError: there is not room for them in it.
    """
    check_room(documents, end_ordinal - first_ordinal)
    first = FirstIds(first_ordinal + 1, first_ordinal + 1, TOKENS_PER_ORDINAL * first_ordinal + 1)
    with create_with(path, common, first=first) as writer:
        writer.add(documents)


def ordinals_for(documents: list[NewDocument]) -> int:
    """Return how many ordinals documents need: one for each of them, each passage and a few tokens."""
    passages = [passage for document in documents for passage in document.passages]
    n_tokens = sum(len(passage.vectors) for passage in passages)
    return max(len(documents), len(passages), -(-n_tokens // TOKENS_PER_ORDINAL))


def check_room(documents: list[NewDocument], room: int) -> None:
    """Raise CorpusError where documents need more ordinals than there are."""
    needed = ordinals_for(documents)
    if needed > room:
        raise CorpusError(
            f"document {documents[0].doc_id!r} and its neighbours need {needed:,} ordinals, their records have "
            f"{room:,} bytes; write them with longer lines, for example indented"
        )


def _names(kb: Path) -> bytes:
    """Return ids, titles and links of the documents of a knowledge base, packed."""
    engine = reader_engine(kb)
    try:
        with translated(kb), engine.connect() as connection:
            documents = connection.exec_driver_sql(
                "SELECT document_id - 1, doc_id, title FROM documents ORDER BY document_id"
            ).all()
            links = connection.exec_driver_sql(
                "SELECT anchor, target_kind, target, sum(n_links) FROM links GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
            ).all()
    finally:
        engine.dispose()
    record = {"documents": [list(row) for row in documents], "links": [list(row) for row in links]}
    return gzip.compress(json.dumps(record, ensure_ascii=False).encode(), compresslevel=5, mtime=0)


def read_names(data: bytes) -> tuple[list[tuple[int, str, str]], list[tuple[str, str, str, int]]]:
    """Return (ordinal, id, title) of the documents of a chunk, and (text, kind, target, count) of their links."""
    record: Mapping[str, Any] = json.loads(gzip.decompress(data))
    return [tuple(row) for row in record["documents"]], [tuple(row) for row in record["links"]]


def check_plan_encoder(plan: BuildPlan, encoder: Encoder) -> None:
    """Raise EncoderMismatchError when a worker's encoder is not the plan's."""
    if encoder.fingerprint != plan.encoder_fingerprint:
        raise EncoderMismatchError(
            f"encoder {plan.encoder!r} has fingerprint {encoder.fingerprint[:12]} here, the plan was made with "
            f"{plan.encoder_fingerprint[:12]}; give every worker the same encoder and version"
        )
