"""The tuning recipe: what is never trained on, what options are, and the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbengine.learning.tuning.options import read_tuning_options
from recipes.tuning_experiments import COMMON, EXPERIMENTS
from recipes.tuning_figures import mean_of, table


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_transfer_sets_are_never_trained_on(experiment) -> None:
    """Licences forbid it, and transfer would be none; options and files of every experiment are known."""
    assert not {"cmudog", "inscit", "el_news"} & set(experiment.train)
    options = read_tuning_options(None, [*COMMON, ("loss", experiment.loss), *experiment.options])
    assert options.loss == experiment.loss
    names = [file.path.name for file in experiment.files(Path("sets"), "train")]
    assert names == [f"{name}.train.jsonl.gz" for name in experiment.train]


def test_the_table_has_means_and_sets_before_and_after() -> None:
    """The mean over an experiment's sets in its first line, then each of them."""
    start, after = (
        {name: {signals: {"rprec": value} for signals in ("phrase", "fused", "refitted")} for name, value in each}
        for each in ([("a", 10.0), ("b", 20.0)], [("a", 20.0), ("b", 21.0)])
    )

    lines = table(start, {"linking": (("a", "b"), "rprec", after)}).split("\n")

    assert mean_of(start, ("a", "b"), "fused", "rprec") == 15
    assert lines[2].startswith("| **linking** | rprec | 15.0 → 20.5 (+5.5) |")
    assert [line.split(" ")[1] for line in lines[3:]] == ["a", "b"]
