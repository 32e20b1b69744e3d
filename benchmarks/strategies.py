"""Search strategies: dense, dense first, sparse first, hybrid, with and without SPARC and BM25, for every task.

Run: python -m benchmarks.strategies --kb DIR --encoder DIR --scratch DIR [--data DIR] [--sets a,b] [--rows N]
The development rows are halved by page. The weight of the sparse score (and of BM25 beside it) is chosen on one half;
the table is of the other.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from adapters.kilt.predicting import PredictOptions, predict_file
from adapters.kilt.scoring import score_files, score_retrieval_files
from adapters.tasks.defaults import TASK_WEIGHTS
from adapters.tasks.queries import task_query
from benchmarks.kilt_sets import DATA_VARIABLE, RETRIEVAL_ONLY, by_task, data_folder, half_rows, set_files
from benchmarks.measurement import RESULTS, write_result
from kbengine.encoders.encoder import Encoder
from kbengine.encoders.tokenization import TextTokenizer
from kbengine.inputs import Task
from kbengine.knowledge_base import KnowledgeBase
from kbengine.search.query import STRATEGIES, Strategy, Weights

SPARSE_WEIGHTS = (0.25, 0.5, 1.0, 2.0, 3.0)
"""Up to past 2, the weight that heads are trained at."""
LEXICAL_FACTORS = (0.5, 1.0, 1.5)
"""Of the task's lexical weight, tried beside each sparse weight and without."""
UNSEEN = 1e-6
"""A lexical weight that lets words name candidates and says nothing in their ranking."""
TIMED_QUERIES = 40
RARE_PIECES = 3
_DIGIT = re.compile(r"\d")
_CAPITALISED = re.compile(r"[A-ZÀ-Þ]\w+")


@dataclass(frozen=True)
class Config:
    """What is measured, and where things are."""

    kb: Path
    encoder: str
    data: Path
    scratch: Path
    sets: tuple[str, ...] = ()
    rows: int = 120
    fit_rows: int = 60


@dataclass(frozen=True)
class Combination:
    """One row of the table: where candidates come from, and which scores rank them beside phrase and passage."""

    strategy: Strategy
    sparse: bool
    bm25: bool

    @property
    def name(self) -> str:
        """Return what the table calls it."""
        return self.strategy + " + SPARC" * self.sparse + " + BM25" * self.bm25

    def weights(self, task: Task, fitted: dict[str, Weights]) -> Weights:
        """Return the task's weights with those chosen on the other half, as many rows with SPARC as without."""
        if self.sparse:
            return fitted["with BM25" if self.bm25 else "without BM25"]
        return fitted["BM25 alone"] if self.bm25 else replace(TASK_WEIGHTS[task], lexical=UNSEEN, sparse=0.0)


def combinations() -> Iterator[Combination]:
    """Yield the rows of the table: `dense` with a score that it lacks would be `dfs`."""
    yield Combination("dense", False, False)
    for strategy in STRATEGIES[1:]:
        for bm25 in (False, True):
            for sparse in (False, True):
                yield Combination(strategy, sparse, bm25)


def measure(config: Config) -> dict[str, Any]:
    """Return the fitted weights, the figures of every task and combination, and those by kind of question."""
    config.scratch.mkdir(parents=True, exist_ok=True)
    files = set_files(config.data, "dev", config.sets)
    with KnowledgeBase.open(config.kb, Encoder.load(config.encoder)) as knowledge_base:
        info = knowledge_base.info()
        tasks = {
            task: measure_task(knowledge_base, task, {name: files[name] for name in names}, config)
            for task, names in by_task(tuple(files)).items()
        }
    return {
        "knowledge_base": {
            "documents": info.documents,
            "passages": info.passages,
            "stored_vectors": info.tokens_stored,
            "bytes_by_use": dict(info.bytes_by_use),
        },
        "rows": config.rows,
        "fit_rows": config.fit_rows,
        "tasks": tasks,
    }


