"""Shards fetched to a folder: once, kept while somebody has them open, removed when nobody needs them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kbengine.cluster.fetched_shards import FetchedShards
from storage.cluster import Cluster
from storage.errors import CorruptError
from tests.storage.cluster_world import make_cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Ten documents in two shards."""
    made = make_cluster(f"file://{tmp_path}/cluster", tmp_path)
    yield made
    made.close()


def test_what_is_open_or_young_or_named_stays(cluster: Cluster, tmp_path: Path) -> None:
    """The rest goes, and so does what a process left that was killed while it fetched."""
    first, second = cluster.manifest().shards
    fetched = FetchedShards(cluster, tmp_path / "state", kept_s=-60)
    one, two = fetched.get(first), fetched.get(second)
    left = one.path.with_name(".left-by-a-killed-process")
    left.mkdir()
    two.release()
    FetchedShards(cluster, tmp_path / "state").remove_all_but([])  # a moment ago all were fetched
    assert left.exists() and two.path.exists()
    fetched.remove_all_but([second.name])
    assert (one.path.exists(), two.path.exists(), left.exists()) == (True, True, False)
    fetched.remove_all_but([])  # the first is open
    assert (one.path.exists(), two.path.exists()) == (True, False)
    one.release()
    fetched.remove_all_but([])
    assert list(one.path.parent.iterdir()) == []
    again = fetched.get(first)
    assert (again.path / "kb.sqlite").exists()
    again.release()


def test_many_fetch_and_remove_at_once(cluster: Cluster, tmp_path: Path) -> None:
    """Whoever has one has all of its files."""
    entry = cluster.manifest().shards[0]

    def use(number: int) -> bool:
        fetched = FetchedShards(cluster, tmp_path / "state", kept_s=-60)
        shard = fetched.get(entry)
        there = all((shard.path / file.path).exists() for file in entry.files)
        shard.release()
        if number % 2:
            fetched.remove_all_but([])
        return there

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(use, range(64))) == [True] * 64


def test_what_cannot_be_fetched_leaves_nothing(cluster: Cluster, tmp_path: Path) -> None:
    """The missing object is named."""
    entry = cluster.manifest().shards[0]
    cluster.store.remove(entry.files[0].sha256)
    with pytest.raises(CorruptError, match=entry.files[0].sha256):
        FetchedShards(cluster, tmp_path / "state").get(entry)
    assert list((tmp_path / "state" / cluster.name).iterdir()) == []
