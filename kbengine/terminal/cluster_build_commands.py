"""The commands that encode documents for a cluster: `cluster build`, `cluster plan`, `cluster add`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbengine.terminal.cluster_commands import catalog_option, cluster
from kbengine.terminal.console import standard_output
from kbengine.terminal.options import STORED_TOKENS, corpus_options, encoder_options, json_option, option, options

if TYPE_CHECKING:
    from kbengine.build.builder import CorpusOptions
    from kbengine.cluster.planning import ClusterBuild
    from kbengine.encoders.encoder import Encoder

build_options = options(
    corpus_options,
    option("--to root", str, "Keep objects at this address: file:///folder or s3://bucket/prefix.", required=True),
    catalog_option,
    encoder_options,
    option("--shards", int, "Make so many shards, at most one a chunk; by default one for each two gigabytes of text."),
    option("--chunk-bytes", int, "Encode so many bytes of text as one piece of work.", default=1 << 19),
    option("--keep-fraction", float, "Index this share of tokens, the filter's best; by default half."),
    option("--filter-threshold", float, "Index tokens whose filter logit reaches this; by default half of them."),
    option("--store", STORED_TOKENS, "Store these tokens: each can then begin or end an answer.", default="all"),
    option("--code-bits", int, "Store a dimension of a token vector in so many bits, 4 or 8.", default=4),
    option("--no-sparse", bool, "Store no sparse rows though the encoder has sparse heads."),
    option("--index kind", str, "Make an index of this kind, such as opq48; by default as suits the size."),
    option("--nlist", int, "Cluster the index into so many lists; by default chosen from the corpus's size."),
    option("--nprobe", int, "Read so many lists for each query; by default measured on a sample."),
)


@cluster.command()
@build_options
@json_option
def plan(root: str, catalog: str | None, as_json: bool, **given: Any) -> None:
    """Deal CORPUS out and measure a sample, and encode nothing else; `cluster build` of the same goes on from there.

    \\b
    Example: kbengine cluster plan pages.jsonl.gz --to file:///srv/cluster
    """
    from kbengine.cluster.planning import describe_plan, plan_build
    from kbengine.progress import progress_for_terminal
    from storage.cluster import Cluster

    found = Cluster.create(root, catalog)
    with progress_for_terminal() as progress:
        made = plan_build(_request(given), found, encoder=_encoder(given), progress=progress)
    standard_output(as_json=as_json).facts(describe_plan(made, found))


@cluster.command()
@build_options
@option("--workers", int, "Encode in so many processes at once, each with one thread; 1 is this one.", default=1)
@option("--ray", str, "Let tasks of the Ray runtime at HOST:PORT, or of a local one, encode; by default processes.")
@json_option
def build(root: str, catalog: str | None, workers: int, ray: str | None, as_json: bool, **given: Any) -> None:
    """Build a cluster from CORPUS; run it again to go on with an interrupted build.

    What is built does not depend on the number of workers, nor on what was interrupted. Until all is there nothing is
    seen of it.

    \\b
    Example: kbengine cluster build pages/*.jsonl.gz --to file:///srv/cluster --workers 8
    """
    from kbengine.cluster.build import build_cluster
    from kbengine.cluster.build_workers import workers_for
    from kbengine.progress import progress_for_terminal
    from storage.cluster import Cluster

    encoder = _encoder(given)
    hands = workers_for(workers, encoder=encoder, ray=ray, device=given["device"])
    found = Cluster.create(root, catalog)
    with progress_for_terminal() as progress:
        report = build_cluster(_request(given), found, encoder=encoder, workers=hands, progress=progress)
    rate = report.encoded_tokens / report.elapsed_s if report.elapsed_s else 0.0
    standard_output(as_json=as_json).facts(
        {
            "generation": report.generation,
            "shards": report.shards,
            "documents": report.documents,
            "passages": report.passages,
            "links": report.links.links,
            "aliases_from_links": report.links.aliases,
            "skipped_records": report.bad_records,
            "encoded_tokens_per_s": round(rate),
            "elapsed_s": round(report.elapsed_s, 2),
        }
    )


@cluster.command()
@corpus_options
@option("--to root", str, "The cluster's objects are at this address.", required=True)
@catalog_option
@encoder_options
@json_option
def add(root: str, catalog: str | None, as_json: bool, **given: Any) -> None:
    """Add the documents of CORPUS; one whose id is there already is replaced.

    Each generation adds some hundred documents; what was told to be done is durable and found by the next search.

    \\b
    Example: kbengine cluster add new-pages.jsonl --to file:///srv/cluster
    """
    from kbengine.cluster.writer import ClusterWriter
    from storage.cluster import Cluster

    found = Cluster.open(root, catalog)
    manifest = found.manifest()
    made_with = {"encoder": manifest.encoder_name, "dtype": manifest.arithmetic}
    chosen = {name: given[name] if given[name] not in (None, "auto") else made_with[name] for name in made_with}
    model = _encoder({**given, **{name: value for name, value in chosen.items() if value}})
    rows = ClusterWriter(found, model).add_corpus(_corpus(given))
    standard_output(as_json=as_json).facts(
        {
            "generation": rows[-1].generation if rows else found.manifest().generation,
            "generations": len(rows),
            "added": sum(row.documents_added for row in rows),
            "replaced": sum(row.documents_replaced for row in rows),
        }
    )


def _corpus(given: dict[str, Any]) -> CorpusOptions:
    from kbengine.build.builder import CorpusOptions

    paths: tuple[Path, ...] = given["corpus"]
    return CorpusOptions(paths, format=given["format_name"], skip_bad=given["skip_bad"])


def _encoder(given: dict[str, Any]) -> Encoder:
    from kbengine.encoders.encoder import Encoder

    model = Encoder.load(given["encoder"] or "minilm-phrase", device=given["device"], dtype=given["dtype"])
    return model.without_sparse() if given.get("no_sparse") else model


def _request(given: dict[str, Any]) -> ClusterBuild:
    from kbengine.build.filtering import DEFAULT_FILTER, FilterOptions
    from kbengine.build.storing import StoreOptions
    from kbengine.cluster.plan import PlanOptions
    from kbengine.cluster.planning import ClusterBuild

    chosen = FilterOptions(given["filter_threshold"], given["keep_fraction"])
    return ClusterBuild(
        _corpus(given),
        filter=DEFAULT_FILTER if chosen == FilterOptions() else chosen,
        store=StoreOptions(given["store"], given["code_bits"]),
        ann={name: given[name] for name in ("kind", "nlist", "nprobe") if given[name] is not None},
        plan=PlanOptions(shards=given["shards"], chunk_bytes=given["chunk_bytes"]),
        device=given["device"],
    )
