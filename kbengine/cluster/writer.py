"""Changing a cluster while it is searched: each call is a generation, durable when it returns."""

from __future__ import annotations

import functools
import tempfile
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kbengine.build.builder import CorpusOptions
from kbengine.build.identity import check_encoder
from kbengine.cluster.build_chunk import encode_documents, ordinals_for, write_part
from kbengine.cluster.plan import CREATED_AT
from kbengine.corpus.document import CorpusDocument
from kbengine.encoders.agreement import agreeing_encoder
from kbengine.errors import DuplicateDocumentError, EncoderMismatchError, UnknownAliasError
from kbengine.version import __version__
from storage.alias_records import NewAlias
from storage.cluster import Cluster
from storage.cluster_catalog import GenerationRow
from storage.cluster_changes import change_aliases, change_documents
from storage.cluster_names import RemovedAlias, names_of
from storage.cluster_shards import NewShard
from storage.common_settings import CommonSettings
from storage.folding import spelling
from storage.generation_draft import made_before
from storage.records import NewDocument
from storage.shard_files import put_shard, read_common
from storage.shard_merge import ShardPart, merge_shards

if TYPE_CHECKING:
    from kbengine.encoders.encoder import Encoder

MAX_DOCUMENTS = 512
"""Documents that one generation adds at most: a longer corpus becomes several."""


