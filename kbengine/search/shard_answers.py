"""What shards answer in the rounds of a search: plain values and arrays, so that they can be sent as they are.

Rows and passages are numbered as in the shard's snapshot. Ids are those of the generation, which rise with documents
over all shards: of equal scores the lower id comes first, in one shard as in many.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kbengine.search.aggregation import ScoredPhrases
from kbengine.search.results import Hit
from storage.alias_records import Spelling

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NamedDocuments:
    """Documents that names lead to, by rising id.

    Attributes:
        ids: int64 (n).
        first: int64 (n), the first passage of each; `stop` where they stop: both 0 for one that cannot be found.
        stop: int64 (n).
        titles: The titles of those that were asked for by title, and of those whose titles stand in for aliases; else
            empty.
    """

    ids: Int64
    first: Int64
    stop: Int64
    titles: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class CountAnswer:
    """How often terms occur in live documents, whichever a filter lets pass, and which documents have names.

    Attributes:
        generation: What was counted.
        n_documents: Live documents.
        n_passages: Their passages.
        n_terms: The lengths of these, summed up.
        n_found_passages: Passages that can be found: those that pass the filter.
        n_found_rows: Rows of these.
        n_rows: Rows, whichever can be found.
        has_sparse_rows: Whether sparse rows are stored.
        passage_frequencies: int64 (t), passages that have each term.
        document_frequencies: int64 (u), documents that have each term.
        spellings: What is stored under the aliases asked for, whatever their case and accents.
        titled: For each title asked for the ids of documents that have it, int64, rising, the first few.
        documents: All of these documents.
    """

    generation: int
    n_documents: int
    n_passages: int
    n_terms: int
    n_found_passages: int
    n_found_rows: int
    n_rows: int
    has_sparse_rows: bool
    passage_frequencies: Int64
    document_frequencies: Int64
    spellings: tuple[Spelling, ...]
    titled: tuple[Int64, ...]
    documents: NamedDocuments


@dataclass(frozen=True, eq=False)
class Ranked:
    """Passages or rows of a shard, best first.

    Attributes:
        numbers: int64 (n), their indices or rows.
        scores: float32 (n), falling.
        ids: int64 (n), passage ids or token ids; empty where the shard is alone.
    """

    numbers: Int64
    scores: Float32
    ids: Int64


@dataclass(frozen=True, eq=False)
class Sayers:
    """Passages that have all words of a name.

    Attributes:
        frequencies: int64 (w), passages that have each of its words, in their order.
        passages: int64 (n), all of these passages, rising.
        first: The first of them to look into; or, where the rarest word is asked for, the best passages with it.
    """

    frequencies: Int64
    passages: Int64
    first: Ranked


@dataclass(frozen=True, eq=False)
class SayAnswer:
    """The passages that have all words of each name."""

    sayers: tuple[Sayers, ...]


@dataclass(frozen=True, eq=False)
class LookAnswer:
    """For each name which of its passages say it, bool (n)."""

    is_said: tuple[NDArray[np.bool_], ...]


@dataclass(frozen=True, eq=False)
class Nearest:
    """The rows, or passages, nearest to one vector.

    Attributes:
        found: Best first by exact scores.
        coarse: float32 (n), their scores by the codes in which candidates are sought; empty where every row was looked
            at.
        n_fetched: How many of all shards' rows count, by their coarse scores; 0 where every row was looked at.
    """

    found: Ranked
    coarse: Float32
    n_fetched: int


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidates of one query; what was not asked for is empty.

    Attributes:
        start: The nearest first tokens; likewise `end` the nearest last ones.
        end: The nearest last tokens.
        passages: The nearest passages, by their indices.
        lexical: The best passages by all lexical scores.
        own: And by their own words alone; None where that is the same.
        named: The best passages by names: scores are name scores, of equal ones the better by words first.
        named_words: float32 (n), lexical scores of these.
        in_documents: All passages of the best documents by words, in their own order, with lexical scores.
        documents: int64 (n), the document id of each of these.
        lexical_documents: int64 (n), the document ids of `lexical`, then of `own`.
        gate: float32 (n), the best scores of whole documents, falling.
    """

    start: Nearest
    end: Nearest
    passages: Nearest
    lexical: Ranked
    own: Ranked | None
    in_documents: Ranked
    documents: Int64
    lexical_documents: Int64
    named: Ranked
    named_words: Float32
    gate: Float32


@dataclass(frozen=True)
class Sought:
    """Among what nearest tokens, or passages, were sought.

    Attributes:
        n_indexed: How many are sought among by their codes; 0 where every one was looked at.
        is_every_list: Whether all of their lists were looked into.
    """

    n_indexed: int
    is_every_list: bool


@dataclass(frozen=True, eq=False)
class CandidateAnswer:
    """The candidates of each query.

    Attributes:
        queries: Of each query.
        tokens: Among what tokens were sought.
        passages: Among what passages were sought.
    """

    queries: tuple[Candidates, ...]
    tokens: Sought
    passages: Sought


@dataclass(frozen=True, eq=False)
class RankedPhrases:
    """Phrases of a shard, best first, with their token ids.

    Attributes:
        phrases: The phrases.
        first_ids: int64 (n), ids of their first tokens; empty where the shard is alone.
        last_ids: int64 (n), ids of their last tokens; empty where the shard is alone.
    """

    phrases: ScoredPhrases
    first_ids: Int64
    last_ids: Int64


@dataclass(frozen=True, eq=False)
class Scored:
    """The best phrases of one query, and those whose passages are to be read; None where nothing is."""

    best: RankedPhrases
    to_read: RankedPhrases | None


@dataclass(frozen=True, eq=False)
class ScoreAnswer:
    """The best phrases of each query."""

    queries: tuple[Scored, ...]


@dataclass(frozen=True, eq=False)
class ResolveAnswer:
    """The hits of each query, best first.

    Attributes:
        hits: Of each query, as many as are wanted; ranks are within the shard.
        scores: float32 (n) for each query: the scores that its phrases, shown as hits or not, are ordered by.
        first_ids: int64 (n) for each query, ids of the phrases' first tokens; `last_ids` of their last ones.
        last_ids: int64 (n) for each query.
        names_asked: Texts of which the shard has to know whether they are names anywhere; the rest is empty then.
    """

    hits: tuple[tuple[Hit, ...], ...]
    scores: tuple[Float32, ...]
    first_ids: tuple[Int64, ...]
    last_ids: tuple[Int64, ...]
    names_asked: tuple[str, ...] = ()
