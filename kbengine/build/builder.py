"""Building a knowledge base from a corpus, and adding a corpus to one: streaming, resumable, a commit a chunk."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbengine.build.document_encoder import Background, DocumentEncoder, EncodedChunk, chunks
from kbengine.build.filtering import FilterOptions
from kbengine.build.freed_memory import return_freed_memory
from kbengine.build.identity import check_encoder
from kbengine.build.storing import DEFAULT_STORE, StoreOptions, bundled_code
from kbengine.corpus.document import CorpusDocument, SourcePosition
from kbengine.corpus.origin import with_origin
from kbengine.corpus.reader import CorpusReading, read_corpus
from kbengine.corpus.report import CorpusReport
from kbengine.encoders.agreement import agreeing_encoder
from kbengine.errors import EncoderMismatchError, InvalidOptionError, KnowledgeBaseExistsError
from kbengine.progress import NoProgress, ProgressSink, Stages
from kbengine.version import __version__
from storage.ann_options import AnnOptions
from storage.index_kind import LARGE_KIND
from storage.settings import KBSettings

if TYPE_CHECKING:
    from kbengine.encoders.encoder import Encoder
    from storage.links import LinkCounts
    from storage.writer import KBWriter


@dataclass(frozen=True)
class CorpusOptions:
    """What to read and how to treat what cannot be read.

    Attributes:
        paths: files, folders, or `-` for standard input.
        format: of all paths; None detects each one's own.
        skip_bad: count records that cannot be read instead of stopping at the first.
        source: the name under which the documents are kept in step (see `kbengine.build.sync`), None when they are not.
        prefix: put before the id of each document that is kept in step.
    """

    paths: tuple[Path, ...]
    format: str | None = None
    skip_bad: bool = False
    source: str | None = None
    prefix: str = ""

    def read(self, start: SourcePosition | None = None) -> CorpusReading:
        """Return the documents, from the start or from where an earlier reading stopped.

        Raises:
            CorpusError: a path is not there, or is of no known format.
        """
        change = None if self.source is None else partial(with_origin, source=self.source, prefix=self.prefix)
        return read_corpus(self.paths, format=self.format, skip_bad=self.skip_bad, start=start, change=change)


@dataclass
class BuildReport:
    """What a build or an addition did: counts of this run, and the fraction of tokens that are indexed."""

    documents: int = 0
    passages: int = 0
    passage_tokens: int = 0
    encoded_tokens: int = 0
    stored_tokens: int = 0
    indexed_tokens: int = 0
    resumed: bool = False
    elapsed_s: float = 0.0
    corpus: CorpusReport | None = None
    links: LinkCounts | None = None
    thresholds: list[tuple[float, int]] = field(default_factory=list)

    @property
    def kept_fraction(self) -> float:
        """Return the share of the passages' tokens that is indexed."""
        return self.indexed_tokens / self.passage_tokens if self.passage_tokens else 0.0

    def count(self, chunk: EncodedChunk) -> None:
        """Add what one chunk did."""
        self.documents += len(chunk.documents)
        self.passages += chunk.n_passages
        self.passage_tokens += chunk.n_passage_tokens
        self.encoded_tokens += chunk.n_encoded_tokens
        self.stored_tokens += chunk.n_stored_tokens
        self.indexed_tokens += chunk.n_indexed_tokens
        if math.isfinite(chunk.threshold):
            self.thresholds.append((chunk.threshold, chunk.n_passage_tokens))


