"""The command `mcp`: a knowledge base for assistants that speak the Model Context Protocol."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from kbengine.terminal.options import option, reader_option


@click.command()
@option("--kb", Path, "Directory of the knowledge base (KBENGINE_KB); by default --url is asked.", envvar="KBENGINE_KB")
@option("--url", str, "Ask the service at this address instead of opening a knowledge base; by default none.")
@option("--http", bool, "Listen for streamable HTTP instead of talking over standard input and output.")
@option("--host", str, "Listen on this address (--http); beyond loopback keys are needed.", default="127.0.0.1")
@option("--port", int, "Listen on this port (--http); 0 takes a free one.", default=8765)
@option("--require-key", bool, "Ask for an API key on loopback too (--http).")
@option(
    "--key-file", Path, "Take the API keys from this file; by default from the knowledge base.",
    envvar="KBENGINE_KEY_FILE",
)  # fmt: skip
@reader_option
def mcp(kb: Path | None, url: str | None, **chosen: Any) -> None:
    """Serve assistants by the Model Context Protocol: ask, search, annotate, fill, read, and add with a key.

    Documents can be added with a key of scope write: over standard input and output the one in KBENGINE_KEY, over
    HTTP the one that the client sends.

    \b
    Examples:
      kbengine mcp --kb my-kb
      kbengine mcp --kb my-kb --http --port 8765
      kbengine mcp --url http://localhost:8080
    """
    from web.mcp.server import ServerOptions, run

    if url is not None and click.get_current_context().get_parameter_source("kb") is ParameterSource.ENVIRONMENT:
        kb = None  # what was typed counts
    run(ServerOptions(kb=kb, url=url, key=os.environ.get("KBENGINE_KEY") or None, **chosen))
