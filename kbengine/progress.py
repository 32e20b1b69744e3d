"""Progress of long work: what library code reports to, and the bar that people see."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class ProgressSink(Protocol):
    """Something that shows progress: the bar on a terminal, or nothing."""

    def begin(self, what: str, total: float | None, unit: str) -> None:
        """Start a stage of `total` units (None: unknown); it ends the stage before."""

    def advance(self, amount: float, note: str = "") -> None:
        """Report `amount` more units done, with a short note such as a rate."""


class NoProgress:
    """Shows nothing."""

    def begin(self, what: str, total: float | None, unit: str) -> None:
        """Do nothing."""

    def advance(self, amount: float, note: str = "") -> None:
        """Do nothing."""


class Stages:
    """Turns (what, done, total) into the stages of a progress bar."""

    def __init__(self, progress: ProgressSink) -> None:
        self._progress = progress
        self._what = ""
        self._done = 0

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show that `done` of `total` units of `what` are done."""
        if what != self._what:
            self._progress.begin(what, total, "")
            self._what, self._done = what, 0
        self._progress.advance(done - self._done)
        self._done = done


class ProgressBar:
    """A rich progress bar on stderr with rate and time left."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._progress: Progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task: TaskID | None = None

    def __enter__(self) -> ProgressBar:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begin(self, what: str, total: float | None, unit: str) -> None:
        """Start a stage of `total` units; the stage before is shown as done."""
        self._finish()
        self._task = self._progress.add_task(what, total=total, note=unit)

    def advance(self, amount: float, note: str = "") -> None:
        """Move the bar of the stage."""
        if self._task is not None:
            if note:
                self._progress.update(self._task, note=note)
            self._progress.advance(self._task, amount)

    def _finish(self) -> None:
        if self._task is not None:
            total = self._progress.tasks[self._task].total
            self._progress.update(self._task, completed=total if total is not None else 1, total=total or 1)


@contextmanager
def progress_for_terminal(*, quiet: bool = False) -> Iterator[ProgressSink]:
    """Give a bar when stderr is a terminal and `quiet` is not set, else a sink that shows nothing."""
    if quiet or not sys.stderr.isatty():
        yield NoProgress()
        return
    with ProgressBar() as bar:
        yield bar
