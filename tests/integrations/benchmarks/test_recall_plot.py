"""The recall plot, drawn from curves and by `kbengine score --plot`."""

from __future__ import annotations

from pathlib import Path

from adapters.commands.kilt import score
from adapters.kilt.plot import plot_recall
from tests.adapters.fake_knowledge_base import write_lines
from tests.adapters.test_commands import GOLD, guess, run


def test_recall_is_plotted_as_png_and_as_the_same_svg_each_time(tmp_path: Path) -> None:
    """One line per system."""
    curves = {"ours": {5: 0.5, 20: 0.75}, "bm25": {5: 0.25, 20: 0.5}}
    plot_recall(curves, tmp_path / "recall.png")
    assert (tmp_path / "recall.png").read_bytes().startswith(b"\x89PNG")
    for name in ("one.svg", "two.svg"):
        plot_recall(curves, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert b"<svg" in (tmp_path / "one.svg").read_bytes()


def test_the_command_draws_it(tmp_path: Path) -> None:
    """Beside the scores."""
    gold = write_lines(tmp_path / "gold.jsonl", GOLD)
    guesses = write_lines(tmp_path / "guess.jsonl", [guess(1, "Ulm", "5"), guess(2, "Bonn", "9"), guess(3, "x", "7")])
    run(score, str(gold), str(guesses), "--plot", str(tmp_path / "recall.svg"))
    assert (tmp_path / "recall.svg").stat().st_size > 1000
