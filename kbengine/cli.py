"""The `kbengine` command: the one place that puts all layers together; nothing is imported before it is needed."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kbengine import __version__
from kbengine.terminal.threads import set_thread_defaults

if TYPE_CHECKING:
    from kbengine.encoders.device import DTypeChoice
    from kbengine.terminal.console import Output

F = TypeVar("F", bound=Callable[..., Any])

FORMAT_NAMES = ("kilt", "densephrases", "dpr", "beir", "kbengine", "folder")


def kb_option(function: F) -> F:
    """Return the command with `--kb DIR`."""
    return click.option(
        "--kb",
        "kb",
        type=click.Path(path_type=Path),
        required=True,
        envvar="KBENGINE_KB",
        help="The knowledge base's directory (or set KBENGINE_KB).",
    )(function)


def json_option(function: F) -> F:
    """Return the command with `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON object a line on stdout.")(function)


def encoder_options(function: F) -> F:
    """Return the command with the options of the encoder."""
    for option in (
        click.option("--dtype", type=click.Choice(["auto", "float32", "bfloat16"]), default="auto", show_default=True),
        click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N."),
        click.option("--encoder", help="Name or directory of an encoder; by default minilm-phrase, or the KB's own."),
    ):
        function = option(function)
    return function


def corpus_options(function: F) -> F:
    """Return the command with a corpus and how to read it."""
    for option in (
        click.option("--skip-bad", is_flag=True, help="Count records that cannot be read instead of stopping."),
        click.option("--format", "format_name", type=click.Choice(FORMAT_NAMES), help="By default it is detected."),
        click.argument("corpus", nargs=-1, required=True, type=click.Path(path_type=Path)),
    ):
        function = option(function)
    return function


LAZY_COMMANDS = {
    "query": ("adapters.commands.query", "Ask a knowledge base a question, or anything the other tasks take."),
    "calibrate": ("adapters.commands.calibrate", "Fit weights, probabilities and a threshold for a task; save them."),
    "aliases": ("kbengine.terminal.aliases_command", "Other names of documents: list, look up, add, delete, import."),
    "predict": ("adapters.commands.kilt", "Answer a KILT task file: a leaderboard submission."),
    "score": ("adapters.commands.kilt", "Score a submission as the official KILT evaluation does."),
    "serve": ("web.commands", "Serve a knowledge base: JSON API, web page, metrics."),
    "key": ("web.commands", "Make, list and revoke API keys."),
    "lint": ("adapters.commands.kilt", "Find what would be rejected or score zero, before uploading."),
    "reindex": (
        "kbengine.terminal.reindex_command",
        "Fewer tokens or another index from what is stored, nothing encoded.",
    ),
    "evaluate": ("adapters.commands.evaluate", "Measure reading: encoder, reader, or BM25 with a reader."),
    "densephrases": (
        "kbengine.terminal.densephrases_command",
        "Import DensePhrases' checkpoints, phrase dumps and indexes.",
    ),
    "questions": ("kbengine.terminal.questions_command", "Make training questions from a corpus."),
    "tune": ("adapters.commands.tune", "Tune the query encoder for a task on a knowledge base that stays as it is."),
    "encoders": ("kbengine.terminal.encoders_command", "Encoders tuned for a knowledge base: list, delete."),
    "train": (
        "kbengine.terminal.training_commands",
        "Train a phrase encoder, a reader, or adapt an encoder to a corpus.",
    ),
}
"""Commands that live with their layer: the module is imported when one is called, not to list them."""


class LazyGroup(click.Group):
    """A group whose commands of other layers are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted([*super().list_commands(ctx), *LAZY_COMMANDS])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported now if it is one of the lazy ones."""
        if cmd_name not in LAZY_COMMANDS:
            return super().get_command(ctx, cmd_name)
        command = getattr(importlib.import_module(LAZY_COMMANDS[cmd_name][0]), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing the lazy ones."""
        rows = []
        for name in self.list_commands(ctx):
            own = self.commands.get(name)
            rows.append((name, LAZY_COMMANDS[name][1] if own is None else own.get_short_help_str(limit=90)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kbengine")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def cli(context: click.Context, debug: bool) -> None:
    """Build a knowledge base whose only index is phrases, and ask it.

    \b
    Example:
      kbengine build pages.jsonl.gz --kb my-kb
      kbengine query --kb my-kb "Who wrote Pride and Prejudice?"
    """
    context.obj = {"debug": debug}


@cli.command()
@corpus_options
@kb_option
@encoder_options
@click.option("--keep-fraction", type=float, help="Store this share of the tokens, the best by the filter.")
@click.option("--filter-threshold", type=float, help="Store tokens whose filter logit reaches this.")
@click.option("--no-sparse", is_flag=True, help="Store no sparse rows though the encoder has sparse heads.")
@click.option("--index", help="ivf-sq8 (default), exact, ivf-sq4, ivf-pq, opq16 to opq96, fastscan: docs/indexes.md.")
@click.option("--nlist", type=int, help="Clusters of each large segment's index; by default chosen from its size.")
@click.option("--nprobe", type=int, help="Clusters searched per query by default; otherwise chosen from nlist.")
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
    output = _output(as_json)
    output.facts(describe(report, corpus))
    _show_skipped(report.corpus)
    if not as_json:
        output.line(f'next: kbengine query --kb {kb} "a question about it"')


@cli.command()
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
    _output(as_json).facts(describe(report, corpus))
    _show_skipped(report.corpus)


cli.add_command(click.Command("import", callback=add.callback, params=add.params, help=add.help))


@cli.command()
@click.argument("doc_ids", nargs=-1, required=True)
@kb_option
@json_option
def delete(doc_ids: tuple[str, ...], kb: Path, as_json: bool) -> None:
    """Delete documents by id; they are in no answer from the next query on.

    \b
    Example: kbengine delete lincoln-nebraska --kb my-kb
    """
    from storage.writer import KBWriter

    with KBWriter.open(kb) as writer:
        commit = writer.delete(doc_ids)
    _output(as_json).facts({"deleted": commit.documents_deleted, "generation": commit.generation})


@cli.command()
@kb_option
@click.option("--purge", is_flag=True, help="Also overwrite the space that deleted texts took in the database.")
@json_option
def compact(kb: Path, purge: bool, as_json: bool) -> None:
    """Merge segments, drop deleted documents for good and give their space back.

    \b
    Example: kbengine compact --kb my-kb
    """
    from storage.reader import KBReader
    from storage.writer import KBWriter

    with KBReader.open(kb) as reader:
        before = reader.info()
    with KBWriter.open(kb) as writer:
        writer.compact(purge=purge)
    with KBReader.open(kb) as reader:
        after = reader.info()
    sizes = [sum(each.bytes_by_kind.values()) for each in (before, after)]
    _output(as_json).facts(
        {
            "segments_before": before.segments,
            "segments": after.segments,
            "bytes_before": sizes[0],
            "bytes": sizes[1],
            "generation": after.generation,
        }
    )


@cli.command()
@kb_option
@click.option("--deep", is_flag=True, help="Also encode a sample of passages again and compare.")
@click.option("--repair", "do_repair", is_flag=True, help="Rebuild what can be rebuilt from the stored text.")
@json_option
def verify(kb: Path, deep: bool, do_repair: bool, as_json: bool) -> None:
    """Check every file and table; exit 1 when something is wrong.

    \b
    Example: kbengine verify --deep --kb my-kb
    """
    from kbengine.build.checking import repair_kb, verify_kb

    repaired = repair_kb(kb) if do_repair else []
    report = verify_kb(kb, deep=deep)
    output = _output(as_json)
    for action in repaired:
        output.facts({"repaired": action})
    if report.findings:
        output.table(
            ("severity", "where", "what"), [(each.severity, each.where, each.what) for each in report.findings]
        )
    if not as_json:
        output.line("ok: nothing is wrong" if report.ok else "damaged: see above; 'kbengine verify --repair' mends it")
    if not report.ok:
        raise SystemExit(1)


@cli.command()
@kb_option
@json_option
def info(kb: Path, as_json: bool) -> None:
    """Show what a knowledge base holds, how large it is and its last commits.

    \b
    Example: kbengine info --kb my-kb
    """
    from kbengine.terminal.facts import kb_facts
    from storage.reader import KBReader

    with KBReader.open(kb, allow_incomplete=True) as reader:
        facts = kb_facts(reader.info())
    output = _output(as_json)
    if as_json:
        output.facts(facts)
        return
    commits = facts.pop("last_commits")
    output.facts(facts)
    output.line()
    columns = ("generation", "at", "operation", "added", "replaced", "deleted", "note")
    output.table(columns, [[commit[name] for name in columns] for commit in commits])


@cli.command()
@kb_option
@click.option("--out", type=click.Path(path_type=Path), help="File to write (.gz and .zst compress); - is stdout.")
def export(kb: Path, out: Path | None) -> None:
    """Write all live documents as JSON lines; `kbengine import` and `kbengine build` read them.

    \b
    Example: kbengine export --kb my-kb --out documents.jsonl.zst
    """
    from kbengine.build.exporting import export_to
    from storage.reader import KBReader

    with KBReader.open(kb) as reader:
        n = export_to(reader, None if out is None or str(out) == "-" else out)
    click.echo(f"{n:,} documents exported", err=True)


@cli.command()
@click.argument("view", required=False)
@kb_option
@click.option("--limit", type=int, default=20, show_default=True)
@json_option
def inspect(view: str | None, kb: Path, limit: int, as_json: bool) -> None:
    """List the SQL views of a knowledge base, or show the rows of one.

    \b
    Example: kbengine inspect history --kb my-kb
    """
    from storage.inspect import list_views, view_rows

    output = _output(as_json)
    if view is None:
        output.table(("view", "rows", "columns"), [(v.name, v.rows, ", ".join(v.columns)) for v in list_views(kb)])
        return
    rows = view_rows(kb, view, limit=limit)
    output.table(tuple(rows[0]) if rows else (), [tuple(row.values()) for row in rows])


@cli.command()
@click.option("--kb", "kb", type=click.Path(path_type=Path), default=Path("demo-kb"), show_default=True)
@click.option("--serve/--no-serve", default=True, show_default=True, help="Serve it at the end, until Ctrl-C.")
@click.option("--port", default=8080, show_default=True, help="Port to serve on; a free one if it is taken.")
@json_option
def demo(kb: Path, serve: bool, port: int, as_json: bool) -> None:
    """Build the bundled knowledge base, ask it one query of each task, tell what to try next, serve page and API.

    \b
    Example: kbengine demo
    """
    from adapters.commands.answer_text import demo_asker
    from kbengine.terminal.demonstration import run_demo

    output = _output(as_json)
    run_demo(kb, output, demo_asker(output))
    if serve:
        from web.server import serve_demo

        serve_demo(kb, port, output)


@cli.command()
@json_option
def doctor(as_json: bool) -> None:
    """Check this environment: versions, SQLite, processor, package names.

    \b
    Example: kbengine doctor
    """
    from kbengine.terminal.doctor import diagnose

    output = _output(as_json)
    findings = diagnose()
    output.table(("check", "state", "found"), [(each.check, each.state, each.found) for each in findings])
    if any(each.state == "bad" for each in findings):
        raise SystemExit(1)


def _output(as_json: bool) -> Output:
    from kbengine.terminal.console import Output

    return Output(sys.stdout, as_json=as_json)


def _show_skipped(report: Any) -> None:
    """Name on stderr the first records that were skipped."""
    if report is None or not report.bad_records:
        return
    for bad in report.bad:
        click.echo(f"skipped: {bad.file}, record {bad.line}: {bad.reason}", err=True)
    click.echo(f"{report.bad_records:,} bad records skipped", err=True)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; errors are one line on stderr and exit code 1 (failure) or 2 (usage)."""
    set_thread_defaults()
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    try:
        cli.main(args=arguments, prog_name="kbengine", standalone_mode=False)
    except click.exceptions.Exit as e:
        raise SystemExit(e.exit_code) from None
    except click.ClickException as e:
        e.show()
        raise SystemExit(e.exit_code) from None
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted; everything committed so far is kept", err=True)
        raise SystemExit(130) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except Exception as e:
        from storage.errors import KBError

        if debug or not isinstance(e, KBError | OSError):
            raise
        click.echo(f"error: {e}", err=True)
        raise SystemExit(e.exit_code if isinstance(e, KBError) else 1) from None


if __name__ == "__main__":
    main()
