"""Encoders tuned for one task: what they gain with all signals and reading on, on both halves; and bundling them.

    python -m recipes.task_encoders measure --kb KB --data DIR --scratch DIR --task entity-linking --of tuned-linking
    python -m recipes.task_encoders bundle --kb KB --of tuned-linking --name minilm-linking --task entity-linking

`measure` answers the development rows of each half of the pages as a user would be answered, with the encoder that
the knowledge base is open with and with those that are named, and gives the difference with its standard error, of the
same rows and clustered by page. `bundle` copies one beside its start, where the task finds it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from adapters.kilt.predicting import PredictOptions, predict_file, task_of_file
from adapters.kilt.records import read_gold
from adapters.kilt.scoring import score_files, score_retrieval_files
from adapters.kilt.standard_error import cluster_of_slot, clustered_standard_error, first_page
from adapters.tasks.defaults import PHRASE_TASKS
from benchmarks.kilt_sets import BY_RELATION, HALVES, RETRIEVAL_ONLY, Half, data_folder, half_rows, macro, set_files
from kbengine.encoders.deltas import DELTA, LORA_B, ParameterOptions, decode_deltas
from kbengine.encoders.encoder import Encoder
from kbengine.encoders.location import DEFAULT_ENCODER
from kbengine.encoders.tuned_encoders import store_tuned
from kbengine.encoders.tuned_info import TunedInfo
from kbengine.inputs import Task
from kbengine.knowledge_base import KnowledgeBase
from storage.tuned_files import read_tuned, tuned_weights

ROWS = 80
"""Of each half of each set, at most."""
PAGES = 10


def figures_of(
    knowledge_base: KnowledgeBase, encoder: str, gold: Path, scratch: Path, *, read: int | None = None
) -> dict[str, list[float]]:
    """Return the figures of each record, in order: R-precision, and KILT-EM where answers can be compared."""
    task = task_of_file(gold)
    guess = scratch / f"{gold.stem}.{encoder}.predicted.jsonl"
    options = PredictOptions(pages=PAGES, encoder=encoder, overwrite=True, read=read)
    predict_file(knowledge_base, gold, guess, task=task, options=options)
    rprec = [pages.rprec for _, pages in score_retrieval_files(gold, guess).records]
    figures = {"Rprec": rprec}
    if task in PHRASE_TASKS and gold.name.partition(".")[0] not in RETRIEVAL_ONLY:
        records = score_files(gold, guess).records
        figures["KILT-EM"] = [record.answers.em if record.pages.rprec == 1 else 0.0 for record in records]
    return figures


def compared(
    name: str, gold: Path, start: Mapping[str, Sequence[float]], tuned: Mapping[str, Sequence[float]]
) -> dict[str, Any]:
    """Return before and after in percent, and the difference with its standard error over pages or relations."""
    cluster = cluster_of_slot if name in BY_RELATION else first_page
    clusters = [cluster(record) for record in read_gold(gold)]
    found: dict[str, Any] = {"rows": len(clusters)}
    for figure, before in start.items():
        differences = [after - now for now, after in zip(before, tuned[figure], strict=True)]
        error = clustered_standard_error(differences, clusters)
        found[figure] = {
            "start": _percent(sum(before) / len(before)),
            "tuned": _percent(sum(tuned[figure]) / len(before)),
            "gain": _percent(sum(differences) / len(before)),
            "error": None if error is None else _percent(error),
        }
    return found


def measure(
    kb: Path, data: Path, scratch: Path, task: Task, encoders: Sequence[str], *, rows: int, read: int | None
) -> dict[str, Any]:
    """Return for each encoder, half and set what it gains over the encoder that the knowledge base is open with."""
    scratch.mkdir(parents=True, exist_ok=True)
    sets = {name: path for name, path in set_files(data, "dev").items() if task_of_file(path) == task}
    results: dict[str, Any] = {name: {half: {} for half in HALVES} for name in encoders}
    with KnowledgeBase.open(kb) as knowledge_base:
        for half in HALVES:
            for name, path in sets.items():
                gold = half_rows(path, half, rows, scratch)
                start = figures_of(knowledge_base, DEFAULT_ENCODER, gold, scratch, read=read)
                for encoder in encoders:
                    tuned = figures_of(knowledge_base, encoder, gold, scratch, read=read)
                    results[encoder][half][name] = compared(name, gold, start, tuned)
                    print(encoder, half, name, json.dumps(results[encoder][half][name]), flush=True)
    return results


def table(results: Mapping[str, Mapping[Half, Mapping[str, Any]]]) -> str:
    """Return a Markdown table of each encoder: sets down, halves across; macros last."""
    lines = []
    for encoder, halves in results.items():
        figures = list(dict.fromkeys(key for of in halves.values() for row in of.values() for key in row))
        figures.remove("rows")
        for figure in figures:
            lines += ["", f"| {encoder}, {figure} | {' | '.join(_HALF_NAMES[half] for half in halves)} |"]
            lines.append("| --- |" + " --- |" * len(halves))
            names = list(next(iter(halves.values())))
            for name in names:
                lines.append(f"| {name} | {' | '.join(_cell(of[name].get(figure)) for of in halves.values())} |")
            means = []
            for of in halves.values():
                rows = [row[figure] for row in of.values() if figure in row]
                before, after = (macro([row[key] for row in rows]) or 0.0 for key in ("start", "tuned"))
                means.append(f"{before:.1f} → {after:.1f} ({after - before:+.1f})")
            lines.append(f"| **mean** | {' | '.join(means)} |")
    return "\n".join(lines) + "\n"


_HALF_NAMES = {"choose": "half chosen on", "score": "the other half"}


def _cell(row: Mapping[str, float | None] | None) -> str:
    if row is None:
        return "–"
    error = "" if row["error"] is None else f" ± {row['error']:.1f}"
    return f"{row['start']:.1f} → {row['tuned']:.1f} ({row['gain']:+.1f}{error})"


def bundle(
    kb: Path, of: str, name: str, tasks: tuple[Task, ...], *, share: float = 1.0, measured: str = "", note: str = ""
) -> TunedInfo:
    """Store an encoder of a knowledge base beside its start, for the tasks, with `share` of its change; with a card.

    The card has the table that was `measured`, and a `note`: the command, how long it took.
    """
    files, data = tuned_weights(kb, of)
    info = TunedInfo.of_files(read_tuned(kb, of))
    base = Encoder.load(DEFAULT_ENCODER)
    if info.base_fingerprint != base.fingerprint or base.directory is None:
        raise SystemExit(f"{of} was tuned from {info.base!r}, wanted one tuned from {base.name!r} as it is now")
    deltas = {
        key: tensor * share if key.startswith((DELTA, LORA_B)) else tensor
        for key, tensor in decode_deltas(data, str(files.weights)).items()
    }
    rank = next((tensor.shape[1] for key, tensor in deltas.items() if key.startswith(LORA_B)), 8)
    options = ParameterOptions("lora" if info.parameters == "lora" else "full", rank, info.scale * rank)
    report = {**info.report, "share": share}
    stored = store_tuned(base.directory, name, deltas, base=base, options=options, tasks=tasks, report=report)
    card = base.directory / "encoders" / name / "README.md"
    card.write_text("\n".join([stored.card(), note, _READ, measured]) if measured else stored.card(), encoding="utf-8")
    return stored


_READ = """
## With all signals and reading

