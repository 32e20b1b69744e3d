"""Figures of an encoder on development sets: phrases alone, all signals, and all signals with weights made for it.

The last are cross-fitted: a fifth of the rows is answered with the weights chosen on the other four fifths, so that no
row is scored by weights that it helped to choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from adapters.calibration.calibrating import CalibrateOptions, refit_weights
from adapters.kilt.task_files import task_of_file
from adapters.tasks.defaults import TASK_WEIGHTS
from adapters.tuning.tuning_files import TaskFile, read_gold_rows
from adapters.tuning.tuning_scores import MEASURED, DevelopmentScore, ScoreOptions
from kbengine.knowledge_base import KnowledgeBase
from kbengine.progress import ProgressSink

_OF_FIT = {"rprec": "Rprec", "em": "em", "kilt_em": "KILT-em"}
_SEED = 13

Figures = dict[str, dict[str, dict[str, float]]]
"""By set and way of ranking ("phrase", "fused", "refitted"): EM, R-precision and KILT-EM in percent."""


def figures_of(
    knowledge_base: KnowledgeBase,
    encoder: str | None,
    sets: Sequence[str],
    folder: Path,
    *,
    rows: int | None,
    progress: ProgressSink,
) -> Figures:
    """Return the figures of an encoder on the development rows of sets.

    Args:
        knowledge_base: what is asked.
        encoder: the name of one tuned for it; None: the one that it was opened with.
        sets: whose development rows.
        folder: of the sets.
        rows: at most so many rows of each, drawn at random; None: all.
        progress: where to report.
    """
    files = [TaskFile(path, task_of_file(path)) for path in (folder / f"{name}.dev.jsonl.gz" for name in sets)]
    gold = [(file, read_gold_rows(file, limit=rows, seed=_SEED)) for file in files]
    weights = {file.task: TASK_WEIGHTS[file.task] for file in files}
    found: Figures = {}
    progress.begin("phrases alone and all signals", 1, "")
    measured = DevelopmentScore(gold, ScoreOptions("rprec"), weights)(
        knowledge_base.searcher(knowledge_base.encoder_for(encoder))
    ).measures
    for name, file in zip(sets, files, strict=True):
        found[name] = {
            signals: {each: round(measured[f"{file.name} {signals} {each}"], 2) for each in MEASURED}
            for signals in ("phrase", "fused")
        }
    options = CalibrateOptions(rows=rows or 1_000_000, seed=_SEED, effort="low")
    for task in dict.fromkeys(file.task for file in files):
        of_task = {file.path.name: name for name, file in zip(sets, files, strict=True) if file.task == task}
        paths = [file.path for file in files if file.task == task]
        fit = refit_weights(knowledge_base, paths, task, options=options, encoder=encoder, progress=progress)
        for path_name, name in of_task.items():
            held_out = fit.report["files"][path_name]["held_out"]
            found[name]["refitted"] = {ours: held_out.get(theirs, 0.0) for ours, theirs in _OF_FIT.items()}
    return found


def mean_of(figures: Figures, sets: Sequence[str], signals: str, measure: str) -> float:
    """Return the mean over sets."""
    return sum(figures[name][signals][measure] for name in sets) / len(sets)


def table(start: Figures, tuned: dict[str, tuple[Sequence[str], str, Figures]]) -> str:
    """Return the figures before and after as a Markdown table, a line for each experiment and one for each of its sets.

    Args:
        start: of the encoder that all began with.
        tuned: by experiment the sets, the measure and the figures.
    """
    lines = ["| experiment, set | measure | phrases alone | all signals | weights refitted |", "| --- " * 5 + "|"]
    for name, (sets, measure, figures) in tuned.items():
        for label, chosen in [(f"**{name}**", tuple(sets)), *((each, (each,)) for each in sets)]:
            cells = [
                _change(mean_of(start, chosen, signals, measure), mean_of(figures, chosen, signals, measure))
                for signals in ("phrase", "fused", "refitted")
            ]
            lines.append(f"| {label} | {measure} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _change(before: float, after: float) -> str:
    return f"{before:.1f} → {after:.1f} ({after - before:+.1f})"
