"""Fusion weights of each task: one search for the parts of the scores, then every pair of weights offline.

The phrase weight is 1; the passage weight and the lexical weight go over a grid. A pair is judged by the mean, over the
task's sets, of page R-precision and (questions and slot filling) KILT-EM of the best phrase. Rows are drawn from the
training files by default: development rows are for measuring.

Run: python -m benchmarks.fusion_grid --kb DIR --data DIR --scratch DIR [--split train|dev] [--rows 300] [--sets a,b]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapters.answering import trimmed_span
from adapters.errors import TaskInputError
from adapters.kilt import TaskRecord, read_gold
from adapters.kilt.downstream import exact_match
from adapters.predicting import task_of_file
from adapters.tasks import Task, task_query
from benchmarks.kilt_sets import RETRIEVAL_ONLY, by_task, data_folder, limited, set_files
from benchmarks.measurement import write_result
from kbengine.knowledge_base import KnowledgeBase
from kbengine.query import Query, Weights
from kbengine.results import Hit

K = 200
BATCH = 32
SEEN_WITH = Weights(phrase=1.0, passage=30.0, lexical=1.0)
"""The weights of the one search, the same for all tasks: which 200 passages are seen depends on them a little."""
PASSAGE_WEIGHTS = tuple(float(weight) for weight in range(0, 84, 4))
LEXICAL_WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0)
ANSWERED: tuple[Task, ...] = ("question", "slot-filling")
"""Tasks whose answer is the best phrase."""


@dataclass(frozen=True)
class Candidates:
    """The passages found for one record, unweighted.

    Attributes:
        phrase: float32 (n,), start and end product of the passage's best phrase.
        passage: float32 (n,), cosine of the passage.
        lexical: float32 (n,), BM25.
        pages: int64 (n,), the page of each passage, numbered within the record.
        is_answer: bool (n,), whether the best phrase equals a gold answer after normalisation.
        evidence: for each gold output the numbers of its pages among the found (the missing ones are -1).
    """

    phrase: NDArray[np.float32]
    passage: NDArray[np.float32]
    lexical: NDArray[np.float32]
    pages: NDArray[np.int64]
    is_answer: NDArray[np.bool_]
    evidence: tuple[tuple[int, ...], ...]

    def judge(self, passage_weight: float, lexical_weight: float) -> tuple[float, float]:
        """Return page R-precision and KILT-EM of the record under the weights."""
        if not len(self.phrase):
            return 0.0, 0.0
        score = self.phrase + passage_weight * self.passage + lexical_weight * self.lexical
        first = int(score.argmax())
        deepest = max((len(pages) for pages in self.evidence), default=0)
        top = [int(self.pages[first])]
        if deepest > 1:
            order = self.pages[np.argsort(-score, kind="stable")].tolist()
            top = list(dict.fromkeys(order))[:deepest]
        rprec = max(
            (len(set(top[: len(pages)]) & set(pages)) / len(pages) for pages in self.evidence if pages), default=0.0
        )
        return rprec, float(rprec == 1 and self.is_answer[first])


@dataclass(frozen=True)
class Grid:
    """Figures of one set over the grid, as shares: float64 (passage weights, lexical weights)."""

    rprec: NDArray[np.float64]
    kilt_em: NDArray[np.float64] | None


def measure(knowledge_base: KnowledgeBase, files: dict[str, Path]) -> dict[str, Any]:
    """Return for each task the best pair of weights, its neighbourhood and every set's figures there."""
    grids: dict[str, Grid] = {}
    for name, path in files.items():
        task = task_of_file(path)
        answers = task in ANSWERED and name not in RETRIEVAL_ONLY
        found = candidates(knowledge_base, task, list(read_gold(path)), answers=answers)
        grids[name] = grid_of(found, answers=answers)
        print(f"{name}: {len(found)} rows searched", flush=True)
    return {task: report(names, grids) for task, names in by_task(tuple(files)).items()}


def candidates(
    knowledge_base: KnowledgeBase, task: Task, records: list[TaskRecord], *, answers: bool
) -> list[Candidates]:
    """Return the passages found for each record whose input has the task's form."""
    asked: list[tuple[TaskRecord, Query]] = []
    for record in records:
        try:
            asked.append((record, task_query(task, record.input)))
        except TaskInputError as error:
            print(f"left out: {record.file}:{record.line}: {error}")
    found: list[Candidates] = []
    for begin in range(0, len(asked), BATCH):
        batch = asked[begin : begin + BATCH]
        results = knowledge_base.search(
            [query for _, query in batch], unit="passage", k=K, explain=True, truncate=True, weights=SEEN_WITH
        )
        found += [
            unweighted(result.hits, record, answers=answers) for (record, _), result in zip(batch, results, strict=True)
        ]
    return found


def unweighted(hits: Iterable[Hit], record: TaskRecord, *, answers: bool) -> Candidates:
    """Return the parts of the hits' scores with the weights of the search taken out again."""
    numbers: dict[str, int] = {}
    gold = record.answers()
    parts: list[tuple[float, float, float]] = []
    pages: list[int] = []
    is_answer: list[bool] = []
    for hit in hits:
        if hit.parts is None:
            raise AssertionError("the search was asked to explain")
        parts.append((hit.parts.start + hit.parts.end, hit.parts.passage, hit.parts.lexical))
        pages.append(numbers.setdefault(hit.document.doc_id, len(numbers)))
        span = trimmed_span(hit.passage.text, hit.phrase)
        phrase = hit.passage.text[span.start : span.end]
        is_answer.append(answers and any(exact_match(phrase, answer) for answer in gold))
    scores = np.asarray(parts, dtype=np.float32).reshape(-1, 3)
    evidence = tuple(
        tuple(
            numbers.get(page, -1 - i)
            for i, page in enumerate(dict.fromkeys(entry.partial_key(("wikipedia_id",)) for entry in output.provenance))
        )
        for output in record.outputs
    )
    return Candidates(
        phrase=scores[:, 0] / np.float32(SEEN_WITH.phrase),
        passage=scores[:, 1] / np.float32(SEEN_WITH.passage),
        lexical=scores[:, 2] / np.float32(SEEN_WITH.lexical),
        pages=np.asarray(pages, dtype=np.int64),
        is_answer=np.asarray(is_answer, dtype=np.bool_),
        evidence=evidence,
    )


