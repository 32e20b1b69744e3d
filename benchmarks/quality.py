"""Quality on KILT development sets: with the reader and without, beside BM25 with the same reader, BM25 and vectors.

Run: make quality, or python -m benchmarks.quality --kb DIR --data DIR --scratch DIR [--sets a,b] [--limit N] [--half H]
BM25 with the reader is our lexical signal alone with what the reader says of the passages that it finds; BM25 alone is
over paragraphs, vectors are our passage vectors alone. Errors are clustered by page.
A knowledge base that is not there yet is built from the *.pages.jsonl.gz of the data folder.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from adapters.errors import MissingExtraError
from adapters.kilt.plot import plot_recall
from adapters.kilt.predicting import PredictOptions, PredictReport, predict_file, task_of_file
from adapters.kilt.records import read_gold
from adapters.kilt.scoring import score_files, score_retrieval_files
from adapters.kilt.standard_error import cluster_of_slot, clustered_standard_error, first_page
from adapters.tasks.defaults import READ, TASK_WEIGHTS, WEIGHTS_CHOSEN_ON
from benchmarks.bm25_pages import PageRanker
from benchmarks.kilt_sets import (
    BY_RELATION,
    DATA_VARIABLE,
    HALVES,
    RETRIEVAL_ONLY,
    TARGETS,
    TOLERANCE,
    Half,
    by_task,
    data_folder,
    half_rows,
    limited,
    macro,
    page_files,
    set_files,
)
from benchmarks.measurement import RESULTS, write_result
from kbengine.build.builder import CorpusOptions, build
from kbengine.build.filtering import DEFAULT_FILTER
from kbengine.encoders.encoder import Encoder
from kbengine.inputs import Task
from kbengine.knowledge_base import KnowledgeBase
from kbengine.progress import progress_for_terminal
from kbengine.search.query import Weights

MODELS = Path(str(resources.files("kbengine") / "models"))
ALL_ROWS = 1_000_000
KS = (1, 2, 5, 10, 20)
DENSE = Weights(phrase=0.0, passage=1.0, lexical=0.0)
COLUMNS = ("ours", "unread", "bm25_read", "bm25", "dense", "target")
Row = dict[str, Any]


@dataclass(frozen=True)
class Config:
    """What is measured, and where things are."""

    kb: Path
    data: Path
    scratch: Path
    sets: tuple[str, ...] = ()
    limit: int | None = None
    with_baselines: bool = True
    half: Half | None = None


def measure(config: Config) -> dict[str, Any]:
    """Return the row of every set, the macros of every task, and what was missed."""
    config.scratch.mkdir(parents=True, exist_ok=True)
    knowledge_base = open_or_build(config)
    ranker = PageRanker(page_files(config.data), config.scratch)
    sets: dict[str, Row] = {}
    with knowledge_base:
        for name, path in set_files(config.data, "dev", config.sets).items():
            sets[name] = measure_set(knowledge_base, ranker, name, path, config)
            print(table_line(name, sets[name]), flush=True)
        info = knowledge_base.info()
    tasks = {task: task_macros([sets[name] for name in names]) for task, names in by_task(tuple(sets)).items()}
    return {
        "knowledge_base": {
            "documents": info.documents,
            "passages": info.passages,
            "stored_vectors": info.tokens_stored,
            "kept_fraction": round(info.tokens_stored / max(1, info.tokens_total), 3),
            "encoder": info.settings.encoder_fingerprint,
        },
        "limit": config.limit,
        "half": config.half,
        "bytes_of_weights": {path.name: bytes_of(path) for path in sorted(MODELS.iterdir()) if path.is_dir()},
        "sets": sets,
        "tasks": tasks,
        "misses": misses(sets, tasks),
    }


def open_or_build(config: Config) -> KnowledgeBase:
    """Return the knowledge base, built first when the directory is not there."""
    encoder = Encoder.load("minilm-phrase")
    if not config.kb.exists():
        corpus = CorpusOptions(page_files(config.data))
        with progress_for_terminal() as progress:
            build(corpus, config.kb, encoder=encoder, filter_options=DEFAULT_FILTER, progress=progress)
    return KnowledgeBase.open(config.kb, encoder)


def measure_set(knowledge_base: KnowledgeBase, ranker: PageRanker, name: str, path: Path, config: Config) -> Row:
    """Return the figures of one set in percent: ours, BM25's and the passage vectors'."""
    task = task_of_file(path)
    if config.half is None:
        gold = limited(path, config.limit, config.scratch)
    else:
        gold = half_rows(path, config.half, config.limit or ALL_ROWS, config.scratch)
    began = time.perf_counter()
    report = predict(knowledge_base, gold, config.scratch / f"{name}.ours.jsonl", task)
    row: Row = {
        "task": task,
        "rows": report.answered + report.abstained + report.refused,
        "answered": report.answered,
        "records_per_s": round(report.records_per_s, 1),
        "ours": score(gold, report.path, name),
    }
    if config.with_baselines:
        for column, options in variants(task).items():
            found = predict(knowledge_base, gold, config.scratch / f"{name}.{column}.jsonl", task, **options)
            row[column] = score(gold, found.path, name) | {"records_per_s": round(found.records_per_s, 1)}
        row["bm25"] = score_pages(gold, ranker.predict(task, gold))
        dense = predict(knowledge_base, gold, config.scratch / f"{name}.dense.jsonl", task, weights=DENSE)
        row["dense"] = score_pages(gold, dense.path)
    row["error"] = errors(gold, report.path, name)
    if name in TARGETS:
        row["target"] = {"Rprec": TARGETS[name].rprec, "KILT-em": TARGETS[name].kilt_em}
    row["elapsed_s"] = round(time.perf_counter() - began, 1)
    return row


def variants(task: Task) -> dict[str, dict[str, Any]]:
    """Return how else our own search is asked."""
    own = TASK_WEIGHTS[task]
    words = Weights(phrase=0.0, passage=0.0, lexical=own.lexical, sparse=0.0, reader=own.reader)
    return {"unread": {"read": 0}, "bm25_read": {"weights": words, "strategy": "sfs", "read": READ[task]}}


def predict(
    knowledge_base: KnowledgeBase,
    gold: Path,
    out: Path,
    task: Task,
    *,
    weights: Weights | None = None,
    **others: Any,
) -> PredictReport:
    """Return the report of predicting a set, whatever an earlier run left behind."""
    read = {"read": 0} if weights == DENSE else {}
    options = PredictOptions(pages=max(KS), weights=weights, overwrite=True, **{**read, **others})
    with progress_for_terminal() as progress:
        return predict_file(knowledge_base, gold, out, task=task, options=options, progress=progress, notice=print)


def score(gold: Path, guess: Path, name: str) -> dict[str, float]:
    """Return all scores of our predictions in percent; retrieval alone where answers cannot be compared."""
    if name in RETRIEVAL_ONLY:
        return score_pages(gold, guess)
    scores = score_files(gold, guess, ks=KS)
    names = ("accuracy", "em", "f1")
    values = {each: scores.downstream[each] for each in names}
    values |= {f"KILT-{each}": scores.kilt[f"KILT-{each}"] for each in names}
    return _ranking(dict(scores.ranking)) | _percent(values)


def bytes_of(folder: Path) -> int:
    """Return the size of a model's folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def errors(gold: Path, guess: Path, name: str) -> dict[str, float | None]:
    """Return the standard errors of R-precision and, where answers can be compared, KILT-EM, in points.

    Rows are clustered by their first gold page, those of relations by the relation: a development set of a thousand
    rows may have six pages.
    """
    cluster = cluster_of_slot if name in BY_RELATION else first_page
    clusters = [cluster(record) for record in read_gold(gold)]
    rprec = [pages.rprec for _, pages in score_retrieval_files(gold, guess).records]
    found = {"Rprec": clustered_standard_error(rprec, clusters)}
    if name not in RETRIEVAL_ONLY:
        records = score_files(gold, guess).records
        kilt_em = [record.answers.em if record.pages.rprec == 1 else 0.0 for record in records]
        found["KILT-em"] = clustered_standard_error(kilt_em, clusters)
    return {figure: None if error is None else round(100 * error, 2) for figure, error in found.items()}


