"""The catalog in PostgreSQL: as in SQLite, and what only a server can do, such as being away."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy import inspect as inspected
from sqlalchemy.schema import CreateIndex

from storage import cluster_schema
from storage.cluster import Cluster
from storage.cluster_changes import change_documents
from storage.cluster_database import CatalogDatabase, migrate_catalog
from storage.errors import CatalogUnavailableError
from tests.integrations.cluster.services import Postgres
from tests.storage import test_cluster_changes as on_sqlite
from tests.storage.cluster_world import make_cluster

SAME = [
    "test_a_build_is_generation_one",
    "test_documents_are_added_replaced_and_deleted",
    "test_a_shard_without_a_live_document_is_left_out",
    "test_an_operation_takes_place_once",
    "test_operations_are_found_by_how_their_names_begin",
    "test_what_cannot_be_done_changes_nothing",
    "test_names_are_given_taken_and_inherited",
    "test_small_shards_become_one_while_documents_go",
    "test_what_only_one_may_do_is_done_by_one",
    "test_whoever_is_at_work_keeps_a_lease_and_whoever_was_killed_loses_it",
    "test_machines_are_noted",
    "test_waiting_ends_with_a_new_generation",
]


@pytest.fixture
def cluster(catalog: str, tmp_path: Path) -> Iterator[Cluster]:
    """Ten documents in two shards, known to PostgreSQL."""
    made = make_cluster(f"file://{tmp_path}/cluster", tmp_path, catalog)
    yield made
    made.close()


@pytest.mark.parametrize("name", SAME)
def test_as_on_sqlite(name: str, cluster: Cluster, tmp_path: Path) -> None:
    """The same promises, tested in the same way."""
    test = getattr(on_sqlite, name)
    given = {"cluster": cluster, "tmp_path": tmp_path}
    test(**{each: given[each] for each in inspect.signature(test).parameters})


def test_four_writers_killed_at_random_lose_nothing(catalog: str, tmp_path: Path) -> None:
    """Generations are dense, and each document that a writer said it had added is there."""
    on_sqlite.kill_writers(f"file://{tmp_path}/cluster", catalog, tmp_path, kills=3)


def test_a_catalog_that_is_away_stops_changes_and_nothing_else(
    catalog: str, postgres: Postgres, tmp_path: Path
) -> None:
    """Generations that are known are read; changes fail by name, and go on when it is back."""
    cluster = make_cluster(f"file://{tmp_path}/cluster", tmp_path, catalog)
    ref = cluster.manifest().ref()
    postgres.stop()
    try:
        with pytest.raises(CatalogUnavailableError, match="searching goes on with what is known"):
            change_documents(cluster, delete_ids=["doc 1"], op_id="one", kbengine_version="1")
        with pytest.raises(CatalogUnavailableError):
            cluster.catalog.newest_number()
        manifest = cluster.manifest_of(ref)
        assert manifest.documents == 10
        for file in manifest.objects().values():
            cluster.store.check(file)
    finally:
        postgres.start()
    assert change_documents(cluster, delete_ids=["doc 1"], op_id="one", kbengine_version="1").generation == 2
    cluster.close()


def test_migrations_make_the_schema_that_the_code_uses(catalog: str, postgres: Postgres) -> None:
    """Tables, 64-bit columns, and indexes with their conditions."""
    migrated = CatalogDatabase(catalog)
    with migrated.writing() as connection:
        migrate_catalog(connection)
    migrated.close()
    declared = postgres.database(catalog.rpartition("/")[2] + "_declared")
    engine = create_engine(declared)
    cluster_schema.metadata.create_all(engine)
    engine.dispose()
    assert described(catalog) == described(declared)
    conditions = {
        index.name: str(CreateIndex(index).compile(dialect=create_engine(catalog).dialect))
        for table in cluster_schema.metadata.tables.values()
        for index in table.indexes
    }
    assert "WHERE dead_generation IS NULL" in conditions["ix_documents_live_doc_id"]


def described(url: str) -> dict[str, object]:
    """Columns, keys and indexes of all tables but alembic's own."""
    engine = create_engine(url)
    with engine.connect() as connection:
        looking = inspected(connection)
        found: dict[str, object] = {}
        for table in looking.get_table_names():
            if table != "alembic_version":
                columns = [(each["name"], str(each["type"]), each["nullable"]) for each in looking.get_columns(table)]
                indexes = sorted(str(sorted(each.items())) for each in looking.get_indexes(table))
                keys = (looking.get_pk_constraint(table), looking.get_foreign_keys(table))
                found[table] = (columns, indexes, str(keys), sorted(map(str, looking.get_check_constraints(table))))
    engine.dispose()
    return found
