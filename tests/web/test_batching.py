"""Micro-batching: what is asked together is run together, and nobody notices but the clock."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.waiting import HANG_S, wait_until
from web.batching import BatchingOptions, MicroBatcher
from web.deadline import Deadline
from web.errors import DeadlineError, QueueFullError, StoppingError


class Runner:
    """Doubles numbers; remembers its batches, can be held up, and fails at the item it is told."""

    def __init__(self, bad=()):
        self.batches = []
        self.may_go = threading.Event()
        self.may_go.set()
        self.begun = threading.Event()
        self.bad = set(bad)

    def __call__(self, key, items):
        self.batches.append((key, list(items)))
        self.begun.set()
        assert self.may_go.wait(HANG_S)
        if self.bad & set(items):
            raise ValueError(f"bad item in {items}")
        return [2 * item for item in items]

    def hold(self):
        self.may_go.clear()
        self.begun.clear()


@pytest.fixture
def batcher_of(request):
    """A function that makes batchers, which are closed at the end."""
    made = []

    def make(run, observe=None, **options):
        made.append(MicroBatcher(run, BatchingOptions(**{"dispatchers": 1, **options}), observe))
        return made[-1]

    yield make
    for batcher in made:
        batcher.close()


def submit_behind(runner, batcher, jobs, pool):
    """Queue jobs while a first one is held up in the runner; return their futures, in order."""
    runner.hold()
    first = pool.submit(batcher.submit, "first", 0)
    assert runner.begun.wait(HANG_S)
    futures = []
    for n, job in enumerate(jobs, start=1):
        futures.append(pool.submit(batcher.submit, *job))
        wait_until(lambda n=n: batcher.depth + sum(each.done() for each in futures) >= n)
    return first, futures


def test_an_item_alone_is_run_alone_at_once(batcher_of):
    """Nothing is waited for: the batch that could grow is only begun later when others are there."""
    runner = Runner()
    batcher = batcher_of(runner, max_wait_ms=60_000)

    assert batcher.submit("a", 21) == 42
    assert batcher.submit("a", 1) == 2
    assert runner.batches == [("a", [21]), ("a", [1])]


def test_items_that_wait_are_run_together_by_key_and_in_order(batcher_of):
    """Those of another key have a batch of their own, and the oldest goes first."""
    runner = Runner()
    batcher = batcher_of(runner, max_wait_ms=0)
    with ThreadPoolExecutor(8) as pool:
        first, futures = submit_behind(runner, batcher, [("x", 1), ("y", 2), ("x", 3), ("y", 4), ("x", 5)], pool)
        runner.may_go.set()

        assert [future.result(HANG_S) for future in [first, *futures]] == [0, 2, 4, 6, 8, 10]
    assert runner.batches[1:] == [("x", [1, 3, 5]), ("y", [2, 4])]


def test_a_batch_holds_no_more_than_it_may(batcher_of):
    """The rest forms the next batch."""
    runner = Runner()
    batcher = batcher_of(runner, max_batch=2, max_wait_ms=0)
    with ThreadPoolExecutor(8) as pool:
        _, futures = submit_behind(runner, batcher, [("x", n) for n in range(5)], pool)
        runner.may_go.set()
        for future in futures:
            future.result(HANG_S)

    assert [len(items) for _, items in runner.batches] == [1, 2, 2, 1]


def test_a_bad_item_fails_alone(batcher_of):
    """The others of its batch have the outcome that they would have had without it."""
    runner = Runner(bad={13})
    batcher = batcher_of(runner, max_wait_ms=0)
    with ThreadPoolExecutor(8) as pool:
        _, futures = submit_behind(runner, batcher, [("x", n) for n in (10, 11, 12, 13, 14, 15)], pool)
        runner.may_go.set()

        for n, future in zip((10, 11, 12, 13, 14, 15), futures, strict=True):
            if n == 13:
                with pytest.raises(ValueError, match=r"bad item in \[13\]"):
                    future.result(HANG_S)
            else:
                assert future.result(HANG_S) == 2 * n


def test_one_more_than_may_wait_is_refused_with_a_time_to_come_back(batcher_of):
    """Those in hand are answered nevertheless, and then there is room again."""
    runner = Runner()
    batcher = batcher_of(runner, queue_size=4, max_wait_ms=0)
    with ThreadPoolExecutor(8) as pool:
        _, futures = submit_behind(runner, batcher, [("x", n) for n in (1, 2, 3)], pool)
        with pytest.raises(QueueFullError, match="4 queries are waiting or being answered, 4 may") as refused:
            batcher.submit("x", 4)
        runner.may_go.set()

        assert [future.result(HANG_S) for future in futures] == [2, 4, 6]
    assert batcher.submit("x", 4) == 8
    assert refused.value.retry_after_s >= 1


def test_an_item_whose_time_is_up_is_not_run(batcher_of):
    """Its caller is told at the deadline, not when the batch before is done."""
    runner = Runner()
    batcher = batcher_of(runner, max_wait_ms=0)
    with ThreadPoolExecutor(8) as pool:
        first, (late, patient) = submit_behind(
            runner, batcher, [("x", 1, Deadline.after(0.02)), ("x", 2, Deadline.after(HANG_S))], pool
        )
        with pytest.raises(DeadlineError, match="before the deadline"):
            late.result(HANG_S)
        assert not first.done()
        runner.may_go.set()

        assert patient.result(HANG_S) == 4
    assert runner.batches[1:] == [("x", [2])]


def test_a_list_has_an_outcome_for_each_in_order(batcher_of):
    """Errors stand where their items stand, and different keys may be mixed."""
    batcher = batcher_of(Runner(bad={7}), max_batch=4)

    outcomes = batcher.submit_many([("x" if n % 3 else "y", n) for n in range(20)])

    assert [each for each in outcomes if not isinstance(each, Exception)] == [2 * n for n in range(20) if n != 7]
    assert isinstance(outcomes[7], ValueError)


def test_a_long_list_leaves_room_for_single_items(batcher_of):
    """Only a part of it is queued at a time, and none of it counts against single items."""
    runner = Runner()
    batcher = batcher_of(runner, max_batch=4, queue_size=2, max_wait_ms=0)
    with ThreadPoolExecutor(4) as pool:
        _, (single,) = submit_behind(runner, batcher, [("x", 500)], pool)
        bulk = pool.submit(batcher.submit_many, [("x", n) for n in range(100)])
        wait_until(lambda: batcher.depth == 3)
        runner.may_go.set()

        assert single.result(HANG_S) == 1000
        assert bulk.result(HANG_S) == [2 * n for n in range(100)]
    position = next(i for i, (_, items) in enumerate(runner.batches) if 500 in items)
    assert position == 1


def test_a_short_list_does_not_wait_for_the_end_of_a_long_one(batcher_of):
    """Lists take turns in order of coming: what is asked meanwhile has the next turn."""
    runner = Runner()
    batcher = batcher_of(runner, max_batch=4)
    with ThreadPoolExecutor(2) as pool:
        runner.hold()
        long = pool.submit(batcher.submit_many, [("x", n) for n in range(200)])
        assert runner.begun.wait(HANG_S)
        short = pool.submit(batcher.submit_many, [("y", 1)])
        wait_until(lambda: batcher._bulk_turn.n_waiting == 1)
        runner.may_go.set()
        assert short.result(HANG_S) == [2]
        long.result(HANG_S)

    assert [key for key, _ in runner.batches].index("y") == 1


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_what_ends_a_thread_does_not_end_the_dispatcher(batcher_of, error):
    """A panic of native code is no Exception: its query fails, and the next one is answered."""

    def run(key, items):
        if key == "bad":
            raise error
        return items

    batcher = batcher_of(run)
    with pytest.raises(RuntimeError, match=f"the batch ended with {error.__name__}"):
        batcher.submit("bad", 1, Deadline.after(10))

    assert batcher.submit("good", 1, Deadline.after(10)) == 1


def test_an_observer_that_fails_does_not_end_the_dispatcher(batcher_of, caplog):
    """It is logged; queries do not wait because of it."""

    def observe(waits, first):
        raise ValueError("no meter")

    batcher = batcher_of(Runner(), observe=observe)

    assert [batcher.submit("x", n, Deadline.after(10)) for n in (1, 2)] == [2, 4]
    assert "the observer of a batch failed" in caplog.text


def test_a_list_whose_time_is_up_says_so_for_each(batcher_of):
    """What was not begun in time is not run at all."""
    runner = Runner()
    batcher = batcher_of(runner, max_batch=4)

    outcomes = batcher.submit_many([("x", n) for n in range(10)], Deadline.after(0))

    assert all(isinstance(each, DeadlineError) for each in outcomes)
    assert runner.batches == []


def test_closing_answers_what_waits_and_refuses_what_comes(batcher_of):
    """Nothing that was accepted is lost."""
    runner = Runner()
    batcher = batcher_of(runner, max_wait_ms=0)
    with ThreadPoolExecutor(8) as pool:
        first, futures = submit_behind(runner, batcher, [("x", n) for n in (1, 2)], pool)
        closing = pool.submit(batcher.close)
        wait_until(lambda: batcher._stopping)
        with pytest.raises(StoppingError):
            batcher.submit("x", 3)
        runner.may_go.set()
        closing.result(HANG_S)

        assert [future.result(HANG_S) for future in [first, *futures]] == [0, 2, 4]


def test_the_observer_is_told_sizes_waits_and_the_first_outcome(batcher_of):
    """An item that failed is no outcome."""
    seen = []
    runner = Runner(bad={1})
    batcher = batcher_of(runner, observe=lambda waits, first: seen.append((len(waits), first)), max_wait_ms=0)
    with ThreadPoolExecutor(8) as pool:
        _, futures = submit_behind(runner, batcher, [("x", 1), ("x", 2)], pool)
        runner.may_go.set()
        for future in futures:
            future.exception(10)
    batcher.close()

    assert seen == [(1, 0), (2, 4)]


def test_ten_thousand_tagged_items_of_many_threads_do_not_mix():
    """Each caller has its own outcome, whatever runs beside it."""
    batcher = MicroBatcher(lambda key, items: [(key, item) for item in items], BatchingOptions(queue_size=1000))
    wrong = []

    def ask(caller):
        for n in range(400):
            if batcher.submit(n % 3, (caller, n)) != (n % 3, (caller, n)):
                wrong.append((caller, n))

    with ThreadPoolExecutor(25) as pool:
        list(pool.map(ask, range(25)))
    batcher.close()

    assert wrong == []


def test_two_dispatchers_run_two_batches_at_once():
    """The second begins while the first is under way."""
    both = threading.Barrier(2, timeout=HANG_S)

    def run(key, items):
        both.wait()
        return items

    batcher = MicroBatcher(run, BatchingOptions(dispatchers=2))
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(batcher.submit, key, 1) for key in "ab"]
        assert [future.result(HANG_S) for future in futures] == [1, 1]
    batcher.close()