def grid_of(found: list[Candidates], *, answers: bool) -> Grid:
    """Return the mean figures of a set at every pair of weights."""
    shape = (len(PASSAGE_WEIGHTS), len(LEXICAL_WEIGHTS))
    rprec, kilt_em = np.zeros(shape), np.zeros(shape)
    for i, passage_weight in enumerate(PASSAGE_WEIGHTS):
        for j, lexical_weight in enumerate(LEXICAL_WEIGHTS):
            judged = np.asarray([each.judge(passage_weight, lexical_weight) for each in found]).reshape(-1, 2)
            rprec[i, j], kilt_em[i, j] = judged.mean(axis=0)
    return Grid(rprec, kilt_em if answers else None)


def report(names: list[str], grids: dict[str, Grid]) -> dict[str, Any]:
    """Return a task's best pair of weights, the objective around it, and the sets' figures at the best pair."""
    rprec = np.mean([grids[name].rprec for name in names], axis=0)
    with_answers = [grid.kilt_em for name in names if (grid := grids[name]).kilt_em is not None]
    kilt_em = np.mean(with_answers, axis=0) if with_answers else None
    objective = rprec if kilt_em is None else (rprec + kilt_em) / 2
    i, j = (int(index) for index in np.unravel_index(objective.argmax(), objective.shape))
    rows = range(max(0, i - 3), min(len(PASSAGE_WEIGHTS), i + 4))
    columns = range(max(0, j - 3), min(len(LEXICAL_WEIGHTS), j + 4))
    return {
        "best": {"passage": PASSAGE_WEIGHTS[i], "lexical": LEXICAL_WEIGHTS[j]},
        "objective": percent(objective[i, j]),
        "macro": {"Rprec": percent(rprec[i, j]), "KILT-em": None if kilt_em is None else percent(kilt_em[i, j])},
        "as_good": as_good(objective, float(objective[i, j])),
        "neighbourhood": {
            f"passage {PASSAGE_WEIGHTS[a]:g}": {
                f"lexical {LEXICAL_WEIGHTS[b]:g}": percent(objective[a, b]) for b in columns
            }
            for a in rows
        },
        "sets": {name: figures(grids[name], i, j) for name in names},
        "sets_best": {name: best_of(grids[name]) for name in names},
    }


def as_good(objective: NDArray[np.float64], best: float) -> dict[str, list[float]]:
    """Return the pairs within half a point of the best: less than that is noise at a few hundred rows a set."""
    found: dict[str, list[float]] = {}
    for a, b in np.argwhere(objective >= best - 0.005).tolist():
        found.setdefault(f"passage {PASSAGE_WEIGHTS[a]:g}", []).append(LEXICAL_WEIGHTS[b])
    return found


def figures(grid: Grid, i: int, j: int) -> dict[str, float | None]:
    """Return a set's figures at one pair of weights."""
    return {
        "Rprec": percent(grid.rprec[i, j]),
        "KILT-em": None if grid.kilt_em is None else percent(grid.kilt_em[i, j]),
    }


def best_of(grid: Grid) -> dict[str, Any]:
    """Return the pair of weights that a set alone would choose, and its figures there."""
    objective = grid.rprec if grid.kilt_em is None else (grid.rprec + grid.kilt_em) / 2
    i, j = (int(index) for index in np.unravel_index(objective.argmax(), objective.shape))
    return {"passage": PASSAGE_WEIGHTS[i], "lexical": LEXICAL_WEIGHTS[j], **figures(grid, i, j)}


def percent(share: float) -> float:
    """Return the share in percent."""
    return round(100 * float(share), 2)


def main() -> None:
    """Search, try the grid and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kb", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--split", choices=("train", "dev"), default="train")
    parser.add_argument("--rows", type=int, default=300, help="drawn from each set")
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--sets", default="", help="only these, separated by commas")
    parser.add_argument("--name", default="fusion_grid", help="of the result file")
    arguments = parser.parse_args()
    arguments.scratch.mkdir(parents=True, exist_ok=True)
    sets = tuple(filter(None, arguments.sets.split(",")))
    files = {
        name: limited(path, arguments.rows, arguments.scratch, seed=arguments.seed)
        for name, path in set_files(data_folder(arguments.data), arguments.split, sets).items()
    }
    with KnowledgeBase.open(arguments.kb) as knowledge_base:
        tasks = measure(knowledge_base, files)
    claim = "the weights of each task are the best of the grid, or within half a point of it"
    settings = {"split": arguments.split, "rows": arguments.rows, "seed": arguments.seed, "k": K}
    write_result(arguments.name, claim, {"settings": settings, "tasks": tasks})
    for task, row in tasks.items():
        print(f"{task}: best {row['best']}, macro {row['macro']}")


if __name__ == "__main__":
    main()
