"""Every answer is as the OpenAPI document says, on all that schemathesis can think of."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from werkzeug.serving import WSGIRequestHandler, make_server

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
HOOKS = "tests.integrations.fuzzing.schemathesis_hooks"


def run_schemathesis(served, config, *options):
    """Return what `schemathesis run` said of a server of the app, and its exit code."""
    server = make_server("127.0.0.1", 0, served.app, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.port}/openapi.json"
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(HERE / config), "run", url]
    try:
        done = subprocess.run(
            [*command, "--checks", "all", "--generation-deterministic", "--no-color", *options],
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "SCHEMATHESIS_HOOKS": HOOKS,
                "PYTHONPATH": str(ROOT),
            },
            cwd=served.engine.knowledge_base.path.parent,  # it leaves a directory behind
            check=False,
        )
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    return done.returncode, done.stdout + done.stderr


class Quiet(WSGIRequestHandler):
    """A request handler that logs nothing."""

    def log(self, *_):
        """Do nothing."""


def test_every_answer_is_as_documented(service):
    """All checks of schemathesis, on bodies that follow the schemas and on bodies that do not."""
    code, said = run_schemathesis(service, "schemathesis-quick.toml", "--max-examples", "2")

    assert code == 0, said[-10_000:]
    assert not [event for event in service.events() if event["event"] == "crashed"]


@pytest.mark.slow
def test_every_answer_is_as_documented_at_length(service):
    """The same with every boundary of every body, and more of what chance finds."""
    code, said = run_schemathesis(service, "schemathesis.toml", "--max-examples", "100")

    assert code == 0, said[-10_000:]
    assert not [event for event in service.events() if event["event"] == "crashed"]
