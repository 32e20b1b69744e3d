"""The commands that put documents into a knowledge base: `build`, `add` (also `import`), `sync`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import STORED_TOKENS, corpus_options, encoder_options, json_option, kb_option, option
from kbengine.terminal.service import kb_or_service_option

if TYPE_CHECKING:
    from kbengine.build.builder import CorpusOptions
    from kbengine.corpus.report import CorpusReport
    from kbengine.encoders.encoder import Encoder


@click.command()
@corpus_options
@kb_option
@encoder_options
@option("--keep-fraction", float, "Index this share of tokens, the filter's best; by default half.")
@option("--filter-threshold", float, "Index tokens whose filter logit reaches this; by default half of them.")
@option("--store", STORED_TOKENS, "Store these tokens: each can then begin or end an answer.", default="all")
@option("--code-bits", int, "Store a dimension of a token vector in so many bits, 4 or 8.", default=4)
@option("--no-sparse", bool, "Store no sparse rows though the encoder has sparse heads.")
@option("--index kind", str, "Make an index of this kind, such as opq48; by default as suits the size.")
@option("--nlist", int, "Cluster a large segment's index into so many lists; by default chosen from its size.")
@option("--nprobe", int, "Read so many lists for each query; by default chosen from --nlist.")
@json_option
def build(kb: Path, no_sparse: bool, as_json: bool, **given: Any) -> None:
    """Build a knowledge base from files or folders; run it again to resume an interrupted build.

    \b
    Formats (plain, gzip or zstd): KILT knowledge source, DensePhrases JSON, DPR TSV, BEIR JSONL,
    kbengine export, or a folder of .txt, .md, .html, .pdf, .docx and .epub files.
    Example: kbengine build pages/*.jsonl.gz --kb my-kb --keep-fraction 0.3
    """
    from kbengine.build.builder import build as build_kb
    from kbengine.build.builder import describe
    from kbengine.build.filtering import DEFAULT_FILTER, FilterOptions
    from kbengine.build.storing import StoreOptions
    from kbengine.encoders.encoder import Encoder
    from kbengine.progress import progress_for_terminal

    filter_options = FilterOptions(given["filter_threshold"], given["keep_fraction"])
    if filter_options == FilterOptions():
        filter_options = DEFAULT_FILTER
    model = Encoder.load(given["encoder"] or "minilm-phrase", device=given["device"], dtype=given["dtype"])
    if no_sparse:
        model = model.without_sparse()
    with progress_for_terminal() as progress:
        report = build_kb(
            _corpus(given),
            kb,
            encoder=model,
            filter_options=filter_options,
            ann={name: given[name] for name in ("kind", "nlist", "nprobe") if given[name] is not None},
            store=StoreOptions(given["store"], given["code_bits"]),
            progress=progress,
        )
    output = standard_output(as_json=as_json)
    output.facts(describe(report, given["corpus"]))
    _show_skipped(report.corpus)
    if not as_json:
        output.line(f'next: kbengine query --kb {kb} "a question about it"')


@click.command()
@corpus_options
@kb_or_service_option
@encoder_options
@json_option
def add(kb: Path | None, as_json: bool, **given: Any) -> None:
    """Add documents; one whose id is there already is replaced.

    \b
    Example: kbengine add new-pages.jsonl --kb my-kb
    """
    if kb is None:
        from kbengine.terminal.service import Service, refuse_of_directory
        from kbengine.terminal.service_documents import add_files

        refuse_of_directory("encoder", "device", "dtype")
        facts = add_files(
            Service.of_environment(), given["corpus"], format=given["format_name"], skip_bad=given["skip_bad"]
        )
        standard_output(as_json=as_json).facts(facts)
        return
    from kbengine.build.builder import add_corpus, describe
    from kbengine.progress import progress_for_terminal

    model = _encoder_for(kb, given)
    with progress_for_terminal() as progress:
        report = add_corpus(_corpus(given), kb, encoder=model, progress=progress)
    standard_output(as_json=as_json).facts(describe(report, given["corpus"]))
    _show_skipped(report.corpus)


import_ = click.Command("import", callback=add.callback, params=add.params, help=add.help)


@click.command()
@corpus_options
@kb_option
@encoder_options
@option("--source", str, "Know the corpus by this name; by default its absolute path.")
@option("--prefix", str, "Put this text before each document's id, such as handbook/; by default nothing.")
@option("--adopt", bool, "Take over documents of the same id that came from elsewhere.")
@option("--allow-empty", bool, "Delete all documents of the source if it is empty or not there.")
@option("--yes delete_most", bool, "Delete more than half of the source's documents without asking.")
@option("--dry-run", bool, "Show what would be added, replaced and deleted, and change nothing.")
@json_option
def sync(kb: Path, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Keep a knowledge base in step with a folder or feed: add what is new, replace what changed, delete what is gone.

    Documents of other sources stay as they are; what did not change is not encoded again. The knowledge base is made
    if there is none. Files of a folder that cannot be read are named, their documents kept, and the exit status is 1.

    \b
    Example:
      kbengine sync handbook/ --kb my-kb --dry-run
      kbengine sync handbook/ --kb my-kb
      kbengine sync feed.jsonl.gz --kb my-kb --source feed --prefix feed/
    """
    from kbengine.build.sync import SyncOptions
    from kbengine.build.sync import sync as sync_kb
    from kbengine.progress import progress_for_terminal

    corpus = _corpus(given, given["source"], given["prefix"] or "")
    confirmed = {name: given[name] for name in ("adopt", "allow_empty", "delete_most")}
    options = SyncOptions(corpus, dry_run=dry_run, **confirmed)
    with progress_for_terminal() as progress:
        report = sync_kb(kb, options, encoder=lambda: _encoder_for(kb, given), progress=progress)
    output = standard_output(as_json=as_json)
    ids = {"add": report.added, "change": report.changed, "delete": report.deleted}
    if dry_run and not as_json:
        for what, doc_ids in ids.items():
            for doc_id in doc_ids:
                output.line(f"{what:<6}  {doc_id}")
    output.facts({**report.facts(), **({"ids": ids} if dry_run and as_json else {})})
    _show_skipped(report.corpus)
    if report.corpus is not None and report.corpus.bad_records and not corpus.skip_bad:
        raise SystemExit(1)


def _corpus(given: dict[str, Any], source: str | None = None, prefix: str = "") -> CorpusOptions:
    """Return the options of `corpus_options`, and what a source is known by."""
    from kbengine.build.builder import CorpusOptions

    return CorpusOptions(given["corpus"], given["format_name"], given["skip_bad"], source, prefix)


def _encoder_for(kb: Path, given: dict[str, Any]) -> Encoder:
    """Return the encoder of the name; by default the knowledge base's own, or the bundled one where there is none."""
    from kbengine.encoders.encoder import Encoder
    from storage.database import DATABASE_NAME
    from storage.reader import KBReader

    name = given["encoder"]
    if name is None and (kb / DATABASE_NAME).exists():
        with KBReader.open(kb, allow_incomplete=True) as reader:
            name = reader.settings.encoder_name
    return Encoder.load(name or "minilm-phrase", device=given["device"], dtype=given["dtype"])


def _show_skipped(report: CorpusReport | None) -> None:
    """Tell on stderr what of a corpus was left out, and name the first records and files."""
    if report is None:
        return
    for bad in report.bad:
        click.echo(f"skipped: {bad.file}, record {bad.line}: {bad.reason}", err=True)
    if report.bad_records:
        click.echo(f"{report.bad_records:,} bad records skipped", err=True)
    for name in report.first_empty:
        click.echo(f"empty: {name}", err=True)
    if report.empty_files:
        click.echo(f"{report.empty_files:,} files without text skipped", err=True)
    if report.ignored_files:
        kinds = ", ".join(f"{n:,} {suffix}" for suffix, n in list(report.ignored_suffixes.items())[:8])
        click.echo(f"{report.ignored_files:,} files of kinds that are not read skipped: {kinds}", err=True)
    if report.textless_documents:
        click.echo(f"{report.textless_documents:,} documents have no text", err=True)
