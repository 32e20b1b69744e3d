"""Open-domain evaluation: a question file asked of a knowledge base, answers and passages scored as published."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters.open_domain.matching import AnswerMatcher
from adapters.open_domain.questions import OpenQuestion, OpenQuestions
from adapters.open_domain.retrieving import BATCH, RetrievingOptions, retrieve_passages
from adapters.open_domain.scoring import TOP_ANSWERS, AnswerScores, PassageScores, mean_percent
from adapters.tasks.answerer import Answerer, AnswerOptions
from kbengine.errors import InvalidOptionError
from kbengine.inputs import Question
from kbengine.progress import NoProgress, ProgressSink
from kbengine.search.in_halves import in_halves

if TYPE_CHECKING:
    from adapters.open_domain.passages import FoundPassages
    from kbengine.search.results import Hit


@dataclass(frozen=True)
class OpenOptions:
    """What is measured of a question file.

    Attributes:
        retrieving: What ranks answers and passages, and how many passages are looked at.
        has_answers: Whether answers are scored: the phrases that `kbengine query` gives.
        has_passages: Whether passages are.
        candidates: Answers that are none of these are left out, whatever their case (WebQuestions is published with a
            list of Freebase's entities); None takes all.
    """

    retrieving: RetrievingOptions = field(default_factory=RetrievingOptions)
    has_answers: bool = True
    has_passages: bool = True
    candidates: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if not self.has_answers and not self.has_passages:
            raise InvalidOptionError("neither answers nor passages are wanted; leave one of the two options out")


@dataclass(frozen=True)
class OpenRecord:
    """What came of one question."""

    question: OpenQuestion
    guesses: tuple[str, ...] = ()
    answer_scores: AnswerScores | None = None
    passage_scores: PassageScores | None = None

    def measures(self) -> dict[str, float]:
        """Return every measure from 0 to 1 by its name."""
        scored = (each for each in (self.answer_scores, self.passage_scores) if each is not None)
        return {name: value for each in scored for name, value in each.measures().items()}

    def to_json(self) -> dict[str, Any]:
        """Return the question with what was found, as plain JSON values."""
        record: dict[str, Any] = {
            "id": self.question.id,
            "question": self.question.text,
            "answers": list(self.question.answers),
        }
        if self.answer_scores is not None:
            record["predictions"] = list(self.guesses)
        if self.passage_scores is not None:
            record["answer_ranks"] = list(self.passage_scores.ranks)
        return record | self.measures()


@dataclass
class OpenReport:
    """The figures of a file and what they were made from."""

    name: str
    form: str
    records: list[OpenRecord] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    broken_patterns: int = 0
    not_asked: int = 0
    elapsed_s: float = 0.0

    def facts(self) -> dict[str, Any]:
        """Return the figures in percent by their published names, for people and for JSON."""
        figures = mean_percent([record.measures() for record in self.records])
        facts: dict[str, Any] = {"file": self.name, "form": self.form, "questions": len(self.records)}
        facts |= {name: round(value, 2) for name, value in figures.items()}
        if self.elapsed_s:
            facts["ms_a_question"] = round(1e3 * self.elapsed_s / max(1, len(self.records)), 1)
        return facts

    def notices(self) -> Iterator[str]:
        """Yield a sentence for each thing that the figures do not say."""
        for reason, n in self.left_out.items():
            yield f"{self.name}: {n:,} questions left out: {reason}"
        if self.broken_patterns:
            yield f"{self.name}: {self.broken_patterns:,} answers are no regular expressions and match nothing"
        if self.not_asked:
            yield f"{self.name}: {self.not_asked:,} questions have nothing that can be asked and count as wrong"


def evaluate_open(
    answerer: Answerer,
    asked: OpenQuestions,
    *,
    options: OpenOptions | None = None,
    progress: ProgressSink | None = None,
) -> OpenReport:
    """Return the report of asking every question of a file.

    Args:
        answerer: of the knowledge base.
        asked: what `read_open_questions` gave.
        options: what is measured.
        progress: shows how far it is.
    """
    options, progress = options or OpenOptions(), progress or NoProgress()
    report = OpenReport(asked.path.name, asked.form, left_out=asked.left_out)
    progress.begin(f"asking {asked.path.name}", len(asked.questions), "")
    began = time.perf_counter()
    for begin in range(0, len(asked.questions), BATCH):
        some = asked.questions[begin : begin + BATCH]
        passages: Sequence[tuple[Hit, ...] | None] = [None] * len(some)
        if options.has_passages:
            passages = retrieve_passages(answerer, some, options.retrieving)
        guesses: Sequence[tuple[str, ...] | None] = [None] * len(some)
        if options.has_answers:
            guesses = _guesses(answerer, some, options)
        for question, hits, own in zip(some, passages, guesses, strict=True):
            report.records.append(_record(question, hits, own, report))
        progress.advance(len(some))
    report.elapsed_s = time.perf_counter() - began
    return report


def evaluate_passages(found: Sequence[FoundPassages], *, name: str, patterns: bool = False) -> OpenReport:
    """Return the report of passages that were found before, by whatever system.

    Args:
        found: what `read_passages` gave.
        name: what the report calls it.
        patterns: whether answers are regular expressions.
    """
    report = OpenReport(name, "passages")
    for each in found:
        question = OpenQuestion(each.id, each.question, each.answers, patterns)
        matcher = AnswerMatcher(each.answers, is_pattern=patterns)
        report.broken_patterns += len(matcher.broken)
        report.records.append(OpenRecord(question, passage_scores=PassageScores.of(matcher, each.texts())))
    return report


def _record(
    question: OpenQuestion, hits: tuple[Hit, ...] | None, guesses: tuple[str, ...] | None, report: OpenReport
) -> OpenRecord:
    matcher = AnswerMatcher(question.answers, is_pattern=question.is_pattern)
    report.broken_patterns += len(matcher.broken)
    report.not_asked += not hits and not guesses
    return OpenRecord(
        question,
        guesses or (),
        None if guesses is None else AnswerScores.of(matcher, () if question.is_pattern else question.answers, guesses),
        None if hits is None else PassageScores.of(matcher, [hit.passage.text for hit in hits]),
    )


def _guesses(answerer: Answerer, questions: Sequence[OpenQuestion], options: OpenOptions) -> list[tuple[str, ...]]:
    """Return the best distinct answers to each question, those that are candidates."""
    search = options.retrieving.search_options()
    how = AnswerOptions(
        k=TOP_ANSWERS,
        threshold=0.0,
        weights=search.weights,
        strategy=search.strategy,
        effort=search.effort,
        read=search.read,
        where=search.where,
        truncate=True,
    )

    def ask(some: Sequence[Question]) -> list[tuple[str, ...]]:
        return [tuple(answer.text for answer in each.answers) for each in answerer.answer(some, how)]

    found: list[tuple[str, ...]] = in_halves(ask, [Question(each.text) for each in questions], lambda _: ())
    if options.candidates is None:
        return found
    return [tuple(text for text in own if text.lower() in options.candidates) for own in found]


def read_candidates(path: Path) -> frozenset[str]:
    """Return the answers that a file allows, one a line, in lower case."""
    return frozenset(line.strip().lower() for line in path.read_text(encoding="utf-8").split("\n") if line.strip())
