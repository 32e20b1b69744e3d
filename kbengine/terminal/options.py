"""Options that several commands have, as decorators."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)
FORMAT_NAMES = ("kilt", "densephrases", "dpr", "beir", "kbengine", "folder")

kb_option = click.option(
    "--kb",
    type=PATH,
    required=True,
    envvar="KBENGINE_KB",
    help="The knowledge base's directory (or set KBENGINE_KB).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object a line on stdout.")
device_option = click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N.")
dtype_option = click.option(
    "--dtype", type=click.Choice(["auto", "float32", "bfloat16"]), default="auto", show_default=True
)
format_option = click.option(
    "--format", "format_name", type=click.Choice(FORMAT_NAMES), help="By default it is detected."
)
skip_bad_option = click.option(
    "--skip-bad", is_flag=True, help="Count records that cannot be read instead of stopping."
)


def encoder_options(function: F) -> F:
    """Add the options of the encoder to a command."""
    option = click.option(
        "--encoder", help="Name or directory of an encoder; by default minilm-phrase, or the KB's own."
    )
    return option(device_option(dtype_option(function)))


def corpus_options(function: F) -> F:
    """Add a corpus and how to read it to a command."""
    corpus = click.argument("corpus", nargs=-1, required=True, type=PATH)
    return corpus(format_option(skip_bad_option(function)))
