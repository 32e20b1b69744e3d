"""The production server: one process with one engine and many threads, run by gunicorn."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gunicorn.app.base import BaseApplication

from kbengine.errors import InvalidOptionError, KBError
from web.batching import BatchingOptions
from web.cluster_state import take_over
from web.engine import Engine, EngineOptions
from web.keys import SCOPES, key_file
from web.knowledge_bases import KnowledgeBases, NamedPath
from web.request_log import ServerLogger, make_log, set_up_library_logs
from web.service import StopFlag
from web.settings import ServiceSettings
from web.worker import EngineWorker, OneWorkerArbiter

if TYPE_CHECKING:
    from flask import Flask

    from kbengine.cluster.opening import ClusterOptions
    from kbengine.terminal.console import Output

BACKLOG = 512
CLIENT_STALL_S = 60
"""How long a client may neither send what it announced nor read its answer before its connection is closed."""
_LOAD_FAILED = (OneWorkerArbiter.WORKER_BOOT_ERROR, OneWorkerArbiter.APP_LOAD_ERROR)
_SHARED_MEMORY = Path("/dev/shm")


def serve(kbs: Sequence[NamedPath], settings: ServiceSettings) -> None:
    """Serve knowledge bases until SIGTERM or Ctrl-C; returns only by SystemExit, with 0 after a clean stop.

    Raises:
        InvalidOptionError: the address cannot be bound, or is not loopback and there is no API key.
        StateError: there is no knowledge base that can be served.
    """
    from storage.reader import KBReader

    if len(kbs) > 1 and settings.key_file is not None:
        raise InvalidOptionError(
            "--key-file holds the keys of one knowledge base, and there are several; leave it out: each has its own in "
            "its directory"
        )
    for kb in kbs:
        KBReader.open(kb.path).close()  # what is wrong with it is told here rather than by a worker that does not start
        check_keys(kb.path, settings)
    _run(kbs, settings, Engine.open)


def serve_cluster(cluster: ClusterOptions, settings: ServiceSettings) -> None:
    """Serve a cluster until SIGTERM or Ctrl-C, as `serve` serves knowledge bases.

    Raises:
        InvalidOptionError: the address cannot be bound, or is not loopback and there is no API key.
        StateError: there is no cluster, or its catalog does not answer.
    """
    from kbengine.cluster.opening import cluster_folder

    folder = cluster_folder(cluster)
    for said in take_over(folder):
        print(said, file=sys.stderr, flush=True)  # noqa: T201  # there is no log before the worker is there
    check_keys(folder, settings)
    name = cluster.root.rstrip("/").rpartition("/")[2] or "cluster"
    _run([NamedPath(name, folder)], settings, lambda _path, options: Engine.open_cluster(cluster, options))


def _run(
    kbs: Sequence[NamedPath], settings: ServiceSettings, open_engine: Callable[[Path, EngineOptions], Engine]
) -> None:
    """Serve what `open_engine` opens in the worker."""
    with listening_socket(settings) as listener:
        application = _Application(kbs, settings, listener, open_engine)
    arbiter_pid = os.getpid()
    try:
        OneWorkerArbiter(application).run()
    except SystemExit as e:
        if os.getpid() == arbiter_pid and e.code in _LOAD_FAILED:
            raise SystemExit(1) from None
        raise


def serve_demo(kb: Path, port: int, output: Output) -> NoReturn:
    """Say where page and API of the demo will be, and become the server of it; a taken port is replaced by a free one.

    A new program instead of a call: the numeric libraries that built the demo do not survive the fork into the worker.
    """
    chosen = ServiceSettings(port=port)
    try:
        with listening_socket(chosen):
            pass
    except InvalidOptionError:
        with listening_socket(ServiceSettings(port=0)) as free:
            port = free.getsockname()[1]
    url = address(chosen, port)
    if output.as_json:
        output.record({"page": f"{url}/", "api": f"{url}/v1"})
    else:
        output.line()
        output.line(f"serving {kb}: page {url}/   API {url}/v1   (Ctrl-C stops)")
        output.line(f"  curl {url}/v1/question -H 'Content-Type: application/json' \\")
        output.line("""    -d '{"text": "Who composed the music for Spirited Away?", "k": 3}'""")
    sys.stdout.flush()
    arguments = ["-m", "kbengine.cli", "serve", "--kb", str(kb), "--port", str(port)]
    os.execv(sys.executable, [sys.executable, *arguments])


def check_keys(kb: Path, settings: ServiceSettings) -> None:
    """Refuse to be reached from other machines without a key that could be asked for.

    Raises:
        InvalidOptionError: the address is not loopback, or keys are required, and there is none.
    """
    keys = key_file(kb, settings.key_file)
    if settings.needs_key and not keys.all():
        raise InvalidOptionError(
            f"serving on {settings.host} needs an API key and {keys.path} holds none; make one with "
            f"'kbengine key create NAME --scope {SCOPES[1]} --kb {kb}', or serve on 127.0.0.1"
        )


@contextlib.contextmanager
def listening_socket(settings: ServiceSettings) -> Any:
    """Give a socket bound to the settings' address; what takes it over detaches it.

    Raises:
        InvalidOptionError: the address cannot be bound.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for stall in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):  # connections have what their listener has
            listener.setsockopt(socket.SOL_SOCKET, stall, struct.pack("ll", CLIENT_STALL_S, 0))
        try:
            listener.bind((settings.host.strip("[]"), settings.port))
            listener.listen(BACKLOG)
        except OSError as error:
            raise InvalidOptionError(
                f"cannot serve on {settings.host}:{settings.port}: {error.strerror or error}; choose another --host or "
                "--port (0 takes a free one)"
            ) from error
        yield listener
    finally:
        listener.close()


