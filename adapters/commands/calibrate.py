"""The command `calibrate`: fit a task's weights, probabilities and threshold, store, show or forget them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbengine.inputs import TASKS
from kbengine.terminal.console import Output, standard_output
from kbengine.terminal.options import json_option, kb_option, option

if TYPE_CHECKING:
    from adapters.tasks.calibration import TaskCalibration
    from kbengine.inputs import Task


@click.command()
@click.argument("files", metavar="DEV.jsonl[.gz]", nargs=-1, type=click.Path(path_type=Path))
@kb_option
@option("--task", TASKS, "Fit this task; by default the one that the data sets' names tell.")
@option("--encoder", str, "Fit the answers of this tuned encoder; by default of the task's own.")
@option("--fit-weights/--no-fit-weights with_weights", bool, "Fit the weights of the scores too.", default=True)
@option("--threshold-for", str, "Aim at f1, precision=0.9, coverage=0.8, or none (no threshold).", default="f1")
@option("--rows", int, "Draw so many records of each file at random.", default=1000)
@option("--seed", int, "Seed the draw, the folds and the halves with this number.", default=13)
@option("--plot", Path, "Draw the reliability of the probabilities to this .png or .svg; by default nowhere.")
@option("--dry-run", bool, "Fit and print, but store nothing.")
@option("--show", bool, "Print what is stored instead of fitting.")
@option("--reset", bool, "Forget what is stored, of --task or of all tasks.")
@json_option
def calibrate(
    files: tuple[Path, ...],
    kb: Path,
    task: Task | None,
    encoder: str | None,
    plot: Path | None,
    dry_run: bool,
    show: bool,
    reset: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Fit weights, probabilities and a threshold for a task on development files; store them with the knowledge base.

    Each answer then comes with the probability that it is right, and one below the threshold becomes a no-answer.

    \b
    Examples:
      kbengine calibrate trex-dev-kilt.jsonl structured_zeroshot-dev-kilt.jsonl --kb my-kb
      kbengine calibrate mentions.jsonl --task entity-linking --threshold-for precision=0.9 --kb my-kb
      kbengine calibrate --show --kb my-kb --plot reliability.png
      kbengine calibrate mentions.jsonl --task entity-linking --encoder linker --kb my-kb
      kbengine calibrate --reset --task question --kb my-kb
    """
    from adapters.calibration.calibrating import CalibrateOptions, store
    from adapters.calibration.calibrating import calibrate as fit
    from adapters.kilt.plot import checked_path
    from kbengine.knowledge_base import KnowledgeBase
    from kbengine.progress import progress_for_terminal

    output = standard_output(as_json=as_json)
    if show or reset:
        if files or (show and reset):
            raise click.UsageError("--show and --reset stand alone: no files, not both")
        forget(kb, task) if reset else show_stored(output, kb, task, plot, encoder=encoder)
        return
    options = CalibrateOptions(**given)
    if plot is not None:
        checked_path(plot)
    task = task or _common_task(files)
    with KnowledgeBase.open(kb, encoder) as knowledge_base:
        with progress_for_terminal() as progress:
            found = fit(knowledge_base, files, task, options=options, progress=progress, notice=_tell)
        if plot is not None:
            _plot(found, plot)
        if not dry_run:
            store(knowledge_base, found)
            _tell(f"stored with {kb}; 'kbengine calibrate --reset' forgets it")
    show_calibration(output, found)


def show_stored(output: Output, kb: Path, task: Task | None, plot: Path | None, *, encoder: str | None = None) -> None:
    """Write the calibrations that are stored, those that ship where none is; stored ones not in force go to stderr."""
    from adapters.tasks.calibration import SETTING, calibrations_of, stored_calibrations
    from kbengine.encoders.answering import fingerprint_for
    from kbengine.inputs import TASKS
    from storage.reader import KBReader

    with KBReader.open(kb) as reader:
        setting = reader.setting(SETTING)
        of_tasks = {each: fingerprint_for(kb, reader.settings, encoder, each) for each in TASKS}
    stored = {each: stored_calibrations(setting, encoder=of_tasks[each], tasks=(each,)) for each in TASKS}
    is_any_stored = any(each in stored[each].tasks for each in TASKS)
    in_force = stored if is_any_stored else {each: calibrations_of(None, encoder=of_tasks[each]) for each in TASKS}
    for sentence in dict.fromkeys(sentence for of_task in stored.values() for sentence in of_task.notices):
        _tell(sentence)
    found = [in_force[each].tasks[each] for each in TASKS if task in (None, each) and each in in_force[each].tasks]
    if not found and not output.as_json:
        output.line(
            "no calibration is stored and none ships with the encoder; fit one with 'kbengine calibrate DEV.jsonl'"
        )
    if plot is not None and len(found) != 1:
        raise click.UsageError(f"--plot shows one task, {len(found)} are in force; pass --task")
    for each in found:
        show_calibration(output, each)
        if plot is not None:
            _plot(each, plot)


