"""Batches that are computed side by side."""

from __future__ import annotations

import threading
import time

import pytest
import torch

from kbengine.encoders.batch_threads import side_by_side


@pytest.fixture(autouse=True)
def three_threads():
    """Torch as on a machine of three cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def seen_by_a_thread():
    """How many threads torch would use in a thread that begins now."""
    found = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return found[0]


def test_each_batch_has_a_thread_and_one_core_and_results_keep_their_order():
    """Torch's setting is what it was, here and in threads to come."""

    def work(number):
        time.sleep(0.02 * (5 - number))
        return number, torch.get_num_threads(), threading.current_thread().name

    results = list(side_by_side(work, range(5)))

    assert [number for number, _, _ in results] == list(range(5))
    assert {threads for _, threads, _ in results} == {1}
    assert len({name for _, _, name in results}) == 3
    assert (torch.get_num_threads(), seen_by_a_thread()) == (3, 3)


def test_a_single_batch_is_computed_by_who_asks_with_all_cores():
    """No thread is started for it."""
    here = threading.current_thread()

    assert list(side_by_side(lambda _: (threading.current_thread(), torch.get_num_threads()), [0])) == [(here, 3)]


def test_an_error_is_raised_and_batches_not_begun_are_left():
    """A build that fails does not encode the rest of its chunk first."""
    begun = []

    def work(number):
        begun.append(number)
        if number == 0:
            raise ValueError("no")
        time.sleep(0.05)

    with pytest.raises(ValueError, match="no"):
        list(side_by_side(work, range(100)))

    assert len(begun) < 20
