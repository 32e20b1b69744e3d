"""The commands about clusters: what is kept as objects and a catalog, and searched by several machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import json_option, option, options

if TYPE_CHECKING:
    from storage.alias_records import AliasSource
    from storage.cluster import Cluster
    from storage.cluster_catalog import GenerationRow, NodeState

GIVEN = ("wikidata", "document", "redirect", "mention", "tsv", "manual")

catalog_option = option(
    "--catalog",
    str,
    "Find the catalog at this address, such as postgresql+psycopg://user@host/name; by default in an SQLite file "
    "beside objects in a folder.",
    envvar="KBENGINE_CATALOG",
)
cluster_options = options(click.argument("root", metavar="URL"), catalog_option)
generation_option = option("--generation", int, "Take this generation; by default the newest.")
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


@cluster.command()
@cluster_options
@click.argument("doc_id")
@click.argument("names", nargs=-1, required=True)
@option("--remove", bool, "Take these names from the document.")
@option("--prior", float, "Probability that such a name means the document; by default it is counted.")
@option("--source", GIVEN, "Say where the names are from.", default="manual")
@operation_option
@json_option
def alias(
    root: str,
    catalog: str | None,
    doc_id: str,
    names: tuple[str, ...],
    remove: bool,
    prior: float | None,
    source: AliasSource,
    op_id: str | None,
    as_json: bool,
) -> None:
    """Give the document DOC_ID other NAMES, or take them away.

    \b
    Example: kbengine cluster alias file:///srv/cluster page-7 "the seventh"
    """
    from kbengine.cluster.writer import ClusterWriter
    from storage.alias_records import NewAlias
    from storage.cluster_names import RemovedAlias

    writer = ClusterWriter(_open(root, catalog))
    if remove:
        made = writer.delete_aliases([(doc_id, RemovedAlias(name, source)) for name in names], op_id=op_id)
    else:
        made = writer.add_aliases([(doc_id, NewAlias(name, source, prior)) for name in names], op_id=op_id)
    standard_output(as_json=as_json).facts(_made(made))


@cluster.command()
@cluster_options
@option("--max-rows", int, "Make shards of at most so many stored vectors; by default as many as the largest has.")
@option("--purge", bool, "Also make shards anew that hold deleted documents and stay alone.")
@json_option
def compact(root: str, catalog: str | None, max_rows: int | None, purge: bool, as_json: bool) -> None:
    """Put small neighbouring shards together, without documents that were deleted, while others search and change.

    \b
    Example: kbengine cluster compact file:///srv/cluster
    """
    from kbengine.cluster.plan import CREATED_AT
    from kbengine.version import __version__
    from storage.cluster_compaction import compact_cluster

    found = _open(root, catalog)
    before = len(found.manifest().shards)
    made = compact_cluster(found, created_at=CREATED_AT, kbengine_version=__version__, max_rows=max_rows, purge=purge)
    manifest = found.manifest()
    standard_output(as_json=as_json).facts(
        {
            "generation": manifest.generation,
            "new_shards": len(made),
            "shards_before": before,
            "shards": len(manifest.shards),
        }
    )


@cluster.command()
@cluster_options
@option("--keep", int, "Keep so many generations, the newest, and all that they need.", default=2)
@option("--older-than-s", float, "Remove only what was uploaded so many seconds ago.", default=86_400.0)
@json_option
def prune(root: str, catalog: str | None, keep: int, older_than_s: float, as_json: bool) -> None:
    """Remove objects that none of the newest generations needs, and what interrupted changes left.

    \b
    Example: kbengine cluster prune file:///srv/cluster --keep 2
    """
    from storage.cluster_pruning import prune_cluster

    report = prune_cluster(_open(root, catalog), keep=keep, older_than_s=older_than_s)
    standard_output(as_json=as_json).facts(
        {"objects_removed": report.objects, "bytes_removed": report.n_bytes, "manifests_removed": report.manifests}
    )


@cluster.command()
@cluster_options
@click.argument("target")
@generation_option
@json_option
def backup(root: str, catalog: str | None, target: str, generation: int | None, as_json: bool) -> None:
    """Copy a generation to the address TARGET, each object checked; what is there already is not copied again.

    \b
    Example: kbengine cluster backup s3://bucket/prefix file:///srv/copy --catalog postgresql://localhost/kb
    """
    from kbengine.progress import Stages, progress_for_terminal
    from storage.cluster_copies import copy_generation

    with progress_for_terminal() as progress:
        report = copy_generation(_open(root, catalog), target, generation=generation, stage=Stages(progress))
    standard_output(as_json=as_json).facts(
        {
            "generation": report.generation,
            "objects": report.objects,
            "bytes": report.n_bytes,
            "bytes_written": report.new_bytes,
        }
    )


@cluster.command()
@cluster_options
@generation_option
@json_option
def restore(root: str, catalog: str | None, generation: int | None, as_json: bool) -> None:
    """Make an empty catalog know the newest generation at URL: of a copy, or where the catalog was lost.

    \b
    Example: kbengine cluster restore file:///srv/copy
    """
    from kbengine.progress import Stages, progress_for_terminal
    from storage.cluster_copies import restore_catalog

    found = _open(root, catalog)
    with progress_for_terminal() as progress:
        row = restore_catalog(found, generation=generation, stage=Stages(progress))
    standard_output(as_json=as_json).facts(
        {"generation": row.generation, "documents": found.manifest().documents, "catalog": found.catalog.place}
    )


@cluster.command()
@cluster_options
@generation_option
@json_option
def verify(root: str, catalog: str | None, generation: int | None, as_json: bool) -> None:
    """Read every object of a generation, and compare the catalog with the newest; exit 1 when anything is damaged.

    \b
    Example: kbengine cluster verify file:///srv/cluster
    """
    from kbengine.progress import Stages, progress_for_terminal
    from storage.cluster_copies import verify_generation
    from storage.cluster_verification import verify_catalog

    found = _open(root, catalog)
    manifest = found.manifest(generation)
    with progress_for_terminal() as progress:
        problems = verify_generation(manifest, found.store, stage=Stages(progress))
        if generation is None and not problems:
            problems = verify_catalog(found, stage=Stages(progress))
    output = standard_output(as_json=as_json)
    output.facts({"generation": manifest.generation, "objects": len(manifest.objects()), "problems": len(problems)})
    for problem in problems:
        click.echo(problem, err=True)
    if problems:
        raise SystemExit(1)


@cluster.command()
@cluster_options
@click.argument("machine")
@option("--undo", bool, "Let it search again.")
@json_option
def drain(root: str, catalog: str | None, machine: str, undo: bool, as_json: bool) -> None:
    """Have services move what searches on MACHINE elsewhere, before it is taken away.

    Each actor leaves after the one in its place has its shards open. `cluster status` shows what a machine still has.

    \b
    Example: kbengine cluster drain s3://bucket/prefix worker-3 --catalog postgresql+psycopg://localhost/kb
    """
    state: NodeState = "active" if undo else "draining"
    _open(root, catalog).catalog.set_node_state(machine, state)
    standard_output(as_json=as_json).facts({"machine": machine, "state": state})


@cluster.command()
@cluster_options
@option("--searchers", int, "Divide the shards among so many actors; by default as the services say, or one a shard.")
@json_option
def rebalance(root: str, catalog: str | None, searchers: int | None, as_json: bool) -> None:
    """Have services spread the shards anew over the machines that there are, while they answer.

    For when a machine was added. New actors open their shards, requests go to them from then on, and the old ones end.
    `cluster status` shows what each machine has. No shard changes: `cluster compact` puts small ones together.

    \b
    Example: kbengine cluster rebalance s3://bucket/prefix --catalog postgresql+psycopg://localhost/kb
    """
    from storage.cluster_arrangement import arrange

    wish = arrange(_open(root, catalog).catalog, searchers=searchers)
    standard_output(as_json=as_json).facts(
        {"arrangement": wish.number, "searchers": "as the services say" if searchers is None else searchers}
    )


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
