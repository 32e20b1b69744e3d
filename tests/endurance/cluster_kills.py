"""Processes that change a cluster, ended by the kernel at random moments: nothing acknowledged is lost."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import delete

from storage import cluster_schema as schema
from storage.alias_records import NewAlias
from storage.cluster import Cluster
from storage.cluster_changes import change_aliases, change_documents
from storage.cluster_compaction import compact_cluster
from storage.cluster_copies import copy_generation, verify_generation
from storage.cluster_names import RemovedAlias
from storage.cluster_pruning import prune_cluster
from tests.storage.cluster_world import AT
from tests.storage.crash_child import be_killed, note
from tests.storage.power.cluster_steps import add, build, cluster_beside, cluster_state
from tests.storage.power.state import BACKUPS, State
from tests.storage.small_world import WORDS, make_document

KILLS, MAX_DONE = 20, 10
KINDS = ["add"] * 6 + ["replace"] * 3 + ["delete"] * 4 + ["alias"] * 3 + ["unalias"] * 2
KINDS += ["compact"] * 2 + ["prune", "backup"]


def run(seed: int, scratch: Path, *, kills: int = KILLS) -> dict[str, int]:
    """So many kills of children forked from this process, each a moment after a random number of changes."""
    rng = np.random.default_rng(seed)
    path = scratch / "kb"
    scratch.mkdir(exist_ok=True)
    build(path)
    model = cluster_beside(path)
    acknowledged = 0
    for number in range(kills):
        journal = scratch / f"journal-{number}"
        journal.touch()
        n_done, delay_s = int(rng.integers(0, MAX_DONE)), float(rng.uniform(0.0005, 0.06))
        _run_and_kill(path, journal, seed=seed * 1000 + number, model=model, n_done=n_done, delay_s=delay_s)
        in_flight = None
        for line in journal.read_text().splitlines():
            if not line.endswith("}"):
                continue
            entry = json.loads(line)
            if entry["event"] == "done":
                model, in_flight = apply(model, entry), None
                acknowledged += 1
            elif entry["event"] == "intent":
                in_flight = entry
        seen = cluster_beside(path)
        allowed = [model] if in_flight is None else [model, apply(model, in_flight)]
        assert seen in allowed, f"after kill {number}: {in_flight}: {_difference(seen, allowed[-1])}"
        model = seen
        _check(path)
    return {"cluster kills": kills, "cluster acknowledged": acknowledged}


def apply(state: State, entry: dict[str, Any]) -> State:
    """The state after the change of a journal line."""
    kind, ids = entry["kind"], entry["ids"]
    if kind in ("add", "replace"):
        return state | {f"text {doc_id}": tuple(texts) for doc_id, texts in entry["texts"].items()}
    if kind == "delete":
        gone = {key for key in state for each in ids if key == f"text {each}" or key.endswith(f" of {each}")}
        return {key: value for key, value in state.items() if key not in gone}
    if kind == "alias":
        return state | {f"alias {entry['alias']} of {ids[0]}": True}
    if kind == "unalias":
        return {key: value for key, value in state.items() if key != f"alias {entry['alias']} of {ids[0]}"}
    if kind == "backup":
        return state | {"backup": {key: value for key, value in state.items() if key != "backup"}}
    return state


def _run_and_kill(path: Path, journal: Path, *, seed: int, model: State, n_done: int, delay_s: float) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            _work(path, journal, seed=seed, model=model, n_done=n_done, delay_s=delay_s)
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), f"the child ended by itself, status {status}: {journal.read_text()[-300:]}"


def _work(path: Path, journal_path: Path, *, seed: int, model: State, n_done: int, delay_s: float) -> None:
    """Work until killed: a moment after so many changes; after none of them, maybe while opening."""
    if n_done == 0:
        be_killed(delay_s)
    rng = np.random.default_rng(seed)
    journal = os.open(journal_path, os.O_WRONLY | os.O_APPEND)
    cluster = Cluster.open(f"file://{path}")
    number = 0
    while True:
        number += 1
        live = sorted(key.removeprefix("text ") for key in model if key.startswith("text "))
        kind = str(rng.choice(KINDS)) if len(live) > 3 else "add"
        if kind == "add":
            ids = [f"{seed}-{number}-{each}" for each in range(int(rng.integers(1, 3)))]
        else:
            ids = [str(rng.choice(live))]
        texts = {doc_id: [" ".join(rng.choice(WORDS, size=4))] for doc_id in ids} if kind in ("add", "replace") else {}
        entry = {"kind": kind, "ids": ids, "texts": texts, "alias": f"alias {number % 2}"}
        note(journal, {"event": "intent", **entry})
        _change(cluster, path, entry)
        note(journal, {"event": "done", **entry})
        model = apply(model, entry)
        if number == n_done:
            be_killed(delay_s)


def _change(cluster: Cluster, path: Path, entry: dict[str, Any]) -> None:
    kind, ids, name = entry["kind"], entry["ids"], entry["alias"]
    if entry["texts"]:
        add(cluster, [make_document(doc_id, *texts) for doc_id, texts in entry["texts"].items()])
    elif kind == "delete":
        change_documents(cluster, delete_ids=ids, kbengine_version="1")
    elif kind == "alias":
        change_aliases(cluster, add=[(ids[0], NewAlias(name))], kbengine_version="1")
    elif kind == "unalias":
        change_aliases(cluster, remove=[(ids[0], RemovedAlias(name))], kbengine_version="1")
    elif kind == "compact":
        with cluster.catalog.database.writing() as connection:
            connection.execute(delete(schema.leases))  # of a compaction that was killed: it would hold for a minute
        compact_cluster(cluster, created_at=AT, kbengine_version="1", purge=True)
    elif kind == "prune":
        prune_cluster(cluster, older_than_s=0)
    else:
        copy_generation(cluster, f"file://{path.parent / BACKUPS}")


def _check(path: Path) -> None:
    """Nothing is missing or damaged, generations are dense, and no ordinal is given twice."""
    cluster = Cluster.open(f"file://{path}")
    try:
        manifest = cluster.manifest()
        problems = verify_generation(manifest, cluster.store)
        assert not problems, problems
        rows = [row.generation for row in cluster.catalog.generations()]
        assert rows == list(range(rows[0], 0, -1)), "generations are missing"
        assert cluster.catalog.cluster().next_ordinal >= max(shard.end_ordinal for shard in manifest.shards)
    finally:
        cluster.close()
    assert cluster_state(path)


def _difference(seen: State, wanted: State) -> str:
    return str(sorted(key for key in seen.keys() | wanted.keys() if seen.get(key) != wanted.get(key)))