class ClusterWriter:
    """Adds, replaces and deletes documents of a cluster, and their names; for any number of threads and processes.

    Example:
        writer = ClusterWriter(Cluster.open("file:///srv/cluster"), encoder)
        row = writer.add(documents)
        row.generation

    Args:
        cluster: what is changed.
        encoder: the cluster's; None where nothing is added.
    """

    def __init__(self, cluster: Cluster, encoder: Encoder | None = None) -> None:
        self.cluster = cluster
        self._encoder = encoder

    @functools.cached_property
    def common(self) -> CommonSettings:
        """What all shards of the cluster share."""
        return read_common(self.cluster.store, self.cluster.manifest().common)

    @functools.cached_property
    def arithmetic(self) -> str:
        """What passages of the cluster are computed in, such as bfloat16; empty where that was not noted."""
        return self.cluster.manifest().arithmetic

    def add(
        self, documents: Sequence[CorpusDocument], *, replace: bool = True, op_id: str | None = None
    ) -> GenerationRow:
        """Encode documents, and add them in one generation; those with an id that is there are replaced.

        Args:
            documents: what to add.
            replace: False refuses ids that are there already.
            op_id: the caller's name for this: a second call with the same name changes nothing and returns the first
                one's generation, so that a call whose outcome is unknown can be repeated.

        Raises:
            DuplicateDocumentError: an id comes twice, or is there already and `replace` is off.
            EncoderMismatchError: the encoder is not the cluster's.
            CatalogUnavailableError: the catalog does not answer; repeat it with the same `op_id`.
        """
        op_id = op_id or uuid.uuid4().hex
        done = made_before(self.cluster, op_id)
        if done is not None:
            return done
        _check_distinct(documents)
        stored, _ = encode_documents(list(documents), self._fitting_encoder(), self.common)
        return self.add_encoded(stored, replace=replace, op_id=op_id)

    def add_encoded(
        self, documents: list[NewDocument], *, replace: bool = True, op_id: str | None = None
    ) -> GenerationRow:
        """Add documents whose vectors are there; the rest is as in `add`."""
        return change_documents(
            self.cluster, add=self._shard(documents), replace=replace, op_id=op_id, kbengine_version=__version__
        )

    def add_corpus(self, corpus: CorpusOptions, *, replace: bool = True) -> list[GenerationRow]:
        """Add a corpus, some hundred documents a generation; return the generations.

        Raises:
            CorpusError: a record cannot be read (unless `corpus.skip_bad`); what was before it stays added.
        """
        rows: list[GenerationRow] = []
        batch: list[CorpusDocument] = []
        for document, _ in corpus.read():
            batch.append(document)
            if len(batch) == MAX_DOCUMENTS:
                rows.append(self.add(batch, replace=replace))
                batch = []
        if batch:
            rows.append(self.add(batch, replace=replace))
        return rows

    def delete(self, doc_ids: Sequence[str], *, op_id: str | None = None) -> GenerationRow:
        """Delete documents in one generation.

        Raises:
            UnknownDocumentError: some ids are not there; then nothing was deleted.
            CatalogUnavailableError: the catalog does not answer; repeat it with the same `op_id`.
        """
        return change_documents(self.cluster, delete_ids=doc_ids, op_id=op_id, kbengine_version=__version__)

    def add_aliases(self, aliases: Iterable[tuple[str, NewAlias]], *, op_id: str | None = None) -> GenerationRow:
        """Give documents other names in one generation; one that is there from the same source gets the new prior.

        Raises:
            UnknownDocumentError: an id is not there; then nothing was changed.
        """
        return change_aliases(self.cluster, add=list(aliases), op_id=op_id, kbengine_version=__version__)

    def delete_aliases(self, aliases: Iterable[tuple[str, RemovedAlias]], *, op_id: str | None = None) -> GenerationRow:
        """Take other names from documents in one generation.

        Raises:
            UnknownDocumentError: an id is not there; then nothing was changed.
            UnknownAliasError: a document has not such a name; then nothing was changed.
        """
        wanted = list(aliases)
        done = None if op_id is None else self.cluster.catalog.made_by(op_id)
        if done is not None:
            return done
        there = names_of(self.cluster, list(dict.fromkeys(doc_id for doc_id, _ in wanted)))
        for doc_id, each in wanted:
            sources = {source for name, source in there.get(doc_id, ()) if name == spelling(each.alias)} - {"title"}
            if doc_id in there and not (sources if each.source is None else each.source in sources):
                raise UnknownAliasError(_no_such_name(doc_id, each, sources))
        return change_aliases(self.cluster, remove=wanted, op_id=op_id, kbengine_version=__version__)

    def _fitting_encoder(self) -> Encoder:
        encoder, wanted = self._encoder, self.arithmetic
        if encoder is None:
            from kbengine.encoders.encoder import Encoder

            name = self.common.settings.encoder_name
            encoder = self._encoder = Encoder.load(name, dtype=wanted or "auto")  # type: ignore[arg-type]  # checked there
        where = Path(self.cluster.store.place)
        check_encoder(encoder, self.common.settings, where)
        seen = str(encoder.passage_dtype).removeprefix("torch.")
        if wanted not in ("", seen):
            raise EncoderMismatchError(
                f"passages of {self.cluster.store.place} are computed in {wanted}, this encoder computes them in "
                f"{seen}; load it with dtype {wanted!r} (--dtype {wanted})"
            )
        return agreeing_encoder(encoder, self.common.settings.sparse_model, where)

    def _shard(self, documents: list[NewDocument]) -> NewShard:
        """Write documents as a small shard, and upload it."""
        n = ordinals_for(documents)
        first = self.cluster.catalog.reserve(n)
        name = uuid.uuid4().hex
        with tempfile.TemporaryDirectory(prefix="kbengine-shard-") as scratch:
            part, made = Path(scratch) / "part", Path(scratch) / "shard"
            write_part(part, documents, self.common, first_ordinal=first, end_ordinal=first + n)
            merged = merge_shards(made, [ShardPart(part)], self.common, name=name, created_at=CREATED_AT)
            entry = put_shard(self.cluster.store, made, name, merged)
        return NewShard(entry, tuple((each.doc_id, first + place) for place, each in enumerate(documents)))


def _no_such_name(doc_id: str, wanted: RemovedAlias, sources: set[str]) -> str:
    said = f"document {doc_id!r} has no name {wanted.alias!r}"
    if sources:
        said += f" of the source {wanted.source!r}, but of {', '.join(map(repr, sorted(sources)))}; name that source"
    return f"{said}; nothing was changed"


def _check_distinct(documents: Sequence[CorpusDocument]) -> None:
    seen: set[str] = set()
    for document in documents:
        if document.doc_id in seen:
            raise DuplicateDocumentError(
                f"document {document.doc_id!r} comes twice in one call; which text should win? Give it once"
            )
        seen.add(document.doc_id)
