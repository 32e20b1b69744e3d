"""The command `query`: one request of any task, from text or from its fields, answered on the terminal."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbengine.inputs import TASKS
from kbengine.search.query import EFFORTS, STRATEGIES, UNITS
from kbengine.terminal.console import standard_output
from kbengine.terminal.options import device_option, dtype_option, json_option, option, reader_option
from kbengine.terminal.service import kb_or_service_option, refuse_own_choices

if TYPE_CHECKING:
    from adapters.tasks.answers import TaskAnswer
    from kbengine.encoders.device import DTypeChoice
    from kbengine.inputs import Task, TaskInput

_SPAN = re.compile(r"\s*(\d+)\s*:\s*(\d+)\s*")


@dataclass(frozen=True)
class QueryArguments:
    """What was typed to be asked: a text, or the fields of one task."""

    text: str | None = None
    task: Task | None = None
    subject: str | None = None
    relation: str | None = None
    object: str | None = None
    spans: tuple[str, ...] = ()
    turns: tuple[str, ...] = ()


@click.command()
@click.argument("text", required=False)
@kb_or_service_option
@option("--encoder", str, "Ask with this tuned encoder, or this model; by default the task's own.")
@device_option
@dtype_option
@option("--task", TASKS, "Take TEXT for this; by default for a question, or what other options say.")
@option("--subject", str, "Ask about this subject (slot filling); by default none.")
@option(
    "--relation",
    str,
    "Ask for this relation: a name, an id such as P19, a wording such as 'X married'; by default none.",
)
@option("--object", str, "Ask for the subjects that have this object of --relation; by default none.")
@option("--text text_option", str, "Ask this text; by default TEXT, which is the same.")
@option("--span spans", str, "Link the characters START:END of the text; by default what is marked.", multiple=True)
@option("--turn turns", str, "Add a turn, the newest one last (dialogue); by default none.", multiple=True)
@option("-k", int, "Show so many distinct answers.", default=5)
@option("--unit", UNITS, "Answer with this; by default the task's own, phrase or document.")
@option("--effort", EFFORTS, "Search with this effort.", default="normal")
@option("--nprobe", int, "Read so many lists of each segment's index; by default as --effort says.")
@option("--strategy", STRATEGIES, "Take candidates from here; by default hybrid, from everywhere.")
@option("--read", int, "Read so many of the best passages, 0 none; by default as many as pays for the task.")
@reader_option
@option("--where", str, "Search only documents whose fields pass this filter; by default all.")
@option("--weight weights", str, "Weigh a signal, as in lexical=4; by default as the task does.", multiple=True)
@option("--max-phrase-tokens", int, "Take phrases of so many tokens at most; by default as the encoder does.")
@option("--threshold", float, "Refuse answers that are less probable, 0 none; by default the stored threshold.")
@option("--truncate", bool, "Cut a question that is too long instead of refusing it.")
@option("--explain", bool, "Show the parts of each score.")
@json_option
def query(
    kb: Path | None,
    encoder: str | None,
    device: str,
    dtype: DTypeChoice,
    reader: str,
    text_option: str | None,
    weights: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """Ask a knowledge base; TEXT is a question, or what the task takes (`-`: one query a line from stdin).

    \b
    Examples:
      kbengine query --kb my-kb "Who wrote Pride and Prejudice?"
      kbengine query --kb my-kb --task slot-filling "Marie Curie [SEP] place of birth"
      kbengine query --kb my-kb --subject "Marie Curie" --relation P19
      kbengine query --kb my-kb --subject "Marie Curie" --relation "Where was X born?"
      kbengine query --kb my-kb --relation "place of birth" --object Warsaw
      kbengine query --kb my-kb --task entity-linking "They met in [START_ENT] Lincoln [END_ENT], Nebraska."
      kbengine query --kb my-kb --text "From Lincoln to Des Moines." --span 5:12 --span 16:26
      kbengine query --kb my-kb --where "source = 'manual' and date >= '2020-01-01'" "How is it repaired?"
      kbengine query --kb my-kb --turn "I love Kafka." --turn "Did he publish much?"
    """
    from adapters.commands.answer_text import show_answers

    if text_option is not None:
        if given["text"] is not None:
            raise click.UsageError("the text was given twice: as TEXT and with --text")
        given["text"] = text_option
    named = named_requests(QueryArguments(**{each.name: given.pop(each.name) for each in fields(QueryArguments)}))
    given["weights"] = dict(map(_weight, weights)) or None
    requests = [request for _, request in named]
    if kb is None:
        answers = _asked_of_service(requests, {**given, "encoder": encoder})
    else:
        answers = _asked_here(kb, requests, given, encoder, device=device, dtype=dtype, reader=reader)
    show_answers(
        standard_output(as_json=as_json),
        [name for name, _ in named],
        answers,
        with_fields=given["explain"] or given["where"] is not None,
    )


def _asked_here(
    kb: Path, requests: list[TaskInput], given: dict[str, Any], encoder: str | None, **opened_with: Any
) -> list[TaskAnswer]:
    from adapters.tasks.answerer import Answerer, AnswerOptions
    from kbengine.knowledge_base import KnowledgeBase, KnowledgeBaseOptions
    from kbengine.search.query import some_weights

    options = AnswerOptions(**{**given, "weights": some_weights(given["weights"])})
    with KnowledgeBase.open(kb, encoder, options=KnowledgeBaseOptions(**opened_with)) as knowledge_base:
        answerer = Answerer(knowledge_base, notice=lambda sentence: click.echo(f"note: {sentence}", err=True))
        return answerer.answer(requests, options)


def _asked_of_service(requests: list[TaskInput], options: dict[str, Any]) -> list[TaskAnswer]:
    from adapters.remote.asking import ask
    from kbengine.terminal.service import Service

    refuse_own_choices()
    if options.pop("max_phrase_tokens") is not None:
        raise click.UsageError("--max-phrase-tokens is not asked of a service; leave it out, or give --kb")
    return ask(Service.of_environment(), requests, options)


def named_requests(arguments: QueryArguments) -> list[tuple[str, TaskInput]]:
    """Return the requests that were typed, each with a text to name it by.

    Raises:
        click.UsageError: the options contradict each other, or there is nothing to ask.
        TaskInputError: a text has not the task's form.
    """
    from kbengine.inputs import Dialogue, Slot
    from kbengine.text_form import input_of, mentions_of, text_of

    task = _task_of(arguments)
    if arguments.turns:
        return [("\n".join(arguments.turns), Dialogue(arguments.turns))]
    if arguments.relation is not None:
        slot = Slot(arguments.subject or "", arguments.relation, arguments.object)
        return [(text_of(slot), slot)]
    if arguments.text is None:
        raise click.UsageError("nothing to ask: give TEXT, --subject and --relation, --span with --text, or --turn")
    if arguments.spans:
        requests = mentions_of(arguments.text, [_span(span) for span in arguments.spans])
        return [(each.name, each) for each in requests]
    texts = [line.rstrip("\n") for line in sys.stdin] if arguments.text == "-" else [arguments.text]
    if task == "dialogue":  # a shell's plain quotes have no newline
        texts = [each.replace("\\n", "\n") for each in texts]
    return [(each, input_of(task, each)) for each in texts]


def _task_of(arguments: QueryArguments) -> Task:
    """Return the task that the options speak of, which must be one."""
    if arguments.subject is not None and arguments.object is not None:
        raise click.UsageError("--subject and --object were both given; leave out the one that is wanted")
    if (arguments.subject is None and arguments.object is None) != (arguments.relation is None):
        raise click.UsageError("slot filling wants both --subject and --relation, or --object and --relation")
    said: dict[str, Task] = {}
    if arguments.subject is not None:
        said["--subject and --relation"] = "slot-filling"
    if arguments.object is not None:
        said["--object and --relation"] = "slot-filling"
    if arguments.spans:
        said["--span"] = "entity-linking"
    if arguments.turns:
        said["--turn"] = "dialogue"
    if len(said) > 1:
        raise click.UsageError(f"{' and '.join(said)} are of different tasks; ask one at a time")
    if arguments.text is not None and said and not arguments.spans:
        raise click.UsageError(f"a text and {next(iter(said))} were given; leave one of them out")
    of_options = next(iter(said.values()), None)
    if arguments.task is not None and of_options not in (None, arguments.task):
        raise click.UsageError(f"{next(iter(said))} is for {of_options}, --task says {arguments.task}; leave one out")
    return arguments.task or of_options or "question"


def _weight(typed: str) -> tuple[str, float]:
    name, _, value = typed.partition("=")
    try:
        return name.strip(), float(value)
    except ValueError:
        raise click.UsageError(f"--weight is {typed!r}, wanted a signal and its weight, such as lexical=4") from None


def _span(text: str) -> tuple[int, int]:
    match = _SPAN.fullmatch(text)
    if match is None:
        raise click.UsageError(f"--span is {text!r}, wanted START:END, the characters of the mention, such as 10:17")
    return int(match[1]), int(match[2])
