"""`kbengine serve` as a process of its own, for tests."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

from tests.waiting import HANG_S, wait_until

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
        assert self.ready.wait(HANG_S) and hasattr(self, "port"), self.other
        return self

    def request(self, method, path, body=None, headers=JSON):
        """Return status and body."""
        call = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", body, headers, method=method)
        try:
            with urllib.request.urlopen(call, timeout=HANG_S) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def stop(self, sig=signal.SIGTERM):
        """Return the exit code after a signal."""
        self.process.send_signal(sig)
        code = self.process.wait(HANG_S)
        self._reader.join(HANG_S)
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
        server.process.wait(HANG_S)
        server.process.stdout.close()
        server._reader.join(HANG_S)
        server.process.stderr.close()


def worker_of(server):
    """Return the process id of the one worker, once it is there."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    wait_until(lambda: children.read_text().split())
    return int(children.read_text().split()[0])


def runs(pid):
    """Tell whether a process is there and has not ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
