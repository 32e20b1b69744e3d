"""The OpenAPI document: valid, complete, and true of every answer that schemathesis can think of."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from werkzeug.serving import WSGIRequestHandler, make_server

from tests.web.test_keys import NEEDED

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PROBLEMS = {"400", "404", "405", "413", "415", "422", "429", "500", "503", "504", "507"}


@pytest.fixture(scope="module")
def document(shared):
    """The document as a client fetches it."""
    return shared.client.get("/openapi.json").json


def test_the_document_is_valid_openapi_3_1(document):
    """As the specification's own schema says."""
    assert document["openapi"].startswith("3.1")
    OpenAPIV31SpecValidator(document).validate()


def test_every_route_is_in_the_document_and_nothing_else(document):
    """But for the document itself; the web page's routes are no API."""
    wanted = {
        (method.lower(), re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule))
        for method, rule in NEEDED
        if rule != "/openapi.json"
    }

    assert {(method, path) for path, methods in document["paths"].items() for method in methods} == wanted


def test_every_operation_names_its_problems_its_scope_and_itself(document):
    """Problem documents for every status, security where a key is needed, ids for generated clients."""
    ids = []
    for methods in document["paths"].values():
        for operation in methods.values():
            ids.append(operation["operationId"])
            assert set(operation["responses"]) >= PROBLEMS
            needs_key = "scope" in operation["description"]
            assert operation["security"] == ([{}, {"ApiKey": []}] if needs_key else [])
            assert operation["summary"] and operation["tags"]
            problem = operation["responses"]["400"]["content"]["application/problem+json"]
            assert problem["schema"] == {"$ref": "#/components/schemas/ProblemBody"}
    assert len(ids) == len(set(ids))


def test_bodies_take_no_field_that_is_not_declared(document):
    """Neither requests nor answers."""
    for name, schema in document["components"]["schemas"].items():
        if schema.get("type") == "object" and "properties" in schema:
            assert schema["additionalProperties"] is False, name


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
            env={**os.environ, "SCHEMATHESIS_HOOKS": "tests.web.schemathesis_hooks", "PYTHONPATH": str(ROOT)},
            cwd=served.engine.path.parent,  # it leaves a directory behind
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
