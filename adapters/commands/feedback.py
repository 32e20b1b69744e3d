"""The commands about what people say about answers: `feedback add`, `list`, `delete` and `export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kbengine.inputs import TASKS
from kbengine.terminal.console import standard_output
from kbengine.terminal.options import PATH, json_option, option
from kbengine.terminal.service import Service, kb_or_service_option

if TYPE_CHECKING:
    from kbengine.inputs import Task
    from storage.feedback_records import Verdict

_COLUMNS = ("feedback_id", "task", "input", "verdict", "answer", "doc_id", "paragraph", "at")


@click.group()
def feedback() -> None:
    """Say which answers are right or wrong, list and delete what was said, export it for 'kbengine tune'.

    \b
    Example: kbengine feedback add "Where was Marie Curie born?" --right Warsaw --wrong Paris --kb my-kb
    """


@feedback.command()
@kb_or_service_option
@json_option
@click.argument("asked")
@option("--task", TASKS, "Take ASKED for this.", default="question")
@option("--right", str, "Say that this is a right answer; by default none is.", multiple=True)
@option("--wrong", str, "Say that this is a wrong answer; by default none is.", multiple=True)
@option(
    "--document",
    str,
    "Id of the document that the answers are or stand in, the right ones if any; by default not said.",
)
@option("--paragraph", int, "Number of their paragraph in the document; by default not said.")
def add(
    kb: Path | None,
    asked: str,
    task: Task,
    right: tuple[str, ...],
    wrong: tuple[str, ...],
    document: str | None,
    paragraph: int | None,
    as_json: bool,
) -> None:
    """Say which answers to ASKED are right or wrong; ASKED has the task's text form, as for 'kbengine query'.

    Of the same answer the last word counts.

    \b
    Examples:
      kbengine feedback add "Where was Marie Curie born?" --right Warsaw --wrong Paris --kb my-kb
      kbengine feedback add "Marie Curie [SEP] spouse" --task slot-filling --right "Pierre Curie" --kb my-kb
    """
    from adapters.tasks.feedback import feedback_on
    from kbengine.text_form import input_of

    new = feedback_on(input_of(task, asked), right=right, wrong=wrong, document=document, paragraph=paragraph)
    if kb is None:
        from adapters.remote.feedback import add_feedback

        ids, generation = add_feedback(Service.of_environment(), new)
    else:
        from storage.writer import KBWriter

        with KBWriter.open(kb) as writer:
            change = writer.add_feedback(new)
        ids, generation = list(change.ids), change.generation
    standard_output(as_json=as_json).facts({"added": ids, "generation": generation})


@feedback.command("list")
@kb_or_service_option
@json_option
@option("--task", TASKS, "List only what is on this task; by default on all.")
@option("--verdict", ("right", "wrong"), "List only what was found right, or wrong; by default both.")
@option("--after", int, "Go on after this number, the last one of the page before.", default=0)
@option("--limit", int, "List at most so much.", default=100)
def list_command(
    kb: Path | None, task: Task | None, verdict: Verdict | None, after: int, limit: int, as_json: bool
) -> None:
    """List what was said about answers, oldest first.

    \b
    Example: kbengine feedback list --verdict wrong --kb my-kb
    """
    if kb is None:
        from adapters.remote.feedback import list_feedback

        found = list_feedback(Service.of_environment(), task, verdict, after=after, limit=limit)
    else:
        from storage.reader import KBReader

        with KBReader.open(kb) as reader:
            found = reader.list_feedback(task=task, verdict=verdict, after=after, limit=limit)
    rows = [[getattr(each, name) for name in _COLUMNS] for each in found]
    standard_output(as_json=as_json).table(_COLUMNS, rows)
    if len(found) == limit and not as_json:
        click.echo(f"next page: --after {found[-1].feedback_id}", err=True)


@feedback.command()
@kb_or_service_option
@json_option
@click.argument("ids", nargs=-1, required=True, type=int)
def delete(kb: Path | None, ids: tuple[int, ...], as_json: bool) -> None:
    """Delete what was said under these numbers, which 'kbengine feedback list' shows.

    \b
    Example: kbengine feedback delete 3 4 --kb my-kb
    """
    if kb is None:
        from adapters.remote.feedback import delete_feedback

        deleted, generation = delete_feedback(Service.of_environment(), ids)
    else:
        from storage.writer import KBWriter

        with KBWriter.open(kb) as writer:
            change = writer.delete_feedback(ids)
        deleted, generation = list(change.ids), change.generation
    standard_output(as_json=as_json).facts({"deleted": deleted, "generation": generation})


@feedback.command()
@kb_or_service_option
@json_option
@click.argument("file", type=PATH)
@option("--task", TASKS, "Export what is on this task; by default the only one there is.")
def export(kb: Path | None, file: Path, task: Task | None, as_json: bool) -> None:
    """Write inputs with their right answers to FILE, as KILT records that 'kbengine tune --train' takes.

    \b
    Examples:
      kbengine feedback export said.jsonl --task question --kb my-kb
      kbengine tune --kb my-kb --train said.jsonl --task question --loss phrase --name corrected
    """
    import json

    from adapters.kilt.feedback_rows import feedback_rows
    from storage.durable import write_durably

    if kb is None:
        from adapters.remote.feedback import list_feedback, titles_of

        service = Service.of_environment()
        found = list_feedback(service, task, None)
        titles = titles_of(service, {each.doc_id for each in found if each.doc_id is not None})
    else:
        from storage.reader import KBReader

        with KBReader.open(kb) as reader:
            found = reader.list_feedback(task=task)
            titles = reader.titles_of({each.doc_id for each in found if each.doc_id is not None})
    rows = feedback_rows(found, titles, notice=lambda text: click.echo(text, err=True))
    lines = [(json.dumps(row, ensure_ascii=False) + "\n").encode() for row in rows]
    write_durably(file, lines, replace=True)
    standard_output(as_json=as_json).facts({"rows": len(rows), "file": str(file), "task": found[0].task})
