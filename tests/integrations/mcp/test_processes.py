"""`kbengine mcp` as a process of its own, over standard input and output and over HTTP."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from tests.test_docs import ROOT, run_examples
from tests.waiting import HANG_S
from tests.web.running_server import serving
from web.keys import key_file

COMMAND = [sys.executable, "-m", "kbengine.cli", "mcp"]
MILL = {"id": "mill", "title": "Quillmere", "text": "The mill of Quillmere was built in 1764."}


def environment(**more):
    """Return the environment of a process that finds the checkout."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


@contextlib.contextmanager
def listening(*options):
    """Give the address of a server over HTTP, which is stopped by SIGTERM."""
    process = subprocess.Popen(
        [*COMMAND, "--http", "--port", "0", *options], env=environment(), stderr=subprocess.PIPE, text=True
    )
    try:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if line.startswith("{") and json.loads(line)["event"] == "serving":
                break
        else:
            pytest.fail("".join(lines))
        yield json.loads(lines[-1])["url"]
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        assert process.wait(HANG_S) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        process.wait(HANG_S)
        process.stderr.close()


def asked(server, name, arguments, token=None):
    """Return a tool's result of a server; with a token of a server at an address."""

    async def run():
        async with contextlib.AsyncExitStack() as stack:
            asked = server
            if token is not None:
                headers = {"Authorization": f"Bearer {token}"}
                http = await stack.enter_async_context(create_mcp_http_client(headers))
                asked = streamable_http_client(server, http_client=http)
            client = await stack.enter_async_context(Client(asked))
            return await client.call_tool(name, arguments)

    return anyio.run(run)


def test_over_standard_input_and_output(kb_path):
    """A knowledge base opened in the process, documents added with the key of its environment."""
    _, token = key_file(kb_path, None).create("assistant", "write")
    parameters = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], "--kb", str(kb_path)], env=environment(KBENGINE_KEY=token)
    )

    async def run():
        async with Client(stdio_client(parameters)) as client:
            added = await client.call_tool("add", {"documents": [MILL]})
            return added, await client.call_tool("search", {"query": "the mill of Quillmere", "k": 1})

    added, found = anyio.run(run)
    assert added.structured_content["added"] == 1
    assert not found.is_error


def test_over_http_each_client_sends_its_own_key(kb_path):
    """Reading needs none on loopback; adding needs one of scope write."""
    keys = key_file(kb_path, None)
    with listening("--kb", str(kb_path)) as url:
        assert not asked(url, "ask", {"question": "Who conducted research?"}).is_error
        refused = asked(url, "add", {"documents": [MILL]})
        assert refused.is_error and "needs an API key of scope write" in refused.content[0].text
        for scope in ("read", "write"):
            result = asked(url, "add", {"documents": [MILL]}, keys.create(scope, scope)[1])
            assert result.is_error == (scope == "read"), result.content


def test_with_keys_required_nothing_is_answered_without_one(kb_path):
    """Neither lists nor tools."""
    keys = key_file(kb_path, None)
    _, token = keys.create("reader", "read")
    with listening("--kb", str(kb_path), "--require-key") as url:
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(urllib.request.Request(url, b"{}", {"Content-Type": "application/json"}))
        with caught.value as error:
            assert error.code == 401 and json.load(error)["code"] == "unauthorized"
        assert not asked(url, "ask", {"question": "Who conducted research?"}, token).is_error


def test_a_running_service_is_asked(kb_path):
    """Its answers, and no model is loaded a second time."""
    with serving(kb_path) as server:
        server.started()
        parameters = StdioServerParameters(
            command=COMMAND[0],
            args=[*COMMAND[1:], "--url", f"http://127.0.0.1:{server.port}"],
            env=environment(KBENGINE_KB="/nowhere"),
        )
        result = asked(stdio_client(parameters), "describe_knowledge_base", {})
    assert result.structured_content["documents"] == 5


def test_the_examples_of_the_page_run(bases, tmp_path, monkeypatch):
    """As a reader would type them."""
    run_examples(ROOT / "docs" / "how-to" / "assistants.md", bases, tmp_path, monkeypatch)
