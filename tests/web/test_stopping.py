"""Stopping: nothing that was accepted is lost, and nobody can keep the server from it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import threading
import time

import pytest

from storage.reader import KBReader
from tests.waiting import HANG_S, wait_until
from tests.web.running_server import BODY, JSON, runs, serving, worker_of


class Caller(threading.Thread):
    """Asks one query after the other until it is refused; remembers what it got and what it lost."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.statuses, self.lost = port, [], []

    def run(self):
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG_S)
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
        wait_until(lambda: sum(len(caller.statuses) for caller in callers) >= n_answers)
        server.process.send_signal(signal.SIGTERM)
        ready = []
        with contextlib.suppress(OSError):  # until it listens no more
            while True:
                ready.append(server.request("GET", "/readyz")[0])
                time.sleep(0.02)
        assert server.process.wait(HANG_S) == 0
        for caller in callers:
            caller.join(HANG_S)
    return callers, ready


def test_sigterm_under_load_loses_no_request_and_exits_0(kb_path):
    """Not ready first, then closed to new callers, then all that was accepted is answered."""
    callers, ready = stop_under_load(kb_path, n_callers=12, n_answers=60, drain_s="2")

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
        wait_until(lambda: answers or b"kbengine_pending_writes 1.0" in server.request("GET", "/metrics")[1])
        code = server.stop()
        sender.join(HANG_S)
    assert code == 0
    assert answers[0][0] == 201, answers
    with KBReader.open(kb_path) as reader:
        assert reader.info().documents == 205


def open_and_wait(port, path="/livez"):
    """Return a connection whose answer says that it is closed, and that its client leaves open."""
    client = socket.create_connection(("127.0.0.1", port), timeout=HANG_S)
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert client.recv(12) == b"HTTP/1.1 200"
    return client


def test_clients_that_do_not_hang_up_hold_up_nobody(kb_path):
    """Not the next caller and not the stop: gunicorn alone waits two seconds for each, one after the other."""
    with serving(kb_path) as server:
        server.started()
        idle = [open_and_wait(server.port) for _ in range(20)]
        began = time.monotonic()
        assert server.request("GET", "/livez")[0] == 200
        answered_s = time.monotonic() - began
        idle += [open_and_wait(server.port) for _ in range(20)]
        began = time.monotonic()
        code = server.stop()
        stopped_s = time.monotonic() - began
        for client in idle:
            client.close()

    assert code == 0
    assert answered_s < 40  # what twenty of them would take
    assert stopped_s < 80  # all forty


def test_sigterm_as_soon_as_there_is_a_worker_stops_it_at_once(kb_path):
    """The signal is not lost between the fork and the worker's own handlers, and loading is not waited for."""
    with serving(kb_path, "--graceful-s", str(HANG_S)) as server:
        worker = worker_of(server)
        began = time.monotonic()
        code = server.stop()
        stopped_s = time.monotonic() - began

    assert code == 0
    assert not runs(worker)
    assert stopped_s < HANG_S / 2


@pytest.mark.slow
@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGINT, signal.SIGINT], [signal.SIGHUP, signal.SIGTERM]])
def test_signals_at_any_moment_of_the_start_end_the_server(kb_path, signals):
    """Twelve moments of the first six seconds; what began before there was a handler ends by the signal itself."""
    # A shell's background job passes "ignore SIGINT" on to what it starts, and that would be taken for a hang here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for n in range(12):
        with serving(kb_path) as server:
            time.sleep(n / 2)
            for each in signals:
                server.process.send_signal(each)
            assert server.process.wait(HANG_S) in (0, 1, 130, *(-each for each in signals))


def stalled_client(port, n_lines=60_000):
    """Return a connection that has sent a long KILT file and does not read the answer."""
    lines = ({"id": n, "input": f"research on radioactivity {n}"} for n in range(n_lines))
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    client = socket.create_connection(("127.0.0.1", port), timeout=HANG_S)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    head = "POST /v1/kilt/question?pages=100 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return client


@pytest.mark.slow
def test_a_worker_whose_arbiter_and_client_are_gone_ends_too(kb_path):
    """An answer that nobody reads keeps its thread; neither the next query nor the process waits for that."""
    with serving(kb_path, "--graceful-s", "1") as server:
        server.started()
        worker = worker_of(server)
        client = stalled_client(server.port)
        time.sleep(20)
        assert server.request("POST", "/v1/question", BODY)[0] == 200
        assert server.request("GET", "/readyz")[0] == 200
        server.process.kill()
        wait_until(lambda: not runs(worker))
        client.close()


@pytest.mark.slow
def test_a_worker_killed_under_load_and_writes_is_replaced(kb_path):
    """Three times, with queries and changes in flight: then it answers, changes and stops as ever."""
    with serving(kb_path, "--cache-entries", "0") as server:
        server.started()
        over = threading.Event()

        def change(n):
            while not over.is_set():
                body = json.dumps({"id": f"new-{n}", "title": "New", "text": "The river crosses the city."}).encode()
                with contextlib.suppress(OSError, http.client.HTTPException):
                    server.request("POST", "/v1/documents", body)
                    server.request("POST", "/v1/question", BODY)

        threads = [threading.Thread(target=change, args=(n,), daemon=True) for n in range(6)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            time.sleep(3)
            killed = worker_of(server)
            os.kill(killed, signal.SIGKILL)
            wait_until(lambda: server.events[-1]["event"] == "serving")
        over.set()
        for thread in threads:
            thread.join(HANG_S)
            assert not thread.is_alive()
        document = json.dumps({"id": "last", "title": "Last", "text": "The last river."}).encode()
        assert server.request("POST", "/v1/documents", document)[0] == 201
        assert server.request("POST", "/v1/question", BODY)[0] == 200
        assert server.stop() == 0