def error_of_mean(found: Sequence[float | None]) -> float | None:
    """Return the standard error of the mean of independent figures, from theirs; None unless all have one."""
    known = [error for error in found if error is not None]
    return _rounded(math.hypot(*known) / len(known)) if known and len(known) == len(found) else None


def score_pages(gold: Path, guess: Path) -> dict[str, float]:
    """Return R-precision and recall at each depth in percent."""
    return _ranking(dict(score_retrieval_files(gold, guess, ks=KS).measures))


def task_macros(rows: list[Row]) -> Row:
    """Return the means of a task's sets, each figure over the sets that have it; the target over the same sets."""
    columns = [column for column in COLUMNS if any(column in row for row in rows)]
    macros: Row = {}
    for column in columns:
        names = dict.fromkeys(name for row in rows for name in row.get(column, {}))
        macros[column] = {name: _rounded(macro([row.get(column, {}).get(name) for row in rows])) for name in names}
    macros["error"] = {
        name: error_of_mean([row["error"].get(name) for row in rows if name in row["error"]])
        for name in ("Rprec", "KILT-em")
        if any("error" in row for row in rows)
    }
    # KILT-EM counts where the prototype has a figure: not for links and dialogues, whose answers are no phrases.
    compared = [row["ours"].get("KILT-em") for row in rows if row.get("target", {}).get("KILT-em") is not None]
    macros["KILT-em compared"] = _rounded(macro(compared))
    return macros


