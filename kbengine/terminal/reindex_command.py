"""The command `reindex`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import STORED_TOKENS, json_option, kb_option, option


@click.command()
@kb_option
@option("--out", Path, "Write a changed copy here and leave --kb as it is; by default change --kb.")
@option("--keep-fraction", float, "Index this share of all tokens, the best by their logits; by default as it is.")
@option("--filter-threshold", float, "Index tokens whose filter logit reaches this; by default as it is.")
@option("--store", STORED_TOKENS, "Store only the tokens that are indexed, without a way back; by default as it is.")
@option("--code-bits", int, "Store vectors in 4 bits a dimension, without a way back; by default as they are.")
@option("--index kind", str, "Make an index of this kind, such as opq48; by default of the kind that it has.")
@option("--nlist", int, "Cluster the index into so many lists; by default chosen from its size.")
@option("--nprobe", int, "Read so many lists for each query; by default chosen from --nlist.")
@option("--refine", int, "Rescore so many candidates for each one wanted; by default as suits the kind of index.")
@option("--index-device", ("auto", "cpu", "gpu"), "Train and fill the index on this device.", default="auto")
@option("--drop-vectors", bool, "Store the index's codes only; there is no way back.")
@option("--drop-sparse", bool, "Store no sparse rows (SPARC) any more; there is no way back.")
@option("--yes", bool, "Drop vectors, rows, tokens or bits without asking.")
@json_option
def reindex(
    kb: Path, out: Path | None, drop_vectors: bool, drop_sparse: bool, yes: bool, as_json: bool, **given: Any
) -> None:
    """Index other tokens of a knowledge base, or in another way, or store less; nothing is encoded again.

    \b
    Examples:
      kbengine reindex --kb my-kb --index opq48
      kbengine reindex --kb my-kb --keep-fraction 0.3
      kbengine reindex --kb my-kb --out small-kb --keep-fraction 0.3 --index opq48 --drop-vectors
    """
    from kbengine.build.filtering import FilterOptions
    from kbengine.build.reindexing import ReindexOptions
    from kbengine.build.reindexing import reindex as reindex_kb
    from kbengine.progress import progress_for_terminal

    kept = FilterOptions(given["filter_threshold"], given["keep_fraction"])
    ann = {name: given[name] for name in ("kind", "nlist", "nprobe", "refine") if given[name] is not None}
    store, bits, device = given["store"], given["code_bits"], given["index_device"]
    options = ReindexOptions(kept, ann, drop_vectors, drop_sparse, store, bits, device)
    if out is None and not yes:
        losses = {
            "stored vectors": drop_vectors,
            "sparse rows": drop_sparse,
            "tokens that are not indexed": store == "indexed",
            "int8 vectors": bits == 4,
        }
        for lost in (what for what, is_lost in losses.items() if is_lost):
            _confirm(kb, lost)
    with progress_for_terminal() as progress:
        report = reindex_kb(kb, options, out=out, progress=progress)
    standard_output(as_json=as_json).facts(report.facts())


def _confirm(kb: Path, lost: str) -> None:
    """Ask whether to go on, and raise unless somebody says yes."""
    import sys

    loss = f"the {lost} of {kb} will be gone; going back means encoding all text again"
    if not sys.stdin.isatty():
        raise click.UsageError(f"{loss}: give --yes if that is what you want, or --out to change a copy")
    if not click.confirm(f"{loss.capitalize()}. Go on?", err=True):
        raise click.ClickException("nothing was changed")