def measure_task(knowledge_base: KnowledgeBase, task: Task, files: dict[str, Path], config: Config) -> dict[str, Any]:
    """Return the weights chosen for a task and the figures of every combination, macro over its sets."""
    chosen_on = {name: half_rows(path, "choose", config.fit_rows, config.scratch) for name, path in files.items()}
    fitted, tried = fit(knowledge_base, task, chosen_on, config)
    scored_on = {name: half_rows(path, "score", config.rows, config.scratch) for name, path in files.items()}
    table: dict[str, Any] = {}
    for combination in combinations():
        weights = combination.weights(task, fitted)
        folder = config.scratch / combination.name.replace(" + ", "-").lower()
        rows = run(knowledge_base, task, scored_on, combination.strategy, weights, folder)
        table[combination.name] = figures(rows) | {
            "p50_ms": latency(knowledge_base, task, scored_on, combination.strategy, weights)
        }
        print(task, combination.name, table[combination.name]["macro"], table[combination.name]["p50_ms"], flush=True)
    return {
        "weights": {name: vars(each) for name, each in fitted.items()},
        "tried": tried,
        "rows": {name: len(read_rows(path)) for name, path in scored_on.items()},
        "combinations": table,
    }


def fit(
    knowledge_base: KnowledgeBase, task: Task, files: dict[str, Path], config: Config
) -> tuple[dict[str, Weights], dict[str, list[dict[str, float]]]]:
    """Return the weights beside SPARC, with BM25 and without, and of BM25 alone, and what all that were tried gave."""
    base = TASK_WEIGHTS[task]
    fitted, tried = {}, {}
    words = [base.lexical * factor for factor in LEXICAL_FACTORS]
    choices: dict[str, tuple[Sequence[float], Sequence[float]]] = {
        "with BM25": (words, SPARSE_WEIGHTS),
        "without BM25": ([UNSEEN], SPARSE_WEIGHTS),
        "BM25 alone": (words, [0.0]),
    }
    for name, (lexical, beside) in choices.items():
        found = []
        for weight in lexical:
            for sparse in beside:
                weights = replace(base, lexical=weight, sparse=sparse)
                macro = figures(run(knowledge_base, task, files, "hybrid", weights, config.scratch))["macro"]
                parts = [macro[each] for each in ("Rprec", "KILT-em") if macro.get(each) is not None]
                found.append((fmean(parts if task in ("question", "slot-filling") else parts[:1]), weights))
        fitted[name] = max(found, key=lambda each: each[0])[1]
        tried[name] = [{"lexical": w.lexical, "sparse": w.sparse, "objective": round(v, 2)} for v, w in found]
    return fitted, tried


Row = dict[str, Any]


def run(
    knowledge_base: KnowledgeBase,
    task: Task,
    files: dict[str, Path],
    strategy: Strategy,
    weights: Weights,
    folder: Path,
) -> dict[str, list[Row]]:
    """Return each set's records with their scores; what was predicted, a KILT submission, stays in the folder."""
    folder.mkdir(exist_ok=True)
    options = PredictOptions(pages=5, effort="normal", weights=weights, strategy=strategy, overwrite=True)
    found: dict[str, list[Row]] = {}
    for name, gold in files.items():
        if not gold.stat().st_size:
            continue
        guess = predict_file(knowledge_base, gold, folder / f"{name}.guess.jsonl", task=task, options=options).path
        if name in RETRIEVAL_ONLY:
            ranking = score_retrieval_files(gold, guess)
            found[name] = [{"Rprec": scores.rprec, "em": None} for _, scores in ranking.records]
            continue
        rows = read_rows(gold)
        found[name] = [
            {
                "Rprec": each.pages.rprec,
                "em": each.answers.em,
                "input": rows[each.gold_line - 1]["input"],
                "rare": has_rare_name(rows[each.gold_line - 1]["input"], knowledge_base.encoder.tokenizer),
                "answers": [out["answer"] for out in rows[each.gold_line - 1]["output"] if out.get("answer")],
            }
            for each in score_files(gold, guess).records
        ]
    return found


