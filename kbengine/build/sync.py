"""Keeping a knowledge base in step with a folder or feed: what is new is added, changed is replaced, gone is deleted.

Every document of a source carries the source's name and a digest (`kbengine.corpus.origin`). The source is read once to
compare; only what differs is read again, encoded and written, chunk by chunk as by `add`, and deletions are one commit
at the end. Each commit is durable, so that a run that was interrupted is finished by running it again.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbengine.build.builder import CorpusOptions, add_documents, build_writer, finish, request_of
from kbengine.build.filtering import DEFAULT_FILTER
from kbengine.corpus.compression import STDIN_NAME
from kbengine.corpus.origin import origin_of
from kbengine.corpus.report import CorpusReport
from kbengine.corpus.seen import SeenIds
from kbengine.errors import CorpusError, DuplicateDocumentError, EmptyCorpusError, InvalidOptionError
from kbengine.progress import NoProgress, ProgressSink
from storage.catalog import chunked

if TYPE_CHECKING:
    from kbengine.encoders.encoder import Encoder
    from storage.reader import KBReader
    from storage.writer import KBWriter

GUARDED_DOCUMENTS = 10
"""More deletions than this, of more than half of a source's documents, have to be confirmed."""

_COMPARED_TOGETHER = 1_000
_NAMED_IDS = 5


@dataclass(frozen=True)
class SyncOptions:
    """What to keep in step, and what may be done without asking.

    Attributes:
        corpus: the folder or feed. Its `source` names it; by default that is its absolute path. Files of folders that
            cannot be read are passed over in any case: it is known which documents they are, and these stay.
        adopt: take over documents of the same id that came from elsewhere, instead of refusing them.
        allow_empty: delete all documents of the source when it holds none or is not there.
        delete_most: delete more than half of the source's documents (from eleven on).
        dry_run: only compare.
    """

    corpus: CorpusOptions
    adopt: bool = False
    allow_empty: bool = False
    delete_most: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        corpus = self.corpus
        if any(str(path) == STDIN_NAME for path in corpus.paths):
            raise InvalidOptionError("standard input can be read only once; write it to a file and sync that")
        if corpus.source is None:
            if len(corpus.paths) != 1:
                raise InvalidOptionError(
                    f"{len(corpus.paths)} paths and no name for them; name the source with --source (source=)"
                )
            # Not resolved: a link to the newest copy of a folder stays the same source.
            corpus = replace(corpus, source=os.path.abspath(corpus.paths[0]))  # noqa: PTH100
        elif not corpus.source.strip():
            raise InvalidOptionError(f"the name of the source is {corpus.source!r}, wanted some text")
        skip_bad = corpus.skip_bad or all(path.is_dir() for path in corpus.paths)
        object.__setattr__(self, "corpus", replace(corpus, skip_bad=skip_bad))

    @property
    def source(self) -> str:
        """Return the source's name."""
        return str(self.corpus.source)


@dataclass
class SyncReport:
    """How a source and a knowledge base differed, and with that what was done, or would be done.

    Attributes:
        source: the source's name.
        added: ids of documents that were new.
        changed: ids of those whose text, title, url, meta or aliases had changed.
        deleted: ids of those that the source did not have any more.
        unchanged: how many were the same; they were not written.
        kept: how many would have been deleted, but records that could not be read may be theirs.
        dry_run: whether nothing was done.
        created: whether there was no knowledge base before.
        corpus: what reading the source came to.
    """

    source: str
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    unchanged: int = 0
    kept: int = 0
    dry_run: bool = False
    created: bool = False
    corpus: CorpusReport | None = None
    elapsed_s: float = 0.0

    def facts(self) -> dict[str, Any]:
        """Return the report as plain JSON values; a dry run names the documents."""
        facts: dict[str, Any] = {
            "source": self.source,
            "added": len(self.added),
            "changed": len(self.changed),
            "deleted": len(self.deleted),
            "unchanged": self.unchanged,
        }
        if self.kept:
            facts["kept_unread"] = self.kept
        facts.update(self.corpus.left_out() if self.corpus is not None else {})
        return {**facts, "created": self.created, "dry_run": self.dry_run, "elapsed_s": round(self.elapsed_s, 2)}


def sync(
    path: Path, options: SyncOptions, *, encoder: Callable[[], Encoder], progress: ProgressSink | None = None
) -> SyncReport:
    """Bring the knowledge base in `path` in step with the source; it is made if there is none.

    Args:
        path: the knowledge base's directory.
        options: the source, and what may be done without asking.
        encoder: called only when there is something to encode.
        progress: shown the stages.

    Raises:
        EmptyCorpusError: the source is not there or holds no document, and `allow_empty` is not set.
        CorpusError: it cannot be read, or so many documents are gone that it has to be confirmed (`delete_most`).
        DuplicateDocumentError: a document of the same id came from elsewhere, and `adopt` is not set.
        StorageFullError: no space; what was committed stays, and running it again goes on.
    """
    from storage.reader import KBReader
    from storage.writer import KBWriter

    if _is_new(path):
        return _would_create(options) if options.dry_run else _create(path, options, encoder, progress)
    with KBReader.open(path) as reader:
        if options.dry_run:
            return _compared(reader, options, progress)
        with KBWriter.open(path) as writer:
            return sync_into(writer, reader, options, encoder=encoder, progress=progress)


