"""Turns go by order of coming, and one that is not waited for is not lost."""

from __future__ import annotations

import threading
import time

from web.turns import Turns


def wait_for(turns, n):
    """Wait until so many wait."""
    until = time.monotonic() + 10
    while turns.n_waiting < n:
        assert time.monotonic() < until
        time.sleep(0.001)


def test_who_waited_longest_is_next_also_when_the_holder_asks_again():
    """The holder stands behind those that came before its new request."""
    turns, order = Turns(), []

    def take(name):
        assert turns.acquire(10)
        order.append(name)
        turns.release()

    assert turns.acquire()
    threads = [threading.Thread(target=take, args=(n,)) for n in range(3)]
    for n, thread in enumerate(threads, start=1):
        thread.start()
        wait_for(turns, n)
    turns.release()
    take("holder")
    for thread in threads:
        thread.join(10)

    assert order == [0, 1, 2, "holder"]


def test_a_turn_that_was_not_waited_for_goes_to_the_next():
    """Who gave up is passed over; the turn is free afterwards."""
    turns = Turns()
    assert turns.acquire()
    assert not turns.acquire(0.01)
    assert turns.n_waiting == 0
    turns.release()

    assert turns.acquire(0)
    turns.release()
