"""The pages about the API and the service: every command, option, route, code and meter exists."""

from __future__ import annotations

import re
from pathlib import Path

import click

from kbengine.cli import cli
from tests.web.test_keys import NEEDED
from web import limits
from web.problems import catalogue

DOCS = Path(__file__).parent.parent.parent / "docs"
API = (DOCS / "reference" / "http.md").read_text(encoding="utf-8")
OPERATIONS = (DOCS / "how-to" / "serve.md").read_text(encoding="utf-8")


def test_every_route_is_described():
    """And no other."""
    described = set(
        re.findall(r"/v1/[a-z_:{}/-]+|/reconcile[a-z/]*|/rel\b|/nif\b|/livez|/readyz|/metrics|/problems/\{code\}", API)
    )
    routes = {re.sub(r"<(?:path:)?(?:doc_|job_)?(\w+)>", r"{\1}", rule) for _, rule in NEEDED} - {"/openapi.json"}

    assert routes <= described
    # In examples, and what stands for all routes of one knowledge base.
    assert described - routes <= {"/v1/kilt/question", "/v1/kilt/", "/v1/documents/mars", "/v1/kb/{name}/"}


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


def test_every_option_of_serve_is_described():
    """In the table of options, and no other."""
    serve = cli.get_command(click.Context(cli), "serve")
    documented = set(re.findall(r"`(--[a-z-]+)`", OPERATIONS[: OPERATIONS.index("## Stopping")])) | {"--kb"}
    assert documented == {option for parameter in serve.params for option in parameter.opts}


def test_every_meter_that_is_named_exists(shared):
    """By its name in /metrics."""
    shared.post("/v1/search", {"text": "x"})
    exposed = shared.client.get("/metrics").text
    named = set(re.findall(r"`(kbengine_[a-z_]+)`", OPERATIONS))

    assert len(named) >= 6 and all(name in exposed for name in named)
