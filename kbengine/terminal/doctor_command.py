"""The command `doctor`."""

from __future__ import annotations

import click

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import json_option


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Check this environment: versions, SQLite, processor, package names.

    \b
    Example: kbengine doctor
    """
    from kbengine.terminal.doctor import diagnose

    output = standard_output(as_json=as_json)
    findings = diagnose()
    output.table(("check", "state", "found"), [(each.check, each.state, each.found) for each in findings])
    if any(each.state == "bad" for each in findings):
        raise SystemExit(1)
