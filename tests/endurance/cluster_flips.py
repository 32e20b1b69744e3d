"""Single bits flipped in files of a cluster and of its copy: an error that is named, or the same answers as ever."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from kbengine.errors import KBError
from storage.alias_records import NewAlias
from storage.cluster import Cluster
from storage.cluster_changes import change_aliases, change_documents
from storage.cluster_copies import copy_generation, restore_catalog, verify_generation
from storage.cluster_verification import verify_catalog
from tests.storage.power.cluster_steps import add, build, cluster_state, opened
from tests.storage.power.state import BACKUPS, State
from tests.storage.small_world import make_document

FLIPS = 60
DELETED = "doc 0"


def make_world(folder: Path) -> None:
    """Make `kb`, with tombstones, names and a catalog whose log was not copied into it, and `backups`."""
    folder.mkdir(exist_ok=True)
    whole = folder / "whole"
    build(whole)
    cluster = Cluster.open(f"file://{whole}")
    add(cluster, [make_document("doc 1", "ash tree"), make_document("new", "kelp")])
    change_aliases(cluster, add=[("new", NewAlias("Weed"))], kbengine_version="1")
    copy_generation(cluster, f"file://{folder / BACKUPS}")
    cluster.close()
    cluster = Cluster.open(f"file://{whole}")
    change_documents(cluster, delete_ids=["doc 2"], kbengine_version="1")
    add(cluster, [make_document("late", "fjord")])
    shutil.copytree(whole, folder / "kb", ignore=shutil.ignore_patterns("*-shm"))
    cluster.close()
    shutil.rmtree(whole)


def run(seed: int, scratch: Path, *, flips: int = FLIPS) -> dict[str, int]:
    """So many flips; kinds of files take turns."""
    rng = np.random.default_rng(seed)
    make_world(scratch)
    expected, restored = cluster_state(_copy(scratch / "kb", scratch / "sound")), _restored(scratch)
    kinds: dict[str, list[Path]] = {}
    for path in sorted((*(scratch / "kb").rglob("*"), *(scratch / BACKUPS).rglob("*"))):
        if path.is_file():
            below = path.relative_to(scratch).parts
            name = below[1] if len(below) > 2 or path.suffix == ".json" else path.name
            kinds.setdefault(f"backup {name}" if below[0] == BACKUPS else name, []).append(path)
    counts = {"cluster flips": 0, "cluster flips noticed": 0, **{f"cluster flip: {kind}": 0 for kind in kinds}}
    for number in range(flips):
        kind = sorted(kinds)[(number + seed) % len(kinds)]
        file = kinds[kind][int(rng.integers(len(kinds[kind])))]
        sound = file.read_bytes()
        data = bytearray(sound)
        place, bit = int(rng.integers(len(data))), int(rng.integers(8))
        data[place] ^= 1 << bit
        file.write_bytes(data)
        where = f"{file.relative_to(scratch)}, byte {place}, bit {bit}"
        try:
            if kind.startswith("backup"):
                noticed = _restores_or_says(scratch, restored)
            else:
                noticed = _answers_or_says(scratch, expected)
        except Exception as error:
            raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
        finally:
            file.write_bytes(sound)
        counts["cluster flips"] += 1
        counts[f"cluster flip: {kind}"] += 1
        counts["cluster flips noticed"] += noticed
    return counts


def _copy(source: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(source, target))


def _answers_or_says(scratch: Path, expected: State) -> bool:
    """Whether it was noticed; reading, verifying and changing each say a named error, or nothing is wrong."""
    noticed = False
    copy = _copy(scratch / "kb", scratch / "flipped")
    try:
        assert cluster_state(copy) == expected, "other answers"
    except KBError:
        noticed = True
    problems: list[str] = []
    try:
        opened(copy, lambda cluster: problems.extend(_problems(cluster)))
    except KBError:
        noticed = True
    noticed |= bool(problems)
    if noticed:
        return True
    opened(copy, lambda cluster: change_documents(cluster, delete_ids=[DELETED], kbengine_version="1"))
    wanted = {key: value for key, value in expected.items() if key != f"text {DELETED}"}
    assert cluster_state(copy) == wanted, "a change did something else"
    return False


def _problems(cluster: Cluster) -> list[str]:
    manifest = cluster.manifest()
    return [*verify_generation(manifest, cluster.store), *verify_catalog(cluster)]


def _restored(scratch: Path) -> State:
    copy = _copy(scratch / BACKUPS, scratch / "restored")
    opened(copy, restore_catalog)
    return cluster_state(copy)


def _restores_or_says(scratch: Path, expected: State) -> bool:
    try:
        assert _restored(scratch) == expected, "another cluster was restored"
    except KBError:
        return True
    return False
