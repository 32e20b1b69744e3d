"""Examples as token ids: tokenised once before training, passages that several questions share only once."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kbengine.corpus.normalise import norm
from kbengine.encoders.config import EncoderConfig
from kbengine.encoders.encoder import PassageText
from kbengine.encoders.query_input import query_ids
from kbengine.encoders.tokenization import TextTokenizer, TextTokens, token_span
from kbengine.encoders.truecasing import Truecaser, restored
from kbengine.encoders.windows import Window, windows
from kbengine.errors import QueryError, TrainingDataError
from kbengine.inputs import TaskInput
from kbengine.learning.data.examples import TrainingExample
from kbengine.progress import NoProgress, ProgressSink
from kbengine.search.in_halves import in_halves

Int32 = NDArray[np.int32]
_CHUNK = 4096


@dataclass(frozen=True, slots=True)
class PreparedPassage:
    """A passage's token ids behind its cut title; `key` is equal for equal passages."""

    title: list[int]
    ids: Int32
    key: int


@dataclass(frozen=True, slots=True)
class Gold:
    """An answer: its first and last token (inclusive) in the passage; `key` is equal for equal answer strings."""

    first: int
    last: int
    key: int


@dataclass(frozen=True, slots=True)
class PreparedExample:
    """An example by token ids.

    Attributes:
        number: Of the example it was made from.
        query: The query's ids, special tokens included.
        passage: Number of its passage.
        golds: Answers that a phrase can be; none for passage loss alone and for unanswerable ones.
        answerable: Whether the passage answers the query.
        negatives: Numbers of mined passages.
    """

    number: int
    query: list[int]
    passage: int
    golds: tuple[Gold, ...]
    answerable: bool
    negatives: tuple[int, ...] = ()


@dataclass(frozen=True)
class PreparedSet:
    """All examples that can be trained on, their passages, and counts of what was left out or cut."""

    examples: list[PreparedExample]
    passages: list[PreparedPassage]
    notes: Counter[str] = field(default_factory=Counter)

    def fingerprint(self) -> str:
        """Return a hash of everything a run depends on."""
        digest = hashlib.sha256()
        for passage in self.passages:
            digest.update(np.array([passage.key, *passage.title], dtype=np.int64).tobytes())
        for each in self.examples:
            golds = [number for gold in each.golds for number in (gold.first, gold.last, gold.key)]
            row = [each.passage, each.answerable, *each.query, -1, *golds, -1, *each.negatives]
            digest.update(np.array(row, dtype=np.int64).tobytes())
        return digest.hexdigest()


def prepare(
    examples: Sequence[TrainingExample],
    tokenizer: TextTokenizer,
    config: EncoderConfig,
    *,
    with_negatives: bool = False,
    truecaser: Truecaser | None = None,
    progress: ProgressSink | None = None,
) -> PreparedSet:
    """Return the examples as token ids.

    Queries that are too long are cut as in use. Answers longer than a phrase may be are no gold phrases; an example
    that has only such ones keeps the passage loss.

    Args:
        examples: to tokenise.
        tokenizer: the model's.
        config: the model's.
        with_negatives: whether to prepare mined passages too.
        truecaser: restores the case of queries, as the encoder will.
        progress: shown the examples.

    Raises:
        TrainingDataError: no example is left.
    """
    progress = progress or NoProgress()
    progress.begin("tokenising", len(examples), "examples")
    texts: dict[PassageText, int] = {}
    owners = [texts.setdefault(PassageText(e.title, e.passage), len(texts)) for e in examples]
    mined = [
        tuple(texts.setdefault(passage, len(texts)) for passage in _negatives(e)) if with_negatives else ()
        for e in examples
    ]
    passages, tokens = _passages(list(texts), tokenizer, config)
    notes: Counter[str] = Counter()
    prepared: list[PreparedExample] = []
    for begin in range(0, len(examples), _CHUNK):
        some = range(begin, min(begin + _CHUNK, len(examples)))
        queries = _queries(restored([examples[i].query for i in some], truecaser), tokenizer, config, notes)
        for i, query in zip(some, queries, strict=True):
            if query is not None:
                golds = _golds(examples[i], tokens[owners[i]], config, notes)
                prepared.append(PreparedExample(i, query, owners[i], golds, examples[i].answerable, mined[i]))
        progress.advance(len(some))
    if not prepared:
        raise TrainingDataError(f"none of {len(examples)} examples has a query that can be read; check the data")
    return PreparedSet(prepared, passages, notes)


def _negatives(example: TrainingExample) -> list[PassageText]:
    titles = example.negative_titles or ("",) * len(example.negatives)
    return [PassageText(title, text) for title, text in zip(titles, example.negatives, strict=True)]


def window_of(passage: PreparedPassage, gold: Gold | None, max_passage_tokens: int) -> Window | None:
    """Return the window of a passage to train on: the one that owns the gold phrase's first token, else the first.

    None when no window holds the whole phrase, which only happens with inputs hardly longer than a phrase.
    """
    all_windows = windows(len(passage.ids), max_passage_tokens - 3 - len(passage.title))
    if gold is None:
        return all_windows[0]
    holding = [each for each in all_windows if each.begin <= gold.first and gold.last < each.end]
    owning = [each for each in holding if each.own_begin <= gold.first < each.own_end]
    return next(iter(owning or holding), None)


def text_key(text: str) -> int:
    """Return a number that is equal for equal texts: 63 bits of their hash, never 0."""
    digest = hashlib.blake2b(text.encode("utf-8", errors="surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 1) or 1


def _passages(
    texts: Sequence[PassageText], tokenizer: TextTokenizer, config: EncoderConfig
) -> tuple[list[PreparedPassage], list[TextTokens]]:
    passages: list[PreparedPassage] = []
    tokens: list[TextTokens] = []
    for begin in range(0, len(texts), _CHUNK):
        some = texts[begin : begin + _CHUNK]
        titles = tokenizer.ids([text.title for text in some])
        bodies = tokenizer.tokens([text.text for text in some])
        tokens += bodies
        passages += [
            PreparedPassage(title[: config.max_title_tokens], body.ids, text_key(f"{text.title}\x1f{text.text}"))
            for text, title, body in zip(some, titles, bodies, strict=True)
        ]
    return passages, tokens


def _queries(
    queries: Sequence[TaskInput], tokenizer: TextTokenizer, config: EncoderConfig, notes: Counter[str]
) -> list[list[int] | None]:
    """Return each query's ids, None where it has none."""

    def ids(some: Sequence[TaskInput]) -> list[list[int]]:
        made = query_ids(some, tokenizer, config.max_query_tokens, truncate=True)
        notes["query cut"] += sum(query.truncated for query in made)
        return [query.ids for query in made]

    def refuse(error: QueryError) -> None:
        notes[f"query cannot be read: {error.code}"] += 1

    return in_halves(ids, queries, refuse)


def _golds(
    example: TrainingExample, tokens: TextTokens, config: EncoderConfig, notes: Counter[str]
) -> tuple[Gold, ...]:
    golds: dict[Gold, None] = {}
    for span in example.answers:
        found = token_span(tokens, span)
        if found is not None and found[1] - found[0] < config.max_phrase_tokens:
            golds[Gold(*found, text_key(norm(example.passage[span.start : span.end])))] = None
    if example.answers and not golds:
        notes["answer longer than a phrase: passage loss alone"] += 1
    return tuple(golds)
