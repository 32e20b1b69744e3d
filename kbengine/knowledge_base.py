"""A knowledge base opened for use: search, add and delete from Python, from as many threads as you like."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from kbengine.build.filtering import FilterOptions
from kbengine.build.identity import check_encoder
from kbengine.corpus.document import CorpusDocument
from kbengine.corpus.plain import parse_plain
from kbengine.encoders.agreement import agreeing_encoder
from kbengine.encoders.location import DEFAULT_ENCODER
from kbengine.errors import EncoderMismatchError, KBError
from kbengine.reading.location import DEFAULT_READER, find_reader, has_reader
from kbengine.search.query import Query, SearchOptions
from storage.alias_records import NewAlias

if TYPE_CHECKING:
    from kbengine.build.sync import SyncOptions, SyncReport
    from kbengine.encoders.device import DTypeChoice
    from kbengine.encoders.encoder import Encoder
    from kbengine.inputs import Task
    from kbengine.progress import ProgressSink
    from kbengine.reading.reader import Reader
    from kbengine.search.pool import KeyOf
    from kbengine.search.results import SearchResult
    from kbengine.search.searcher import Searcher
    from storage.alias_changes import AliasChange
    from storage.alias_records import AliasMatch, AliasSource
    from storage.feedback_records import NewFeedback
    from storage.feedback_rows import FeedbackChange
    from storage.gpu import IndexDevice
    from storage.information import KBInfo
    from storage.reader import KBReader
    from storage.records import JSON, Commit, DocumentRecord
    from storage.writer import KBWriter


@dataclass(frozen=True)
class KnowledgeBaseOptions:
    """How to open a knowledge base; `reader` names what reads the best passages, bundled or a directory."""

    device: str = "auto"
    dtype: DTypeChoice = "auto"
    lock_timeout_s: float = 10.0
    index_device: IndexDevice = "cpu"
    reader: str = DEFAULT_READER


class KnowledgeBase:
    """One knowledge base: `KnowledgeBase.open(path)`, then `.search`, `.add`, `.delete`.

    Searching takes no lock and sees every commit, also of other processes, from the next call on. The first change
    takes the writer lock and keeps it until `close`.
    """

    def __init__(
        self, path: Path, encoder: Encoder, options: KnowledgeBaseOptions, *, always: str | None = None
    ) -> None:
        from kbengine.encoders.answering import AnsweringEncoders
        from storage.reader import KBReader

        self.path = path
        self._options = options
        self._reader = KBReader.open(path, index_device=options.index_device)
        settings = self._reader.settings
        try:
            check_encoder(encoder, settings, path)
            encoder = agreeing_encoder(encoder, settings.sparse_model, path)
        except EncoderMismatchError:
            self._reader.close()
            raise
        self.encoder = encoder
        self._encoders = AnsweringEncoders(path, encoder, always=always)
        self._write_lock = threading.Lock()
        self._cross_encoder_lock = threading.Lock()
        self._warm_up_lock = threading.Lock()
        self._is_warm = False
        self._cross_encoder: Reader | None = None
        self._writer: KBWriter | None = None

    @classmethod
    def open(
        cls, path: str | Path, encoder: Encoder | str | None = None, *, options: KnowledgeBaseOptions | None = None
    ) -> KnowledgeBase:
        """Open the knowledge base in the directory `path`, ready to answer.

        Args:
            path: the directory.
            encoder: the name of an encoder tuned for this knowledge base or bundled for a task, or the name or
                directory of a model: it then answers all tasks unless a search names another. By default, and where an
                encoder is at hand, that one (the one that the knowledge base was built with) with those that are
                bundled for single tasks.
            options: device, number type and lock timeout.

        Raises:
            NotAKnowledgeBaseError: there is none.
            BuildIncompleteError: its build was interrupted.
            FormatTooNewError: a newer kbengine wrote it.
            EncoderMismatchError: the encoder makes other passage vectors than the stored ones.
            CorruptError: a file is not what was written.
            EncoderError: there is no such reader.
        """
        from kbengine.encoders.answering import has_tuned
        from kbengine.encoders.encoder import Encoder
        from storage.reader import KBReader

        options = options or KnowledgeBaseOptions()
        if options.reader != DEFAULT_READER:
            find_reader(options.reader)  # one asked for by name is missed now, not at the first query that reads
        path = Path(path)
        always = encoder if isinstance(encoder, str) else None
        if encoder is None or isinstance(encoder, str):
            with KBReader.open(path) as reader:
                own = reader.settings.encoder_name
            name = own if encoder is None or has_tuned(path, own, encoder) else encoder
            encoder = Encoder.load(name, device=options.device, dtype=options.dtype)
            always = encoder.name if name == always else always
        knowledge_base = cls(path, encoder, options, always=always)
        knowledge_base.encoder_for()  # a damaged one is told of now
        knowledge_base._prepare()
        return knowledge_base

    def has_sparse(self, encoder: str | None = None) -> bool:
        """Return whether sparse scores count with the encoder (by default the one it answers with): rows are stored."""
        return self.encoder_for(encoder).sparse is not None and self._reader.snapshot().has_sparse_rows

    def warm_up(self) -> None:
        """Do now what the first query would wait for: open new segments and, the first time, ask something.

        That loads the reader where it reads by default, and the machine code of searches, which is compiled where it
        never ran before (some seconds).

        Raises:
            CorruptError: a file is not what was written.
        """
        self._prepare()
        with self._warm_up_lock:
            if self._is_warm:
                return
            # Words that occur, so that all of a search runs. What goes wrong with it the first real query tells.
            with suppress(KBError, OSError):
                title = next((document.title for document in self._reader.list_documents(limit=1)), "")
                asked = Query.question(title or "title")
                n_read = 1 if self.is_read_by_default else 0  # the reader is loaded, too
                self.search(replace(asked, documents=asked.lexical), k=1, read=n_read, truncate=True)
            self._is_warm = True

    def _prepare(self) -> None:
        """Open the segments, and make what encodes queries."""
        self._reader.snapshot()
        self.encoder_for().prepare_queries()

    def __enter__(self) -> KnowledgeBase:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @overload
    def search(
        self, query: str | Query, options: SearchOptions | None = None, *, key_of: KeyOf | None = None, **changes: Any
    ) -> SearchResult: ...

    @overload
    def search(
        self,
        query: Sequence[str | Query],
        options: SearchOptions | None = None,
        *,
        key_of: KeyOf | None = None,
        **changes: Any,
    ) -> list[SearchResult]: ...

    def search(
        self,
        query: str | Query | Sequence[str | Query],
        options: SearchOptions | None = None,
        *,
        key_of: KeyOf | None = None,
        **changes: Any,
    ) -> SearchResult | list[SearchResult]:
        """Search for one query, or for a list of queries: an answer for each, in order.

        Args:
            query: a question, a `Query` (`adapters.tasks.queries` makes those of the tasks), or a sequence of them.
            options: how to search.
            key_of: what makes hits one answer, see `Searcher.search`.
            **changes: fields of `SearchOptions` that differ from `options`, such as `k` or `unit`.

        Raises:
            QueryError: a query is empty or too long.
            InvalidOptionError: an option is out of its range.
            UnknownEncoderError: the knowledge base has no encoder of the name.
        """
        options = replace(options or SearchOptions(), **changes)
        searcher = self.searcher(options.encoder)
        if isinstance(query, str | Query):
            return searcher.search([_as_query(query)], options, key_of=key_of)[0]
        return searcher.search([_as_query(one) for one in query], options, key_of=key_of)

    def searcher(self, encoder: str | Encoder | None = None) -> Searcher:
        """Return what searches with an encoder: a tuned one by name, one at hand, or the default.

        Raises:
            UnknownEncoderError: the knowledge base has no encoder of the name.
            EncoderMismatchError: it makes other passage vectors than the stored ones.
        """
        from kbengine.search.searcher import Searcher

        if encoder is None or isinstance(encoder, str):
            return Searcher(self._reader, self.encoder_for(encoder), self.cross_encoder)
        check_encoder(encoder, self._reader.settings, self.path)
        return Searcher(self._reader, encoder, self.cross_encoder)

    def cross_encoder(self) -> Reader:
        """Return what reads the best passages of a search, loaded when it is first asked for.

        Raises:
            EncoderError: there is no such reader.
            CorruptError: a file of it is not what was written.
        """
        from kbengine.reading.reader import Reader

        with self._cross_encoder_lock:
            if self._cross_encoder is None:
                options = self._options
                self._cross_encoder = Reader.load(options.reader, device=options.device, dtype=options.dtype)
            return self._cross_encoder

    @property
    def is_read_by_default(self) -> bool:
        """Return whether passages are read unless it is turned off: with the encoder that the weights are for."""
        return self._reader.settings.encoder_name == DEFAULT_ENCODER and has_reader(self._options.reader)

    def encoder_for(self, name: str | None = None, *, task: Task | None = None) -> Encoder:
        """Return the encoder that answers: the one of the name as it is stored now, or the usual one of the task.

        A tuned encoder that was written again is loaded anew; without a task the usual one is that given to `open`.

        Raises:
            UnknownEncoderError: the knowledge base has no encoder of the name.
            EncoderMismatchError: it was tuned from another encoder than this knowledge base is open with.
            CorruptError: its files are not what was written.
        """
        return self._encoders.get(self.encoder_name(name, task=task))

    def encoder_name(self, name: str | None = None, *, task: Task | None = None) -> str | None:
        """Return the name of the encoder that answers, of the task where no name is given; None is the open one."""
        return self._encoders.name_for(name, task)

    @property
    def encoder_names(self) -> list[str]:
        """Return the names of the encoders that may be asked for."""
        return self._encoders.names()

    def add(
        self, documents: Iterable[CorpusDocument | Mapping[str, Any]], *, replace: bool = True, op_id: str | None = None
    ) -> Commit:
        """Add documents; they are durable and found from the next query on.

        Args:
            documents: `CorpusDocument`s, or mappings with `id`, `title`, `text` (a string, paragraphs split at blank
                lines, or a list of paragraphs) and optionally `url`, `meta` and `aliases` (a list of other names).
            replace: a document whose id exists replaces it; otherwise that is an error.
            op_id: names the operation: asking again with the same name changes nothing and gives the same commit.

        Raises:
            CorpusError: a mapping is no such document, or its text is blank.
            DuplicateDocumentError: an id comes twice, or exists and `replace` is off.
            StorageFullError: no space; nothing was changed.
            LockedError: another process is writing.
        """
        from kbengine.build.builder import stored_threshold
        from kbengine.build.document_encoder import DocumentEncoder

        self._reader.snapshot()
        settings = self._reader.settings  # as they are now: a reindexing may have changed them
        encoder = agreeing_encoder(self.encoder, settings.sparse_model, self.path)
        plain = [each if isinstance(each, CorpusDocument) else parse_plain(each) for each in documents]
        filter_options = FilterOptions.from_json(settings.filter)
        document_encoder = DocumentEncoder(encoder, filter_options, store_all=settings.stores_all)
        chunk = document_encoder.encode(plain, threshold=stored_threshold(settings))
        with self._write_lock:
            return self._open_writer().add(chunk.documents, replace=replace, op_id=op_id)

    def sync(self, options: SyncOptions, *, progress: ProgressSink | None = None) -> SyncReport:
        """Bring the documents of a folder or feed in step with it: added, replaced, deleted.

        Raises:
            CorpusError: it cannot be read, is empty, or has lost so much that it has to be confirmed (`SyncOptions`).
            DuplicateDocumentError: a document of the same id came from elsewhere, and `adopt` is not set.
            LockedError: another process is writing.
        """
        from kbengine.build.sync import sync_into

        with self._write_lock:
            return sync_into(
                self._open_writer(), self._reader, options, encoder=lambda: self.encoder, progress=progress
            )

    def delete(self, doc_ids: Sequence[str], *, op_id: str | None = None) -> Commit:
        """Delete documents: none of them is in an answer from the next query on.

        Raises:
            UnknownDocumentError: an id is not there; then nothing is deleted.
        """
        with self._write_lock:
            return self._open_writer().delete(doc_ids, op_id=op_id)

    def alias_matches(self, name: str) -> list[tuple[DocumentRecord, AliasMatch]]:
        """Return the documents of which `name` is another name, best first, each with how it matches."""
        matches = self._reader.alias_matches([name])[0]
        documents = self._reader.documents({match.document_id for match in matches})
        return [(documents[match.document_id], match) for match in matches if match.document_id in documents]

    def add_aliases(
        self,
        doc_id: str,
        aliases: Sequence[str],
        *,
        prior: float | None = None,
        source: AliasSource = "manual",
        replace: bool = False,
        op_id: str | None = None,
    ) -> AliasChange:
        """Give a document other names; they are used from the next query on.

        Args:
            doc_id: the document.
            aliases: the names.
            prior: probability that such a name means this document; None has it counted.
            source: where the names are from.
            replace: whether a name that is there from the same source gets the new prior.
            op_id: names the operation, as in `add`.

        Raises:
            UnknownDocumentError: no document has the id.
            DuplicateAliasError: a name is there already, or comes twice, and `replace` is off.
            InvalidOptionError: a name is blank or too long, or the prior is not in (0, 1].
        """
        new = [(doc_id, NewAlias(alias, source, prior)) for alias in aliases]
        with self._write_lock:
            return self._open_writer().add_aliases(new, replace=replace, op_id=op_id)

    def delete_aliases(
        self,
        doc_id: str,
        aliases: Sequence[str] | None = None,
        *,
        source: AliasSource | None = None,
        op_id: str | None = None,
    ) -> AliasChange:
        """Take other names from a document: these, or all of them for None.

        Raises:
            UnknownDocumentError: no document has the id.
            UnknownAliasError: it has not all of these names; then none is deleted.
        """
        with self._write_lock:
            return self._open_writer().delete_aliases(doc_id, aliases, source=source, op_id=op_id)

    def add_feedback(self, feedback: Sequence[NewFeedback], *, op_id: str | None = None) -> FeedbackChange:
        """Store what somebody says about answers; of the same answer to the same input the last word counts.

        Args:
            feedback: what is said.
            op_id: names the operation, as in `add`.

        Raises:
            LockedError: another process is writing.
        """
        with self._write_lock:
            return self._open_writer().add_feedback(feedback, op_id=op_id)

    def delete_feedback(self, ids: Sequence[int], *, op_id: str | None = None) -> FeedbackChange:
        """Delete feedback by its numbers.

        Raises:
            UnknownFeedbackError: there is none of one of these numbers; then none is deleted.
        """
        with self._write_lock:
            return self._open_writer().delete_feedback(ids, op_id=op_id)

    def compact(self, *, purge: bool = False) -> None:
        """Merge segments, drop deleted documents for good and give their space back."""
        with self._write_lock:
            self._open_writer().compact(purge=purge)

    @property
    def generation(self) -> int:
        """Return the number of the newest commit, which the next search will see."""
        return self._reader.snapshot().generation

    def setting(self, key: str) -> JSON:
        """Return the value stored with the knowledge base under `key`, None when there is none."""
        return self._reader.setting(key)

    def set_setting(self, key: str, value: JSON) -> None:
        """Store a JSON value with the knowledge base: a commit, which every reader sees from then on.

        Raises:
            InvalidOptionError: the key is one of those that say what is stored, or the value is no JSON.
            LockedError: another process is writing.
        """
        with self._write_lock:
            self._open_writer().set_setting(key, value)

    def info(self) -> KBInfo:
        """Return counts, sizes, settings and the last commits."""
        return self._reader.info()

    @property
    def reader(self) -> KBReader:
        """Return the reader behind the searches: listings, texts and snapshots."""
        return self._reader

    @property
    def writing(self) -> Literal["no", "idle", "merging"]:
        """Tell whether this process holds the writer lock, and whether it is merging segments in the background."""
        with self._write_lock:
            if self._writer is None:
                return "no"
            return "merging" if self._writer.merging else "idle"

    def release_writer(self) -> None:
        """Finish background merging and give the writer lock back, so that other processes may write."""
        with self._write_lock:
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    def close(self) -> None:
        """Finish background merging, give the writer lock back and close all files."""
        self.release_writer()
        self._reader.close()

    def _open_writer(self) -> KBWriter:
        from storage.writer import KBWriter

        if self._writer is not None and not self._writer.is_usable:  # an earlier change found the disk failing
            self._writer.close()
            self._writer = None
        if self._writer is None:
            self._writer = KBWriter.open(self.path, lock_timeout_s=self._options.lock_timeout_s)
        return self._writer


def _as_query(query: str | Query) -> Query:
    return query if isinstance(query, Query) else Query.question(query)