def has_rare_name(text: str, tokenizer: TextTokenizer) -> bool:
    """Return whether a capitalised word takes three word pieces: the encoder has hardly met it."""
    names = [word for word in _CAPITALISED.findall(text) if word != "SEP"]
    return any(len(pieces) >= RARE_PIECES for pieces in tokenizer.ids(names)) if names else False


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def figures(found: dict[str, list[Row]]) -> dict[str, Any]:
    """Return EM, KILT-EM and R-precision in percent: of each set, macro, and EM by kind of question over all sets."""
    sets = {name: _means(rows) for name, rows in found.items()}
    names = ("em", "KILT-em", "Rprec")
    known = {name: [each[name] for each in sets.values()] for name in names}
    macro = {name: _mean([value for value in values if value is not None]) for name, values in known.items()}
    answered = [row for rows in found.values() for row in rows if row["em"] is not None]
    kinds = {
        "answer with a number or date": [r for r in answered if all(_DIGIT.search(a) for a in r["answers"])],
        "number or date in the query": [r for r in answered if _DIGIT.search(r["input"])],
        "rare name in the query": [r for r in answered if r["rare"]],
        "none of these": [
            r
            for r in answered
            if not r["rare"] and not _DIGIT.search(r["input"]) and not any(map(_DIGIT.search, r["answers"]))
        ],
    }
    by_kind = {
        kind: {"rows": len(rows), "em": _mean([r["em"] for r in rows]), "Rprec": _mean([r["Rprec"] for r in rows])}
        for kind, rows in kinds.items()
    }
    scale = {"macro": _percent(macro), "sets": {name: _percent(each) for name, each in sets.items()}}
    return scale | {"kinds": {kind: {"rows": each.pop("rows")} | _percent(each) for kind, each in by_kind.items()}}


def latency(
    knowledge_base: KnowledgeBase, task: Task, files: dict[str, Path], strategy: Strategy, weights: Weights
) -> float:
    """Return the median milliseconds of one query at a time, from text to ten answers."""
    texts = [row["input"] for path in files.values() for row in read_rows(path)]
    step = max(1, len(texts) // TIMED_QUERIES)
    times = []
    for text in texts[::step][:TIMED_QUERIES]:
        query = replace(task_query(task, text), weights=weights, strategy=strategy)
        began = time.perf_counter()
        knowledge_base.search(query, k=10, truncate=True)
        times.append((time.perf_counter() - began) * 1e3)
    return round(median(times), 1)


def _means(rows: Sequence[Row]) -> dict[str, float | None]:
    scored = [row for row in rows if row["em"] is not None]
    return {
        "em": _mean([row["em"] for row in scored]),
        "KILT-em": _mean([row["em"] * (row["Rprec"] == 1) for row in scored]),
        "Rprec": _mean([row["Rprec"] for row in rows]),
    }


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _percent(values: dict[str, Any]) -> dict[str, float | None]:
    return {name: None if value is None else round(100 * value, 1) for name, value in values.items()}


def markdown(found: dict[str, Any]) -> str:
    """Return the table of every task."""
    lines = []
    for task, of_task in found["tasks"].items():
        lines += ["", f"| {task} | EM | KILT-EM | R-precision | ms |", "| --- | ---: | ---: | ---: | ---: |"]
        for name, each in of_task["combinations"].items():
            cells = [each["macro"][figure] for figure in ("em", "KILT-em", "Rprec")] + [each["p50_ms"]]
            lines.append(f"| {name} | {' | '.join('–' if cell is None else f'{cell:.1f}' for cell in cells)} |")
    return "\n".join(lines[1:]) + "\n"


def main() -> None:
    """Measure, print and write the table and the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kb", type=Path, required=True)
    parser.add_argument("--encoder", required=True, help="the model directory with sparse heads")
    parser.add_argument("--data", type=Path, help=f"folder of the KILT sets; by default {DATA_VARIABLE}")
    parser.add_argument("--scratch", type=Path, required=True, help="for submissions")
    parser.add_argument("--sets", default="", help="only these, separated by commas")
    parser.add_argument("--rows", type=int, default=120, help="scored rows of each set")
    parser.add_argument("--fit-rows", type=int, default=60, help="rows of each set that weights are chosen on")
    parser.add_argument("--name", default="strategies", help="of the result files")
    arguments = parser.parse_args()
    sets = tuple(filter(None, arguments.sets.split(",")))
    config = Config(
        arguments.kb,
        arguments.encoder,
        data_folder(arguments.data),
        arguments.scratch,
        sets,
        arguments.rows,
        arguments.fit_rows,
    )
    found = measure(config)
    claim = "hybrid with SPARC beats dense alone by 3 EM on questions; the default strategy is the table's best"
    write_result(arguments.name, claim, found)
    (RESULTS / f"{arguments.name}.md").write_text(markdown(found), encoding="utf-8")


if __name__ == "__main__":
    main()
