"""Requests in, answers out: the one path of command line, Python and HTTP."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, TypeVar

from adapters.errors import UnknownRelationError
from adapters.tasks.answers import Answer, NoAnswerReason, TaskAnswer
from adapters.tasks.calibration import SETTING, Calibrations, calibrations_of
from adapters.tasks.confidence import Confidence
from adapters.tasks.defaults import DEFAULT_UNITS, READ, READ_BACKWARDS
from adapters.tasks.evidence import evidence_of
from adapters.tasks.queries import left_out_turns, query_of
from adapters.tasks.retrieval import Retrieved, retrieve, shown_hits
from adapters.tasks.values import values_of
from adapters.tasks.wording import has_one_value
from kbengine.errors import InvalidOptionError, QueryError, StateError, TaskInputError
from kbengine.inputs import TASKS, Mention, Slot, Task, TaskInput, task_of
from kbengine.search.query import Query, SearchOptions

if TYPE_CHECKING:
    from kbengine.knowledge_base import KnowledgeBase
    from kbengine.search.results import SearchResult

_log = logging.getLogger(__name__)

_Asked = tuple[TaskInput, Query]
Found = TypeVar("Found")
_QUERY = re.compile(r"^query (\d+)")
"""How a message names the query that is at fault, by its place among those that were asked together."""

MAX_RETRIES = 5
"""Calls begun anew because a calibration was stored meanwhile."""


@dataclass(frozen=True)
class AnswerOptions(SearchOptions):
    """How to answer; `None` takes the task's own choice, as stored with the knowledge base or by default.

    Beside the options of a search:

    Attributes:
        threshold: The probability, 0 to 1, that the best answer has to reach; 0 answers always, None leaves it to the
            task's calibration, which also refuses what the knowledge base seems to hold no answer to. Probabilities
            are calibrated for the task's own unit, weights and strategy, so there are none with others.
    """

    threshold: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise InvalidOptionError(
                f"the threshold is {self.threshold}, wanted a probability from 0 (answer always) to 1"
            )


class Answerer:
    """Answers requests of all tasks from one knowledge base; usable from several threads at once.

    A request is answered by the encoder that is named, else by the one that is bundled for its task. Weights,
    probabilities and thresholds are those stored with the knowledge base for the encoder that answers, read anew after
    every commit; those that ship with the encoder where none are stored.
    """

    def __init__(self, knowledge_base: KnowledgeBase, *, notice: Callable[[str], None] = _log.warning) -> None:
        """Answer from the knowledge base; `notice` is told once of each stored calibration that is not used."""
        self._knowledge_base = knowledge_base
        self._notice = notice
        self._told: set[str] = set()
        self._read: tuple[int, dict[str, Calibrations]] = (-1, {})

    def calibrations_of_task(self, task: Task, encoder: str | None = None) -> Calibrations:
        """Return the calibrations in force of the encoder that answers the task: the one of the name, or the usual one.

        Raises:
            UnknownEncoderError: the knowledge base has no encoder of the name.
        """
        return self.calibrations_for(self._knowledge_base.encoder_name(encoder, task=task))

    def calibrations_for(self, encoder: str | None) -> Calibrations:
        """Return the calibrations of a tuned encoder, None for the default one, in force at the newest commit.

        Raises:
            UnknownEncoderError: the knowledge base has no encoder of the name.
        """
        generation = self._knowledge_base.generation
        fingerprint = self._knowledge_base.encoder_for(encoder).fingerprint
        known_at, known = self._read
        if known_at != generation:
            known = {}
        if fingerprint not in known:
            answered = [task for task in TASKS if self._knowledge_base.encoder_name(task=task) == encoder]
            found = calibrations_of(self._knowledge_base.setting(SETTING), encoder=fingerprint, tasks=answered or TASKS)
            known = {**known, fingerprint: found}
            self._read = generation, known
            for sentence in found.notices:
                if sentence not in self._told:
                    self._told.add(sentence)
                    self._notice(sentence)
        return known[fingerprint]

    def answer(self, requests: Sequence[TaskInput], options: AnswerOptions | None = None) -> list[TaskAnswer]:
        """Answer each request, in order; each result is what the request would get alone.

        Raises:
            TaskInputError: a request has not the form that its task wants.
            UnknownRelationError: a slot's relation is a Wikidata id that the table lacks.
            QueryError: a request is empty or longer than the encoder takes (unless `options.truncate`).
            InvalidOptionError: a threshold is asked for and a task has no calibration for what is asked.
            UnknownEncoderError: the knowledge base has no encoder of the name.
        """
        options = options or AnswerOptions()

        def answered(part: Sequence[_Asked], encoder: str | None) -> list[TaskAnswer]:
            return self._answered(part, replace(options, encoder=encoder))

        return self._by_encoder(requests, options, answered)

    def _answered(self, asked: Sequence[_Asked], options: AnswerOptions) -> list[TaskAnswer]:
        """Return the answers of one encoder, which the options name."""
        requests = [request for request, _ in asked]
        began = time.perf_counter()
        for _ in range(MAX_RETRIES):
            calibrations = self.calibrations_for(options.encoder)
            acceptances = [
                _acceptance_of(request, calibrations, options, n_read=self._n_read(request)) for request in requests
            ]
            weighted = self._weighted(asked, calibrations, options)
            found = retrieve(self._knowledge_base, requests, weighted, options)
            # A commit between reading the calibrations and searching may have changed them, or the encoder itself.
            is_same_encoder = found[0].result.encoder == self._knowledge_base.encoder_for(options.encoder).fingerprint
            if is_same_encoder and self.calibrations_for(options.encoder) == calibrations:
                answers = [
                    _answer_of(*each, options=options) for each in zip(requests, found, acceptances, strict=True)
                ]
                return _timed(answers, (time.perf_counter() - began) * 1e3)
        raise StateError(
            f"the knowledge base was calibrated, or its encoder replaced, {MAX_RETRIES} times during one call; "
            "try again"
        )

    def check_threshold(self, task: Task, options: AnswerOptions) -> None:
        """Check that the threshold asked for can be applied to the task.

        Raises:
            InvalidOptionError: there are no probabilities to compare with it.
        """
        n_read = read_by_default(task, self._knowledge_base)
        _acceptance(task, self.calibrations_of_task(task, options.encoder), options, n_read=n_read)

    def search(self, requests: Sequence[TaskInput], options: SearchOptions | None = None) -> list[SearchResult]:
        """Return the hits of each request, in order, by the weights of its task: places, not distinct answers.

        Raises:
            TaskInputError, UnknownRelationError, QueryError: as `answer` does.
        """
        options = options or SearchOptions()
        plain = {field.name: getattr(options, field.name) for field in fields(SearchOptions)}

        def found(part: Sequence[_Asked], encoder: str | None) -> list[SearchResult]:
            queries = self._weighted(part, self.calibrations_for(encoder), options)
            searched = {**plain, "unit": None, "weights": None, "encoder": encoder}
            return self._knowledge_base.search(queries, SearchOptions(**searched))

        return self._by_encoder(requests, options, found)

    def pages(self, requests: Sequence[TaskInput], options: SearchOptions | None = None) -> list[SearchResult]:
        """Return the `options.k` best documents of each request, one hit each: what a submission ranks."""
        return self.search(requests, replace(options or SearchOptions(), unit="document"))

    def _by_encoder(
        self,
        requests: Sequence[TaskInput],
        options: SearchOptions,
        found: Callable[[Sequence[_Asked], str | None], list[Found]],
    ) -> list[Found]:
        """Return what is found for each request, in order, those together that one encoder answers."""
        queries = _queries(requests)
        places: dict[str | None, list[int]] = {}
        for i, request in enumerate(requests):
            name = self._knowledge_base.encoder_name(options.encoder, task=task_of(request))
            places.setdefault(name, []).append(i)
        results: dict[int, Found] = {}
        for name, part in places.items():
            try:
                results.update(zip(part, found([(requests[i], queries[i]) for i in part], name), strict=True))
            except QueryError as error:
                raise type(error)(_at_places(error.message, part)) from error
        return [results[i] for i in range(len(requests))]

    def _n_read(self, request: TaskInput) -> int:
        """Return how many passages are read unless it is said."""
        if _is_backwards(request):
            return READ_BACKWARDS if self._knowledge_base.is_read_by_default else 0
        return read_by_default(task_of(request), self._knowledge_base)

    def _weighted(
        self,
        asked: Sequence[_Asked],
        calibrations: Calibrations,
        options: SearchOptions,
    ) -> list[Query]:
        """Return the queries with the weights, units and numbers of passages to read in force."""
        return [
            replace(
                query,
                weights=options.weights_over(calibrations.weights(task_of(request))),
                unit=options.unit or query.unit,
                strategy=options.strategy or query.strategy,
                read=self._n_read(request) if options.read is None else options.read,
                gate=options.gate_over(query.gate),
            )
            for request, query in asked
        ]


def _at_places(message: str, places: Sequence[int]) -> str:
    """Return the message with a query named by its place among all, not among those that were asked together."""
    return _QUERY.sub(lambda found: f"query {places[int(found[1])]}", message)


def read_by_default(task: Task, knowledge_base: KnowledgeBase) -> int:
    """Return how many passages are read for the task unless it is said."""
    return READ[task] if knowledge_base.is_read_by_default else 0


@dataclass(frozen=True)
class _Acceptance:
    """What decides about a request's answers: how probable they are, and how probable the best and any have to be."""

    confidence: Confidence | None
    threshold: float | None
    answerable_threshold: float


