"""Which searcher has which shards, and which machine each replica is on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from kbengine.cluster.placement import ShardSize, Slot, place_replicas, place_shards
from kbengine.cluster.ray_runtime import RayOptions, require_token
from kbengine.errors import InvalidOptionError
from storage.cluster_arrangement import Arrangement, arrange, newest_arrangement
from storage.cluster_catalog import Catalog

SHARDS = st.lists(st.integers(0, 10_000), max_size=20).map(
    lambda rows: [ShardSize(f"s{i}", n) for i, n in enumerate(rows)]
)


@given(SHARDS, st.integers(1, 6), st.integers(0, 10_000))
def test_what_is_added_moves_no_shard(shards, n, rows):
    """So only what is new is opened, and every process comes to the same."""
    before = place_shards(shards, n)
    after = place_shards([*shards, ShardSize("new", rows)], n)

    assert {name: after[name] for name in before} == before
    assert set(after.values()) <= set(range(n))


def test_shards_of_one_size_are_dealt_out_evenly():
    """One each, where there are as many searchers."""
    assert sorted(place_shards([ShardSize(f"s{i}", 100) for i in range(6)], 6).values()) == list(range(6))


def slots(searchers: int, replicas: int) -> list[Slot]:
    """Return all replicas of so many searchers."""
    return [Slot(i, j) for i in range(searchers) for j in range(replicas)]


@given(st.integers(1, 6), st.integers(1, 3), st.integers(1, 6))
def test_replicas_of_one_searcher_are_on_different_machines_as_far_as_there_are(searchers, replicas, machines):
    """And no machine has much more than another."""
    nodes = [f"n{i}" for i in range(machines)]
    found = place_replicas(slots(searchers, replicas), nodes)
    for searcher in range(searchers):
        own = {node for slot, node in found.items() if slot.searcher == searcher}
        assert len(own) == min(replicas, machines)
    loads = [list(found.values()).count(node) for node in nodes]
    assert max(loads) - min(loads) <= max(1, replicas)


@given(st.integers(1, 5), st.integers(1, 3), st.integers(2, 6))
def test_only_what_was_on_a_drained_machine_moves(searchers, replicas, machines):
    """Everything else stays, also when a machine is added."""
    nodes = [f"n{i}" for i in range(machines)]
    before = place_replicas(slots(searchers, replicas), nodes)
    after = place_replicas(slots(searchers, replicas), nodes[1:], before)

    assert "n0" not in after.values()
    assert all(after[slot] == node for slot, node in before.items() if node != "n0")
    assert place_replicas(slots(searchers, replicas), [*nodes, "new"], before) == before


def test_without_a_machine_or_a_searcher_nothing_is_placed():
    """Each says so."""
    with pytest.raises(InvalidOptionError, match="no machine to search on"):
        place_replicas(slots(1, 1), [])
    with pytest.raises(InvalidOptionError, match="wanted 1 or more"):
        place_shards([], 0)


def test_ray_without_authentication_is_refused(monkeypatch, tmp_path):
    """Whoever reached its ports would own the machine."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(InvalidOptionError, match="RAY_AUTH_MODE is 'disabled', wanted 'token'"):
        require_token(is_local=True)


def test_a_runtime_elsewhere_needs_its_token(monkeypatch, tmp_path):
    """One's own gets one that is made up."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    with pytest.raises(InvalidOptionError, match="no token for Ray is given"):
        require_token(is_local=False)
    import os

    require_token(is_local=True)
    assert len(os.environ["RAY_AUTH_TOKEN"]) == 64
    assert os.environ["RAY_AUTH_MODE"] == "token"


@pytest.mark.parametrize("make", [lambda: RayOptions(cpus=0), lambda: RayOptions(object_store_bytes=1)])
def test_options_of_ray_out_of_range_are_refused(make):
    """Each says what is wanted."""
    with pytest.raises(InvalidOptionError, match="wanted"):
        make()


def test_the_newest_wish_counts(tmp_path):
    """Wishes are numbered; a catalog that an older kbengine made takes them too."""
    catalog = Catalog(f"sqlite:///{tmp_path}/catalog.sqlite")
    catalog.create(cluster="c", root="file:///c", next_ordinal=0)
    with catalog.database.writing() as connection:
        connection.execute(text("DROP TABLE arrangements"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    assert arrange(catalog, searchers=3) == Arrangement(1, 3)
    assert arrange(catalog) == Arrangement(2, None) == newest_arrangement(catalog)
    with pytest.raises(InvalidOptionError, match="searchers is 0, wanted 1 to 10,000"):
        arrange(catalog, searchers=0)
    catalog.close()
