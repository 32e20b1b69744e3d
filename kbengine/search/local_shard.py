"""A knowledge-base directory as a shard: by itself, or one of those of a generation."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from kbengine.errors import StateError
from kbengine.search.live_records import LiveRecords
from kbengine.search.naming import MAX_TITLED
from kbengine.search.nearest import candidates_of
from kbengine.search.query_vectors import LexicalScores
from kbengine.search.resolving import resolve
from kbengine.search.scored_units import scored_units
from kbengine.search.shard_answers import (
    CandidateAnswer,
    CountAnswer,
    LookAnswer,
    NamedDocuments,
    ResolveAnswer,
    SayAnswer,
    ScoreAnswer,
)
from kbengine.search.shard_requests import (
    CandidateRequest,
    CountRequest,
    LexicalQuery,
    LookRequest,
    ResolveRequest,
    SayRequest,
    Scope,
    ScoreRequest,
)
from kbengine.search.verbatim import passages_saying, sayers_of
from storage.restriction import Restrictions
from storage.term_look_up import titled as titled_in

if TYPE_CHECKING:
    from storage.alias_records import Spelling
    from storage.reader import KBReader
    from storage.snapshot import Snapshot

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]
K = TypeVar("K")
V = TypeVar("V")

REMEMBERED_BYTES = 1 << 29
"""How much of what was computed for a search is kept for its next round; it is computed again where it is not."""


class LocalShard:
    """One generation of a knowledge-base directory; usable from several threads at once.

    What it computes for one round of a search it keeps for the next, by the keys that requests give their contents:
    an answer never depends on that.
    """

    def __init__(
        self,
        records: KBReader | LiveRecords,
        snapshot: Snapshot,
        *,
        generation: int | None = None,
        where: str | None = None,
    ) -> None:
        """Answer from one snapshot.

        Args:
            records: texts and names: those of the directory, or of its documents that the generation has not deleted.
            snapshot: what is searched, with the filter if there is one, and without those documents.
            generation: the number that requests know it by; None: the snapshot's own.
            where: the filter that `snapshot` was made with.
        """
        self.generation = snapshot.generation if generation is None else generation
        self._records = records
        self._snapshot = snapshot
        self._where = where
        self._restrictions = Restrictions(snapshot)
        self._lexical = _Remembered[bytes, LexicalScores](REMEMBERED_BYTES)

    def count(self, request: CountRequest) -> CountAnswer:
        """Return how often terms occur and which documents have names."""
        snapshot = self._view(request.scope)
        counts = snapshot.words.counts
        spellings = self._records.spellings(request.aliases)
        titled = [np.array(ids, dtype=np.int64) for ids in titled_in(snapshot, request.titles, limit=MAX_TITLED)]
        return CountAnswer(
            generation=self.generation,
            n_documents=counts.n_documents,
            n_passages=counts.n_passages,
            n_terms=counts.n_terms,
            n_found_passages=snapshot.n_live_passages,
            n_found_rows=snapshot.n_live_rows,
            n_rows=snapshot.n_rows,
            has_sparse_rows=snapshot.has_sparse_rows,
            passage_frequencies=snapshot.words.frequencies(request.terms),
            document_frequencies=snapshot.words.document_frequencies(request.document_terms),
            spellings=tuple(spellings),
            titled=tuple(titled),
            documents=self._named_documents(snapshot, titled, spellings),
        )

    def say(self, request: SayRequest) -> SayAnswer:
        """Return the passages that have all words of names."""
        snapshot = self._view(request.scope)
        sayers = []
        for saying in request.sayings:
            order = None if saying.lexical is None else self._lexical_of(snapshot, saying.lexical)
            sayers.append(sayers_of(snapshot, saying, order, is_alone=request.scope.is_alone))
        return SayAnswer(tuple(sayers))

    def look(self, request: LookRequest) -> LookAnswer:
        """Return which passages say names."""
        snapshot = self._view(request.scope)
        return LookAnswer(tuple(passages_saying(self._records, snapshot, look) for look in request.looks))

    def candidates(self, request: CandidateRequest) -> CandidateAnswer:
        """Return the candidates of queries."""
        snapshot = self._view(request.scope)
        lexical = [
            None if each.lexical is None else self._lexical_of(snapshot, each.lexical) for each in request.queries
        ]
        return candidates_of(snapshot, request, lexical)

    def score(self, request: ScoreRequest) -> ScoreAnswer:
        """Return the best phrases in candidates."""
        snapshot = self._view(request.scope)
        lexical = [
            None if each.lexical is None else self._lexical_of(snapshot, each.lexical) for each in request.queries
        ]
        return scored_units(snapshot, request, lexical)

    def resolve(self, request: ResolveRequest) -> ResolveAnswer:
        """Return hits with their texts, or what has to be known before."""
        return resolve(self._records, self._view(request.scope), request)

    def known_names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of the names that are a live document's title or alias, letter for letter."""
        return tuple(sorted(self._records.known_names(names)))

    def lexical_scores(self, query: LexicalQuery) -> LexicalScores:
        """Return the lexical scores of passages."""
        return self._lexical_of(self._snapshot, query)

    def _view(self, scope: Scope) -> Snapshot:
        """Return what is searched."""
        if scope.generation is not None and scope.generation != self.generation:
            raise StateError(
                f"generation {scope.generation} is asked for, the shard holds {self.generation}; ask again with it"
            )
        if scope.where == self._where:
            return self._snapshot
        if scope.where is None or self._where is not None:
            raise StateError(
                f"the filter is {scope.where!r}, the shard was opened with {self._where!r}; ask another one"
            )
        kept = self._restrictions.get(self._snapshot, scope.where)
        if kept is None:
            kept = self._snapshot.restricted_to(_reader_of(self._records).passing(scope.where))
            self._restrictions.keep(self._snapshot, scope.where, kept)
        return kept

    def _lexical_of(self, snapshot: Snapshot, query: LexicalQuery) -> LexicalScores:
        """Return the lexical scores of passages."""
        known = self._lexical.get(query.key)
        if known is not None:
            return known
        words = snapshot.words
        own = snapshot.found(words.scores(query.terms, query.is_title, query.factors, query.average_length))
        own = own.with_ranges(query.named_first, query.named_stop, query.named_scores)
        documents = None
        if len(query.document_terms):
            documents = snapshot.found_documents(
                words.document_scores(query.document_terms, query.document_factors, query.average_document_length)
            )
        found = LexicalScores(own, documents, words)
        self._lexical.keep(query.key, found, found.nbytes)
        return found

    def _named_documents(
        self, snapshot: Snapshot, titled: Sequence[Int64], spellings: Sequence[Spelling]
    ) -> NamedDocuments:
        """Return the documents that names lead to."""
        uses = [use for spelt in spellings for use in spelt.rows]
        with_titles = {int(each) for ids in titled for each in ids} | {
            use.document_id for use in uses if use.source == "title"
        }
        ids = sorted(with_titles | {use.document_id for use in uses})
        titles = self._records.titles(sorted(with_titles)) if with_titles else {}
        ranges = [snapshot.passages_of_document(document_id) for document_id in ids]
        return NamedDocuments(
            ids=np.array(ids, dtype=np.int64),
            first=np.array([each.start for each in ranges], dtype=np.int64),
            stop=np.array([each.stop for each in ranges], dtype=np.int64),
            titles=tuple(titles.get(document_id, "") for document_id in ids),
        )


def _reader_of(records: KBReader | LiveRecords) -> KBReader:
    return records.reader if isinstance(records, LiveRecords) else records


class _Remembered(Generic[K, V]):
    """What was computed last, up to so many bytes; safe to share between threads."""

    def __init__(self, most_bytes: int) -> None:
        self._lock = threading.Lock()
        self._most_bytes = most_bytes
        self._n_bytes = 0
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return what is kept under a key."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def keep(self, key: K, value: V, n_bytes: int) -> None:
        """Keep a value of so many bytes, and forget what was not asked for the longest time."""
        with self._lock:
            if key in self._kept:
                return
            self._kept[key] = value, n_bytes
            self._n_bytes += n_bytes
            while self._n_bytes > self._most_bytes and len(self._kept) > 1:
                _, (_, freed) = self._kept.popitem(last=False)
                self._n_bytes -= freed
