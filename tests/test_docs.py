"""What the README says is true: its Python example runs, its commands and files exist."""

from __future__ import annotations

import contextlib
import io
import re
from importlib.resources import files
from pathlib import Path

import click
import pytest

from kbengine.build.builder import CorpusOptions, build
from kbengine.build.filtering import FilterOptions
from kbengine.cli import cli
from kbengine.encoders.encoder import Encoder

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_example_runs_and_prints_the_answers(tmp_path, monkeypatch):
    """On the demo knowledge base: a bundled answer, an added document, a deleted one."""
    monkeypatch.chdir(tmp_path)
    corpus = Path(str(files("kbengine") / "demo" / "corpus.jsonl"))
    build(
        CorpusOptions((corpus,)),
        Path("demo-kb"),
        encoder=Encoder.load(),
        filter_options=FilterOptions(keep_fraction=0.5),
    )
    example = re.search(r"```python\n(.*?)```", README, re.S).group(1)
    printed = io.StringIO()

    with contextlib.redirect_stdout(printed):
        exec(compile(example, "README.md", "exec"), {})

    assert "Joe Hisaishi" in printed.getvalue() and "1764" in printed.getvalue()


def test_every_command_of_the_readme_exists():
    """Commands and their options are those of the program."""
    commands = dict.fromkeys(cli.list_commands(click.Context(cli)))
    for line in re.findall(r"^\$ kbengine (.*)$", README, re.M):
        name, *rest = line.split(" ")
        assert name in commands
        options = {o for p in cli.get_command(click.Context(cli), name).params for o in p.opts}
        for option in re.findall(r"(?<= )--[a-z-]+", " ".join(rest)):
            assert option in options, f"{name} {option}"


@pytest.mark.parametrize("target", re.findall(r"\]\((?!http)([^)#]+)\)", README))
def test_every_linked_file_exists(target):
    """No link of the README leads nowhere."""
    assert (ROOT / target).exists()
