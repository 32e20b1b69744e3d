"""Scores of a submission file against a gold file, equal to the official KILT evaluators' bit for bit.

`score_files` is `kilt/eval_downstream.py` (answers, KILT scores, page retrieval) plus the retrieval measures at any
k and grain; `score_retrieval_files` is `kilt/eval_retrieval.py`. Both take linear time; the official id check is
quadratic. Divergences: gold without `input` is scored (official: KeyError), ROUGE-L has no recursion limit, a k given
twice counts once, ids must be strings or whole numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Literal

from adapters.errors import SubmissionError
from adapters.kilt.datasets import Metric
from adapters.kilt.downstream import AnswerScores, answer_scores
from adapters.kilt.lines import JSON
from adapters.kilt.records import TaskRecord, read_gold, read_guess
from adapters.kilt.retrieval import (
    DEFAULT_KS,
    PAGE_KEYS,
    RetrievalScores,
    mean_measures,
    retrieval_scores,
)
from storage.errors import InvalidOptionError

Gate = Literal["passed", "answer", "Rprec", "both"]

_OFFICIAL_KS = (1, 5)


@dataclass(frozen=True, slots=True)
class RecordScores:
    """Everything one record contributes to the sums, and where to find it in both files."""

    id: str
    gold_line: int
    guess_line: int
    guess: str
    answers: AnswerScores
    pages: RetrievalScores
    ranking: RetrievalScores

    def gate(self, metric: Metric = "accuracy") -> Gate:
        """Return which gate of the KILT score failed: the answer (`metric` is 0), R-precision (below 1), or both."""
        answer_passed = getattr(self.answers, metric) > 0
        pages_passed = self.pages.rprec == 1
        if answer_passed and pages_passed:
            return "passed"
        if answer_passed:
            return "Rprec"
        return "answer" if pages_passed else "both"

    def to_json(self, ks: Sequence[int], metric: Metric = "accuracy") -> dict[str, JSON]:
        """Return one flat line of the per-record report."""
        return {
            "id": self.id,
            "gold_line": self.gold_line,
            "guess_line": self.guess_line,
            "guess": self.guess,
            "failed_gate": self.gate(metric),
            **asdict(self.answers),
            **self.ranking.measures(ks),
            "Rprec": self.pages.rprec,
        }


@dataclass(frozen=True)
class Scores:
    """Scores of a submission, in the official groups and names.

    `retrieval` is what the official downstream evaluator prints (pages, Rprec and recall@5); `ranking` holds every
    retrieval measure at the asked ks and rank keys.
    """

    n_records: int
    n_ignored: int
    kilt: Mapping[str, float]
    downstream: Mapping[str, float]
    retrieval: Mapping[str, float]
    ranking: Mapping[str, float]
    ks: tuple[int, ...]
    rank_keys: tuple[str, ...]
    records: tuple[RecordScores, ...]

    def official(self) -> dict[str, dict[str, float]]:
        """Return the dictionary that the official downstream evaluator returns."""
        return {"kilt": dict(self.kilt), "downstream": dict(self.downstream), "retrieval": dict(self.retrieval)}

    def gates(self, metric: Metric = "accuracy") -> dict[Gate, int]:
        """Return how many records passed, and how many failed at the answer, at R-precision, or at both."""
        counts = Counter(record.gate(metric) for record in self.records)
        order: tuple[Gate, ...] = ("passed", "answer", "Rprec", "both")
        return {gate: counts[gate] for gate in order}

    def to_json(self, metric: Metric = "accuracy") -> dict[str, JSON]:
        """Return all scores as one JSON object, without the per-record part."""
        return {
            "records": self.n_records,
            "ignored": self.n_ignored,
            **{group: dict(values) for group, values in self.official().items()},
            "ranking": dict(self.ranking),
            "rank_keys": list(self.rank_keys),
            "gates": {"metric": metric, **{str(gate): count for gate, count in self.gates(metric).items()}},
        }


@dataclass(frozen=True)
class RankingScores:
    """Retrieval scores alone, as the official retrieval evaluator gives them; `records` are (id, scores)."""

    n_records: int
    n_ignored: int
    measures: Mapping[str, float]
    ks: tuple[int, ...]
    rank_keys: tuple[str, ...]
    records: tuple[tuple[str, RetrievalScores], ...]

    def to_json(self) -> dict[str, JSON]:
        """Return all measures as one JSON object, without the per-record part."""
        return {
            "records": self.n_records,
            "ignored": self.n_ignored,
            "ranking": dict(self.measures),
            "rank_keys": list(self.rank_keys),
        }


def score_files(
    gold: str | Path,
    guess: str | Path,
    *,
    ks: Sequence[int] = DEFAULT_KS,
    rank_keys: Sequence[str] = PAGE_KEYS,
) -> Scores:
    """Downstream, retrieval and KILT scores of a submission against a gold file.

    Args:
        gold: KILT file with outputs, plain or gzipped.
        guess: submission: for every gold id one record with exactly one output element that has an answer.
        ks: depths of the ranking measures.
        rank_keys: provenance fields that identify evidence in `ranking`; the KILT scores always use pages.

    Raises:
        RecordError: a line of either file cannot be scored; the message names file, line, id and remedy.
        SubmissionError: gold ids have no record in the submission.
    """
    ks, rank_keys = _checked_options(ks, rank_keys)
    pairs = _Pairs(gold, guess)
    records = tuple(_score_record(gold_record, guess_record, ks, rank_keys) for gold_record, guess_record in pairs)
    downstream = _mean_answers(records, gated=False)
    kilt = _mean_answers(records, gated=True)
    pages = mean_measures([record.pages for record in records], _OFFICIAL_KS)
    return Scores(
        n_records=len(records),
        n_ignored=pairs.n_ignored,
        kilt={f"KILT-{name}": value for name, value in kilt.items()},
        downstream=downstream,
        retrieval={name: pages[name] for name in ("Rprec", "recall@5")},
        ranking=mean_measures([record.ranking for record in records], ks),
        ks=ks,
        rank_keys=rank_keys,
        records=records,
    )


def score_retrieval_files(
    gold: str | Path,
    guess: str | Path,
    *,
    ks: Sequence[int] = DEFAULT_KS,
    rank_keys: Sequence[str] = PAGE_KEYS,
) -> RankingScores:
    """Retrieval scores of a submission, answers not needed: of each record the one output with `provenance` counts.

    Raises:
        RecordError: a line cannot be scored, or a record has no or several outputs with `provenance`.
        SubmissionError: gold ids have no record in the submission.
    """
    ks, rank_keys = _checked_options(ks, rank_keys)
    pairs = _Pairs(gold, guess)
    scored: list[tuple[str, RetrievalScores]] = []
    for gold_record, guess_record in pairs:
        ranked = tuple(output for output in guess_record.outputs if output.has_provenance)
        if len(ranked) != 1:
            raise guess_record.error(
                f"{len(ranked)} output elements have `provenance`, exactly one is wanted",
                "not_one_output",
                "put all pages, best first, into the `provenance` of one output element",
            )
        scores = retrieval_scores(
            replace(guess_record, outputs=ranked), gold_record, rank_keys=rank_keys, context_depth=max(ks)
        )
        scored.append((gold_record.id, scores))
    measures = mean_measures([scores for _, scores in scored], ks)
    return RankingScores(len(scored), pairs.n_ignored, measures, ks, rank_keys, tuple(scored))


class _Pairs:
    """Gold records in file order, each with the submission's record of the same id."""

    def __init__(self, gold: str | Path, guess: str | Path) -> None:
        self._gold = list(read_gold(gold))
        self._guess = {record.id: record for record in read_guess(guess)}
        absent = [record for record in self._gold if record.id not in self._guess]
        if absent:
            shown = ", ".join(repr(record.id) for record in absent[:5])
            raise SubmissionError(
                f"{guess}: no prediction for {len(absent)} of {len(self._gold)} gold ids ({shown}"
                f"{', …' if len(absent) > 5 else ''}; first on line {absent[0].line} of {gold}); "
                "predict every record, or `kbengine predict --resume` the unfinished file"
            )
        self.n_ignored = len(self._guess) - len(self._gold)

    def __iter__(self) -> Iterator[tuple[TaskRecord, TaskRecord]]:
        return ((record, self._guess[record.id]) for record in self._gold)


