"""The command `reindex`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option("--kb", type=click.Path(path_type=Path), required=True, envvar="KBENGINE_KB", help="The knowledge base.")
@click.option("--out", type=click.Path(path_type=Path), help="Write a changed copy here and leave --kb as it is.")
@click.option("--keep-fraction", type=float, help="Keep this share of all tokens, the best by their logits.")
@click.option("--filter-threshold", type=float, help="Keep tokens whose filter logit reaches this.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line on stdout.")
def reindex(
    kb: Path, out: Path | None, keep_fraction: float | None, filter_threshold: float | None, as_json: bool
) -> None:
    """Keep fewer tokens of a knowledge base without encoding anything again.

    \b
    Examples:
      kbengine reindex --kb my-kb --keep-fraction 0.3
      kbengine reindex --kb my-kb --out smaller-kb --keep-fraction 0.3
    """
    import sys

    from kbengine.console import Output
    from kbengine.filtering import FilterOptions
    from kbengine.progress import progress_for_terminal
    from kbengine.reindexing import reindex as reindex_kb

    options = FilterOptions(threshold=filter_threshold, keep_fraction=keep_fraction)
    with progress_for_terminal(quiet=as_json) as progress:
        report = reindex_kb(kb, options, out=out, progress=progress)
    Output(sys.stdout, as_json=as_json).facts(report.facts())
