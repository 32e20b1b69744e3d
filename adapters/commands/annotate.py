"""The command `annotate`: a text without marks in, its mentions with their links out, one a line."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import device_option, dtype_option, json_option, option, reader_option
from kbengine.terminal.service import kb_or_service_option, refuse_own_choices

if TYPE_CHECKING:
    from adapters.annotating.linked import Annotation
    from kbengine.encoders.device import DTypeChoice

LONG_CHARS = 10_000
"""Progress is shown of texts that are longer."""
_FILE_NAME = re.compile(r"\S+\.(txt|md|html?|text)|\S*/\S+\.\w+")


@click.command()
@click.argument("text")
@kb_or_service_option
@option("--encoder", str, "Link with this tuned encoder, or this model; by default the task's own.")
@device_option
@dtype_option
@reader_option
@option("--threshold", float, "Link what is at least so probable.", default=0.5)
@option("--candidates", int, "Give so many documents with each mention (--json).", default=3)
@option("--links-only", bool, "Leave out names that have no link.")
@option("--where", str, "Link to documents whose fields pass this filter; by default to all.")
@json_option
def annotate(
    text: str,
    kb: Path | None,
    encoder: str | None,
    device: str,
    dtype: DTypeChoice,
    reader: str,
    threshold: float,
    candidates: int,
    links_only: bool,
    where: str | None,
    as_json: bool,
) -> None:
    """Find the mentions of a text that has no marks, and link them; TEXT is a file, `-` for stdin, or the text itself.

    \b
    Examples:
      kbengine annotate --kb my-kb "Marie Curie was born in Warsaw."
      kbengine annotate --kb my-kb article.txt --links-only --json
      pdftotext report.pdf - | kbengine annotate --kb my-kb -
    """
    given = _text(text)
    options = {"threshold": threshold, "candidates": candidates, "unlinked": not links_only, "where": where}
    if kb is None:
        if encoder is not None:
            raise click.UsageError("--encoder is not asked of a service for annotating; leave it out, or give --kb")
        found = _found_by_service(given, options)
    else:
        found = _found_here(kb, given, options, encoder, device=device, dtype=dtype, reader=reader)
    output = standard_output(as_json=as_json)
    n = 0
    for n, each in enumerate(found, start=1):  # noqa: B007  (how many there were)
        if as_json:
            output.record(each.to_json())
        else:
            output.line(_line(each))
    if not n and not as_json:
        output.line("no mention found")


def _found_here(
    kb: Path, text: str, options: dict[str, Any], encoder: str | None, **opened_with: Any
) -> Iterator[Annotation]:
    """Yield what a knowledge base in a directory here finds."""
    from adapters.annotating.annotator import AnnotateOptions, annotator_for
    from adapters.tasks.answerer import Answerer
    from kbengine.knowledge_base import KnowledgeBase, KnowledgeBaseOptions
    from kbengine.progress import Stages, progress_for_terminal

    wanted = AnnotateOptions(**options)
    with (
        KnowledgeBase.open(kb, encoder, options=KnowledgeBaseOptions(**opened_with)) as knowledge_base,
        progress_for_terminal(quiet=len(text) < LONG_CHARS) as sink,
    ):
        answerer = Answerer(knowledge_base, notice=lambda sentence: click.echo(f"note: {sentence}", err=True))
        annotator, stages = annotator_for(answerer, knowledge_base), Stages(sink)
        yield from annotator.annotate(
            text, wanted, progress=lambda done, total: stages("characters annotated", done, total)
        )


def _found_by_service(text: str, options: dict[str, Any]) -> Iterator[Annotation]:
    """Yield what a service finds, showing how far it is."""
    from adapters.remote.asking import annotate as ask_service
    from kbengine.progress import Stages, progress_for_terminal
    from kbengine.terminal.service import Service

    refuse_own_choices()
    with progress_for_terminal(quiet=len(text) < LONG_CHARS) as sink:
        stages = Stages(sink)
        for each in ask_service(Service.of_environment(), text, options):
            if isinstance(each, tuple):
                stages("characters annotated", *each)
            else:
                yield each


def _line(annotation: Annotation) -> str:
    place = f"{annotation.span.start}:{annotation.span.end}"
    name = " ".join(annotation.text.split())
    if annotation.link is None:
        reason = "no document of this name" if annotation.reason == "unknown_name" else "none is probable enough"
        return f"{place:>11}  {name}  –  {reason}"
    return (
        f"{place:>11}  {name}  →  {annotation.link.title}  [{annotation.link.doc_id}]  p={annotation.probability:.2f}"
    )


def _text(given: str) -> str:
    """Return the text that is meant: of a file, of stdin, or as it was typed."""
    if given == "-":
        return _decoded(sys.stdin.buffer.read(), "standard input")
    if not given.strip():  # before it is taken for a file: an empty path is the folder one is in
        raise click.UsageError("TEXT is blank; give a file, '-' or a text")
    if len(given) < 1024 and "\n" not in given:
        path = Path(given)
        if path.is_dir():
            raise click.UsageError(f"{given} is a folder; give a file, '-' or the text itself")
        if path.is_file():
            return _decoded(path.read_bytes(), given)
        if _FILE_NAME.fullmatch(given):
            raise click.UsageError(f"there is no file {given}; give one that is there, '-' or the text itself")
    return given


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.UsageError(
            f"{name} is no UTF-8 at byte {error.start:,}; convert it, for example with iconv -f latin1 -t utf-8"
        ) from error