def _score_record(gold: TaskRecord, guess: TaskRecord, ks: tuple[int, ...], rank_keys: tuple[str, ...]) -> RecordScores:
    if len(guess.outputs) != 1:
        raise guess.error(
            f"{len(guess.outputs)} output elements, exactly one is wanted",
            "not_one_output",
            "keep the best answer, with all pages in its `provenance`",
        )
    if not guess.outputs[0].has_answer:
        raise guess.error("the output has no `answer`", "no_answer_key", 'write an answer, "" if there is none')
    # str(): a null answer is the text `None`, a number its digits, as in the official evaluator.
    answer = str(guess.outputs[0].answer).strip()
    depth = max(*ks, *_OFFICIAL_KS)
    pages = retrieval_scores(guess, gold, context_depth=depth)
    same = rank_keys == PAGE_KEYS
    ranking = pages if same else retrieval_scores(guess, gold, rank_keys=rank_keys, context_depth=depth)
    return RecordScores(
        id=gold.id,
        gold_line=gold.line,
        guess_line=guess.line,
        guess=answer,
        answers=_answers_of(answer, gold),
        pages=pages,
        ranking=ranking,
    )


def _answers_of(answer: str, gold: TaskRecord) -> AnswerScores:
    try:
        return answer_scores(answer, gold.answers())
    except ValueError as error:
        raise gold.error(
            "the gold record has no answer, so a prediction cannot be scored",
            "no_gold_answer",
            "score against a file with answers, or only the retrieval (`kbengine score --retrieval`)",
        ) from error


def _mean_answers(records: Sequence[RecordScores], *, gated: bool) -> dict[str, float]:
    """Sums in gold order, divided once; gated sums take only records whose page R-precision is 1."""
    sums: dict[str, float] = {field.name: 0.0 for field in fields(AnswerScores)}
    for record in records:
        if not gated or record.pages.rprec == 1:
            for name in sums:
                sums[name] += getattr(record.answers, name)
    return {name: value / len(records) for name, value in sums.items()} if records else sums


def _checked_options(ks: Sequence[int], rank_keys: Sequence[str]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    if not ks or any(k < 1 for k in ks):
        raise InvalidOptionError(f"ks are {list(ks)}, positive whole numbers are wanted; pass for example 1,5,10")
    if not rank_keys or not all(rank_keys):
        raise InvalidOptionError(
            f"rank keys are {list(rank_keys)}, names of provenance fields are wanted; pass for example wikipedia_id"
        )
    return tuple(sorted(set(ks))), tuple(rank_keys)
