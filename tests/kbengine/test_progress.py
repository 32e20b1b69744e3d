"""Progress where nobody watches: a line a minute with how far it is, rate and time left."""

from __future__ import annotations

import io

import pytest

from kbengine.progress import ProgressLines, progress_for_terminal


class Clock:
    """Stands still until it is moved."""

    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    """The time of the test."""
    return Clock()


def written(clock, work):
    """Return the lines that the work leaves."""
    stream = io.StringIO()
    work(ProgressLines(stream, clock=clock))
    return stream.getvalue().splitlines()


def test_a_minute_leaves_a_line_with_share_rate_and_time_left(clock):
    """One a minute, however often progress is reported."""

    def work(lines):
        lines.begin("encoding passages", 1000.0, "")
        for second in range(200):
            clock.now_s += 1
            lines.advance(2.5, f"{second} documents, 7 tokens/s")

    assert written(clock, work) == [
        "encoding passages: 15% after 1 min, about 6 min left; 59 documents, 7 tokens/s",
        "encoding passages: 30% after 2 min, about 5 min left; 119 documents, 7 tokens/s",
        "encoding passages: 45% after 3 min, about 4 min left; 179 documents, 7 tokens/s",
    ]


def test_the_rate_is_in_the_units_of_the_stage_where_no_note_tells_it(clock):
    """Without a total there is no share and no time left."""

    def work(lines):
        lines.begin("training", 7200, "steps")
        clock.now_s += 60
        lines.advance(30)
        lines.begin("reading aliases", None, "lines")
        clock.now_s += 60
        lines.advance(600)

    assert written(clock, work) == [
        "training: 0% after 1 min, about 3 h 59 min left; 0.5 steps/s",
        "reading aliases: after 1 min; 10 lines/s",
    ]


def test_what_an_earlier_run_did_does_not_count_for_the_rate(clock):
    """A resumed build tells the time that is really left."""

    def work(lines):
        lines.begin("encoding passages", 1000, "bytes")
        lines.advance(900)
        clock.now_s += 60
        lines.advance(60)

    assert written(clock, work) == ["encoding passages: 96% after 1 min, about 40 s left; 1 bytes/s"]


def test_short_work_leaves_no_line_and_a_late_stage_is_named(clock):
    """A stage that reports nothing until its end is at least known to have begun."""

    def work(lines):
        lines.begin("counting links", None, "")
        clock.now_s += 59
        lines.advance(1)
        clock.now_s += 2
        lines.begin("merging and clustering", None, "")

    assert written(clock, work) == ["merging and clustering begins"]


def test_without_a_terminal_there_are_lines_and_none_for_the_quiet(capsys):
    """As in a log of a job."""
    with progress_for_terminal() as progress:
        assert isinstance(progress, ProgressLines)
    with progress_for_terminal(quiet=True) as progress:
        assert not isinstance(progress, ProgressLines)
    assert capsys.readouterr().err == ""