def forget(kb: Path, task: Task | None) -> None:
    """Remove the stored calibration of the task, or of all tasks."""
    from adapters.tasks.calibration import SETTING, without_task
    from storage.writer import KBWriter

    with KBWriter.open(kb) as writer:
        writer.set_setting(SETTING, without_task(writer.get_setting(SETTING), task))
    _tell(f"forgotten: the calibration of {task or 'all tasks'}; what ships with the encoder counts again")


def show_calibration(output: Output, found: TaskCalibration) -> None:
    """Write one task's calibration: weights, threshold, and the figures before and after."""
    if output.as_json:
        output.record({"task": found.task, **found.to_json()})
        return
    weights, figures = found.report["weights"], found.report["confidence"]
    output.facts(
        {
            "task": found.task,
            "files": dict(found.report["files"]),
            "fitted_at": f"{found.report['created_at']}, "
            + (f"generation {found.report['generation']}" if found.report["generation"] else "ships with the encoder"),
            "weights": f"phrase {found.weights.phrase:g}, passage {found.weights.passage:g}, lexical "
            f"{found.weights.lexical:g}, sparse {found.weights.sparse:g}, name {found.weights.name:g} "
            f"({'fitted' if found.weights_fitted else 'the default'})",
            "threshold": "none" if found.threshold is None else f"{found.threshold} (for {found.threshold_for})",
        }
    )
    if weights is not None:
        _show_weights(output, weights)
    output.line()
    output.line("probability of the best answer, on the half that it was not fitted on:")
    columns = ("", "share right", "Brier", "ECE")
    right = f"{figures['share_right']:.3f}"
    output.table(
        columns,
        [
            ("score share (before)", right, figures["before"]["brier"], figures["before"]["ece"]),
            ("calibrated (after)", right, figures["after"]["brier"], figures["after"]["ece"]),
        ],
    )
    output.line()
    output.line("with the threshold:" if found.threshold else "answering always:")
    output.facts({name: f"{value:.3f}" for name, value in figures["at_threshold"].items()})
    if found.answerable_threshold is not None:
        output.line()
        output.line(f"refused where an answer at all has a probability under {found.answerable_threshold:.2f}:")
        output.facts({name: f"{value:.3f}" for name, value in figures["answerable"].items()})


def _show_weights(output: Output, weights: dict[str, Any]) -> None:
    held_out = weights["held_out"]
    best = weights["best"]
    output.line()
    output.line(
        f"best: passage {best['passage']:g}, lexical {best['lexical']:g}, sparse {best['sparse']:g}, "
        f"name {best['name']:g}; on rows that they were not chosen from {held_out['before']:.2f} → "
        f"{held_out['after']:.2f} (gain {held_out['gain']:.2f} ± {held_out['standard_error']:.2f}): "
        f"{'taken' if weights['adopted'] else 'not taken, no more than noise'}"
    )
    names = list(dict.fromkeys(name for each in weights["files"].values() for name in each["before"]))
    rows = []
    for file, each in weights["files"].items():
        cells = [
            f"{each['before'][name]:.1f} → {each['after'][name]:.1f}" if name in each["before"] else ""
            for name in names
        ]
        rows.append((file, *cells))
    output.table(("file", *names), rows)


def _plot(found: TaskCalibration, path: Path) -> None:
    from adapters.calibration.reliability import plot_reliability

    figures = found.report["confidence"]
    curves = {"score share": figures["before"]["bins"], "calibrated": figures["after"]["bins"]}
    plot_reliability(curves, path, title=f"{found.task}: reliability, held out")


def _common_task(files: tuple[Path, ...]) -> Task:
    """Return the task of all the files by their names."""
    from adapters.kilt.task_files import task_of_file

    if not files:
        raise click.UsageError("no file to fit on; give development files, or --show, or --reset")
    tasks = dict.fromkeys(task_of_file(path) for path in files)
    if len(tasks) > 1:
        raise click.UsageError(f"the files are of different tasks ({', '.join(tasks)}); calibrate one task at a time")
    return next(iter(tasks))


def _tell(sentence: str) -> None:
    click.echo(sentence, err=True)