def misses(sets: dict[str, Row], tasks: dict[Task, Row]) -> list[str]:
    """Return what falls short, one sentence each: a set at or under BM25, a task's macro under the prototype's."""
    found = [
        f"{name}: R-precision {row['ours']['Rprec']} is not above BM25's {row['bm25']['Rprec']}"
        for name, row in sets.items()
        if "bm25" in row and row["ours"]["Rprec"] <= row["bm25"]["Rprec"]
    ]
    found += [
        f"{name}: {figure} {row['ours'][figure]} is not above that of BM25 with the reader, {row['bm25_read'][figure]}"
        for name, row in sets.items()
        for figure in ("Rprec" if row.get("target", {"KILT-em": ""})["KILT-em"] is None else "KILT-em",)
        if "bm25_read" in row and row["ours"][figure] <= row["bm25_read"][figure]
    ]
    for task, macros in tasks.items():
        target = macros.get("target", {})
        for figure, seen in (("Rprec", macros["ours"]["Rprec"]), ("KILT-em", macros["KILT-em compared"])):
            wanted = target.get(figure)
            if wanted is not None and seen is not None and seen < wanted - TOLERANCE:
                found.append(f"{task}: macro {figure} {seen} is under {wanted} − {TOLERANCE}")
    return found


HEADINGS = (
    "Rprec",
    "R@5",
    "acc",
    "EM",
    "F1",
    "KILT-AC",
    "KILT-EM",
    "± Rprec",
    "± KILT-EM",
    "unread Rprec",
    "unread KILT-EM",
    "BM25 + reader Rprec",
    "BM25 + reader KILT-EM",
    "BM25 Rprec",
    "BM25 R@5",
    "dense Rprec",
    "dense R@5",
)
CELLS = (
    *((("ours", name)) for name in ("Rprec", "recall@5", "accuracy", "em", "f1", "KILT-accuracy", "KILT-em")),
    ("error", "Rprec"),
    ("error", "KILT-em"),
    *((column, name) for column in ("unread", "bm25_read") for name in ("Rprec", "KILT-em")),
    *((column, name) for column in ("bm25", "dense") for name in ("Rprec", "recall@5")),
)


