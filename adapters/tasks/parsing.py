"""From text to requests: marked mentions, `subject [SEP] relation`, one turn a line, and spans of a longer text."""

from __future__ import annotations

from collections.abc import Iterable

from adapters.errors import TaskInputError
from adapters.tasks.requests import DialogueRequest, LinkingRequest, QuestionRequest, SlotRequest, TaskRequest
from adapters.tasks.task import END_MENTION, SEPARATOR, START_MENTION, Task
from kbengine.corpus.span import Span

_SHOWN_CHARS = 120


def request_of(task: Task, text: str) -> TaskRequest:
    """Return the request that `text` is for the task, as in KILT's `input`.

    Raises:
        TaskInputError: the text has not the task's form.
    """
    match task:
        case "question":
            return QuestionRequest(text)
        case "slot-filling":
            return slot_request(text)
        case "entity-linking":
            return marked_request(text)
        case "dialogue":
            return dialogue_request(text)


def slot_request(text: str) -> SlotRequest:
    """Return the request of "subject [SEP] relation"; the relation may be a Wikidata id.

    Raises:
        TaskInputError: there is not exactly one separator with text on both sides.
    """
    subject, found, relation = (part.strip() for part in text.partition(SEPARATOR))
    if not found or not subject or not relation or SEPARATOR in relation:
        raise TaskInputError(
            f"slot filling got {_shown(text)}, wanted 'subject {SEPARATOR} relation' with both sides and one separator"
        )
    return SlotRequest(subject, relation)


def marked_request(text: str) -> LinkingRequest:
    """Return the request of a text with one mention marked `[START_ENT] mention [END_ENT]`; its text has no marks.

    Raises:
        TaskInputError: no mark, an unclosed or empty one, or more than one.
    """
    starts, ends = text.count(START_MENTION), text.count(END_MENTION)
    if starts != 1 or ends != 1:
        raise TaskInputError(
            f"entity linking got {starts} {START_MENTION} and {ends} {END_MENTION}, wanted one of each around the "
            "mention; for several mentions of one text give its spans, or ask once for each"
        )
    left, _, rest = text.partition(START_MENTION)
    mention, closed, right = rest.partition(END_MENTION)
    if not closed:
        raise TaskInputError(f"{END_MENTION} stands before {START_MENTION} in {_shown(text)}; put it after the mention")
    mention = mention.strip()
    if not mention:
        raise TaskInputError(f"the mention between {START_MENTION} and {END_MENTION} is empty; mark at least one word")
    return LinkingRequest(left + mention + right, Span(len(left), len(left) + len(mention)))


def linking_requests(text: str, spans: Iterable[Span | tuple[int, int]]) -> list[LinkingRequest]:
    """Return one request for each mention of the text, in the order given; mentions may overlap.

    Args:
        text: the text they stand in.
        spans: half-open character offsets into the text, (start, end).

    Raises:
        TaskInputError: no span, or one that is empty, blank, reversed or not within the text.
    """
    wanted = [span if isinstance(span, Span) else Span(*_pair(span)) for span in spans]
    if not wanted:
        raise TaskInputError("no span was given; give the character offsets of at least one mention, like (10, 17)")
    for span in wanted:
        check_span(text, span)
    return [LinkingRequest(text, span) for span in wanted]


def dialogue_request(text: str) -> DialogueRequest:
    """Return the request of a conversation, one turn a line, the newest last; blank lines are left out.

    Raises:
        TaskInputError: no line has any text.
    """
    turns = tuple(turn.strip() for turn in text.split("\n") if turn.strip())
    if not turns:
        raise TaskInputError("the dialogue has no turn with text, wanted one turn a line, the newest last")
    return DialogueRequest(turns)


def check_span(text: str, span: Span) -> None:
    """Check that the span holds some text of `text`.

    Raises:
        TaskInputError: it is empty, blank, reversed or not within the text.
    """
    for offset in (span.start, span.end):
        if isinstance(offset, bool) or not isinstance(offset, int):
            raise TaskInputError(f"a span has the offset {offset!r}, wanted whole numbers of characters, start and end")
    place = f"the span {span.start}:{span.end}"
    if not 0 <= span.start <= len(text) or not 0 <= span.end <= len(text):
        raise TaskInputError(
            f"{place} is not within the text of {len(text):,} characters; offsets count characters from 0, "
            "the end is one past the last"
        )
    if span.start >= span.end:
        raise TaskInputError(f"{place} is empty; the end has to be after the start")
    if not text[span.start : span.end].strip():
        raise TaskInputError(f"{place} holds nothing but white space; mark at least one word")


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…")


def _pair(span: object) -> tuple[int, int]:
    if isinstance(span, tuple | list) and len(span) == 2:
        start, end = span
        return start, end
    raise TaskInputError(f"a span is {span!r}, wanted two offsets, start and end")
