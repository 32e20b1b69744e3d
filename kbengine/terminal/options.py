"""Options that several commands have, as decorators."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)
STORED_TOKENS = ("all", "indexed")
FORMAT_NAMES = ("kilt", "densephrases", "dpr", "beir", "kbengine", "plain", "folder")


def option(names: str, kind: Any, text: str, **settings: Any) -> Callable[[F], F]:
    """Return a decorator that adds an option to a command; its help tells the default, and whether it may come again.

    Args:
        names: `--name` or `--name/--no-name`, and after a blank the parameter's name where that is another.
        kind: `bool` for a flag, `Path`, another type, or a tuple of the words to choose from.
        text: What the option does, as a sentence; with the default in words where `default` is not given.
        **settings: Of `click.option`: `default`, `required`, `multiple`, `metavar`, `envvar`.
    """
    if kind is bool:
        settings["is_flag"] = True
    elif isinstance(kind, tuple):
        settings["type"] = click.Choice(kind)
    else:
        settings["type"] = PATH if kind is Path else kind
    if settings.get("multiple"):
        text += " May be repeated."
    return click.option(*names.split(), help=text, show_default=settings.get("default") is not None, **settings)


def options(*each: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds several options to a command, shown in this order."""
    return lambda function: functools.reduce(lambda done, add: add(done), reversed(each), function)


class _Directory(click.Path):
    """The directory of a knowledge base, which a command cannot do without, whatever service the environment names."""

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str | None:  # noqa: ARG002
        """Return what is said where none is given."""
        wants_service = bool(os.environ.get("KBENGINE_URL"))
        return "This command works on a directory, not on the service at KBENGINE_URL." if wants_service else None


kb_option = option(
    "--kb",
    _Directory(path_type=Path),
    "Directory of the knowledge base (KBENGINE_KB).",
    required=True,
    envvar="KBENGINE_KB",
)
json_option = option("--json as_json", bool, "Write one JSON object a line to standard output.")
device_option = option("--device", str, "Run the model on auto, cpu, cuda or cuda:N.", default="auto")
dtype_option = option(
    "--dtype", ("auto", "float32", "bfloat16"), "Compute matrix products in this type.", default="auto"
)
reader_option = option(
    "--reader", str, "Read with this reader, a bundled one's name or a directory.", default="minilm-reader"
)
format_option = option("--format format_name", FORMAT_NAMES, "Read this format; by default it is detected.")
skip_bad_option = option("--skip-bad", bool, "Count records that cannot be read instead of stopping.")

encoder_options = options(
    option("--encoder", str, "Use the encoder of this name or directory; by default the KB's own, or minilm-phrase."),
    device_option,
    dtype_option,
)
corpus_options = options(click.argument("corpus", nargs=-1, required=True, type=PATH), format_option, skip_bad_option)