def _is_backwards(request: TaskInput) -> bool:
    """Tell whether subjects are wanted: documents, of which nothing was fitted."""
    return isinstance(request, Slot) and request.object is not None


def _acceptance_of(
    request: TaskInput, calibrations: Calibrations, options: AnswerOptions, *, n_read: int
) -> _Acceptance:
    if _is_backwards(request):
        if options.threshold:
            raise InvalidOptionError(
                f"a threshold of {options.threshold} was asked for a relation asked backwards, whose subjects have no "
                "probabilities; leave the threshold out"
            )
        return _Acceptance(None, None, 0.0)
    return _acceptance(task_of(request), calibrations, options, n_read=n_read)


def _acceptance(task: Task, calibrations: Calibrations, options: AnswerOptions, *, n_read: int) -> _Acceptance:
    found = calibrations.tasks.get(task)
    why_not = None
    if found is None:
        why_not = "the knowledge base holds no calibration of the task; fit one with 'kbengine calibrate'"
    elif options.unit not in (None, DEFAULT_UNITS[task]):
        why_not = f"probabilities are about {DEFAULT_UNITS[task]}s; leave the unit out"
    elif options.weights_over(found.weights) != found.weights:
        why_not = "probabilities are for the task's own weights; leave the weights out"
    elif options.strategy not in (None, Query.strategy):
        why_not = "probabilities are for the task's own strategy; leave the strategy out"
    elif options.read not in (None, n_read):
        why_not = f"probabilities are for reading {n_read} passages; leave the number out"
    if found is None or why_not is not None:
        if options.threshold:
            raise InvalidOptionError(
                f"a threshold of {options.threshold} was asked for {task} and there are no probabilities: {why_not}, "
                "or leave the threshold out"
            )
        return _Acceptance(None, None, 0.0)
    if options.threshold is not None:
        return _Acceptance(found.confidence, options.threshold or None, 0.0)
    return _Acceptance(found.confidence, found.threshold, found.answerable_threshold or 0.0)


