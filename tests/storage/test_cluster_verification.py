"""A catalog that is damaged, or says something else than the objects, is told by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from storage.alias_records import NewAlias
from storage.cluster import Cluster
from storage.cluster_changes import change_aliases, change_documents
from storage.cluster_verification import verify_catalog
from storage.errors import CorruptError, StateError
from tests.storage.cluster_world import make_cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Four documents in two shards, one deleted, one with another name."""
    made = make_cluster(f"file://{tmp_path}/cluster", tmp_path, per_shard=2)
    change_documents(made, delete_ids=["doc 1"], kbengine_version="1")
    change_aliases(made, add=[("doc 2", NewAlias("second"))], kbengine_version="1")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE documents SET doc_id = 'dog 3' WHERE doc_id = 'doc 3'", "1 documents of shard"),
        ("UPDATE documents SET dead_generation = NULL", "1 documents of shard"),
        ("UPDATE aliases SET alias = 'third'", "the names that documents were given or lost"),
        ("UPDATE clusters SET next_ordinal = 1", "would give ordinal 1 next, wanted at least 4"),
        ("UPDATE clusters SET generation = 2", "does not say that it is of cluster"),
        ("UPDATE shards SET dead_generation = 2 WHERE first_ordinal = 2", "its 1 live shards are not the 2"),
    ],
)
def test_what_the_catalog_says_is_compared_with_the_objects(cluster: Cluster, statement: str, told: str) -> None:
    """A row that changed is seen, and what makes it well again is told."""
    assert verify_catalog(cluster) == []
    with cluster.catalog.database.writing() as connection:
        connection.execute(text(statement))
    problems = verify_catalog(cluster)
    assert len(problems) == 1 and told in problems[0] and "'kbengine cluster restore'" in problems[0]


def test_a_damaged_catalog_is_a_named_error(cluster: Cluster, tmp_path: Path) -> None:
    """Whatever is damaged in it."""
    path = tmp_path / "cluster" / "catalog.sqlite"
    cluster.close()
    path.write_bytes(b"nothing that SQLite knows" * 400)
    with pytest.raises(CorruptError, match=r"the catalog .* is damaged .*kbengine cluster restore"):
        cluster.manifest()


def test_a_catalog_that_may_not_be_written_is_named(cluster: Cluster, tmp_path: Path) -> None:
    """With what to look at."""
    cluster.close()
    for path in (tmp_path / "cluster").glob("catalog.sqlite*"):
        path.unlink()
    (tmp_path / "cluster" / "catalog.sqlite").mkdir()
    with pytest.raises(StateError, match=r"the catalog .* cannot be opened or written .*check owner and permissions"):
        cluster.manifest()
