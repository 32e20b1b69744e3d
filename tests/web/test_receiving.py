"""Clients that stall give way to others, in the order in which they fell silent; long requests have places."""

from __future__ import annotations

import socket
import threading

import pytest

from tests.waiting import wait_until
from web.errors import QueueFullError
from web.places import Places
from web.receiving import Receiving, WatchedSocket


def test_who_was_silent_longest_is_read_no_further() -> None:
    """One too many: the first; what others send is read as ever."""
    receiving = Receiving(2)
    pairs = [socket.socketpair() for _ in range(3)]
    said: dict[int, bytes] = {}

    def read(number: int) -> None:
        said[number] = WatchedSocket(pairs[number][0], receiving).recv(10)

    threads = []
    for number in range(3):
        threads.append(threading.Thread(target=read, args=(number,)))
        threads[-1].start()
        wait_until(lambda number=number: len(receiving._waiting) == min(2, number + 1) and len(threads) == number + 1)
    threads[0].join()
    assert said == {0: b""}
    for number in (1, 2):
        pairs[number][1].sendall(b"here")
        threads[number].join()
    assert said == {0: b"", 1: b"here", 2: b"here"}
    assert not receiving._waiting
    for pair in pairs:
        for side in pair:
            side.close()


def test_one_too_many_is_told_to_come_again() -> None:
    """A place that was given back is free."""
    places = Places(2, "batches")
    places.take()
    places.take()
    with pytest.raises(QueueFullError, match="2 batches") as refused:
        places.take()
    assert refused.value.retry_after_s > 0
    places.give_back()
    places.take()


def test_batches_and_kilt_files_have_places_and_give_them_back(make_service) -> None:
    """Over HTTP: 429 with Retry-After while all are taken, also after answers, errors and streams."""
    service = make_service(threads=8)
    bulk = service.app.extensions["kbengine"].bulk
    lines = (b'{"id": 1, "input": "Who conducted research on radioactivity?"}\n', "application/x-ndjson")
    question = {"task": "question", "text": "Who conducted research on radioactivity?"}

    def batch() -> int:
        return int(service.post("/v1/batch", {"queries": [question]}).status_code)

    def kilt(body: bytes) -> int:
        answer = service.client.post("/v1/kilt/question", data=body, content_type=lines[1], buffered=True)
        answer.close()
        return int(answer.status_code)

    assert bulk.n == 1
    assert [batch(), batch(), kilt(lines[0]), kilt(b"nonsense"), kilt(lines[0]), batch()][-1] == 200
    bulk.take()
    refused = service.post("/v1/batch", {"queries": [question]})
    assert (refused.status_code, kilt(lines[0])) == (429, 429)
    assert int(refused.headers["Retry-After"]) >= 1
    bulk.give_back()
    assert (batch(), kilt(lines[0])) == (200, 200)