def sync_into(
    writer: KBWriter,
    reader: KBReader,
    options: SyncOptions,
    *,
    encoder: Callable[[], Encoder],
    progress: ProgressSink | None = None,
) -> SyncReport:
    """Bring an open knowledge base in step with the source; see `sync`."""
    began = time.perf_counter()
    report = _compared(reader, options, progress)
    wanted = set() if options.dry_run else {*report.added, *report.changed}
    if wanted:
        reading = options.corpus.read()
        documents = (pair for pair in reading if pair[0].doc_id in wanted)
        add_documents(writer, documents, reading, encoder=encoder(), progress=progress)
    if report.deleted and not options.dry_run:
        writer.delete(report.deleted)
    report.elapsed_s = time.perf_counter() - began
    return report


def _compared(reader: KBReader, options: SyncOptions, progress: ProgressSink | None) -> SyncReport:
    """Return how the source and the knowledge base differ, which `sync` puts right; raises as that does."""
    began = time.perf_counter()
    report = SyncReport(options.source, dry_run=options.dry_run)
    seen = SeenIds()
    foreign: dict[str, str | None] = {}
    unreadable: set[str] = set()
    try:
        reading = options.corpus.read()
        progress = progress or NoProgress()
        progress.begin("comparing", reading.report.bytes_total or None, "")
        done_bytes = 0
        for pairs in chunked(reading, _COMPARED_TOGETHER):
            stored = reader.live_documents([document.doc_id for document, _ in pairs])
            for document, position in pairs:
                seen.add(document.doc_id, position.file_index, position.record)
                there = stored.get(document.doc_id)
                if there is None:
                    report.added.append(document.doc_id)
                elif (origin := origin_of(there.meta)) is None or origin.source != options.source:
                    foreign[document.doc_id] = origin.source if origin else None
                elif origin == origin_of(document.meta):
                    report.unchanged += 1
                else:
                    report.changed.append(document.doc_id)
            progress.advance(reading.report.bytes_read - done_bytes)
            done_bytes = reading.report.bytes_read
        report.corpus = reading.report
        unreadable = {options.corpus.prefix + name for name in reading.unreadable_files}
    except EmptyCorpusError as e:
        if not options.allow_empty:
            raise EmptyCorpusError(
                f"{e.message}; nothing was changed: to delete all documents of the source pass --allow-empty"
            ) from e
    if foreign and not options.adopt:
        raise DuplicateDocumentError(_of_others(foreign, reader.path))
    report.changed += foreign
    n_stored = 0
    for record in reader.iterate_records():
        origin = origin_of(record.meta)
        if origin is not None and origin.source == options.source:
            n_stored += 1
            if seen.add(record.doc_id, 0, 0) is None and record.doc_id not in unreadable:
                report.deleted.append(record.doc_id)
    n_bad = report.corpus.bad_records if report.corpus else 0
    if n_bad > len(unreadable):
        report.kept, report.deleted = len(report.deleted), []
    _check_deletions(report, n_stored, options)
    report.elapsed_s = time.perf_counter() - began
    return report


def _is_new(path: Path) -> bool:
    """Tell whether the knowledge base is still to be made, or its making was interrupted."""
    from storage.reader import KBReader

    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return True
    with KBReader.open(path, allow_incomplete=True) as reader:
        return reader.settings.build_state == "building"


def _create(
    path: Path, options: SyncOptions, encoder: Callable[[], Encoder], progress: ProgressSink | None
) -> SyncReport:
    """Make the knowledge base, or go on with that: what an interrupted run has left is compared like any other."""
    from storage.reader import KBReader

    corpus, model = options.corpus, encoder()
    writer = build_writer(
        path,
        model,
        DEFAULT_FILTER,
        request=request_of(corpus, DEFAULT_FILTER),
        before=lambda: next(corpus.read()),
        what="sync",
    )
    with writer, KBReader.open(path, allow_incomplete=True) as reader:
        report = sync_into(writer, reader, options, encoder=lambda: model, progress=progress)
        finish(writer, progress or NoProgress())
    report.created = True
    return report


def _would_create(options: SyncOptions) -> SyncReport:
    began = time.perf_counter()
    reading = options.corpus.read()
    added = [document.doc_id for document, _ in reading]
    elapsed_s = time.perf_counter() - began
    return SyncReport(options.source, added, dry_run=True, corpus=reading.report, elapsed_s=elapsed_s)


def _of_others(foreign: Mapping[str, str | None], path: Path) -> str:
    named = ", ".join(
        f"{doc_id!r} ({f'from {source}' if source else 'added by itself'})"
        for doc_id, source in itertools.islice(foreign.items(), _NAMED_IDS)
    )
    more = f" and {len(foreign) - _NAMED_IDS:,} more" if len(foreign) > _NAMED_IDS else ""
    return (
        f"{path} holds documents of the same id that are not of this source: {named}{more}; nothing was changed: pass "
        "--adopt to take them over, --prefix TEXT to put something before the ids of this source, or --source NAME if "
        "the source has only moved"
    )


def _check_deletions(report: SyncReport, n_stored: int, options: SyncOptions) -> None:
    """Refuse to delete so much that the source is more likely broken than that much smaller."""
    n_gone = len(report.deleted)
    may = options.delete_most or options.allow_empty or options.dry_run
    if not may and n_gone > GUARDED_DOCUMENTS and 2 * n_gone > n_stored:
        raise CorpusError(
            f"{n_gone:,} of the {n_stored:,} documents of {options.source} are gone, which is more than half; nothing "
            "was changed: look at them with --dry-run, and pass --yes to delete them"
        )
