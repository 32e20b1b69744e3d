"""The command `profile`: an entity's card on the terminal, or what its name can mean."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import device_option, dtype_option, json_option, option, reader_option
from kbengine.terminal.service import kb_or_service_option, refuse_own_choices

if TYPE_CHECKING:
    from adapters.profiles.card import Edge, EntityRef, Fact, FactValue, Profile
    from kbengine.encoders.device import DTypeChoice
    from kbengine.terminal.console import Output

SHOWN_NAMES = 12


@click.command()
@click.argument("name", required=False)
@kb_or_service_option
@option("--id doc_id", str, "Describe the document with this id; by default what NAME means.")
@option("--relation relations", str, "Ask for this relation; by default for the usual ones.", multiple=True)
@option("--relations n_relations", int, "Ask for so many of the usual relations.", default=16)
@option("--threshold", float, "Show values that are at least so probable.", default=0.2)
@option("--where", str, "Take values from documents whose fields pass this filter; by default from all.")
@option("--encoder", str, "Ask with this tuned encoder, or this model; by default the task's own.")
@device_option
@dtype_option
@reader_option
@json_option
def profile(
    name: str | None,
    kb: Path | None,
    doc_id: str | None,
    relations: tuple[str, ...],
    n_relations: int,
    threshold: float,
    where: str | None,
    encoder: str | None,
    device: str,
    dtype: DTypeChoice,
    reader: str,
    as_json: bool,
) -> None:
    """Show an entity's card: its names, what it is, and what it usually has by its kind; NAME is any of its names.

    \b
    Examples:
      kbengine profile --kb my-kb "Marie Curie"
      kbengine profile --kb my-kb --id marie-curie --relation P19 --relation "doctoral advisor" --json
    """
    if (name is None) == (doc_id is None):
        raise click.UsageError("give either NAME or --id")
    asked = {
        "relations": list(relations) or None,
        "n_relations": n_relations,
        "threshold": threshold,
        "where": where,
        "name": name,
        "id": doc_id,
    }
    if kb is None:
        if encoder is not None:
            raise click.UsageError("--encoder is not asked of a service for cards; leave it out, or give --kb")
        card = _asked_of_service(asked)
    else:
        card = _asked_here(kb, asked, encoder, device=device, dtype=dtype, reader=reader)
    output = standard_output(as_json=as_json)
    if as_json:
        output.record(card.to_json())
    else:
        show_profile(output, card)


def _asked_here(kb: Path, asked: dict[str, Any], encoder: str | None, **opened_with: Any) -> Profile:
    from adapters.profiles.profiler import ProfileOptions, Profiler
    from adapters.tasks.answerer import Answerer
    from kbengine.knowledge_base import KnowledgeBase, KnowledgeBaseOptions

    relations = asked["relations"] and tuple(asked["relations"])
    options = ProfileOptions(relations, asked["n_relations"], asked["threshold"], asked["where"])
    with KnowledgeBase.open(kb, encoder, options=KnowledgeBaseOptions(**opened_with)) as knowledge_base:
        answerer = Answerer(knowledge_base, notice=lambda sentence: click.echo(f"note: {sentence}", err=True))
        profiler = Profiler(knowledge_base.reader, answerer.answer)
        if asked["id"] is not None:
            return profiler.profile_of(asked["id"], options)
        return profiler.profile(asked["name"], options)


def _asked_of_service(asked: dict[str, Any]) -> Profile:
    from adapters.remote.asking import profile as ask_service
    from kbengine.terminal.service import Service

    refuse_own_choices()
    return ask_service(Service.of_environment(), asked)


def show_profile(output: Output, card: Profile) -> None:
    """Write a card as text for people, or what its name can mean."""
    if card.entity is None:
        what = "can mean" if card.status == "ambiguous" else "is the name of no document; similar are"
        output.line(f"{card.name!r} {what}:" if card.choices else f"{card.name!r} is the name of no document")
        _choices(output, card.choices)
        return
    output.line(f"{card.entity.title}  [{card.entity.doc_id}]")
    if card.entity.description:
        output.line(card.entity.description)
    if card.names:
        more = f" and {len(card.names) - SHOWN_NAMES} more" if len(card.names) > SHOWN_NAMES else ""
        output.line(f"also called {', '.join(each.name for each in card.names[:SHOWN_NAMES])}{more}")
    output.line()
    width = max((len(fact.relation) for fact in card.facts), default=0)
    for fact in card.facts:
        _fact(output, fact, width)
    if not card.facts:
        output.line(f"nothing probable is said about {len(card.asked)} relations")
    if card.related:
        output.line()
        output.line("related: " + ", ".join(map(_related, card.related)))
    if card.choices:
        output.line()
        output.line("the name can also mean:")
        _choices(output, card.choices)


def _fact(output: Output, fact: Fact, width: int) -> None:
    note = "  (the sources contradict each other)" if fact.is_contradicted else ""
    for i, value in enumerate(fact.values):
        label = fact.relation if i == 0 else ""
        output.line(f"{label:<{width}}  {_value(value)}{note if i == 0 else ''}")


def _value(value: FactValue) -> str:
    place = value.evidence
    sure = "?" if value.probability is None else f"p={value.probability:.2f}" + ("" if value.is_sure else ", unsure")
    start = place.passage.char_offset + place.span.start
    end = place.passage.char_offset + place.span.end
    where = f"[{place.document.doc_id} ¶{place.passage.ordinal} {start}:{end}]"
    return f"{' '.join(value.text.split())}  {sure}  {where}"


def _related(edge: Edge) -> str:
    return f"{edge.entity.title or edge.entity.doc_id} ({edge.label})"


def _choices(output: Output, choices: tuple[EntityRef, ...]) -> None:
    for each in choices:
        output.line(f"  {each.title or each.doc_id}  [{each.doc_id}]  {each.description}".rstrip())
