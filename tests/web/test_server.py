"""The server as a process: it starts or says why not, answers on the wire, and needs no rights."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.waiting import HANG_S
from tests.web.running_server import BODY, JSON, ROOT, serving
from web.keys import KeyFile
from web.server import CLIENT_STALL_S, address, listening_socket
from web.settings import ServiceSettings


def test_the_server_answers_on_the_wire_as_the_app_does(kb_path):
    """Chunked bodies, kept connections, wrong requests; nothing asked is in the log; Ctrl-C stops at once."""
    canary = "canary-on-the-wire"
    with serving(kb_path) as server:
        server.started()
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=HANG_S)
        connection.request("POST", "/v1/question", iter([BODY[:10], BODY[10:]]), JSON, encode_chunked=True)
        chunked = connection.getresponse()
        chunked.read()
        connection.request("GET", f"/v1/documents?q={canary}")
        kept = connection.getresponse()
        kept.read()
        lines = b"".join(json.dumps({"id": n, "input": f"{canary} {n}"}).encode() + b"\n" for n in range(40))
        connection.request("POST", "/v1/kilt/question", lines, {"Content-Type": "application/x-ndjson"})
        stream = connection.getresponse()
        submission = [json.loads(line) for line in stream.read().split(b"\n") if line]
        connection.close()
        with socket.create_connection(("127.0.0.1", server.port)) as raw:
            raw.sendall(f"GET /{canary} NONSENSE\r\n\r\n".encode())
            refused = raw.recv(4096)
        closed = [
            said_last(server, b"Content-Length: 9000000\r\n\r\n"),
            said_last(server, b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n"),
        ]
        in_flight = in_flight_of(server)
        with contextlib.ExitStack() as opened:
            stalled = [stalled_body(server, opened) for _ in range(70)]  # more than there are threads
            livez = server.request("GET", "/livez")[0]
            n_waiting = sum(not is_closed(client) for client in stalled)
        code = server.stop(signal.SIGINT)
        log = json.dumps(server.events) + "".join(server.other)

    assert (chunked.status, kept.status, stream.status, code) == (200, 200, 200, 0)
    assert livez == 200
    assert 40 <= n_waiting < 70, "answered beside clients that stall, not after their time was up"
    assert stream.getheader("Transfer-Encoding") == "chunked"
    assert [line["id"] for line in submission] == list(range(40))
    assert b"400" in refused.split(b"\r\n")[0]
    assert [answer.split(b" ")[1] for answer in closed] == [b"413", b"400"]
    assert all(b"\r\nConnection: close\r\n" in answer for answer in closed)
    assert in_flight == 1  # the one that asks
    assert canary not in log
    assert any(event.get("records") == 40 for event in server.events)


def stalled_body(server, opened):
    """Return the connection of a client that sends half of a body, and no more."""
    client = opened.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=HANG_S))
    head = (
        b"POST /v1/question HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"
    )
    client.sendall(head + b'{"text": ')
    return client


def is_closed(client):
    """Tell whether the server has answered or closed the connection."""
    return bool(select.select([client], [], [], 0)[0])


def said_last(server, end_of_head):
    """Return all that is answered to a POST whose body is not sent, until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=HANG_S) as raw:
        raw.sendall(
            b"POST /v1/question HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n" + end_of_head
        )
        return b"".join(iter(lambda: raw.recv(4096), b""))


def in_flight_of(server):
    """Return how many requests the server says it is handling."""
    text = server.request("GET", "/metrics")[1].decode()
    return next(float(line.split()[1]) for line in text.split("\n") if line.startswith("kbengine_requests_in_flight "))


def test_what_keeps_it_from_starting_is_one_line(kb_path, tmp_path):
    """No traceback, exit 1 or 2, before anything listens or right after."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        cases = {
            "needs an API key": (kb_path, ["--host", "0.0.0.0"]),
            "choose another --host or --port": (kb_path, ["--port", port]),
            "is not a directory; give the path": (tmp_path / "nothing", []),
            "threads is 1, wanted": (kb_path, ["--threads", "1"]),
        }
        for message, (kb, options) in cases.items():
            done = subprocess.run(
                [sys.executable, "-m", "kbengine.cli", "serve", "--kb", str(kb), *options],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
                check=False,
                timeout=HANG_S,
            )
            assert done.returncode in (1, 2), done.stderr
            assert message in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_a_model_that_cannot_be_loaded_ends_the_server(kb_path, encoder):
    """The worker's error is the command's: one line, exit 1, no loop of restarts."""
    shutil.rmtree(kb_path / "segments")
    with serving(kb_path) as server:
        code = server.process.wait(HANG_S)
        server._reader.join(HANG_S)

    assert code == 1
    assert any(line.startswith("error: ") for line in server.other)
    assert not any("Traceback" in line for line in server.other)


@pytest.mark.parametrize("option", [socket.SO_RCVTIMEO, socket.SO_SNDTIMEO])
def test_a_client_that_stands_still_is_not_waited_for_for_ever(option):
    """A connection that is taken has the time limits of the listener that took it."""
    with listening_socket(ServiceSettings(port=0)) as listener:
        client = socket.create_connection(listener.getsockname())
        taken, _ = listener.accept()
        with client, taken:
            limit = struct.unpack("ll", taken.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("ll")))

    assert limit == (CLIENT_STALL_S, 0)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:1"),
        ("localhost", "http://localhost:1"),
        ("::1", "http://[::1]:1"),
        ("0.0.0.0", "http://localhost:1"),
    ],
)
def test_the_address_can_be_opened(host, url):
    """As a browser takes it."""
    assert address(ServiceSettings(host=host), 1) == url


def test_it_runs_as_nobody_on_a_read_only_file_system(kb_path):
    """As in the container: an unprivileged user without capabilities, writing to the knowledge base only."""
    # pytest's directories are for its own user only.
    home = Path(tempfile.mkdtemp(prefix="kbengine-nobody-"))
    in_container = [str(ROOT / ".ci" / "as-in-container"), str(home)]
    if subprocess.run([*in_container, sys.executable, "-c", ""], capture_output=True, check=False).returncode:
        pytest.skip("needs root, mount namespaces and setpriv")
    try:
        shutil.copytree(kb_path, home / "kb")
        _, token = KeyFile(home / "kb" / "api-keys.json").create("container", "write")
        for path in (home, *home.rglob("*")):
            os.chown(path, 65534, 65534)
        headers = {**JSON, "Authorization": f"Bearer {token}"}
        document = json.dumps({"id": "zebra", "title": "Zebra", "text": "A zebra has stripes."}).encode()
        lines = {**headers, "Content-Type": "application/x-ndjson"}
        with serving(home / "kb", "--host", "0.0.0.0", before=in_container) as server:
            server.started()
            statuses = [
                server.request("GET", "/livez")[0],
                server.request("GET", "/v1/kb")[0],
                server.request("POST", "/v1/question", BODY, headers)[0],
                server.request("POST", "/v1/documents", document, headers)[0],
                server.request("POST", "/v1/kilt/question", b'{"id": 1, "input": "stripes"}', lines)[0],
            ]
            code = server.stop()
    finally:
        shutil.rmtree(home)

    assert statuses == [200, 401, 200, 201, 200]
    assert code == 0
