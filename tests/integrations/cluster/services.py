"""What a cluster of several machines needs, started here: PostgreSQL, and a server that stores objects as S3 does."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Postgres:
    """A PostgreSQL server with a folder of its own; not run as root, which it refuses.

    Attributes:
        port: where it listens.
    """

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._data = programs, folder / "data"
        self._user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
        if os.getuid() == 0:
            shutil.chown(folder, self._user)
        self.port = free_port()
        self._server: subprocess.Popen[bytes] | None = None
        self._run("initdb", "-D", str(self._data), "-U", "kb", "--auth=trust", "--no-sync", "--encoding=UTF8")

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._programs / program, *arguments],
            check=True,
            capture_output=True,
            cwd=self._data.parent,
            user=self._user if os.getuid() == 0 else None,
        )

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-k", str(self._data.parent)]
        self._server = subprocess.Popen(
            [self._programs / "postgres", "-D", str(self._data), "-p", str(self.port), *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._data.parent,
            user=self._user if os.getuid() == 0 else None,
        )
        for _ in range(600):
            with contextlib.suppress(subprocess.CalledProcessError):
                self._run("pg_isready", "-h", "127.0.0.1", "-p", str(self.port))
                return
            time.sleep(0.1)
        raise AssertionError("PostgreSQL does not answer")

    def stop(self) -> None:
        """Stop it at once, as a crash would."""
        if self._server is not None:
            self._run("pg_ctl", "stop", "-D", str(self._data), "-m", "immediate")
            self._server.wait()
            self._server = None

    def database(self, name: str) -> str:
        """Make an empty database and return its address."""
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "kb", name)
        return f"postgresql+psycopg://kb@127.0.0.1:{self.port}/{name}"


@contextlib.contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Give a running server; skips the test where PostgreSQL is not installed, unless it is required."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        message = "PostgreSQL is not installed: apt-get install postgresql"
        if os.environ.get("KBENGINE_REQUIRE_POSTGRESQL"):
            pytest.fail(message)
        pytest.skip(message)
    with tempfile.TemporaryDirectory(prefix="kb-pg-") as folder:
        server = Postgres(found[-1].parent, Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextlib.contextmanager
def running_s3() -> Iterator[str]:
    """Give the address of a server of S3 that has a bucket called `bucket`; the environment points clients to it."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=free_port(), verbose=False)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    named = {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    before = {name: os.environ.get(name) for name in named}
    os.environ.update(named)
    try:
        boto3.client("s3").create_bucket(Bucket="bucket")
        yield address
    finally:
        server.stop()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
