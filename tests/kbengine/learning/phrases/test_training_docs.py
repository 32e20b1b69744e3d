"""The documentation of training names every option of a recipe, and its commands exist."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import click
import pytest

from kbengine.learning.loop.options import LoopOptions, OptimizerOptions
from kbengine.learning.loop.recipe import read_recipe
from kbengine.learning.phrases.development import MEASURES, DevelopmentOptions
from kbengine.learning.phrases.initial import ModelOptions
from kbengine.learning.phrases.phrase_task import LossOptions
from kbengine.learning.runs.data_section import DataSection
from kbengine.learning.runs.encoder import EncoderRecipe
from kbengine.terminal.train_command import encoder

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "reference" / "training.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "section", [DataSection, ModelOptions, LossOptions, LoopOptions, OptimizerOptions, DevelopmentOptions]
)
def test_every_option_is_documented(section):
    """By its name, as code."""
    for option in fields(section):
        named = f"`{option.name}`" in PAGE or option.name == "optimizer"
        assert named, f"{section.__name__}.{option.name}"


def test_every_measure_is_documented():
    """The names that `development.score` takes."""
    for measure in MEASURES:
        assert re.search(rf"\b{measure}\b", PAGE), measure


def test_every_command_of_the_page_has_its_options():
    """Those of `kbengine train`."""
    known = {name for parameter in encoder.params if isinstance(parameter, click.Option) for name in parameter.opts}
    for line in re.findall(r"kbengine(?:\.cli)? train (--.*)$", PAGE, re.M):
        for name in re.findall(r"(?<= )--[a-z-]+", f" {line}"):
            assert name in known, name


def test_the_recipe_of_the_page_can_be_read(tmp_path):
    """Its TOML block."""
    path = tmp_path / "recipe.toml"
    path.write_text(re.search(r"```toml\n(.*?)```", PAGE, re.S).group(1))
    recipe = read_recipe(EncoderRecipe, path)

    assert recipe.losses.distillation == 1.0 and recipe.data.dev == (tmp_path / "squad-dev.json",)
