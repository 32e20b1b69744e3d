"""Messages that name a command name one that exists."""

from __future__ import annotations

import re
from pathlib import Path

import click

from kbengine.cli import cli

ROOT = Path(__file__).parent.parent
PACKAGES = ("storage", "kbengine", "adapters", "web")


def test_every_command_that_a_message_names_exists():
    """A remedy that cannot be run is worse than none."""
    commands = set(cli.list_commands(click.Context(cli)))
    named = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            named |= set(re.findall(r"'kbengine ([a-z-]+)", path.read_text(encoding="utf-8")))

    assert named and named <= commands, named - commands