def table_line(name: str, row: Row) -> str:
    """Return the markdown row of a set or of a task's macro; the prototype's figures come last."""
    values = [row.get(column, {}).get(figure) for column, figure in CELLS]
    target = row.get("target", {})
    cells = ["–" if value is None else f"{value:.1f}" for value in values]
    wanted = " / ".join(f"{value:.1f}" for value in target.values() if value is not None) or "–"
    return f"| {name} | {row.get('rows', '')} | {' | '.join(cells)} | {wanted} |"


def markdown(figures: dict[str, Any]) -> str:
    """Return the whole table with the macros under each task's sets, and what was missed."""
    base = figures["knowledge_base"]
    limit = figures["limit"]
    half = figures.get("half")
    rows = "all development rows" if limit is None else f"first {limit} rows of each set"
    if half is not None:
        rows = f"the half '{half}' of the pages" + ("" if limit is None else f", {limit} rows drawn of each set")
    lines = [
        f"{base['documents']:,} pages, {base['passages']:,} passages, {base['stored_vectors']:,} phrase vectors; "
        f"{rows}; percent. Target: the prototype's R-precision / KILT-EM. ±: standard errors clustered by page, those "
        f"of relations by relation. Weights were chosen on {WEIGHTS_CHOSEN_ON}.",
        "",
        f"| set | rows | {' | '.join(HEADINGS)} | target |",
        f"| --- |{' ---: |' * (len(HEADINGS) + 2)}",
    ]
    for task, names in by_task(tuple(figures["sets"])).items():
        lines += [table_line(name, figures["sets"][name]) for name in names]
        lines.append(table_line(f"**{task}, macro**", figures["tasks"][task]))
    lines += ["", *(f"- missed: {miss}" for miss in figures["misses"] or ["nothing"])]
    return "\n".join(lines) + "\n"


def recall_curves(figures: dict[str, Any]) -> dict[str, dict[int, float]]:
    """Return recall@k of each task's macro, ours and BM25's, as shares."""
    curves = {}
    for task, row in figures["tasks"].items():
        for column, label in (("ours", task), ("bm25", f"{task}, BM25")):
            if column in row:
                curves[label] = {k: row[column][f"recall@{k}"] / 100 for k in KS if k > 1}
    return curves


def _ranking(measures: dict[str, float]) -> dict[str, float]:
    return _percent({name: measures[name] for name in ("Rprec", *(f"recall@{k}" for k in KS if k > 1))})


def _percent(values: dict[str, float]) -> dict[str, float]:
    return {name: round(100 * value, 2) for name, value in values.items()}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def main() -> None:
    """Measure, print and write the table, the figures and the plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kb", type=Path, required=True)
    parser.add_argument("--data", type=Path, help=f"folder of the KILT sets; by default {DATA_VARIABLE}")
    parser.add_argument("--scratch", type=Path, required=True, help="for submissions and BM25 rankings")
    parser.add_argument("--sets", default="", help="only these, separated by commas")
    parser.add_argument("--limit", type=int, help="first rows of each set, for a quick look")
    parser.add_argument("--half", choices=HALVES, help="only rows of this half of the pages")
    parser.add_argument("--no-baselines", action="store_true", help="our own figures only")
    parser.add_argument("--name", default="quality", help="of the result files")
    arguments = parser.parse_args()
    sets = tuple(filter(None, arguments.sets.split(",")))
    config = Config(
        arguments.kb,
        data_folder(arguments.data),
        arguments.scratch,
        sets,
        arguments.limit,
        not arguments.no_baselines,
        arguments.half,
    )
    figures = measure(config)
    print("\n" + markdown(figures))
    claim = (
        "each task's macro reaches the prototype's less 1.0 point, every set is above BM25 over paragraphs "
        "(entity linking: the mention against titles)"
    )
    write_result(arguments.name, claim, figures)
    (RESULTS / f"{arguments.name}.md").write_text(markdown(figures), encoding="utf-8")
    try:
        plot_recall(recall_curves(figures), RESULTS / f"{arguments.name}.png", title="Recall@k, macro of each task")
    except MissingExtraError as e:
        print(e)


if __name__ == "__main__":
    main()
