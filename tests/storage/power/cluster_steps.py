"""Operations on a cluster in a folder, each with what it makes of the content, and what a restart finds of it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from storage.alias_records import NewAlias
from storage.cluster import Cluster
from storage.cluster_changes import change_aliases, change_documents
from storage.cluster_compaction import compact_cluster
from storage.cluster_copies import copy_generation, restore_catalog, verify_generation
from storage.cluster_pruning import prune_cluster
from storage.database import reader_engine
from storage.errors import InvalidOptionError, NotAKnowledgeBaseError
from storage.records import NewDocument
from storage.shard_files import fetch_files
from tests.storage.cluster_world import AT, make_cluster, make_shard
from tests.storage.power.state import BACKUPS, State
from tests.storage.small_world import content, make_document

Step = tuple[str, Callable[[Path], object], Callable[[State], State]]
RESTORED = "restored.sqlite"
"""A second catalog, beside the cluster, made of its objects."""


def opened(path: Path, change: Callable[[Cluster], object], catalog: Path | None = None) -> None:
    """Do something to the cluster in a folder."""
    cluster = Cluster.open(f"file://{path}", None if catalog is None else f"sqlite:///{catalog}")
    try:
        change(cluster)
    finally:
        cluster.close()


def changing(change: Callable[[Cluster], object]) -> Callable[[Path], object]:
    """An operation on the cluster in a folder."""
    return lambda path: opened(path, change)


def build(path: Path) -> None:
    """Two shards of two documents."""
    with tempfile.TemporaryDirectory() as scratch:
        make_cluster(f"file://{path}", Path(scratch), per_shard=2).close()


def add(cluster: Cluster, documents: list[NewDocument], *, op_id: str | None = None) -> None:
    """Add or replace documents, as `kbengine cluster add` does with those it has encoded."""
    first = cluster.catalog.reserve(len(documents))
    with tempfile.TemporaryDirectory() as scratch:
        shard = make_shard(cluster, Path(scratch), documents, first)
        change_documents(cluster, add=shard, op_id=op_id, kbengine_version="1")


def _text(n: int, i: int) -> tuple[str]:
    return (f"amber delta {n} {i}",)


BUILT: State = {f"text doc {2 * n + i}": _text(n, i) for n in range(2) for i in range(2)}
BUILD: Step = ("cluster build", build, lambda _state: dict(BUILT))
ADD: Step = (
    "cluster add",
    changing(lambda cluster: add(cluster, [make_document("doc 1", "ash tree"), make_document("new", "kelp")])),
    lambda state: state | {"text doc 1": ("ash tree",), "text new": ("kelp",)},
)
DELETE: Step = (
    "cluster delete",
    changing(lambda cluster: change_documents(cluster, delete_ids=["doc 2"], kbengine_version="1")),
    lambda state: {key: value for key, value in state.items() if key != "text doc 2"},
)
ALIAS: Step = (
    "cluster alias",
    changing(lambda cluster: change_aliases(cluster, add=[("new", NewAlias("Weed"))], kbengine_version="1")),
    lambda state: state | {"alias Weed of new": True},
)
COMPACT: Step = (
    "cluster compact",
    changing(lambda cluster: compact_cluster(cluster, created_at=AT, kbengine_version="1", purge=True)),
    lambda state: state,
)
PRUNE: Step = (
    "cluster prune",
    changing(lambda cluster: prune_cluster(cluster, older_than_s=0)),
    lambda state: state,
)
BACK_UP: Step = (
    "cluster backup",
    lambda path: opened(path, lambda cluster: copy_generation(cluster, f"file://{path.parent / BACKUPS}")),
    lambda state: state | {"backup": _alone(state)},
)
RESTORE: Step = (
    "cluster restore",
    lambda path: opened(path, restore_catalog, path.parent / RESTORED),
    lambda state: state | {"restored": _alone(state)},
)

CLUSTER_SERIES: dict[str, list[Step]] = {
    "a cluster": [BUILD, ADD, DELETE, ALIAS, COMPACT, PRUNE],
    "copies of a cluster": [BUILD, BACK_UP, ADD, BACK_UP, RESTORE],
}


def _alone(state: State) -> State:
    return {key: value for key, value in state.items() if key not in ("backup", "restored")}


def cluster_state(path: Path, catalog: Path | None = None) -> State:
    """Texts and given names in the newest generation, each object compared with its name; nothing without one."""
    try:
        cluster = Cluster.open(f"file://{path}", None if catalog is None else f"sqlite:///{catalog}")
    except NotAKnowledgeBaseError:
        return {}
    try:
        if not cluster.catalog.cluster().generation and catalog is not None:
            return {}  # its making was interrupted: it is made anew
        manifest = cluster.manifest()
    except (NotAKnowledgeBaseError, InvalidOptionError):
        cluster.close()
        return {}
    state: State = {}
    names: dict[int, str] = {}
    for shard in manifest.shards:
        with tempfile.TemporaryDirectory() as scratch:
            fetch_files(cluster.store, shard.files, Path(scratch))
            texts, ordinals = content(Path(scratch)), _ordinals(Path(scratch))
        dead = {int(ordinal) for ordinal in cluster.tombstones(shard)}
        live = {ordinal: doc_id for ordinal, doc_id in ordinals.items() if ordinal not in dead}
        assert len(live) == shard.documents - shard.dead
        assert not {f"text {doc_id}" for doc_id in live.values()} & state.keys(), "a document is there twice"
        state |= {f"text {doc_id}": texts[doc_id] for doc_id in live.values()}
        names |= live
    for alias in cluster.aliases(manifest):
        if not alias.is_removed:
            state[f"alias {alias.alias} of {names[alias.ordinal]}"] = True
    cluster.close()
    return state


def cluster_beside(path: Path) -> State:
    """The cluster, what another catalog made of its objects says, and its newest copy with a catalog made of it."""
    state = cluster_state(path)
    if (path.parent / RESTORED).exists() and (restored := cluster_state(path, path.parent / RESTORED)):
        state["restored"] = restored
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "copy"
        if (path.parent / BACKUPS / "cluster.json").exists():
            shutil.copytree(path.parent / BACKUPS, copy)
            try:
                opened(copy, restore_catalog)
            except InvalidOptionError:  # it has no generation yet
                return state
            state["backup"] = cluster_state(copy)
    return state


def check_cluster(path: Path, allowed: list[State], read: Callable[[Path], State]) -> None:
    """Open it as after a restart: the state is one of those allowed, nothing is wrong, and a change can be made."""
    seen = read(path)
    assert seen in allowed, f"{seen.keys()} is none of {[state.keys() for state in allowed]}"
    if not _alone(seen):
        build(path)
        assert cluster_state(path) == BUILT
        return
    cluster = Cluster.open(f"file://{path}")
    try:
        manifest = cluster.manifest()
        problems = verify_generation(manifest, cluster.store)
        assert not problems, problems
        assert cluster.catalog.cluster().next_ordinal >= max(shard.end_ordinal for shard in manifest.shards)
        add(cluster, [make_document("afterwards", "all is well")])
        assert cluster_state(path) == _alone(seen) | {"text afterwards": ("all is well",)}
    finally:
        cluster.close()


def _ordinals(kb: Path) -> dict[int, str]:
    engine = reader_engine(kb)
    try:
        with engine.connect() as connection:
            rows = connection.exec_driver_sql("SELECT document_id - 1, doc_id FROM documents").all()
            return {int(ordinal): str(doc_id) for ordinal, doc_id in rows}
    finally:
        engine.dispose()