def build(
    corpus: CorpusOptions,
    path: Path,
    *,
    encoder: Encoder,
    filter_options: FilterOptions,
    ann: Mapping[str, str | int] | None = None,
    store: StoreOptions = DEFAULT_STORE,
    progress: ProgressSink | None = None,
) -> BuildReport:
    """Build a knowledge base of the corpus in the directory `path`, or go on with an interrupted build.

    Every chunk of about 250 passages is durable when the next begins; interrupted, the same call goes on
    where it stopped. Until it is done the directory answers no query.

    Args:
        corpus: what to read.
        path: the directory, not there yet, empty, or of an interrupted build.
        encoder: makes the vectors.
        filter_options: which tokens are indexed.
        ann: options of the approximate search that are not to be chosen from the size: see `storage.ann.AnnOptions`.
        store: what is stored of the tokens.
        progress: shown the stages.

    Raises:
        KnowledgeBaseExistsError: the directory holds a complete knowledge base or something else.
        CorpusError: the corpus is empty, or has a record that cannot be read (unless `corpus.skip_bad`).
        EncoderMismatchError: an interrupted build was begun with another encoder.
        StorageFullError: no space; what was committed stays, and the build can be resumed.
    """
    progress = progress or NoProgress()
    began = time.perf_counter()
    report = BuildReport()
    writer = _writer_for_build(corpus, path, encoder, filter_options, ann or {}, store)
    counters: dict[str, Any] = dict(writer.settings.build_position)
    report.resumed = "source" in counters
    with writer:
        encoder = agreeing_encoder(encoder, writer.settings.sparse_model, path)
        start = SourcePosition.from_json(counters["source"]) if report.resumed else None
        documents = corpus.read(start)
        _add_chunks(writer, documents, documents, encoder, filter_options, report, progress, counters=counters)
        report.links = finish(writer, progress)
    report.elapsed_s = time.perf_counter() - began
    return report


def finish(writer: KBWriter, progress: ProgressSink) -> LinkCounts:
    """Bring a build to its end, whose documents are all there, and return what was counted."""
    progress.begin("counting links", None, "")
    links = writer.count_links()
    writer.choose_indexed()
    writer.choose_kind()
    progress.begin("merging and clustering", None, "")
    writer.merge_all()
    _train_index(writer, progress)
    writer.finish_build()
    return links


def _train_index(writer: KBWriter, progress: ProgressSink) -> None:
    """Train the quantiser that the kind of index needs, once there are so many vectors that they are not scanned."""
    from storage.reindexing import ReindexRequest

    options = writer.settings.ann_options
    if options.index_kind.needs_quantiser and writer.stored_rows() >= max(options.exact_below_rows, 256):
        writer.reindex(ReindexRequest(ann={}, device="auto"), stage=Stages(progress))


def add_corpus(
    corpus: CorpusOptions,
    path: Path,
    *,
    encoder: Encoder,
    progress: ProgressSink | None = None,
) -> BuildReport:
    """Add the corpus to the knowledge base; documents with an id it holds are replaced.

    Raises:
        CorpusError: a record cannot be read (unless `corpus.skip_bad`); chunks before it stay added.
        EncoderMismatchError: the encoder is not the knowledge base's.
    """
    from storage.writer import KBWriter

    with KBWriter.open(path) as writer:
        documents = corpus.read()
        return add_documents(writer, documents, documents, encoder=encoder, progress=progress)


def add_documents(
    writer: KBWriter,
    documents: Iterable[tuple[CorpusDocument, SourcePosition]],
    reading: CorpusReading,
    *,
    encoder: Encoder,
    progress: ProgressSink | None = None,
) -> BuildReport:
    """Add documents of a corpus; those with an id that is there are replaced.

    While the knowledge base is being built each chunk chooses its tokens by itself, as in `build`.

    Args:
        writer: of the knowledge base.
        documents: those of the reading that are wanted, in its order.
        reading: the corpus.
        encoder: makes the vectors.
        progress: shown how much of the corpus is done.

    Raises:
        CorpusError: a record cannot be read; chunks before it stay added.
        EncoderMismatchError: the encoder is not the knowledge base's.
    """
    began = time.perf_counter()
    report = BuildReport()
    settings = writer.settings
    check_encoder(encoder, settings, writer.path)
    encoder = agreeing_encoder(encoder, settings.sparse_model, writer.path)
    filter_options = FilterOptions.from_json(settings.filter)
    _add_chunks(
        writer,
        documents,
        reading,
        encoder,
        filter_options,
        report,
        progress or NoProgress(),
        counters=dict(settings.build_position) if settings.build_state == "building" else None,
        threshold=None if settings.build_state == "building" else stored_threshold(settings),
    )
    report.elapsed_s = time.perf_counter() - began
    return report