What a user gets (%): 65,965 pages, the default settings, development rows of the half of the pages that was chosen on
and of the other (first bit of the SHA-256 of the page's id). ±: standard error of the gain, clustered by page."""


def _percent(value: float) -> float:
    return round(100 * value, 2)


def main() -> None:
    """Run `measure` or `bundle`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measured = commands.add_parser("measure")
    measured.add_argument("--data", type=Path)
    measured.add_argument("--scratch", type=Path, required=True)
    measured.add_argument("--of", action="append", required=True, help="the name of a tuned encoder; may be repeated")
    measured.add_argument("--rows", type=int, default=ROWS)
    measured.add_argument("--read", type=int, help="passages to read; by default as the task does")
    measured.add_argument("--out", type=Path, help="write the figures here too, JSON")
    bundled = commands.add_parser("bundle")
    bundled.add_argument("--of", required=True, help="the name of a tuned encoder")
    bundled.add_argument("--name", required=True)
    bundled.add_argument("--share", type=float, default=1.0, help="of its change")
    bundled.add_argument("--figures", type=Path, help="what `measure --out` wrote: for the card")
    bundled.add_argument("--note", default="", help="for the card: the command, how long it took")
    for each in (measured, bundled):
        each.add_argument("--kb", type=Path, required=True)
        each.add_argument("--task", required=True)
    given = parser.parse_args()
    if given.command == "bundle":
        found = {} if given.figures is None else json.loads(given.figures.read_text(encoding="utf-8"))
        measured = table({given.name: found[given.of]}) if found else ""
        tasks = (given.task,)
        stored = bundle(given.kb, given.of, given.name, tasks, share=given.share, measured=measured, note=given.note)
        print(f"{stored.name}: {stored.n_bytes:,} bytes, fingerprint {stored.fingerprint}")
        return
    data = data_folder(given.data)
    found = measure(given.kb, data, given.scratch, given.task, given.of, rows=given.rows, read=given.read)
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(table(found))


if __name__ == "__main__":
    main()
