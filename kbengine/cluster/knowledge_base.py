"""A cluster as a knowledge base: asked, changed and described as one on a machine of its own, where it can be."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, cast

from kbengine.cluster.cluster_records import ClusterRecords
from kbengine.cluster.routing import Router
from kbengine.cluster.writer import ClusterWriter
from kbengine.corpus.document import CorpusDocument
from kbengine.corpus.plain import parse_plain
from kbengine.encoders.answering import AnsweringEncoders
from kbengine.encoders.location import DEFAULT_ENCODER
from kbengine.errors import DuplicateAliasError, EncoderMismatchError, OneMachineError, UnknownAliasError
from kbengine.knowledge_base import KnowledgeBase, KnowledgeBaseOptions
from kbengine.reading.location import has_reader
from kbengine.search.query import Query, SearchOptions
from kbengine.search.results import SearchResult, ShardCount
from kbengine.search.searcher import Searcher
from kbengine.version import __version__
from storage.alias_changes import AliasChange
from storage.alias_records import NewAlias
from storage.cluster import Cluster
from storage.cluster_changes import change_aliases
from storage.cluster_names import RemovedAlias
from storage.folding import spelling
from storage.information import HistoryEntry, KBInfo
from storage.records import JSON, Commit
from storage.settings import KBSettings
from storage.shard_files import read_common

if TYPE_CHECKING:
    from kbengine.encoders.encoder import Encoder
    from kbengine.search.pool import KeyOf
    from storage.alias_records import AliasMatch, AliasRecord, AliasSource
    from storage.cluster_catalog import GenerationRow
    from storage.reader import KBReader
    from storage.records import DocumentRecord

_LAST_COMMITS = 10
_MOST_NAMES = 10_000


class ClusterKnowledgeBase(KnowledgeBase):
    """The newest generation of a cluster; changes make the next one, which the next search sees.

    What only one machine does (feedback, tuned encoders, merging) raises `OneMachineError`.

    Args:
        cluster: objects and catalog.
        router: asks its shards.
        encoder: the one it was built with.
        path: a folder for what belongs to the service: API keys, jobs, fetched shards.
        options: device, number type and reader.
    """

    def __init__(
        self, cluster: Cluster, router: Router, encoder: Encoder, path: Path, options: KnowledgeBaseOptions
    ) -> None:
        manifest = router.manifest()
        if encoder.fingerprint != manifest.encoder_fingerprint:
            raise EncoderMismatchError(
                f"the encoder has the fingerprint {encoder.fingerprint}, generation {manifest.generation} was built "
                f"with {manifest.encoder_fingerprint} ('{manifest.encoder_name}'); use that one, or build anew"
            )
        self.path = path
        self.encoder = encoder
        self.router = router
        self._cluster = cluster
        self._options = options
        self._records = ClusterRecords(router)
        self._encoders = AnsweringEncoders(path, encoder)
        self._write_lock = threading.Lock()
        self._cross_encoder_lock = threading.Lock()
        self._cross_encoder = None
        self._settings: tuple[tuple[str, ...], KBSettings] | None = None
        self._warm = -1
        self._enders: list[Callable[[], None]] = []

    # -- asking

    def search(  # type: ignore[override]  # the overloads are those of the class above
        self,
        query: str | Query | Sequence[str | Query],
        options: SearchOptions | None = None,
        *,
        key_of: KeyOf | None = None,
        **changes: Any,
    ) -> SearchResult | list[SearchResult]:
        """Search for one query, or for a list of queries; all rounds of a search are of one generation.

        Raises:
            ShardUnavailableError: a shard does not answer, and `options.partial` is not set.
            QueryError: a query is empty or too long.
        """
        options = replace(options or SearchOptions(), **changes)
        encoder = self.encoder_for(options.encoder)
        is_one = isinstance(query, str | Query)
        some = [query] if isinstance(query, str | Query) else list(query)
        queries = [each if isinstance(each, Query) else Query.question(each) for each in some]
        found = self.router.ask(
            lambda source: Searcher(source, encoder, self.cross_encoder).search(queries, options, key_of=key_of),
            allow_partial=options.partial,
        )
        count = ShardCount(found.answered, found.shards)
        results = [replace(result, shards=count) for result in found.result]
        return results[0] if is_one else results

    def searcher(self, encoder: str | Encoder | None = None) -> NoReturn:  # noqa: ARG002  # as above
        """Refuse: a searcher sees one machine's snapshots."""
        raise OneMachineError.of("tuning")

    def has_sparse(self, encoder: str | None = None) -> bool:
        """Return whether sparse rows are stored."""
        return self.encoder_for(encoder).sparse is not None and self._common().sparse_model is not None

    @property
    def is_read_by_default(self) -> bool:
        """Return whether passages are read unless it is turned off."""
        return self._common().encoder_name == DEFAULT_ENCODER and has_reader(self._options.reader)

    @property
    def reader(self) -> KBReader:
        """Return the records of all shards; what only one machine has raises `OneMachineError`."""
        return cast("KBReader", self._records)

    def alias_matches(self, name: str) -> list[tuple[DocumentRecord, AliasMatch]]:
        """Return the documents of which `name` is another name, best first, each with how it matches."""
        records = self.router.records()
        matches = records.alias_matches([name])[0]
        documents = records.documents({match.document_id for match in matches})
        return [(documents[match.document_id], match) for match in matches if match.document_id in documents]

    # -- describing

    @property
    def generation(self) -> int:
        """Return the number of the newest generation."""
        return self.router.manifest().generation

    def setting(self, key: str) -> JSON:  # noqa: ARG002
        """Return None: nothing is stored beside what a cluster was built with."""
        return None

    def set_setting(self, key: str, value: JSON) -> None:  # noqa: ARG002
        """Refuse: what a cluster was built with does not change."""
        raise OneMachineError.of(f"storing the setting {key!r}")

    def info(self) -> KBInfo:
        """Return counts, sizes, settings and the last generations."""
        manifest, settings = self.router.manifest(), self._common()
        rows = sum(shard.rows for shard in manifest.shards)
        n_bytes = sum(shard.n_bytes for shard in manifest.shards)
        commits = self._cluster.catalog.generations(limit=_LAST_COMMITS)
        aliases, links = self._records.name_counts()
        return KBInfo(
            path=self.path,
            settings=settings,
            generation=manifest.generation,
            documents=manifest.documents,
            passages=sum(shard.passages for shard in manifest.shards),
            tokens_stored=rows,
            tokens_total=rows,
            tombstones=sum(shard.dead for shard in manifest.shards),
            segments=len(manifest.shards),
            segment_rows=rows,
            indexed_rows=rows,
            aliases=aliases,
            links=links,
            fields=self._records.fields(),
            bytes_by_kind={"objects": n_bytes},
            bytes_by_use={"vectors": 0, "index": 0, "text": 0},
            last_commits=tuple(
                HistoryEntry(
                    each.generation,
                    each.at,
                    each.operation,
                    each.documents_added,
                    each.documents_replaced,
                    each.documents_deleted,
                    None,
                )
                for each in commits
            ),
        )

    def warm_up(self) -> None:
        """Have every replica open the newest generation, and what encodes queries made, now and not at a search."""
        self.encoder_for().prepare_queries()
        known = self._warm
        newest = self.router.manifest().generation
        if known != newest:
            self.router.prepare()
            self._warm = newest

    @property
    def writing(self) -> Literal["no", "idle", "merging"]:
        """Return "no": several services may write, each change for itself."""
        return "no"

    def release_writer(self) -> None:
        """Release nothing."""

    def before_close(self, end: Callable[[], None]) -> None:
        """Call `end` when this is closed, before anything of it is."""
        self._enders.append(end)

    def close(self) -> None:
        """End the searchers that were started and close the catalog."""
        for end in self._enders:
            end()
        self.router.close()
        self._cluster.close()

    # -- changing

    def add(
        self, documents: Iterable[CorpusDocument | Mapping[str, Any]], *, replace: bool = True, op_id: str | None = None
    ) -> Commit:
        """Add documents in one generation; they are durable and found from the next search on.

        Raises:
            DuplicateDocumentError: an id comes twice, or is there and `replace` is off.
            CatalogUnavailableError: the catalog does not answer; repeat it with the same `op_id`.
        """
        plain = [each if isinstance(each, CorpusDocument) else parse_plain(each) for each in documents]
        return _commit(self._changed(self._writer_of().add(plain, replace=replace, op_id=op_id)))

    def delete(self, doc_ids: Sequence[str], *, op_id: str | None = None) -> Commit:
        """Delete documents: none of them is in an answer from the next search on.

        Raises:
            UnknownDocumentError: an id is not there; then nothing is deleted.
            CatalogUnavailableError: the catalog does not answer; repeat it with the same `op_id`.
        """
        return _commit(self._changed(self._writer_of().delete(list(doc_ids), op_id=op_id)))

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
        """Give a document other names; they are used from the next search on.

        Raises:
            UnknownDocumentError: no document has the id.
            DuplicateAliasError: a name is there already, or comes twice, and `replace` is off.
        """
        new = [NewAlias(alias, source, prior) for alias in aliases]
        if not replace and (op_id is None or self._cluster.catalog.made_by(op_id) is None):
            there = {each.alias for each in self._names(doc_id, source)}
            for number, each in enumerate(new):
                if spelling(each.alias) in there or each in new[:number]:
                    raise DuplicateAliasError(
                        f"document {doc_id!r} has the name {each.alias!r} already; set replace to change its prior"
                    )
        row = self._changed(self._writer_of().add_aliases([(doc_id, each) for each in new], op_id=op_id))
        return AliasChange(row.generation, row.op_id, row.aliases_changed)

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
        there = {each.alias for each in self._names(doc_id, source)}
        wanted = sorted(there) if aliases is None else [spelling(each) for each in aliases]
        is_done = op_id is not None and self._cluster.catalog.made_by(op_id) is not None
        missing = [each for each in wanted if each not in there]
        if missing and not is_done:
            raise UnknownAliasError(f"document {doc_id!r} has no name {missing[0]!r}; its listing has them")
        removed = [(doc_id, RemovedAlias(each, source)) for each in wanted]
        row = self._changed(change_aliases(self._cluster, remove=removed, op_id=op_id, kbengine_version=__version__))
        return AliasChange(row.generation, row.op_id, row.aliases_changed)

    def _changed(self, row: GenerationRow) -> GenerationRow:
        """Have the next search here see what was acknowledged here, also just after the catalog was down."""
        self.router.look_again()
        return row

    def _writer_of(self) -> ClusterWriter:
        return ClusterWriter(self._cluster, self.encoder)

    def _names(self, doc_id: str, source: AliasSource | None) -> list[AliasRecord]:
        return self.router.records().list_aliases(doc_id=doc_id, source=source, limit=_MOST_NAMES)

    # -- what one machine does

    def add_feedback(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse."""
        raise OneMachineError.of("feedback")

    def delete_feedback(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse."""
        raise OneMachineError.of("feedback")

    def compact(self, *, purge: bool = False) -> NoReturn:  # noqa: ARG002
        """Refuse."""
        raise OneMachineError.of("compacting from here ('kbengine cluster compact' does it)")

    def sync(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse."""
        raise OneMachineError.of("syncing with a folder")

    def _common(self) -> KBSettings:
        """Return what all shards were made with."""
        common = self.router.manifest().common
        key = tuple(file.sha256 for file in common)
        if self._settings is None or self._settings[0] != key:
            self._settings = key, read_common(self._cluster.store, common).settings
        return self._settings[1]


def _commit(row: GenerationRow) -> Commit:
    return Commit(row.generation, row.op_id, row.documents_added, row.documents_replaced, row.documents_deleted)
