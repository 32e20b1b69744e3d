"""Turns go by order of coming, and one that is not waited for is not lost."""

from __future__ import annotations

import threading

from tests.waiting import HANG_S, wait_until
from web.turns import Turns


def test_who_waited_longest_is_next_also_when_the_holder_asks_again():
    """The holder stands behind those that came before its new request."""
    turns, order = Turns(), []

    def take(name):
        assert turns.acquire(HANG_S)
        order.append(name)
        turns.release()

    assert turns.acquire()
    threads = [threading.Thread(target=take, args=(n,)) for n in range(3)]
    for n, thread in enumerate(threads, start=1):
        thread.start()
        wait_until(lambda n=n: turns.n_waiting >= n)
    turns.release()
    take("holder")
    for thread in threads:
        thread.join(HANG_S)

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
