"""The service under load: latency and throughput at 1, 8 and 32 clients, and what HTTP and batching add for one client.

Run: python -m benchmarks.service_load --kb DIR [--queries FILE.jsonl[.gz] …] [--seconds 20] [--read 0]

The server runs in a process of its own with its result cache off; the clients are threads of this process, each with
one connection, each sending its next query when it has the answer to the last.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measurement import quantiles_ms, write_result

CLIENTS = (1, 8, 32)


@dataclass(frozen=True)
class Config:
    """What is measured."""

    kb: Path
    queries: tuple[Path, ...]
    seconds: float
    serve_options: tuple[str, ...] = ()
    clients: tuple[int, ...] = CLIENTS
    read: int | None = None
    packages: Path | None = None
    k: int = 10
    seed: int = 13


@dataclass
class Client:
    """What one client saw: times of its requests, times of the engine in them, and answers that were no 200."""

    times_s: list[float]
    engine_ms: list[float]
    statuses: dict[int, int]


def read_bodies(config: Config) -> list[bytes]:
    """Return request bodies of distinct queries: of the KILT files, or made of words of the knowledge base."""
    texts: list[str] = []
    for path in config.queries:
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", encoding="utf-8") as file:
            texts += [json.loads(line)["input"][:2000] for line in file]
    if not texts:
        texts = made_up_questions(config)
    random.Random(config.seed).shuffle(texts)
    options = {"k": config.k, "truncate": True, **({} if config.read is None else {"read": config.read})}
    return [json.dumps({"text": text, **options}).encode() for text in texts]


def made_up_questions(config: Config, n: int = 20_000) -> list[str]:
    """Return questions of five to twelve words of the knowledge base's own passages."""
    from storage.reader import KBReader

    words: set[str] = set()
    with KBReader.open(config.kb) as reader:
        for i, (_, passages) in enumerate(reader.iterate_documents()):
            words.update(word for passage in passages for word in re.findall(r"\w+", passage.text))
            if i == 500:
                break
    rng, known = random.Random(config.seed), sorted(words)
    return [f"Who {' '.join(rng.choices(known, k=rng.randint(4, 11)))}?" for _ in range(n)]


