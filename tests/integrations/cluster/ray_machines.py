"""A Ray runtime of two machines, as far as Ray can tell: a head that only keeps the books, and one that searches."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integrations.cluster.services import free_port

HEAD, MACHINE = "127.0.0.2", "127.0.0.3"
_TRIES = 5


class RayMachines:
    """Started, killed and started again by tests; everything of it has one token, by which its processes are found.

    Args:
        folder: for what is said.
        keeps_state: let Redis keep what the head knows, so that one that is started anew knows it again.
        waits_s: how long everybody waits for a head that is gone.
    """

    def __init__(self, folder: Path, *, keeps_state: bool, waits_s: int) -> None:
        self.token = secrets.token_hex(32)
        self.address = f"{HEAD}:{free_port()}"
        self.environment = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self.token,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
            "RAY_raylet_start_wait_time_s": "120",
            "RAY_worker_register_timeout_seconds": "120",
            "RAY_worker_niceness": "0",
            "RAY_gcs_rpc_server_reconnect_timeout_s": str(waits_s),
            "PYTHONPATH": str(Path.cwd()),
        }
        self._redis: str | None = None
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []
        self._head: subprocess.Popen[bytes] | None = None
        self._temporary = Path(f"/tmp/kbengine-{self.token[:8]}")  # names of sockets are bounded
        if keeps_state:
            self._start_redis(folder)

    def _start_redis(self, folder: Path) -> None:
        program = shutil.which("redis-server")
        if program is None:
            message = "Redis is not installed: apt-get install redis-server"
            if os.environ.get("KBENGINE_REQUIRE_REDIS"):
                pytest.fail(message)
            pytest.skip(message)
        port = free_port()
        command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
        self._start(command, self.environment, folder / "redis.log")
        self._redis = f"127.0.0.1:{port}"

    def start_head(self) -> None:
        """Start the head, anew if it was killed."""
        redis = {} if self._redis is None else {"RAY_REDIS_ADDRESS": self._redis}
        port = self.address.rpartition(":")[2]
        self._head = self._ray(
            "--head", "--port", port, "--num-cpus", "0", "--node-ip-address", HEAD, environment=redis
        )

    def start_machine(self) -> None:
        """Start the machine that searches."""
        self._ray("--address", self.address, "--num-cpus", "2", "--node-ip-address", MACHINE, "--node-name", "second")

    def kill_head(self) -> None:
        """Kill all processes of the head at once, as when its machine loses power."""
        assert self._head is not None
        self._kill(_started_by({self._head.pid}, _parents()))
        self._head.wait()
        # A note of the head's machine, by which Ray takes the other ones' processes for the head's, if all are one.
        (self._temporary / "ray_current_cluster").unlink(missing_ok=True)

    def actors(self) -> list[int]:
        """Return the processes that search."""
        return [pid for pid in self._processes() if _command(pid).startswith("ray::_Actor")]

    def end(self) -> None:
        """Kill everything."""
        self._kill(self._processes())
        for each in self._started:
            each.wait()
        shutil.rmtree(self._temporary, ignore_errors=True)

    def _ray(self, *arguments: str, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start a node and wait until it says that it runs; Ray gives up by itself where a machine is slow."""
        where = ["--include-dashboard=false", "--temp-dir", str(self._temporary)] if "--head" in arguments else []
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", *arguments, *where, "--block"]
        said = ""
        for number in range(_TRIES):
            log = self._folder / f"ray-{len(self._started)}-{number}.log"
            process = self._start(command, {**self.environment, **(environment or {})}, log)
            while process.poll() is None:
                if "Ray runtime started" in log.read_text():
                    return process
                time.sleep(0.1)
            said = log.read_text()[-2_000:]
        raise AssertionError(said)

    def _start(self, command: list[str], environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        self._started.append(process)
        return process

    def _processes(self) -> set[int]:
        """Return what has the token in its environment, and what such processes started, which may hide its own."""
        token = f"RAY_AUTH_TOKEN={self.token}".encode()
        parents, ours = _parents(), {each.pid for each in self._started if each.poll() is None}
        for pid in parents:
            with contextlib.suppress(OSError):
                if token in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    ours.add(pid)
        return _started_by(ours, parents) - {os.getpid()}

    def _kill(self, pids: set[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _parents() -> dict[int, int]:
    """Return the parent of each process."""
    found: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    return found


def _started_by(pids: set[int], parents: dict[int, int]) -> set[int]:
    """Return these processes and all that they, or those that they started, have started."""
    found = set(pids)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


@contextlib.contextmanager
def ray_machines(folder: Path, *, keeps_state: bool = False, waits_s: int = 600) -> Iterator[RayMachines]:
    """Give a runtime whose head and machine run."""
    machines = RayMachines(folder, keeps_state=keeps_state, waits_s=waits_s)
    try:
        machines.start_head()
        machines.start_machine()
        yield machines
    finally:
        machines.end()
