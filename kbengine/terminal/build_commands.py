"""The commands that put documents into a knowledge base: `build`, `add` and its other name `import`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import corpus_options, encoder_options, json_option, kb_option, option

if TYPE_CHECKING:
    from kbengine.corpus.report import CorpusReport
    from kbengine.encoders.device import DTypeChoice


@click.command()
@corpus_options
@kb_option
@encoder_options
@option("--keep-fraction", float, "Store this share of tokens, the filter's best; by default its threshold decides.")
@option("--filter-threshold", float, "Store tokens whose filter logit reaches this; by default the usual threshold.")
@option("--no-sparse", bool, "Store no sparse rows though the encoder has sparse heads.")
@option("--index", str, "Make an index of this kind, such as opq48; by default ivf-sq8.")
@option("--nlist", int, "Cluster a large segment's index into so many lists; by default chosen from its size.")
@option("--nprobe", int, "Read so many lists for each query; by default chosen from --nlist.")
@json_option
def build(
    corpus: tuple[Path, ...],
    format_name: str | None,
    skip_bad: bool,
    kb: Path,
    encoder: str | None,
    device: str,
    dtype: DTypeChoice,
    keep_fraction: float | None,
    filter_threshold: float | None,
    no_sparse: bool,
    index: str | None,
    nlist: int | None,
    nprobe: int | None,
    as_json: bool,
) -> None:
    """Build a knowledge base from files or folders; run it again to resume an interrupted build.

    \b
    Formats (plain, gzip or zstd): KILT knowledge source, DensePhrases JSON, DPR TSV, BEIR JSONL,
    kbengine export, or a folder of .txt, .md and .html files.
    Example: kbengine build pages/*.jsonl.gz --kb my-kb --keep-fraction 0.3
    """
    from kbengine.build.builder import CorpusOptions, describe
    from kbengine.build.builder import build as build_kb
    from kbengine.build.filtering import DEFAULT_FILTER, FilterOptions
    from kbengine.encoders.encoder import Encoder
    from kbengine.progress import progress_for_terminal

    filter_options = FilterOptions(threshold=filter_threshold, keep_fraction=keep_fraction)
    if filter_options == FilterOptions():
        filter_options = DEFAULT_FILTER
    ann = {"kind": index, "nlist": nlist, "nprobe": nprobe}
    model = Encoder.load(encoder or "minilm-phrase", device=device, dtype=dtype)
    if no_sparse:
        model = model.without_sparse()
    with progress_for_terminal(quiet=as_json) as progress:
        report = build_kb(
            CorpusOptions(corpus, format_name, skip_bad),
            kb,
            encoder=model,
            filter_options=filter_options,
            ann={name: value for name, value in ann.items() if value is not None},
            progress=progress,
        )
    output = standard_output(as_json=as_json)
    output.facts(describe(report, corpus))
    _show_skipped(report.corpus)
    if not as_json:
        output.line(f'next: kbengine query --kb {kb} "a question about it"')


@click.command()
@corpus_options
@kb_option
@encoder_options
@json_option
def add(
    corpus: tuple[Path, ...],
    format_name: str | None,
    skip_bad: bool,
    kb: Path,
    encoder: str | None,
    device: str,
    dtype: DTypeChoice,
    as_json: bool,
) -> None:
    """Add documents; one whose id is there already is replaced.

    \b
    Example: kbengine add new-pages.jsonl --kb my-kb
    """
    from kbengine.build.builder import CorpusOptions, add_corpus, describe
    from kbengine.encoders.encoder import Encoder
    from kbengine.progress import progress_for_terminal
    from storage.reader import KBReader

    with KBReader.open(kb) as reader:
        name = encoder or reader.settings.encoder_name
    model = Encoder.load(name, device=device, dtype=dtype)
    with progress_for_terminal(quiet=as_json) as progress:
        report = add_corpus(CorpusOptions(corpus, format_name, skip_bad), kb, encoder=model, progress=progress)
    standard_output(as_json=as_json).facts(describe(report, corpus))
    _show_skipped(report.corpus)


import_ = click.Command("import", callback=add.callback, params=add.params, help=add.help)


def _show_skipped(report: CorpusReport | None) -> None:
    """Name on stderr the first records that were skipped."""
    if report is None or not report.bad_records:
        return
    for bad in report.bad:
        click.echo(f"skipped: {bad.file}, record {bad.line}: {bad.reason}", err=True)
    click.echo(f"{report.bad_records:,} bad records skipped", err=True)