def address(settings: ServiceSettings, port: int) -> str:
    """Return the address to open in a browser."""
    host = settings.host.strip("[]")
    if host in ("0.0.0.0", "::"):
        host = "localhost"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Application(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's view of the service."""

    def __init__(
        self,
        kbs: Sequence[NamedPath],
        settings: ServiceSettings,
        listener: socket.socket,
        open_engine: Callable[[Path, EngineOptions], Engine],
    ) -> None:
        self._kbs = kbs
        self._open_engine = open_engine
        self._settings = settings
        self._port = listener.getsockname()[1]
        self._fd = listener.detach()
        self._engines: list[Engine] = []
        super().__init__(prog="kbengine serve")

    def load_config(self) -> None:
        """Take everything from our settings, nothing from files or the environment."""
        settings = self._settings
        worker = type("EngineWorker", (EngineWorker,), {"drain_s": settings.drain_s})
        chosen = {
            "bind": f"fd://{self._fd}",
            "backlog": BACKLOG,
            "workers": 1,
            "threads": settings.threads,
            "worker_class": worker,
            "worker_connections": 4 * settings.threads + 1000,
            "graceful_timeout": round(settings.drain_s + settings.graceful_s) + 3,
            "timeout": 120,
            "keepalive": 30,
            "limit_request_line": 8190,
            "logger_class": ServerLogger,
            "accesslog": None,
            "control_socket_disable": True,
            "post_worker_init": self._announce,
            "proc_name": "kbengine",
        }
        if os.access(_SHARED_MEMORY, os.W_OK):
            chosen["worker_tmp_dir"] = str(_SHARED_MEMORY)  # the root may be read-only
        for name, value in chosen.items():
            self.cfg.set(name, value)

    def load(self) -> Flask | KnowledgeBases:
        """Return the app of each knowledge base, with its engine; called in the worker, after the fork."""
        from web.app import create_app

        # The threads are shared: a full queue of each must leave some for everything else.
        settings = replace(self._settings, queue_size=max(1, self._settings.queue_limit // len(self._kbs)))
        set_up_library_logs()
        try:
            batching = BatchingOptions(
                settings.max_batch, settings.max_wait_ms, settings.queue_limit, settings.dispatcher_count
            )
            names = [kb.name for kb in self._kbs] if len(self._kbs) > 1 else []
            apps, stopping = {}, StopFlag()
            for kb in self._kbs:
                opened_with = EngineOptions(batching, reader=settings.reader, verdict=settings.verdict)
                engine = self._open_engine(kb.path, opened_with)
                self._engines.append(engine)
                app = create_app(settings, engine, name=kb.name if names else "", served=names, stopping=stopping)
                app.extensions["kbengine"].jobs.start()  # those that an earlier process left
                apps[kb.name] = app
            # What is there now stays until the end: collections need not look through it again, and a request waits
            # less for one.
            gc.collect()
            gc.freeze()
            return KnowledgeBases(apps) if names else app
        except (KBError, OSError) as error:
            print(f"error: {error}", file=sys.stderr, flush=True)  # noqa: T201  # the command's own last words
            raise SystemExit(OneWorkerArbiter.APP_LOAD_ERROR) from None

    def _announce(self, _worker: Any) -> None:
        url = address(self._settings, self._port)
        paths = {kb.name: str(kb.path) for kb in self._kbs}
        kb = str(self._kbs[0].path) if len(paths) == 1 else paths
        make_log().info("serving", url=url, api=f"{url}/v1", openapi=f"{url}/openapi.json", kb=kb)

    def close_engine(self) -> None:
        """Finish what the engine accepted and give its files back."""
        for engine in self._engines:
            engine.close()
