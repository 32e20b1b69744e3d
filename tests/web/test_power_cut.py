"""The power fails while keys and jobs are made: those told of are there, keys that were revoked are not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from storage.operating_system import operating_system
from tests.storage.power.scenarios import Cuts, check_all, record
from tests.storage.power.state import State, state_of
from tests.storage.power.steps import CREATE, Step
from web.jobs.context import INPUT_NAME
from web.jobs.job import Outcome, Progress, ResultFile
from web.jobs.store import RESULT_NAME, JobStore
from web.keys import KeyFile
from web.submitting import receive


def keys_of(kb: Path) -> KeyFile:
    """The keys kept beside a knowledge base."""
    return KeyFile(kb / "api-keys.json")


def state_with_keys(kb: Path) -> State:
    """What there is, and the names of keys."""
    return state_of(kb) | {"keys": tuple(key.name for key in keys_of(kb).all())}


def made(name: str) -> Step:
    """A key is made."""
    return (
        f"make {name}",
        lambda kb: keys_of(kb).create(name, "read"),
        lambda state: state | {"keys": (*state.get("keys", ()), name)},
    )


def revoke_first(kb: Path) -> None:
    """The oldest key is revoked."""
    keys_of(kb).revoke(keys_of(kb).all()[0].id)


def test_a_power_cut_loses_no_key_and_brings_none_back(tmp_path: Path) -> None:
    """At every place, with anything left of what was not synced."""
    revoked: Step = ("revoke", revoke_first, lambda state: state | {"keys": state["keys"][1:]})
    recording = record(tmp_path / "run", [CREATE, made("laptop"), made("worker"), revoked])
    recording.states[1:] = [{"keys": (), **state} for state in recording.states[1:]]
    recording.read = state_with_keys
    assert check_all(recording, tmp_path, Cuts(since=1)) > 5


def jobs_of(kb: Path) -> tuple[object, ...]:
    """The jobs with what they were given, where they stand, and what they made."""
    store = JobStore(kb)
    try:
        found = []
        for job in store.newest(limit=10) if kb.exists() else ():
            folder = store.folder / job.id
            given = {path.name: path.read_bytes() for path in sorted((folder / INPUT_NAME).iterdir())}
            made = (folder / RESULT_NAME).read_bytes() if job.state == "succeeded" else b""
            found.append((job.title, job.state, job.cursor, tuple(given.items()), made))
        return tuple(found)
    finally:
        store.close()


def with_store(change: Callable[[JobStore], None]) -> Callable[[Path], None]:
    """What a service does to its jobs."""

    def run(kb: Path) -> None:
        store = JobStore(kb)
        try:
            change(store)
        finally:
            store.close()

    return run


def submit(store: JobStore) -> None:
    """An upload is received and accepted."""
    folder = store.new_folder()
    operating_system().mkdir(folder / INPUT_NAME)
    receive(folder, "pages.jsonl", [b'{"id": "a"}\n'])
    store.add(folder, "upload", "pages", {})


def report(store: JobStore) -> None:
    """It has come half of its way."""
    (job,) = store.unfinished()
    store.begin(job.id)
    store.report(job.id, Progress("adding", 1, 2), {"records": 1})


def finish(store: JobStore) -> None:
    """It made a file, which nobody has synced yet."""
    (job,) = store.unfinished()
    calls = operating_system()
    descriptor = calls.open(store.folder / job.id / RESULT_NAME, os.O_WRONLY | os.O_CREAT)
    calls.write(descriptor, memoryview(b"made"))
    calls.close(descriptor)
    store.finish(job.id, "succeeded", outcome=Outcome({}, ResultFile("made.txt", "text/plain")))


def test_a_power_cut_loses_no_job(tmp_path: Path) -> None:
    """What was accepted is there with its input, what was reported is where it goes on, what was made is whole."""
    given = (("pages.jsonl", b'{"id": "a"}\n'),)
    queued, half = ("pages", "queued", None, given, b""), ("pages", "running", {"records": 1}, given, b"")
    begun = ("pages", "running", None, given, b"")
    done = ("pages", "succeeded", {"records": 1}, given, b"made")
    steps: list[Step] = [
        CREATE,
        ("submit", with_store(submit), lambda state: state | {"jobs": (queued,)}),
        ("report", with_store(report), lambda state: state | {"jobs": (half,)}),
        ("finish", with_store(finish), lambda state: state | {"jobs": (done,)}),
    ]
    recording = record(tmp_path / "run", steps)
    recording.states[1] |= {"jobs": ()}

    def read(kb: Path) -> State:
        jobs = jobs_of(kb)
        return state_of(kb) | {"jobs": (queued,) if jobs == (begun,) else jobs}  # begun, and nothing reported yet

    recording.read = read
    assert read(tmp_path / "run" / "kb") == recording.states[-1]
    assert check_all(recording, tmp_path, Cuts(since=1, stride=5)) > 5
