"""The server as a process: it starts or says why not, and a stop loses nothing that was accepted."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from storage.reader import KBReader
from web.keys import KeyFile
from web.server import address
from web.settings import ServiceSettings

ROOT = Path(__file__).parent.parent.parent
BODY = json.dumps({"text": "Who conducted research on radioactivity?", "k": 1}).encode()
JSON = {"Content-Type": "application/json"}


class Server:
    """A running `kbengine serve`."""

    def __init__(self, kb, *options, before=()):
        self.process = subprocess.Popen(
            [*before, sys.executable, "-m", "kbengine.cli", "serve", "--kb", str(kb), "--port", "0", *options],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.events, self.other = [], []
        self.ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            if line.startswith("{"):
                self.events.append(json.loads(line))
                if self.events[-1]["event"] == "serving":
                    self.port = int(self.events[-1]["url"].rpartition(":")[2])
                    self.ready.set()
            else:
                self.other.append(line)
        self.ready.set()

    def started(self):
        """Return self once it answers."""
        assert self.ready.wait(120) and hasattr(self, "port"), self.other
        return self

    def request(self, method, path, body=None, headers=JSON):
        """Return status and body."""
        call = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", body, headers, method=method)
        try:
            with urllib.request.urlopen(call, timeout=30) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def stop(self, sig=signal.SIGTERM):
        """Return the exit code after a signal."""
        self.process.send_signal(sig)
        code = self.process.wait(60)
        self._reader.join(10)
        return code


@contextlib.contextmanager
def serving(kb, *options, before=()):
    """A server, which is stopped at the end whatever happens."""
    server = Server(kb, *options, before=before)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
        server.process.wait(30)
        server.process.stdout.close()
        server._reader.join(10)
        server.process.stderr.close()


class Caller(threading.Thread):
    """Asks one query after the other until it is refused; remembers what it got and what it lost."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.statuses, self.lost = port, [], []

    def run(self):
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            try:
                connection.connect()
            except OSError:
                return  # nobody listens any more: nothing was accepted
            try:
                while True:
                    connection.request("POST", "/v1/question", BODY, JSON)
                    response = connection.getresponse()
                    json.loads(response.read())
                    self.statuses.append(response.status)
                    if response.will_close:
                        break
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.lost.append(repr(error))
            finally:
                connection.close()


def stop_under_load(kb, *, n_callers, n_answers, drain_s="0.5"):
    """Return the callers of a server that was told to stop after so many answers, and what /readyz said meanwhile."""
    with serving(kb, "--drain-s", drain_s, "--cache-entries", "0") as server:
        server.started()
        assert server.request("GET", "/readyz")[0] == 200
        callers = [Caller(server.port) for _ in range(n_callers)]
        for caller in callers:
            caller.start()
        while sum(len(caller.statuses) for caller in callers) < n_answers:
            time.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
        ready = []
        until = time.monotonic() + 0.8 * float(drain_s)
        while time.monotonic() < until:
            ready.append(server.request("GET", "/readyz")[0])
            time.sleep(0.02)
        assert server.process.wait(60) == 0
        for caller in callers:
            caller.join(30)
    return callers, ready


def test_sigterm_under_load_loses_no_request_and_exits_0(kb_path):
    """Not ready first, then closed to new callers, then all that was accepted is answered."""
    callers, ready = stop_under_load(kb_path, n_callers=12, n_answers=60)

    assert ready and ready[-1] == 503
    assert [lost for caller in callers for lost in caller.lost] == []
    assert {status for caller in callers for status in caller.statuses} == {200}
    assert all(caller.statuses for caller in callers)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("drain_s", ["0", "0.5"])
def test_many_stops_under_load_lose_no_request(kb_path, drain_s):
    """Ten stops with a thousand answers each, with and without draining."""
    answered = 0
    for _ in range(10):
        callers, _ = stop_under_load(kb_path, n_callers=32, n_answers=1000, drain_s=drain_s)
        assert [lost for caller in callers for lost in caller.lost] == []
        assert {status for caller in callers for status in caller.statuses} == {200}
        answered += sum(len(caller.statuses) for caller in callers)

    assert answered >= 10_000


def test_a_change_in_flight_is_finished_before_the_end(kb_path):
    """It is answered, and there after the stop."""
    documents = [
        {"id": f"d{n}", "title": f"Title {n}", "text": "The river crosses the city. " * 30} for n in range(200)
    ]
    answers = []
    with serving(kb_path) as server:
        server.started()
        body = json.dumps({"documents": documents}).encode()
        sender = threading.Thread(target=lambda: answers.append(server.request("POST", "/v1/documents", body)))
        sender.start()
        while not answers and b"kbengine_pending_writes 1.0" not in server.request("GET", "/metrics")[1]:
            time.sleep(0.01)
        code = server.stop()
        sender.join(60)
    assert code == 0
    assert answers[0][0] == 201, answers
    with KBReader.open(kb_path) as reader:
        assert reader.info().documents == 205


def test_the_server_answers_on_the_wire_as_the_app_does(kb_path):
    """Chunked bodies, kept connections, wrong requests; nothing asked is in the log; Ctrl-C stops at once."""
    canary = "canary-on-the-wire"
    with serving(kb_path) as server:
        server.started()
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
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
        code = server.stop(signal.SIGINT)
        log = json.dumps(server.events) + "".join(server.other)

    assert (chunked.status, kept.status, stream.status, code) == (200, 200, 200, 0)
    assert stream.getheader("Transfer-Encoding") == "chunked"
    assert [line["id"] for line in submission] == list(range(40))
    assert b"400" in refused.split(b"\r\n")[0]
    assert canary not in log
    assert any(event.get("records") == 40 for event in server.events)


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
                timeout=60,
            )
            assert done.returncode in (1, 2), done.stderr
            assert message in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_a_model_that_cannot_be_loaded_ends_the_server(kb_path, encoder):
    """The worker's error is the command's: one line, exit 1, no loop of restarts."""
    shutil.rmtree(kb_path / "segments")
    with serving(kb_path) as server:
        code = server.process.wait(60)
        server._reader.join(10)

    assert code == 1
    assert any(line.startswith("error: ") for line in server.other)
    assert not any("Traceback" in line for line in server.other)


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
