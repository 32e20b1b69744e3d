"""The development score of a phrase encoder: reading the gold passage, finding it among all, ranking passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from kbengine.encoders.encoder import Encoder
from kbengine.errors import TrainingDataError
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.loop.options import require, require_count
from kbengine.learning.loop.task import Evaluation
from kbengine.learning.reading.evaluation import ReadingOptions, question_of, read_by_phrases
from kbengine.learning.reading.scores import score_guesses

Measure = Literal["mean", "em", "f1", "small_em", "small_f1", "phrase_passage", "passage"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
_MEAN_OF = ("em", "small_em", "phrase_passage", "passage")


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
        read = read_by_phrases(self.examples, encoder, ReadingOptions(small_corpus=True))
        alone, small = read.guesses["gold passage"], read.guesses["small corpus"]
        measures = {"phrase_passage": _percent([guess.in_gold_passage for guess in small])}
        with_phrase = [i for i, example in enumerate(self.examples) if example.answers]
        if with_phrase:
            questions = [question_of(self.examples[i]) for i in with_phrase]
            for prefix, guesses in (("", alone), ("small_", small)):
                scores = score_guesses(questions, [guesses[i] for i in with_phrase])
                measures |= {f"{prefix}em": scores.em, f"{prefix}f1": scores.f1}
        if read.own_is_nearest:
            measures["passage"] = _percent(read.own_is_nearest)
        return measures


def _percent(hits: Sequence[bool]) -> float:
    return 100 * sum(hits) / len(hits)
