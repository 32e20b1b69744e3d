"""A service of its own process under load, over HTTP, while its calls fail: clients that ask, change, stall and look.

What was acknowledged is in every later answer, what was deleted in none; no answer is of an unforeseen error.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kbengine.errors import KBError
from storage.reader import KBReader
from storage.verify import verify
from storage.writer import KBWriter
from tests.endurance.flatness import check_flat, own_memory_kb
from tests.tiny_encoder import SENTENCES, write_tiny_encoder
from tests.web.running_server import Server, worker_of

CLIENTS, KEPT = 3, 30
PAUSE_S = 0.1
COMPACTED_EVERY_S = 45.0
STALLED = 6
STARTS_S = 900.0
BUSY = (429, 503, 504)
"""What a service says that has too much to do, or took too long."""
_JSON = {"Content-Type": "application/json"}


def build_served(folder: Path) -> Path:
    """A knowledge base that a service can open: ten sentences, encoded by a tiny encoder."""
    from kbengine.build.builder import CorpusOptions, build
    from kbengine.build.filtering import FilterOptions
    from kbengine.encoders.encoder import Encoder

    folder.mkdir()
    encoder = Encoder.load(write_tiny_encoder(folder / "encoder"), device="cpu", dtype="float32")
    records = [{"_id": f"first {n}", "title": f"Page {n}", "text": text} for n, text in enumerate(SENTENCES)]
    corpus = folder / "pages.jsonl"
    corpus.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    build(CorpusOptions((corpus,), "beir"), folder / "kb", encoder=encoder, filter_options=FilterOptions())
    return folder / "kb"


class ServiceLoad:
    """The service, its clients, and what is known of its documents; a context that starts and stops it.

    Attributes:
        end: When clients stop, by `time.monotonic`; known once the service answers.
        wrong: What was wrong, in words.
        counts: Requests by kind, commits and failing calls.
    """

    def __init__(self, kb: Path, seed: int, seconds: float) -> None:
        self.kb, self.seed, self._seconds = kb, seed, seconds
        self.end = 0.0
        self.wrong: list[str] = []
        self.counts: Counter[str] = Counter()
        self._live: dict[str, str] = {f"first {n}": "" for n in range(len(SENTENCES))}
        self._dead: set[str] = set()
        self._lock = threading.Lock()
        self._memory: list[int] = []
        self._descriptors: list[int] = []
        self._log: list[dict[str, Any]] = []

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Serve and ask until the end of the block and of the time; then stop the service and look at what it left."""
        before = (sys.executable, "-m", "tests.endurance.failing_service", str(self.seed))
        server = Server(self.kb, "--threads", "16", before=before)
        try:
            server.ready.wait(STARTS_S)  # it may be one of many on this machine
            self._port = server.started().port
            self._worker = worker_of(server)
            self.end = time.monotonic() + self._seconds
            works = [self._write, self._look, self._stall, *(lambda n=n: self._ask(n) for n in range(CLIENTS))]
            threads = [threading.Thread(target=self._until_the_end, args=(work,)) for work in works]
            for thread in threads:
                thread.start()
            yield
            for thread in threads:
                thread.join()
            code = server.stop()
            self._log = server.events
            self._check(code, server.other)
        finally:
            if server.process.poll() is None:
                server.process.kill()
                server.process.wait()
            server._reader.join()
            for stream in (server.process.stdout, server.process.stderr):
                stream.close()

    def _until_the_end(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self.wrong.append(f"{type(error).__name__}: {error}")

    def _goes_on(self) -> bool:
        time.sleep(PAUSE_S)
        return time.monotonic() < self.end and not self.wrong

    def _request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and value of an answer; an answer that is an error of ours, unnamed, is wrong."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=300)
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, _JSON if data else {})
            response = connection.getresponse()
            value = json.loads(response.read() or b"null")
        finally:
            connection.close()
        self.counts["service requests"] += 1
        unnamed = path != "/readyz" and value.get("code") in (None, "internal", "internal_error")
        if response.status >= 500 and unnamed:
            self.wrong.append(f"{method} {path}: {response.status} {value}")
        return response.status, value

    # -- clients

    def _ask(self, number: int) -> None:
        rng = np.random.default_rng(self.seed * 10 + number)
        while self._goes_on():
            with self._lock:
                dead, live = set(self._dead), list(self._live)
            words = str(rng.choice(SENTENCES)).split()[:6]
            kind = int(rng.integers(4))
            if kind == 0:
                self._check_documents(rng, live, dead)
                continue
            query = {"text": " ".join(words), "k": 10}
            if kind == 1:
                status, answer = self._request("POST", "/v1/search", query | {"unit": "passage"})
                answers = [answer]
            elif kind == 2:
                status, answer = self._request("POST", "/v1/question", query)
                answers = [answer]
            else:
                queries = [{"task": "question", **query}, {"task": "dialogue", "turns": words[:2], "k": 3}]
                status, answer = self._request("POST", "/v1/batch", {"queries": queries})
                answers = [each.get("answer", each) for each in answer.get("results", [])]
            if status not in (200, *BUSY):
                self.wrong.append(f"a query was answered {status}: {answer}")
            found = set(_document_ids(answers))
            if found & dead:
                self.wrong.append(f"found though deleted: {sorted(found & dead)}")
            self.counts["service answers with documents"] += bool(found)

    def _check_documents(self, rng: np.random.Generator, live: list[str], dead: set[str]) -> None:
        if live:
            doc_id = str(rng.choice(live))
            status, answer = self._request("GET", f"/v1/documents/{doc_id.replace(' ', '%20')}")
            with self._lock:
                still = doc_id in self._live
            if still and status not in (200, *BUSY):
                self.wrong.append(f"{doc_id} was acknowledged, its reading is answered {status}: {answer}")
        if dead:
            doc_id = str(rng.choice(sorted(dead)))
            status, answer = self._request("GET", f"/v1/documents/{doc_id}")
            if status not in (404, *BUSY):
                self.wrong.append(f"{doc_id} was deleted, its reading is answered {status}")

    def _write(self) -> None:
        rng = np.random.default_rng(self.seed)
        number, compacted = 0, time.monotonic()
        while self._goes_on():
            number += 1
            if time.monotonic() - compacted > COMPACTED_EVERY_S:
                self._compact()
                compacted = time.monotonic()
            if len(self._live) >= KEPT:
                gone = sorted(self._live)[:4]
                with self._lock:
                    for doc_id in gone:
                        del self._live[doc_id]
                status, answer = self._request("POST", "/v1/documents:delete", {"ids": gone})
                self._settle(status, answer, gone, wanted=200)
            else:
                new = [f"{number}-{each}" for each in range(3)]
                documents = [{"id": each, "title": each, "text": str(rng.choice(SENTENCES))} for each in new]
                status, answer = self._request("POST", "/v1/documents", {"documents": documents})
                self._settle(status, answer, new, wanted=201)

    def _settle(self, status: int, answer: Any, ids: list[str], *, wanted: int) -> None:
        """Note what a change did; after an error it did all or nothing."""
        if status == wanted:
            self.counts["service commits"] += 1
            is_there = wanted == 201
        else:
            self.counts["service changes refused"] += 1
            there = {self._request("GET", f"/v1/documents/{each.replace(' ', '%20')}")[0] for each in ids}
            if there not in ({200}, {404}):
                self.wrong.append(f"{ids}: partly there after {status} {answer}: {there}")
            is_there = there == {200}
        with self._lock:
            if is_there:
                self._live |= dict.fromkeys(ids, "")
            else:
                self._dead |= set(ids)

    def _compact(self) -> None:
        """From another process's side, once the service has given the lock back."""
        with contextlib.suppress(KBError), KBWriter.open(self.kb, lock_timeout_s=20) as writer:
            writer.compact()
            self.counts["service compactions"] += 1

    def _look(self) -> None:
        """Whether it lives and is ready, how much memory and how many descriptors it has."""
        while self._goes_on():
            if self._request("GET", "/livez")[0] != 200:
                self.wrong.append("/livez is not answered")
            self._request("GET", "/readyz")
            folder = Path(f"/proc/{self._worker}")
            self._memory.append(own_memory_kb(self._worker))
            self._descriptors.append(len(list((folder / "fd").iterdir())))
            time.sleep(1)

    def _stall(self) -> None:
        """Some send half of a body and wait, again and again."""
        head = b"POST /v1/question HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n"
        while self._goes_on():
            with contextlib.ExitStack() as opened:
                for _ in range(STALLED):
                    client = opened.enter_context(socket.create_connection(("127.0.0.1", self._port)))
                    client.sendall(head + b'Content-Type: application/json\r\n\r\n{"text": ')
                for _ in range(50):
                    if not self._goes_on():
                        return

    # -- at the end

    def _check(self, code: int, other: list[str]) -> None:
        self.counts["service faults"] = sum(event["event"] == "a call fails" for event in self._log)
        if code != 0:
            self.wrong.append(f"the service ended with {code}: {other[-5:]}")
        if any("Traceback" in line for line in other):
            self.wrong.append(f"the service told a traceback: {other[-20:]}")
        if self.wrong:
            return
        KBWriter.open(self.kb).close()
        report = verify(self.kb, deep=True)
        assert report.clean, report.findings
        with KBReader.open(self.kb) as reader:
            there = {document.doc_id for document in reader.iterate_records()}
        assert there == set(self._live), (sorted(there ^ set(self._live)), "lost, or there though deleted")
        check_flat("memory of the service in kB", self._memory, allowed=30_000)
        check_flat("descriptors of the service", self._descriptors, allowed=20)


def _document_ids(value: Any) -> Iterator[str]:
    """The ids of all documents that an answer names."""
    if isinstance(value, dict):
        document = value.get("document")
        if isinstance(document, dict) and "id" in document:
            yield str(document["id"])
        for each in value.values():
            yield from _document_ids(each)
    elif isinstance(value, list):
        for each in value:
            yield from _document_ids(each)
