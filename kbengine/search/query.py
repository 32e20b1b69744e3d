"""What is asked: the text to encode, the text to match lexically, the weights of the signals, the unit wanted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from kbengine.errors import InvalidOptionError
from kbengine.inputs import Question, TaskInput

if TYPE_CHECKING:
    from kbengine.search.lexical_gate import LexicalGate

Unit = Literal["phrase", "sentence", "passage", "document"]
UNITS: tuple[Unit, ...] = get_args(Unit)

Strategy = Literal["dense", "dfs", "sfs", "hybrid"]
"""Where candidates come from and what ranks them, in SPARC's words.

dense   nearest vectors, ranked by phrase and passage scores alone
dfs     dense first: nearest vectors, ranked by all scores
sfs     sparse first: passages found by words, and all passages of the best documents, ranked by all scores
hybrid  the candidates of both, each once
"""
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)

Effort = Literal["low", "normal", "high", "exact"]
EFFORTS: tuple[Effort, ...] = get_args(Effort)

MAX_K = 1000

MAX_READ = 100
"""Passages that a reader reads at most for one query: 10 take about a tenth of a second."""

SIGNALS = ("phrase", "passage", "lexical", "sparse", "name", "reader")


@dataclass(frozen=True)
class Weights:
    """The weights of a score's parts.

        score = phrase·(phrase_score + sparse·sparse_score) + passage·passage_score + lexical·bm25
                + name·name_score + reader·reader_score

    `phrase_score` is `start·q_start + end·q_end` (tens), `passage_score` a cosine (below 1), `bm25` a BM25 sum (tens),
    so the passage weight is naturally large. `sparse_score` is the same sum over sparse vectors, which are trained to
    be added as they are; it is 0 where no sparse rows are stored. `name_score` says from 0 to 1, alike in a small and a
    large knowledge base, how surely what is asked about is named there. `reader_score` is what the reader says of a
    place in one of the best passages (`kbengine.search.readings`). The defaults are those of questions.
    """

    phrase: float = 1.0
    passage: float = 5.0
    lexical: float = 2.5
    sparse: float = 0.25
    name: float = 0.0
    reader: float = 3.0

    def __post_init__(self) -> None:
        for name in SIGNALS:
            _check_weight(name, getattr(self, name))
        if self.phrase == self.passage == self.lexical == 0:
            raise InvalidOptionError(
                "the weights of phrase, passage and lexical score are all 0, so nothing could be ranked; give one a "
                "positive value"
            )


@dataclass(frozen=True)
class SomeWeights:
    """Some of the weights, instead of a task's own; what is None stays the task's.

    >>> SomeWeights(lexical=4.0).over(Weights())
    Weights(phrase=1.0, passage=5.0, lexical=4.0, sparse=0.25, name=0.0, reader=3.0)
    """

    phrase: float | None = None
    passage: float | None = None
    lexical: float | None = None
    sparse: float | None = None
    name: float | None = None
    reader: float | None = None

    def __post_init__(self) -> None:
        for name in SIGNALS:
            value = getattr(self, name)
            if value is not None:
                _check_weight(name, value)

    def over(self, weights: Weights) -> Weights:
        """Return the weights with these in their places.

        Raises:
            InvalidOptionError: nothing could be ranked by them.
        """
        given = {name: getattr(self, name) for name in SIGNALS}
        return replace(weights, **{name: value for name, value in given.items() if value is not None})


def some_weights(given: Weights | SomeWeights | Mapping[str, float] | None) -> Weights | SomeWeights | None:
    """Return weights given by name, such as `{"lexical": 4}`, as `SearchOptions` takes them.

    Raises:
        InvalidOptionError: a name is none of a signal, or a weight is no number from 0 up.
    """
    if not isinstance(given, Mapping):
        return given
    unknown = [name for name in given if name not in SIGNALS]
    if unknown:
        raise InvalidOptionError(f"weights has {unknown[0]!r}, wanted some of {', '.join(SIGNALS)}")
    return SomeWeights(**given)


def _check_weight(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise InvalidOptionError(
            f"weight '{name}' is {value}, wanted a finite number from 0 up; leave it out for the task's default"
        )


@dataclass(frozen=True)
class Forwards:
    """What each document found for a relation asked backwards is asked in turn: whether the object is its object.

    Attributes:
        relation: In words.
        object: As it was asked for.
    """

    relation: str
    object: str


@dataclass(frozen=True)
class Query:
    """One query: `input` is encoded, the rest is matched lexically, each text with the weight of its terms.

    Attributes:
        input: What the encoder reads.
        lexical: Texts matched against titles and passages (BM25).
        documents: Texts matched against whole documents (BM25 of all passages taken as one text).
        titles: Texts whose words are matched against the words of titles.
        names: Names matched against whole titles, with or without their qualifier ("Lincoln, Nebraska" is "Lincoln"),
            and against the documents' other names (see `kbengine.search.naming`).
        said: Names that count where a passage says them word for word, whatever their case and accents.
        spotted: Running texts; a title that stands in one as a whole counts like a name.
        weights: Of the signals.
        unit: What comes back unless the search says otherwise.
        strategy: Where candidates come from unless the search says otherwise.
        read: How many of the best passages are read unless the search says otherwise.
        reading: What the reader reads instead of `input`, where another wording is better.
        forwards: What the reader is asked of the documents found, where the relation is asked backwards.
        gate: Decides what the lexical weight is multiplied by; None where it counts as it is.
    """

    input: TaskInput
    lexical: tuple[tuple[str, float], ...] = ()
    documents: tuple[tuple[str, float], ...] = ()
    titles: tuple[tuple[str, float], ...] = ()
    names: tuple[tuple[str, float], ...] = ()
    said: tuple[tuple[str, float], ...] = ()
    spotted: tuple[tuple[str, float], ...] = ()
    weights: Weights = Weights()
    unit: Unit = "phrase"
    strategy: Strategy = "hybrid"
    read: int = 0
    reading: TaskInput | None = None
    forwards: Forwards | None = None
    gate: LexicalGate | None = None

    @classmethod
    def question(cls, text: str) -> Query:
        """Return the query of a plain question or of free text."""
        return cls(input=Question(text), lexical=((text, 1.0),))


@dataclass(frozen=True)
class SearchOptions:
    """How to search; `None` takes the query's own choice or one made from the size of the knowledge base.

    Attributes:
        k: Distinct answers wanted, 1 to 1000.
        unit: What an answer is.
        weights: Of the signals; of `SomeWeights` what is left out is the query's own.
        effort: How many candidates are looked at.
        nprobe: Clusters probed per segment, instead of `effort`.
        max_phrase_tokens: The longest phrase that is an answer, 1 to 64 tokens.
        explain: Give the parts of each score.
        truncate: Cut a question or slot that is too long for the encoder instead of refusing it.
        strategy: Where candidates come from.
        encoder: The name of an encoder tuned for the knowledge base; None is the one it was opened with.
        where: A filter over the fields of documents, such as `source = 'manual' and date >= '2020-01-01'`: only
            documents that pass it are searched.
        read: How many of the best passages a reader reads together with the query, 0 to 100; 0 reads none.
        partial: Whether a cluster answers from the shards that answer where some do not, instead of refusing; a
            knowledge base on one machine is always whole.
    """

    k: int = 10
    unit: Unit | None = None
    weights: Weights | SomeWeights | None = None
    effort: Effort = "normal"
    nprobe: int | None = None
    max_phrase_tokens: int | None = None
    explain: bool = False
    truncate: bool = False
    strategy: Strategy | None = None
    encoder: str | None = None
    where: str | None = None
    read: int | None = None
    partial: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or not 1 <= self.k <= MAX_K:
            raise InvalidOptionError(f"k is {self.k}, wanted 1 to {MAX_K}; ask for fewer answers")
        if self.unit is not None and self.unit not in UNITS:
            raise InvalidOptionError(f"unit is {self.unit!r}, wanted one of {', '.join(UNITS)}")
        if self.strategy is not None and self.strategy not in STRATEGIES:
            raise InvalidOptionError(f"strategy is {self.strategy!r}, wanted one of {', '.join(STRATEGIES)}")
        if self.effort not in EFFORTS:
            raise InvalidOptionError(f"effort is {self.effort!r}, wanted one of {', '.join(EFFORTS)}")
        if self.nprobe is not None and self.nprobe < 1:
            raise InvalidOptionError(f"nprobe is {self.nprobe}, wanted 1 or more (or leave it out)")
        if self.max_phrase_tokens is not None and not 1 <= self.max_phrase_tokens <= 64:
            raise InvalidOptionError(f"the longest phrase is {self.max_phrase_tokens} tokens, wanted 1 to 64")
        is_count = isinstance(self.read, int) and not isinstance(self.read, bool) and 0 <= self.read <= MAX_READ
        if self.read is not None and not is_count:
            raise InvalidOptionError(
                f"read is {self.read!r}, wanted how many of the best passages are read, 0 to {MAX_READ}; 0 reads none"
            )
        if self.where is not None and not isinstance(self.where, str):
            raise InvalidOptionError(f"the filter is {self.where!r}, wanted a text such as \"source = 'manual'\"")

    def weights_over(self, weights: Weights) -> Weights:
        """Return the weights in force for a query that has these of its own."""
        if self.weights is None:
            return weights
        return self.weights.over(weights) if isinstance(self.weights, SomeWeights) else self.weights

    def gate_over(self, gate: LexicalGate | None) -> LexicalGate | None:
        """Return what decides about a query's lexical weight: nothing where one is given here."""
        return gate if self.weights is None or self.weights.lexical is None else None
