"""The commands about clusters: what is kept as objects and a catalog, and searched by several machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import json_option, option, options

if TYPE_CHECKING:
    from storage.cluster import Cluster
    from storage.cluster_catalog import GenerationRow

cluster_options = options(
    click.argument("root", metavar="URL"),
    option(
        "--catalog",
        str,
        "Find the catalog at this address, such as postgresql+psycopg://user@host/name; by default in an SQLite file "
        "beside objects in a folder.",
        envvar="KBENGINE_CATALOG",
    ),
)
operation_option = option(
    "--op-id", str, "Call this change so, so that repeating it changes nothing; by default it is not repeated."
)


@click.group()
def cluster() -> None:
    """Build, change and look after a cluster: shards as objects in a folder or object store, and a catalog of them.

    \b
    Example: kbengine cluster status file:///srv/cluster
    """


@cluster.command()
@cluster_options
@json_option
@option("--generations", int, "Show so many generations, the newest.", default=10)
def status(root: str, catalog: str | None, generations: int, as_json: bool) -> None:
    """Show what the cluster at URL holds: its newest generation, shards, machines and last changes.

    \b
    Example: kbengine cluster status s3://bucket/prefix --catalog postgresql+psycopg://localhost/kb
    """
    from storage.cluster_status import cluster_status

    found = _open(root, catalog)
    facts = cluster_status(found, generations=generations)
    output = standard_output(as_json=as_json)
    if as_json:
        output.facts(facts)
        return
    output.facts({name: value for name, value in facts.items() if not isinstance(value, list)})
    for row in (*facts["machines"], *facts["changes"]):
        output.line("  ".join(f"{name} {value}" for name, value in row.items()))


@cluster.command()
@cluster_options
@click.argument("doc_ids", nargs=-1, required=True)
@operation_option
@json_option
def delete(root: str, catalog: str | None, doc_ids: tuple[str, ...], op_id: str | None, as_json: bool) -> None:
    """Delete the documents DOC_IDS; when this returns no search finds them any more.

    \b
    Example: kbengine cluster delete file:///srv/cluster page-7 page-9
    """
    from kbengine.version import __version__
    from storage.cluster_changes import change_documents

    made = change_documents(_open(root, catalog), delete_ids=doc_ids, op_id=op_id, kbengine_version=__version__)
    standard_output(as_json=as_json).facts(_made(made))


def _open(root: str, catalog: str | None) -> Cluster:
    from storage.cluster import Cluster

    return Cluster.open(root, catalog)


def _made(row: GenerationRow) -> dict[str, Any]:
    """Return what is told of a change."""
    return {
        "generation": row.generation,
        "added": row.documents_added,
        "replaced": row.documents_replaced,
        "deleted": row.documents_deleted,
        "aliases": row.aliases_changed,
        "operation_id": row.op_id,
    }
