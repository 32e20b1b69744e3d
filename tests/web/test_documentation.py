"""docs/api.md and docs/operations.md: every example runs, every command, option, route, code and meter exists."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from pathlib import Path

import click
import pytest
from werkzeug.serving import make_server

from kbengine.cli import cli
from tests.web.test_keys import NEEDED
from tests.web.test_openapi import Quiet
from web import limits
from web.problems import catalogue

DOCS = Path(__file__).parent.parent.parent / "docs"
API = (DOCS / "api.md").read_text(encoding="utf-8")
OPERATIONS = (DOCS / "operations.md").read_text(encoding="utf-8")


def blocks(text, language):
    """Return the code blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)


def commands(text):
    """Return the commands of the console blocks, continued lines joined."""
    joined = "\n".join(blocks(text, "console")).replace("\\\n", " ")
    return [line.removeprefix("$ ") for line in joined.split("\n") if line.startswith("$ ")]


@pytest.fixture
def port(service):
    """The port of a server of a knowledge base that the examples may change."""
    server = make_server("127.0.0.1", 0, service.app, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.port
    server.shutdown()
    thread.join()
    server.server_close()


def test_every_example_of_the_api_runs(port, capsys):
    """One after the other, as a reader would type them: each gives an answer and no problem."""
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    examples = commands(API)
    for i, command in enumerate(examples):
        done = subprocess.run(
            ["bash", "-c", command.replace("localhost:8080", f"127.0.0.1:{port}")],
            capture_output=True,
            text=True,
            check=True,
        )
        answers = [json.loads(line) for line in done.stdout.split("\n") if line]
        assert answers and all("status" not in each or isinstance(each["status"], str) for each in answers), (
            command,
            done.stdout,
        )
        if i == 1:  # the Python example asks what the first two did
            (python,) = blocks(API, "python")
            exec(compile(python.replace("localhost:8080", f"127.0.0.1:{port}"), "api.md", "exec"), {})
    assert len(examples) >= 14
    assert "Moon" in capsys.readouterr().out


def test_every_route_is_described():
    """And no other."""
    described = set(re.findall(r"/v1/[a-z:{}/-]+|/livez|/readyz|/metrics|/problems/\{code\}", API))
    routes = {re.sub(r"<(?:path:)?(?:doc_)?(\w+)>", r"{\1}", rule) for _, rule in NEEDED} - {"/openapi.json"}

    assert routes <= described
    assert described - routes <= {"/v1/kilt/question", "/v1/kilt/", "/v1/documents/mars"}  # in examples


def test_every_code_that_is_named_exists():
    """In the tables of errors."""
    table = API[API.index("## Errors") : API.index("## Limits")]
    named = {word for word in re.findall(r"`([a-z_]+)`", table) if "_" in word or word in ("internal", "locked")}

    assert named - {"request_id"} <= set(catalogue()) and len(named) > 12


def test_the_limits_are_the_documented_ones():
    """Each number stands in the table."""
    table = API[API.index("## Limits") : API.index("## API keys")]

    for number in (
        f"{limits.TEXT_CHARS:,} characters",
        f"{limits.QUERY_BODY_BYTES >> 20} MiB",
        f"{limits.BULK_BODY_BYTES >> 20} MiB",
        f"| {limits.TURNS} |",
        f"| {limits.K} |",
        f"| {limits.BATCH} |",
        f"| {limits.DOCUMENTS} |",
        f"| {limits.PAGE_ITEMS} |",
    ):
        assert number in table, number
    assert limits.TURNS == limits.SPANS and limits.DOCUMENTS == limits.ALIASES


def test_every_command_and_option_of_operations_exists():
    """Of `serve`, of `key`, and in the table of options."""
    context = click.Context(cli)
    for line in commands(OPERATIONS):
        if not line.startswith("kbengine "):
            continue
        words = line.split()[1:]
        command = cli.get_command(context, words[0])
        if isinstance(command, click.Group):
            command = command.get_command(context, words[1])
        assert command is not None, line
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, line
    serve = cli.get_command(context, "serve")
    documented = set(re.findall(r"`(--[a-z-]+)`", OPERATIONS[: OPERATIONS.index("## Stopping")])) | {"--kb"}
    assert documented == {option for parameter in serve.params for option in parameter.opts}


def test_every_meter_that_is_named_exists(shared):
    """By its name in /metrics."""
    shared.post("/v1/search", {"text": "x"})
    exposed = shared.client.get("/metrics").text
    named = set(re.findall(r"`(kbengine_[a-z_]+)`", OPERATIONS))

    assert len(named) >= 6 and all(name in exposed for name in named)
