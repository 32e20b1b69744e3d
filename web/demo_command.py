"""The command `demo`: it builds, asks and serves, so it lives in the uppermost layer."""

from __future__ import annotations

from pathlib import Path

import click

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import json_option, option


@click.command()
@option("--kb", Path, "Build the demo in this directory.", default=Path("demo-kb"))
@option("--serve/--no-serve", bool, "Serve the knowledge base at the end, until Ctrl-C.", default=True)
@option("--port", int, "Serve on this port, or on a free one if it is taken.", default=8080)
@json_option
def demo(kb: Path, serve: bool, port: int, as_json: bool) -> None:
    """Build the bundled knowledge base, ask it one query of each task, tell what to try next, serve page and API.

    \b
    Example: kbengine demo
    """
    from adapters.commands.answer_text import demo_asker
    from kbengine.terminal.demonstration import run_demo

    output = standard_output(as_json=as_json)
    run_demo(kb, output, demo_asker(output))
    if serve:
        from web.server import serve_demo

        serve_demo(kb, port, output)
