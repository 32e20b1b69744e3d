"""The help of every option of every command: a sentence, with the default in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from kbengine.cli import cli


def options_of(command: click.Command, name: str) -> Iterator[tuple[str, click.Option]]:
    """Return the options of a command and of those below it, under their full names."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            assert below is not None
            yield from options_of(below, f"{name} {each}")
    for option in command.params:
        if isinstance(option, click.Option):
            yield f"{name} {option.opts[0]}", option


OPTIONS = dict(options_of(cli, "kbengine"))


def test_the_help_of_every_option_is_a_sentence():
    """It begins with a capital, ends with a full stop, and has words enough to say what the option does."""
    texts = {name: option.help or "" for name, option in OPTIONS.items()}

    assert [
        (name, text)
        for name, text in texts.items()
        if not (text[:1].isupper() and text.endswith(".") and len(text.split()) >= 3)
    ] == []


def test_the_help_of_every_option_tells_what_holds_without_it():
    """Its default is shown, or told in words; a required option has none, and a flag is off."""

    def is_told(option: click.Option) -> bool:
        shown = option.show_default and option.default is not None
        is_plain_flag = option.is_flag and not option.secondary_opts
        return bool(shown or is_plain_flag or option.required or "by default" in (option.help or "").lower())

    assert [(name, option.help) for name, option in OPTIONS.items() if not is_told(option)] == []


def test_defaults_that_are_told_in_words_are_those_of_the_recipes():
    """Of every training, whose defaults stand in its recipe and not in the command line."""
    from kbengine.learning.runs.encoder import EncoderRecipe
    from kbengine.learning.runs.reader import ReaderRecipe
    from kbengine.learning.runs.sparse import SparseRecipe
    from kbengine.learning.runs.verdict import VerdictRecipe
    from kbengine.learning.tuning.options import TuningOptions

    told, real = {}, {}
    for command, recipe in {
        "train encoder": EncoderRecipe(),
        "train reader": ReaderRecipe(),
        "train sparse": SparseRecipe(),
        "train verdict": VerdictRecipe(),
        "tune": TuningOptions(),
    }.items():
        for option in ("epochs", "batch-size", "accumulate", "seed", "learning-rate"):
            name = f"kbengine {command} --{option}"
            found = re.search(r"by default (\S+)\.$", OPTIONS[name].help or "")
            owner = recipe.loop.optimizer if option == "learning-rate" else recipe.loop
            told[name] = float(found[1]) if found else None
            real[name] = float(getattr(owner, option.replace("-", "_")))

    assert told == real