@dataclass(frozen=True)
class Server:
    """A server that runs: its port, and its processes' ids."""

    port: int
    pid: int

    def processor_s(self) -> float:
        """Return the processor time that it and the processes that it started have had."""
        ticks = 0
        pids = [self.pid]
        for pid in pids:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
            pids += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split())
        return ticks / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def served(kb: Path, arguments: Sequence[str] = (), packages: Path | None = None) -> Iterator[Server]:
    """A server of the knowledge base, stopped at the end; its code is in the folder `packages`, or that of here."""
    path = ["-P", "-m", "kbengine.cli"] if packages is not None else ["-m", "kbengine.cli"]
    command = [sys.executable, *path, "serve", "--kb", str(kb), "--port", "0", "--cache-entries", "0"]
    environment = {**os.environ, **({} if packages is None else {"PYTHONPATH": str(packages)})}
    with subprocess.Popen([*command, *arguments], env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            yield Server(_port(process), process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


def _port(process: subprocess.Popen[str]) -> int:
    assert process.stderr is not None
    for line in process.stderr:
        event = json.loads(line) if line.startswith("{") else {}
        if event.get("event") == "serving":
            # The rest is one line a request: read and thrown away, so that the server never waits for us.
            threading.Thread(target=lambda: [None for _ in process.stderr or ()], daemon=True).start()
            return int(event["url"].rpartition(":")[2])
        print(line, end="", file=sys.stderr)
    raise SystemExit("the server did not start")


def run_client(port: int, bodies: Iterator[bytes], lock: threading.Lock, until: float) -> Client:
    """Return what one client saw that asked one query after the other."""
    seen = Client([], [], {})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while time.perf_counter() < until:
        with lock:
            body = next(bodies)
        began = time.perf_counter()
        connection.request("POST", "/v1/question", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        data = response.read()
        seen.times_s.append(time.perf_counter() - began)
        seen.statuses[response.status] = seen.statuses.get(response.status, 0) + 1
        if response.status == 200:
            timings = json.loads(data[data.rindex(b'"timings_ms":') + 13 : data.rindex(b',"model"')])
            seen.engine_ms.append(timings["total"])
    connection.close()
    return seen


def measure_clients(server: Server, n_clients: int, bodies: Iterator[bytes], seconds: float) -> dict[str, Any]:
    """Return latency and throughput of so many clients at once, and the processor time of a query."""
    lock, results = threading.Lock(), []
    of_server, of_clients = server.processor_s(), time.process_time()
    began = time.perf_counter()

    def one() -> None:
        results.append(run_client(server.port, bodies, lock, began + seconds))

    threads = [threading.Thread(target=one) for _ in range(n_clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - began
    times = [each for client in results for each in client.times_s]
    statuses: dict[str, int] = {}
    for client in results:
        for status, n in client.statuses.items():
            statuses[str(status)] = statuses.get(str(status), 0) + n
    figures = {
        **quantiles_ms(times),
        "requests_per_s": round(len(times) / elapsed, 1),
        "processor_ms": {
            "service": round((server.processor_s() - of_server) * 1e3 / len(times), 2),
            "clients": round((time.process_time() - of_clients) * 1e3 / len(times), 2),
        },
        "statuses": statuses,
    }
    if n_clients == 1:
        (client,) = results
        added = np.asarray(client.times_s) * 1e3 - np.asarray(client.engine_ms)
        figures["engine_p50_ms"] = round(float(np.median(client.engine_ms)), 2)
        figures["added_p50_ms"] = round(float(np.median(added)), 2)
        figures["added_p95_ms"] = round(float(np.quantile(added, 0.95)), 2)
    return figures


def measure(config: Config) -> dict[str, Any]:
    """Return all figures."""
    all_bodies = read_bodies(config)
    bodies = (all_bodies[i % len(all_bodies)] for i in range(10**9))
    figures: dict[str, Any] = {
        "k": config.k,
        "seconds_each": config.seconds,
        "distinct_queries": len(all_bodies),
        "serve_options": list(config.serve_options),
        "read": "by default" if config.read is None else config.read,
    }
    with served(config.kb, config.serve_options, config.packages) as server:
        for n_clients in (1, 8):
            measure_clients(server, n_clients, bodies, 2.0)  # warm-up
        for n_clients in config.clients:
            figures[f"clients_{n_clients}"] = measure_clients(server, n_clients, bodies, config.seconds)
    most = f"clients_{max(config.clients)}"
    if "clients_1" in figures:
        alone = figures["clients_1"]["requests_per_s"]
        figures[f"speedup_of_{max(config.clients)}"] = round(figures[most]["requests_per_s"] / alone, 2)
    figures["p99_to_p50"] = round(figures[most]["p99_ms"] / figures[most]["p50_ms"], 2)
    return figures


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kb", type=Path, required=True)
    parser.add_argument("--queries", type=Path, action="append", default=[])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--serve-options", default="", help='of kbengine serve, such as "--dispatchers 2"')
    parser.add_argument("--read", type=int, help="passages read for a query; by default what the service chooses")
    parser.add_argument("--clients", default=",".join(map(str, CLIENTS)), help="numbers of clients, with commas")
    parser.add_argument("--packages", type=Path, help="the folder of a commit's packages, to serve with these")
    parser.add_argument("--name", default="service_load")
    arguments = parser.parse_args()
    write_result(
        arguments.name,
        "32 clients >= 4x the throughput of one client of 39f580c; p99 <= 4x p50; one client p50 <= engine + 1.5 ms",
        measure(
            Config(
                arguments.kb,
                tuple(arguments.queries),
                arguments.seconds,
                tuple(arguments.serve_options.split()),
                tuple(map(int, arguments.clients.split(","))),
                arguments.read,
                arguments.packages,
            )
        ),
    )


if __name__ == "__main__":
    main()