def _add_chunks(
    writer: KBWriter,
    documents: Iterable[tuple[CorpusDocument, SourcePosition]],
    reading: CorpusReading,
    encoder: Encoder,
    filter_options: FilterOptions,
    report: BuildReport,
    progress: ProgressSink,
    *,
    counters: dict[str, Any] | None = None,
    threshold: float | None = None,
) -> None:
    """Encode and commit documents chunk by chunk; the commit of one chunk overlaps the encoding of the next.

    With `counters` it is a build, and each commit says where it goes on.
    """
    done_bytes = reading.report.bytes_read
    progress.begin("encoding passages", reading.report.bytes_total or None, "")
    progress.advance(done_bytes)
    document_encoder = DocumentEncoder(encoder, filter_options, store_all=writer.settings.stores_all)
    background = Background()
    began = time.perf_counter()
    return_freed_memory()  # what loading the encoder took beyond its weights
    try:
        for chunk_documents, position in chunks(documents):
            chunk = document_encoder.encode(chunk_documents, threshold=threshold)
            report.count(chunk)
            build_position = None
            if counters is not None:
                _count_for_resume(counters, chunk, position)
                build_position = dict(counters)
            background.submit(writer.add, chunk.documents, build_position=build_position)
            del chunk  # its vectors are freed as soon as they are committed, while the next are being made
            return_freed_memory()
            rate = report.encoded_tokens / (time.perf_counter() - began)
            progress.advance(position.bytes_read - done_bytes, f"{report.documents:,} documents, {rate:,.0f} tokens/s")
            done_bytes = position.bytes_read
        background.wait()
    finally:
        background.close()
        report.corpus = reading.report


def _count_for_resume(counters: dict[str, Any], chunk: EncodedChunk, position: SourcePosition) -> None:
    """Bring the counters that are stored with each commit up to date, so that a resumed build reports the whole."""
    counters["source"] = position.to_json()
    counters["passage_tokens"] = counters.get("passage_tokens", 0) + chunk.n_passage_tokens
    counters["kept_tokens"] = counters.get("kept_tokens", 0) + chunk.n_indexed_tokens
    if math.isfinite(chunk.threshold):
        weighted = chunk.threshold * chunk.n_passage_tokens
        counters["threshold_sum"] = counters.get("threshold_sum", 0.0) + weighted
        counters["threshold_tokens"] = counters.get("threshold_tokens", 0) + chunk.n_passage_tokens


def stored_threshold(settings: KBSettings) -> float | None:
    """Return the filter threshold for additions: the mean over the chunks of the build, None where there was none.

    Where all tokens are stored it is the one that chooses those to be indexed.
    """
    if settings.indexed_from is not None:
        return settings.indexed_from
    position: Mapping[str, Any] = settings.build_position
    n_tokens = position.get("threshold_tokens", 0)
    return float(position["threshold_sum"]) / float(n_tokens) if n_tokens else None


def _writer_for_build(
    corpus: CorpusOptions,
    path: Path,
    encoder: Encoder,
    filter_options: FilterOptions,
    ann: Mapping[str, str | int],
    store: StoreOptions,
) -> KBWriter:
    kind = AnnOptions(**dict(ann)).index_kind  # type: ignore[arg-type]  # checked there
    if kind.needs_quantiser:
        kind.groups(encoder.d)
    request = request_of(corpus, filter_options)
    return build_writer(
        path, encoder, filter_options, request=request, before=lambda: next(corpus.read()), ann=ann, store=store
    )


