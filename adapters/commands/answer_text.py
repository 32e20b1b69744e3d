"""Answers on the terminal: probability, score, what speaks for each, and why there is none; or as JSON lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from adapters.tasks.answers import Answer, Evidence, TaskAnswer

if TYPE_CHECKING:
    from rich.text import Text

    from kbengine.inputs import Task
    from kbengine.knowledge_base import KnowledgeBase
    from kbengine.terminal.console import Output

CONTEXT_CHARS = 160
"""Characters of the passage shown around an answer on either side, cut at words."""
SHOWN_PLACES = 3
"""Further places named after the best one; the rest are counted."""


def show_answers(
    output: Output, names: Sequence[str], answers: Sequence[TaskAnswer], *, with_fields: bool = False
) -> None:
    """Write the answer to each request; `names` are the texts that they were asked by."""
    for name, answer in zip(names, answers, strict=True):
        if output.as_json:
            output.record({"query": name, **answer.to_json()})
            continue
        if len(answers) > 1:
            place = "" if answer.mention is None else f"  [{answer.mention.start}:{answer.mention.end}]"
            output.line(f"» {name}{place}")
        show_answer(output, answer, with_fields=with_fields)
    if answers and not output.as_json:
        timings = ", ".join(f"{name} {value:.1f}" for name, value in answers[0].timings_ms.items())
        encoders = _explained_encoders(answers)
        by = f"encoder {', '.join(encoders)}; " if encoders else ""
        output.console.print(f"generation {answers[0].generation}; {by}ms: {timings}", style="dim", markup=False)


def _explained_encoders(answers: Sequence[TaskAnswer]) -> list[str]:
    """Return what made the answers whose scores are explained: fingerprints as `kbengine encoders list` shows them."""
    explained = [each for each in answers if each.answers and each.answers[0].evidence[0].parts is not None]
    return list(dict.fromkeys(each.encoder[:12] for each in explained))


def show_answer(output: Output, answer: TaskAnswer, *, with_fields: bool = False) -> None:
    """Write one request's answers as text for people, with the fields of their documents if these are wanted."""
    if answer.status == "no_answer":
        output.line(f"no answer: {why_none(answer)}")
    values = values_text(answer)
    if values:
        output.line(values)
    for each in answer.answers:
        _show(output, each, is_candidate=answer.status == "no_answer", with_fields=with_fields)
    if answer.truncated:
        output.console.print("the query was cut to what the encoder takes", style="dim", markup=False)


def demo_asker(output: Output) -> Callable[[KnowledgeBase, Task, str], None]:
    """Return what asks a knowledge base one text and writes three answers: the demo's way through this layer."""
    from adapters.tasks.answerer import Answerer, AnswerOptions
    from kbengine.text_form import input_of

    def ask(knowledge_base: KnowledgeBase, task: Task, text: str) -> None:
        answers = Answerer(knowledge_base).answer([input_of(task, text)], AnswerOptions(k=3))
        show_answers(output, [text], answers)

    return ask


def why_none(answer: TaskAnswer) -> str:
    """Return why there is no answer, in words."""
    if answer.reason == "unanswerable":
        return "the knowledge base seems to hold no answer (--threshold 0 answers anyway); the candidates:"
    if answer.reason == "below_threshold":
        return (
            f"the best candidate has probability {answer.answers[0].probability:.2f}, "
            f"the threshold is {answer.threshold:.2f}; the candidates:"
        )
    return "the knowledge base holds nothing that could be compared with this query"


def values_text(answer: TaskAnswer) -> str:
    """Return the values of a slot in a line, with a word where they contradict each other; empty for a single one."""
    if len(answer.values) < 2:
        return ""
    texts = "; ".join(value.text for value in answer.values)
    return f"the sources contradict each other: {texts}" if answer.values[0].contradicts else f"values: {texts}"


def support_text(answer: Answer) -> str:
    """Return the places that speak for the answer after its best one; empty when there is none."""
    if len(answer.evidence) == 1:
        return ""
    counts = answer.support
    passages, documents = counts["passages"], counts["documents"]
    places = dict.fromkeys(f"{each.document.title} ¶{each.passage.ordinal}" for each in answer.evidence[1:])
    shown = ", ".join(list(places)[:SHOWN_PLACES])
    more = f" and {len(places) - SHOWN_PLACES} more" if len(places) > SHOWN_PLACES else ""
    of_documents = f" of {documents} documents" if documents > 1 else ""
    return f"in {passages} passage{'s' if passages > 1 else ''}{of_documents}; also {shown}{more}"


def _show(output: Output, answer: Answer, *, is_candidate: bool, with_fields: bool) -> None:
    from rich.padding import Padding
    from rich.text import Text

    best = answer.evidence[0]
    head = Text()
    head.append(f"{answer.rank:>2}. ", style="dim")
    # A sentence or passage is shown below, marked in its passage: here it would stand twice.
    title = answer.text if answer.unit in ("phrase", "document") else f"[{answer.unit}]"
    head.append(title, style="yellow" if is_candidate else "bold green")
    if answer.probability is not None:
        head.append(f"   p={answer.probability:.2f}", style="bold cyan")
    head.append(f"   {answer.score:.2f}", style="cyan")
    where = f"   {best.document.title}" if answer.unit != "document" else ""
    head.append(
        f"{where}  [{best.document.doc_id} ¶{best.passage.ordinal} {best.span.start}:{best.span.end}]", style="dim"
    )
    output.console.print(head)
    output.console.print(Padding(_context(best), (0, 0, 0, 4)))
    fields = _fields(best) if with_fields else ""
    if fields:
        shown = fields if len(fields) <= CONTEXT_CHARS else f"{fields[: CONTEXT_CHARS - 1]}…"
        output.console.print(Padding(Text(shown, style="dim"), (0, 0, 0, 4)))
    support = support_text(answer)
    if support:
        output.console.print(Padding(Text(support, style="dim"), (0, 0, 0, 4)))
    if best.parts is not None:
        parts = best.parts
        output.console.print(
            f"    start {parts.start:.2f} + end {parts.end:.2f} + passage {parts.passage:.2f} "
            f"+ lexical {parts.lexical:.2f}{f' + sparse {parts.sparse:.2f}' if parts.sparse else ''}"
            f"{f' + name {parts.name:.2f}' if parts.name else ''}"
            f"{f' + reader {parts.reader:.2f}' if parts.reader else ''}",
            style="dim",
            markup=False,
        )


def _fields(place: Evidence) -> str:
    from storage.field_rows import shown_fields  # brings SQLAlchemy, which few answers need

    return "; ".join(f"{name}: {value}" for name, value in shown_fields(place.document.meta))


def _context(place: Evidence) -> Text:
    """Return the words around the answer, the answer marked."""
    from rich.text import Text

    text, span = place.passage.text, place.span
    begin = max(0, span.start - CONTEXT_CHARS)
    stop = min(len(text), span.end + CONTEXT_CHARS)
    if begin > 0:
        begin = text.find(" ", begin, span.start) + 1 or begin
    if stop < len(text):
        cut = text.rfind(" ", span.end, stop)
        stop = cut if cut > 0 else stop
    context = Text("… " if begin > 0 else "")
    context.append(text[begin : span.start])
    context.append(text[span.start : span.end], style="bold underline")
    context.append(text[span.end : stop])
    context.append(" …" if stop < len(text) else "")
    return context
