"""The command `reindex`: another index of what is stored, or, with another encoder, of the text again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import STORED_TOKENS, device_option, dtype_option, json_option, kb_option, option

if TYPE_CHECKING:
    from kbengine.build.filtering import FilterOptions


@click.command()
@kb_option
@option("--out", Path, "Write a changed copy here and leave --kb as it is; by default change --kb.")
@option("--encoder", str, "Encode the stored text again with this one, into --out; by default nothing is encoded.")
@device_option
@dtype_option
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
def reindex(kb: Path, out: Path | None, yes: bool, as_json: bool, **given: Any) -> None:
    """Index other tokens of a knowledge base, or in another way, or store less.

    Nothing is encoded again but with --encoder: then all text is, into a new knowledge base. Tuned encoders and
    calibrations stay behind, since they belong to the encoder that they were made for.

    \b
    Examples:
      kbengine reindex --kb my-kb --index opq48
      kbengine reindex --kb my-kb --keep-fraction 0.3
      kbengine reindex --kb my-kb --out small-kb --keep-fraction 0.3 --index opq48 --drop-vectors
      kbengine reindex --kb my-kb --out new-kb --encoder my-encoder
    """
    from kbengine.build.filtering import FilterOptions
    from kbengine.build.reindexing import ReindexOptions
    from kbengine.build.reindexing import reindex as reindex_kb
    from kbengine.progress import progress_for_terminal

    kept = FilterOptions(given["filter_threshold"], given["keep_fraction"])
    ann = {name: given[name] for name in ("kind", "nlist", "nprobe", "refine") if given[name] is not None}
    if given["encoder"] is not None:
        _reencode(kb, out, kept, ann, given, as_json=as_json)
        return
    for name in ("device", "dtype"):
        if given[name] != "auto":
            raise click.UsageError(f"--{name} {given[name]} is for --encoder; what is stored needs no model")
    store, bits, device = given["store"], given["code_bits"], given["index_device"]
    options = ReindexOptions(kept, ann, given["drop_vectors"], given["drop_sparse"], store, bits, device)
    if out is None and not yes:
        losses = {
            "stored vectors": options.drop_vectors,
            "sparse rows": options.drop_sparse,
            "tokens that are not indexed": store == "indexed",
            "int8 vectors": bits == 4,
        }
        for lost in (what for what, is_lost in losses.items() if is_lost):
            _confirm(kb, lost)
    with progress_for_terminal() as progress:
        report = reindex_kb(kb, options, out=out, progress=progress)
    standard_output(as_json=as_json).facts(report.facts())


def _reencode(
    kb: Path, out: Path | None, kept: FilterOptions, ann: dict[str, Any], given: dict[str, Any], *, as_json: bool
) -> None:
    """Make a new knowledge base with another encoder's vectors."""
    from kbengine.build.reencoding import ReencodeOptions, facts, reencode
    from kbengine.encoders.encoder import Encoder
    from kbengine.progress import progress_for_terminal

    if out is None:
        raise click.UsageError("--encoder makes a new knowledge base: give --out, the path that it goes to")
    if given["drop_vectors"] or given["drop_sparse"]:
        raise click.UsageError("--encoder encodes anew; drop vectors or sparse rows by a second 'kbengine reindex'")
    filter_options = None if kept == type(kept)() else kept
    options = ReencodeOptions(filter_options, ann or None, given["store"], given["code_bits"])
    encoder = Encoder.load(given["encoder"], device=given["device"], dtype=given["dtype"])
    with progress_for_terminal() as progress:
        report = reencode(kb, out, encoder=encoder, options=options, progress=progress)
    standard_output(as_json=as_json).facts(facts(report, kb))


def _confirm(kb: Path, lost: str) -> None:
    """Ask whether to go on, and raise unless somebody says yes."""
    import sys

    loss = f"the {lost} of {kb} will be gone; going back means encoding all text again"
    if not sys.stdin.isatty():
        raise click.UsageError(f"{loss}: give --yes if that is what you want, or --out to change a copy")
    if not click.confirm(f"{loss.capitalize()}. Go on?", err=True):
        raise click.ClickException("nothing was changed")
