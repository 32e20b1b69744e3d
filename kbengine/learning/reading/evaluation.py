"""How well an encoder or a reader reads: the papers' query-agnostic setting, D_small, and the cross-encoder.

Query-agnostic (DensePhrases, Table 2): the best phrase of the one gold passage by `start·q_start + end·q_end` (Eq. 4).
D_small (DensePhrases, Table 6): the same over all gold passages of the data set together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from kbengine.build.filtering import FilterOptions
from kbengine.errors import UsageError
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.reading.scores import Guess, ReadingScores, ScoredQuestion, score_guesses
from kbengine.progress import NoProgress, ProgressSink
from kbengine.span import Span

if TYPE_CHECKING:
    from kbengine.encoders.encoder import Encoder, PassageText
    from kbengine.learning.reading.small_corpus import FoundPhrase
    from kbengine.reading.reader import Reader

Setting = Literal["gold passage", "small corpus", "reader"]

CHUNK = 512
"""Passages, queries or pairs that go through a model between two reports of progress."""


@dataclass(frozen=True)
class ReadingOptions:
    """What to measure, and when a guess counts as an answer.

    Attributes:
        small_corpus: Whether to search all gold passages together as well.
        no_answer_threshold: What a guess's score must reach; None counts every guess, but with a reader and questions
            without answers the reader's own: better than "no answer".
        filter_options: Which tokens of a passage are kept, for the encoder; by default all.
    """

    small_corpus: bool = False
    no_answer_threshold: float | None = None
    filter_options: FilterOptions = field(default_factory=FilterOptions)


@dataclass(frozen=True)
class ReadingReport:
    """The figures of each setting, and how many examples had no answer to compare with."""

    scores: dict[Setting, ReadingScores]
    n_without_phrase: int
    n_passages: int


def evaluate_reading(
    examples: Iterable[TrainingExample],
    *,
    encoder: Encoder | None = None,
    reader: Reader | None = None,
    options: ReadingOptions | None = None,
    progress: ProgressSink | None = None,
) -> ReadingReport:
    """Return the figures of an encoder, of a reader, or of both on the same examples.

    Examples whose passage as a whole is the answer have no phrase to compare with: they are left out and counted.

    Raises:
        UsageError: neither an encoder nor a reader is given, or no example is left.
    """
    options, progress = options or ReadingOptions(), progress or NoProgress()
    if encoder is None and reader is None:
        raise UsageError("neither an encoder nor a reader is given, so nothing can be measured; give --encoder")
    given = list(examples)
    usable = [example for example in given if example.answers or not example.answerable]
    if not usable:
        raise UsageError(f"none of {len(given)} examples has an answer span to compare with; check the data")
    questions = [question_of(example) for example in usable]
    scores: dict[Setting, ReadingScores] = {}
    if encoder is not None:
        found = read_by_phrases(usable, encoder, options, progress)
        for setting, guesses in found.guesses.items():
            scores[setting] = score_guesses(questions, guesses, threshold=options.no_answer_threshold)
    if reader is not None:
        guesses = read_by_reader(usable, reader, progress)
        threshold = options.no_answer_threshold
        if threshold is None and not all(question.answers for question in questions):
            threshold = 0.0
        scores["reader"] = score_guesses(questions, guesses, threshold=threshold)
    return ReadingReport(scores, len(given) - len(usable), len(_distinct_passages(usable)[0]))


def question_of(example: TrainingExample) -> ScoredQuestion:
    """Return the example as what guesses are compared with."""
    return ScoredQuestion(example.id, example.source, example.answer_texts if example.answerable else ())


def read_by_reader(
    examples: Sequence[TrainingExample], reader: Reader, progress: ProgressSink | None = None
) -> list[Guess]:
    """Return the reader's best answer in each example's own passage; its score is the margin over no answer."""
    from kbengine.encoders.encoder import PassageText

    progress = progress or NoProgress()
    progress.begin("reading gold passages", len(examples), "")
    guesses = []
    for begin in range(0, len(examples), CHUNK):
        some = examples[begin : begin + CHUNK]
        passages = [PassageText(example.title, example.passage) for example in some]
        readings = reader.read([example.query for example in some], passages, truncate=True)
        for example, reading in zip(some, readings, strict=True):
            guesses.append(Guess(_text(example.passage, reading.span), reading.margin))
        progress.advance(len(some))
    return guesses


@dataclass(frozen=True)
class PhraseReadings:
    """What an encoder reads: the best phrase of each example by setting, and whether its own passage is the nearest.

    `own_is_nearest` compares passage vectors; it is empty when the encoder has none.
    """

    guesses: dict[Setting, list[Guess]]
    own_is_nearest: list[bool]


def read_by_phrases(
    examples: Sequence[TrainingExample],
    encoder: Encoder,
    options: ReadingOptions | None = None,
    progress: ProgressSink | None = None,
) -> PhraseReadings:
    """Return the best phrase of each example's own passage and, when asked for, of all passages together."""
    from kbengine.learning.reading.small_corpus import PhraseCorpus

    options, progress = options or ReadingOptions(), progress or NoProgress()
    passages, numbers = _distinct_passages(examples)
    progress.begin("encoding passages", len(passages), "")
    encoded = []
    for begin in range(0, len(passages), CHUNK):
        encoded += encoder.encode_passages(passages[begin : begin + CHUNK])
        progress.advance(min(CHUNK, len(passages) - begin))
    corpus = PhraseCorpus(encoded, max_phrase_tokens=encoder.max_phrase_tokens, filter_options=options.filter_options)
    vectors = np.stack([each.passage_vector for each in encoded])  # (p, d)
    del encoded
    guesses: dict[Setting, list[Guess]] = {"gold passage": []}
    if options.small_corpus:
        guesses["small corpus"] = []
    own_is_nearest: list[bool] = []
    progress.begin("reading by phrases", len(examples), "")
    for begin in range(0, len(examples), CHUNK):
        some = examples[begin : begin + CHUNK]
        queries = encoder.encode_queries([example.query for example in some], truncate=True)
        gold = numbers[begin : begin + CHUNK]
        own = [corpus.best_in(gold[i], queries.start[i], queries.end[i]) for i in range(len(some))]
        guesses["gold passage"] += _guesses(own, gold, passages)
        if options.small_corpus:
            guesses["small corpus"] += _guesses(corpus.search(queries), gold, passages)
        if encoder.config.has_passage_vector:
            own_is_nearest.extend((np.argmax(queries.passage @ vectors.T, axis=1) == np.array(gold)).tolist())
        progress.advance(len(some))
    return PhraseReadings(guesses, own_is_nearest)


def _distinct_passages(examples: Sequence[TrainingExample]) -> tuple[list[PassageText], list[int]]:
    """Return the passages, each once, and for each example the number of its own."""
    from kbengine.encoders.encoder import PassageText

    numbers: dict[PassageText, int] = {}
    own = [numbers.setdefault(PassageText(example.title, example.passage), len(numbers)) for example in examples]
    return list(numbers), own


def _guesses(found: Sequence[FoundPhrase | None], gold: Sequence[int], passages: Sequence[PassageText]) -> list[Guess]:
    return [
        Guess("", float("-inf"), False)
        if phrase is None
        else Guess(_text(passages[phrase.passage].text, phrase.span), phrase.score, phrase.passage == own)
        for phrase, own in zip(found, gold, strict=True)
    ]


def _text(passage: str, span: Span) -> str:
    return passage[span.start : span.end]