def _timed(answers: Sequence[TaskAnswer], total_ms: float) -> list[TaskAnswer]:
    """Return the answers with the time of the whole call, of which grouping and judging hits is a stage of its own."""
    searched_ms = answers[0].timings_ms.get("total", 0.0)
    stages = {"answer": max(0.0, total_ms - searched_ms), "total": total_ms}
    return [replace(answer, timings_ms={**answer.timings_ms, **stages}) for answer in answers]


def _queries(requests: Sequence[TaskInput]) -> list[Query]:
    """Return the requests' queries; an error names the request's place where there are several."""
    queries = []
    for i, request in enumerate(requests):
        try:
            queries.append(query_of(request))
        except (TaskInputError, UnknownRelationError) as error:
            if len(requests) == 1:
                raise
            raise type(error)(f"query {i}: {error.message}") from error
    return queries


def _answer_of(request: TaskInput, found: Retrieved, acceptance: _Acceptance, *, options: AnswerOptions) -> TaskAnswer:
    task, unit, result = task_of(request), found.query.unit, found.result
    probabilities: Sequence[float | None] = [None] * len(found.groups)
    answerable = None
    if acceptance.confidence is not None:
        probabilities = found.probabilities(acceptance.confidence)
        if acceptance.confidence.answerable is not None:
            answerable = acceptance.confidence.answerable_probability(found.features())
    answers = tuple(
        Answer(
            rank=rank,
            text=group.text,
            unit=unit,
            score=group.score,
            probability=probability,
            evidence=tuple(evidence_of(task, unit, hit, explain=options.explain) for hit in shown_hits(unit, group)),
        )
        for rank, (group, probability) in enumerate(
            list(zip(found.groups, probabilities, strict=True))[: options.k], start=1
        )
    )
    reason: NoAnswerReason | None = None
    if not answers:
        reason = "nothing_found"
    elif answerable is not None and answerable < acceptance.answerable_threshold:
        reason = "unanswerable"
    elif acceptance.threshold is not None and (answers[0].probability or 0.0) < acceptance.threshold:
        reason = "below_threshold"
    has_values = isinstance(request, Slot) and unit == "phrase" and reason is None
    return TaskAnswer(
        task=task,
        status="answered" if reason is None else "no_answer",
        reason=reason,
        answers=answers,
        threshold=acceptance.threshold,
        answerable=answerable,
        generation=result.generation,
        encoder=result.encoder,
        n_query_tokens=result.n_query_tokens,
        truncated=result.truncated or left_out_turns(request) > 0,
        timings_ms=result.timings_ms,
        mention=request.place if isinstance(request, Mention) else None,
        lexical_factor=result.lexical_factor,
        shards=result.shards,
        values=values_of([(each.text, each.probability) for each in answers], has_one=has_one_value(request))
        if has_values
        else (),
    )
