"""What shards are asked in the rounds of a search: plain values and arrays, so that they can be sent as they are.

Rows and passages are numbered as in the snapshot of the shard that is asked, so each shard gets requests of its own.
What a request says holds for it alone: a shard remembers nothing between them that could change an answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kbengine.search.aggregation import ScoredPhrases
from kbengine.search.query import Unit, Weights
from storage.sparse_scores import SparseQuery

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class Scope:
    """What is searched.

    Attributes:
        generation: The generation; None for whichever the shard shows. Another than the shard's is refused.
        where: A filter over the fields of documents: only those that pass are searched.
        is_alone: Whether the shard is the only one: then what it finds need not be compared with others'.
    """

    generation: int | None = None
    where: str | None = None
    is_alone: bool = True


@dataclass(frozen=True, eq=False)
class CountRequest:
    """Ask how often terms occur, and which documents have names.

    Attributes:
        terms: uint64 (t), hashes of terms whose passages are counted.
        document_terms: uint64 (u), hashes of terms whose documents are counted.
        aliases: Names to look up among the other names of documents.
        titles: Names to look up among titles.
    """

    scope: Scope
    terms: NDArray[np.uint64]
    document_terms: NDArray[np.uint64]
    aliases: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class LexicalQuery:
    """The words of one query, weighed by the statistics of the whole generation.

    Attributes:
        key: Names this content: what a shard computed for it once it may use again. No two queries have the same.
        terms: uint64 (t), hashes of terms.
        is_title: bool (t), which are terms of titles; how often they occur does not count.
        factors: float32 (t), idf times weight.
        average_length: Mean length of passages, in terms.
        document_terms: uint64 (u), hashes of terms that are matched against whole documents.
        document_factors: float32 (u).
        average_document_length: Mean length of documents, in terms.
        named_first: int64 (n), first passage of each document that the query names.
        named_stop: int64 (n), where its passages stop.
        named_scores: float32 (n), what is added to the scores of its passages.
    """

    key: bytes
    terms: NDArray[np.uint64]
    is_title: NDArray[np.bool_]
    factors: Float32
    average_length: float
    document_terms: NDArray[np.uint64]
    document_factors: Float32
    average_document_length: float
    named_first: Int64
    named_stop: Int64
    named_scores: Float32


@dataclass(frozen=True, eq=False)
class NameScores:
    """One query's name scores, of the passages of a shard that have one.

    Attributes:
        passages: int64 (n,), snapshot passage indices, rising.
        scores: float32 (n,), each above 0 and at most 1.
    """

    passages: Int64
    scores: Float32

    def of(self, passages: Int64) -> Float32:
        """Return the scores of passages (n), float32 (n,); 0 for those without one."""
        if not len(self.passages):
            return np.zeros(len(passages), dtype=np.float32)
        at = np.minimum(np.searchsorted(self.passages, passages), len(self.passages) - 1)
        found: Float32 = np.where(self.passages[at] == passages, self.scores[at], np.float32(0.0))
        return found


@dataclass(frozen=True, eq=False)
class Saying:
    """A name that is sought in passages word for word.

    Attributes:
        name: The name.
        limit: How many passages of all shards are looked into.
        lexical: Whose scores say which passages are looked into first; None for their own order.
        rarest: The number of the term, in the order of the name's words, whose passages are looked through for the
            others; None: it is not known yet which is the rarest.
        n_first: How many of the best passages with that term are looked through; None for all.
        languages: Those of documents, beside English: a word may have the stem of each.
    """

    name: str
    limit: int
    lexical: LexicalQuery | None
    rarest: int | None = None
    n_first: int | None = None
    languages: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class SayRequest:
    """Ask for the passages that have all words of names."""

    scope: Scope
    sayings: tuple[Saying, ...]


@dataclass(frozen=True, eq=False)
class Look:
    """A name and the passages that are looked into for it.

    Attributes:
        name: The name.
        is_folded: Whether its case and accents do not count.
        passages: int64 (n), snapshot passage indices.
    """

    name: str
    is_folded: bool
    passages: Int64


@dataclass(frozen=True, eq=False)
class LookRequest:
    """Ask which passages say names."""

    scope: Scope
    looks: tuple[Look, ...]


@dataclass(frozen=True, eq=False)
class CandidateQuery:
    """One query whose candidates are asked for.

    Attributes:
        start: float32 (d,), compared with first tokens; likewise `end` with last ones.
        end: float32 (d,).
        passage: float32 (d,), compared with passage vectors.
        lexical: Its words; None where they do not count.
        names: Its name scores; None where they do not count.
        by_vectors: Whether the nearest tokens and passages are wanted.
        n_lexical: How many passages by words are wanted.
        n_documents: Of how many of the best documents by words all passages are wanted.
        n_named: How many passages by names are wanted.
        n_gate: How many of the best scores of whole documents by words are wanted.
    """

    start: Float32
    end: Float32
    passage: Float32
    lexical: LexicalQuery | None
    names: NameScores | None
    by_vectors: bool
    n_lexical: int
    n_documents: int
    n_named: int
    n_gate: int


@dataclass(frozen=True, eq=False)
class CandidateRequest:
    """Ask for the candidates of queries.

    Attributes:
        n_tokens: Nearest start tokens wanted, and as many end tokens.
        n_passages: Nearest passages wanted.
        nprobe: Lists looked into; None takes the default times `nprobe_factor`.
        nprobe_factor: Multiplies the default.
        is_exact: Whether every token's vector is looked at.
        scans_passages: Whether every passage's vector is.
        n_more: How often the search was found to give too little: each time it looks at four times as much.
    """

    scope: Scope
    queries: tuple[CandidateQuery, ...]
    n_tokens: int
    n_passages: int
    nprobe: int | None
    nprobe_factor: float
    is_exact: bool
    scans_passages: bool
    n_more: int = 0


@dataclass(frozen=True, eq=False)
class ScoreQuery:
    """One query whose candidates are scored.

    Attributes:
        start: float32 (d,); so are `end` and `passage`.
        end: float32 (d,).
        passage: float32 (d,).
        sparse: Its sparse vectors; None where they do not count.
        lexical: Its words; None where they do not count.
        lexical_factor: What a gate multiplies their scores by; None for nothing.
        names: Its name scores; None where they do not count.
        weights: Of the signals.
        unit: What is wanted.
        token_rows: int64, rows of candidate tokens, rising.
        passages: int64, indices of candidate passages.
        is_everything: Whether all passages that can be found are candidates.
        n_new: How many distinct units are wanted besides those of `taken`.
        taken: The phrases that earlier rounds found; None in the first.
        n_read: For how many passages, or documents, the best phrase is wanted for reading; 0 for none.
        reads_documents: Whether one passage a document is read.
        of_ends_too: Whether the best phrases that end at each token are taken too.
        is_distinct: Whether of overlapping phrases, or those of one unit, the best alone is wanted.
    """

    start: Float32
    end: Float32
    passage: Float32
    sparse: SparseQuery | None
    lexical: LexicalQuery | None
    lexical_factor: float | None
    names: NameScores | None
    weights: Weights
    unit: Unit
    token_rows: Int64
    passages: Int64
    is_everything: bool
    n_new: int
    taken: ScoredPhrases | None
    n_read: int
    reads_documents: bool
    of_ends_too: bool = False
    is_distinct: bool = True


@dataclass(frozen=True, eq=False)
class ScoreRequest:
    """Ask for the best phrases in the candidates of queries, of at most so many tokens."""

    scope: Scope
    queries: tuple[ScoreQuery, ...]
    max_phrase_tokens: int


@dataclass(frozen=True, eq=False)
class ResolveQuery:
    """Phrases of one query whose texts are wanted.

    Attributes:
        start: float32 (d,).
        end: float32 (d,).
        sparse: Its sparse vectors; None where they do not count.
        weights: Of the signals.
        unit: What a hit is.
        phrases: What is resolved.
        taken: All phrases of the shard that the query has found: others may not overlap them.
        n_hits: How many of the best are wanted as hits; None: all. The others are put in order only.
    """

    start: Float32
    end: Float32
    sparse: SparseQuery | None
    weights: Weights
    unit: Unit
    phrases: ScoredPhrases
    taken: ScoredPhrases
    n_hits: int | None = None


@dataclass(frozen=True, eq=False)
class ResolveRequest:
    """Ask for the texts of phrases.

    Attributes:
        max_phrase_tokens: The longest phrase that may stand in the place of one that may not be shown; None: all stay.
        explain: Whether the parts of scores are wanted.
        known_names: Which of the texts that the shard asked about are names of documents, here or elsewhere; None:
            nobody was asked yet.
    """

    scope: Scope
    queries: tuple[ResolveQuery, ...]
    max_phrase_tokens: int | None
    explain: bool
    known_names: tuple[str, ...] | None = None
