"""Progress of long work: what library code reports to, the bar that people see, and the lines of a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class ProgressSink(Protocol):
    """Something that shows progress: the bar on a terminal, a line a minute elsewhere, or nothing."""

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

    def __exit__(self, *_: object) -> None:
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


class ProgressLines:
    """Writes a line now and then: how far the stage is, its rate and the time left; short work leaves no line.

    Example:
        encoding passages: 35% after 5 min, about 9 min left; 12,345 documents, 9,800 tokens/s
    """

    def __init__(self, stream: IO[str], *, every_s: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._every_s = every_s
        self._clock = clock
        self._written_s = clock()
        self._stage = ""

    def begin(self, what: str, total: float | None, unit: str) -> None:
        """Start a stage; it is named at once when the last line is a while ago, as it may itself be silent."""
        self._stage, self._total, self._unit = what, total, unit
        self._began_s = self._clock()
        self._done = self._done_before = 0.0
        if self._is_due():
            self._write(f"{what} begins")

    def advance(self, amount: float, note: str = "") -> None:
        """Count what is done, and write a line when it is time."""
        self._done += amount
        elapsed_s = self._clock() - self._began_s
        if elapsed_s < 1:
            self._done_before = self._done  # by the run that this one goes on with
        elif self._is_due():
            rate = (self._done - self._done_before) / elapsed_s
            line = f"{self._stage}: "
            if self._total:
                line += f"{min(1.0, self._done / self._total):.0%} "
            line += f"after {_duration(elapsed_s)}"
            if self._total and rate > 0:
                line += f", about {_duration(max(0.0, self._total - self._done) / rate)} left"
            note = note or (f"{rate:,.3g} {self._unit}/s" if self._unit else "")
            self._write(f"{line}; {note}" if note else line)

    def _is_due(self) -> bool:
        return self._clock() - self._written_s >= self._every_s

    def _write(self, line: str) -> None:
        self._written_s = self._clock()
        self._stream.write(line + "\n")
        self._stream.flush()


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def progress_for_terminal(*, quiet: bool = False) -> Iterator[ProgressSink]:
    """Show progress on stderr: a bar on a terminal, a line a minute in a log, nothing at all if it is to be quiet."""
    if quiet:
        yield NoProgress()
    elif not sys.stderr.isatty():
        yield ProgressLines(sys.stderr)
    else:
        with ProgressBar() as bar:
            yield bar
