"""The development score of a phrase encoder: reading the gold passage, finding it among all, ranking passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from kbengine.encoders.encoder import Encoder, PassageText
from kbengine.errors import TrainingDataError
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.loop.options import require, require_count
from kbengine.learning.loop.task import Evaluation
from kbengine.learning.reading.evaluation import question_of
from kbengine.learning.reading.scores import Guess, Question, score_guesses
from kbengine.learning.reading.small_corpus import FoundPhrase, PhraseCorpus

Measure = Literal["mean", "em", "f1", "small_em", "small_f1", "phrase_passage", "passage"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
_MEAN_OF = ("em", "small_em", "phrase_passage", "passage")
_CHUNK = 1024


@dataclass(frozen=True)
class DevelopmentOptions:
    """How a model is scored during training.

    Attributes:
        score: The measure that decides which weights are best; "mean" is that of em, small_em, phrase_passage and
            passage, as far as the examples have them.
        max_examples: Examples used, evenly spread over the files; None: all.
    """

    score: Measure = "mean"
    max_examples: int | None = 2000

    def __post_init__(self) -> None:
        require(self.score in MEASURES, "score", self.score, f"one of {', '.join(MEASURES)}")
        if self.max_examples is not None:
            require_count("max_examples", self.max_examples)


class DevelopmentSet:
    """Development examples and how a model does on them, in percent.

    em, f1: the best phrase of the gold passage against the answers (the papers' query-agnostic setting). small_em,
    small_f1: the best phrase of all the set's passages together (D_small). phrase_passage: how often that phrase stands
    in the gold passage. passage: how often the gold passage has the nearest passage vector.
    """

    def __init__(self, examples: Sequence[TrainingExample], options: DevelopmentOptions | None = None) -> None:
        """Take the answerable examples.

        Raises:
            TrainingDataError: there is none.
        """
        self.options = options or DevelopmentOptions()
        usable = [example for example in examples if example.answerable]
        if not usable:
            raise TrainingDataError(f"none of {len(examples)} development examples can be answered; check the files")
        limit = self.options.max_examples
        if limit is not None and len(usable) > limit:
            usable = [usable[i * len(usable) // limit] for i in range(limit)]
        self.examples = usable

    def evaluate(self, encoder: Encoder) -> Evaluation:
        """Return the score of an encoder: that of a model's present weights is what would be loaded later."""
        measures = self.measure(encoder)
        if self.options.score != "mean":
            return Evaluation(measures[self.options.score], measures)
        known = [measures[name] for name in _MEAN_OF if name in measures]
        return Evaluation(sum(known) / len(known), measures)

    def measure(self, encoder: Encoder) -> dict[str, float]:
        """Return all measures of an encoder."""
        texts: dict[PassageText, int] = {}
        own = [texts.setdefault(PassageText(e.title, e.passage), len(texts)) for e in self.examples]
        passages = list(texts)
        encoded = []
        for begin in range(0, len(passages), _CHUNK):
            encoded += encoder.encode_passages(passages[begin : begin + _CHUNK])
        queries = encoder.encode_queries([example.query for example in self.examples], truncate=True)
        corpus = PhraseCorpus(encoded, max_phrase_tokens=encoder.max_phrase_tokens)
        read = [corpus.best_in(own[i], queries.start[i], queries.end[i]) for i in range(len(own))]
        found = corpus.search(queries)
        right = [phrase is not None and phrase.passage == own[i] for i, phrase in enumerate(found)]
        measures = {"phrase_passage": 100 * sum(right) / len(right)}
        with_phrase = [i for i, example in enumerate(self.examples) if example.answers]
        if with_phrase:
            questions = [question_of(self.examples[i]) for i in with_phrase]
            alone = _scores(questions, [read[i] for i in with_phrase], passages)
            small = _scores(questions, [found[i] for i in with_phrase], passages)
            measures |= {"em": alone[0], "f1": alone[1], "small_em": small[0], "small_f1": small[1]}
        if encoder.config.has_passage_vector:
            vectors = np.stack([each.passage_vector for each in encoded])
            nearest = np.argmax(queries.passage @ vectors.T, axis=1)
            measures["passage"] = 100 * float(np.mean(nearest == np.array(own)))
        return measures


def _scores(
    questions: Sequence[Question], found: Sequence[FoundPhrase | None], passages: Sequence[PassageText]
) -> tuple[float, float]:
    guesses = [
        Guess("", float("-inf"), False)
        if phrase is None
        else Guess(passages[phrase.passage].text[phrase.span.start : phrase.span.end], phrase.score)
        for phrase in found
    ]
    scores = score_guesses(questions, guesses)
    return scores.em, scores.f1