def build_writer(
    path: Path,
    encoder: Encoder,
    filter_options: FilterOptions,
    *,
    request: dict[str, Any],
    before: Callable[[], object],
    ann: Mapping[str, str | int] | None = None,
    store: StoreOptions = DEFAULT_STORE,
    what: str = "build",
) -> KBWriter:
    """Return a writer on a new directory, or on an interrupted build that this one can go on with.

    Args:
        path: the directory.
        encoder: whose vectors are stored.
        filter_options: which tokens are indexed.
        request: what else identifies the build: resuming it with another one would mix two.
        before: called before a directory is made: what cannot be read leaves nothing behind.
        ann: options of the approximate search.
        store: what is stored of the tokens.
        what: what errors call it.

    Raises:
        KnowledgeBaseExistsError: the directory holds a complete knowledge base.
        EncoderMismatchError: the interrupted build was begun with another encoder.
        InvalidOptionError: it was begun with another request or index.
    """
    from storage.writer import KBWriter

    ann = dict(ann or {})
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        before()
        settings = KBSettings(
            encoder_name=encoder.name,
            encoder_fingerprint=encoder.fingerprint,
            sparse={} if encoder.sparse is None else {"model": encoder.sparse.fingerprint},
            passage_fingerprint=encoder.passage_fingerprint,
            d=encoder.d,
            filter=_filter_settings(filter_options, store),
            store=store.to_json(),
            ann=ann,
            kbengine_version=__version__,
            build={"state": "building", "position": {"request": request}},
        )
        code = bundled_code(encoder) if store.code_bits == 4 else None
        return KBWriter.create(path, settings, code=code)
    writer = KBWriter.open(path)
    problem: Exception | None = None
    begun = writer.settings.build_position.get("request")
    if writer.settings.build_state != "building":
        problem = KnowledgeBaseExistsError(
            f"{path} holds a complete knowledge base; add to it with 'kbengine add', or choose another --kb"
        )
    elif writer.settings.encoder_fingerprint != encoder.fingerprint:
        problem = EncoderMismatchError(
            f"the interrupted {what} in {path} was begun with encoder {writer.settings.encoder_name!r}, now it is "
            f"{encoder.name!r}; resume with the first, or remove the directory"
        )
    elif begun != request:
        problem = InvalidOptionError(
            f"the interrupted {what} in {path} was begun with {begun}, now it is {request}; "
            "resume with the same, or remove the directory"
        )
    elif dict(writer.settings.ann) not in (ann, {"kind": LARGE_KIND, **ann}):
        problem = InvalidOptionError(
            f"the interrupted {what} in {path} was begun with index {dict(writer.settings.ann)}, now it is {ann}; "
            "resume with the same and change it afterwards ('kbengine reindex'), or remove the directory"
        )
    elif not store.agree_with(writer.settings.store):
        problem = InvalidOptionError(
            f"the interrupted {what} in {path} was begun with {dict(writer.settings.store)} to be stored, now it is "
            f"{store.to_json()}; resume with the same, or remove the directory"
        )
    if problem is not None:
        writer.close()
        raise problem
    return writer


def _filter_settings(filter_options: FilterOptions, store: StoreOptions) -> dict[str, Any]:
    """Return the filter as stored: with a threshold it is known at once which of all stored tokens are indexed."""
    known = store.tokens == "all" and filter_options.threshold is not None
    return filter_options.to_json() | ({"indexed_from": filter_options.threshold} if known else {})


def request_of(corpus: CorpusOptions, filter_options: FilterOptions) -> dict[str, Any]:
    """Return what identifies a build: resuming it with another corpus or filter would mix two."""
    return {
        "corpus": [str(path) for path in corpus.paths],
        "format": corpus.format,
        "skip_bad": corpus.skip_bad,
        "filter": filter_options.to_json(),
        **({} if corpus.source is None else {"source": corpus.source, "prefix": corpus.prefix}),
    }


def describe(report: BuildReport, paths: Sequence[Path]) -> dict[str, Any]:
    """Return the report as plain JSON values."""
    record: dict[str, Any] = {
        "corpus": [str(path) for path in paths],
        "documents": report.documents,
        "passages": report.passages,
        "tokens": report.passage_tokens,
        "stored_vectors": report.stored_tokens,
        "indexed_vectors": report.indexed_tokens,
        "kept_fraction": round(report.kept_fraction, 4),
        "encoded_tokens_per_s": round(report.encoded_tokens / report.elapsed_s) if report.elapsed_s else None,
        "elapsed_s": round(report.elapsed_s, 2),
        "resumed": report.resumed,
    }
    if report.links is not None and report.links.links:
        record["links"] = report.links.links
        record["links_to_missing_documents"] = report.links.missing
        record["aliases_from_links"] = report.links.aliases
    if report.corpus is not None:
        record.update({"skipped_records": 0, **report.corpus.left_out()})
    return record
