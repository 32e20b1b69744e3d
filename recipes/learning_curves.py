"""Learning curves of query-side tuning: the subjects, and the table and the plot of measured cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapters.kilt.plot import new_figure, write_figure
from kbengine.inputs import Task
from kbengine.learning.tuning.losses import Loss


@dataclass(frozen=True)
class Subject:
    """One panel of the plot.

    Attributes:
        task: Of all its sets.
        loss: Of tuning.
        train: Sets learned from.
        transfer: Sets scored besides them and never learned from.
        figure: What is drawn.
    """

    task: Task
    loss: Loss
    train: tuple[str, ...]
    transfer: tuple[str, ...]
    figure: str

    @property
    def dev(self) -> tuple[str, ...]:
        """Sets scored on; easy links are learned from only."""
        return (*(name for name in self.train if not name.endswith("_easy")), *self.transfer)


SUBJECTS = (
    Subject("slot-filling", "phrase", ("docred", "fewrel", "knet"), (), "kilt_em"),
    Subject(
        "entity-linking", "doc", ("el_wikilinks", "el_human", "el_conel", "el_wikilinks_easy"), ("el_news",), "rprec"
    ),
    Subject("dialogue", "doc", ("topicalchat",), ("cmudog", "inscit"), "rprec"),
)
NAMES = {"rprec": "page R-precision, %", "kilt_em": "KILT-EM, %"}


def drawn(cell: Mapping[str, Any], subject: Subject, way: str, sets: Sequence[str] = ()) -> float:
    """Return the mean of the subject's figure over sets, by default those that are learned from."""
    names = sets or [name for name in subject.dev if name not in subject.transfer]
    values: list[float] = [cell["scores"][way][name][subject.figure] for name in names]
    return round(sum(values) / len(values), 2)


def table(done: Mapping[str, Any]) -> str:
    """Return the cells as a Markdown table: phrases alone / all signals."""
    lines = ["| task | rows | its sets | transfer |", "| --- | --- | --- | --- |"]
    for subject in SUBJECTS:
        for cell in (each for each in done.values() if each["task"] == subject.task):
            rows = "full retraining" if cell["encoder"] == "full" else f"{cell['rows']:,}"
            own, transfer = (
                " / ".join(f"{drawn(cell, subject, way, sets):.1f}" for way in ("phrase", "fused")) if shown else "–"
                for sets, shown in (((), True), (subject.transfer, bool(subject.transfer)))
            )
            lines.append(f"| {subject.task} ({subject.figure}) | {rows} | {own} | {transfer} |")
    return "\n".join(lines)


def plot(done: Mapping[str, Any], paths: Sequence[Path]) -> None:
    """Draw a panel for each subject: the tuned encoder over rows, the fully trained one as a level."""
    subjects = [subject for subject in SUBJECTS if any(cell["task"] == subject.task for cell in done.values())]
    figure = new_figure(width_inches=3.9 * len(subjects), height_inches=4.6)
    ways = {"fused": ("all signals", "#1f5f8b"), "phrase": ("phrases alone", "#c4622d")}
    panels = figure.subplots(1, len(subjects), squeeze=False)[0]
    for panel, subject in zip(panels, subjects, strict=True):
        of_task = [cell for cell in done.values() if cell["task"] == subject.task]
        curve = sorted((cell for cell in of_task if cell["encoder"] == "start"), key=lambda cell: cell["rows"])
        places = range(len(curve))
        for way, (label, colour) in ways.items():
            values = [drawn(cell, subject, way) for cell in curve]
            panel.plot(places, values, marker="o", color=colour, label=f"tuned, {label}")
            for cell in of_task:
                if cell["encoder"] == "full":
                    level = drawn(cell, subject, way)
                    panel.axhline(level, color=colour, linestyle="--", linewidth=1, label=f"trained on all, {label}")
            if subject.transfer:
                values = [drawn(cell, subject, way, subject.transfer) for cell in curve]
                name = "transfer sets"
                panel.plot(places, values, marker=".", linestyle=":", color=colour, label=f"{name}, {label}")
        panel.set_xticks(list(places), labels=[f"{cell['rows']:,}" for cell in curve])
        panel.set_title(subject.task)
        panel.set_xlabel("rows tuned on")
        panel.set_ylabel(NAMES[subject.figure])
        panel.grid(visible=True, alpha=0.25)
    # One legend for all panels, beneath them: that of the panel with most lines.
    lines = max((panel.get_legend_handles_labels() for panel in panels), key=lambda found: len(found[1]))
    figure.legend(*lines, loc="outside lower center", ncols=2, fontsize="small")
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_figure(figure, path)
