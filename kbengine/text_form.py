"""The text form of what can be asked, as in KILT's `input`: slots with a separator, marked mentions, a turn a line."""

from __future__ import annotations

from collections.abc import Iterable

from kbengine.errors import TaskInputError
from kbengine.inputs import END_MENTION, SEPARATOR, START_MENTION, Dialogue, Mention, Question, Slot, Task, TaskInput
from kbengine.span import Span

UNKNOWN = "?"
"""Stands for the subject where it is what is wanted."""
_SHOWN_CHARS = 120


def input_of(task: Task, text: str) -> TaskInput:
    """Return what `text` asks for the task, as in KILT's `input`.

    Raises:
        TaskInputError: the text has not the task's form.
    """
    match task:
        case "question":
            return Question(text)
        case "slot-filling":
            return slot_of(text)
        case "entity-linking":
            return mention_of(text)
        case "dialogue":
            return dialogue_of(text)


def asked_for(asked: str | TaskInput, task: Task) -> TaskInput:
    """Return what is asked: a text is read as the task's text form, a question as it is.

    >>> asked_for("Ulm [SEP] country", "slot-filling")
    Slot(subject='Ulm', relation='country')

    Raises:
        TaskInputError: the text has not the task's form.
    """
    if isinstance(asked, str):
        return Question(asked) if task == "question" else input_of(task, asked)
    return asked


def slot_of(text: str) -> Slot:
    """Return what is asked by "subject [SEP] relation", or backwards by "? [SEP] relation [SEP] object".

    Raises:
        TaskInputError: there is not exactly one separator with text on both sides.
    """
    parts = [part.strip() for part in text.split(SEPARATOR)]
    if len(parts) == 3 and parts[0] == UNKNOWN and all(parts):
        return Slot.backwards(*parts[1:])
    subject, found, relation = (part.strip() for part in text.partition(SEPARATOR))
    if not found or not subject or not relation or SEPARATOR in relation:
        raise TaskInputError(
            f"slot filling got {_shown(text)}, wanted 'subject {SEPARATOR} relation' with both sides and one separator"
        )
    return Slot(subject, relation)


def mention_of(text: str) -> Mention:
    """Return what is asked by a text with one mention marked `[START_ENT] mention [END_ENT]`; its text has no marks.

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
    return Mention.from_parts(left, mention, right)


def mentions_of(text: str, spans: Iterable[Span | tuple[int, int]]) -> list[Mention]:
    """Return each mention of the text as asked for, in the order given; they may overlap.

    Args:
        text: the text they stand in.
        spans: half-open character offsets into the text, (start, end).

    Raises:
        TaskInputError: no span, or one that is empty, blank, reversed or not within the text.
    """
    mentions = [Mention(text, span) for span in spans]
    if not mentions:
        raise TaskInputError("no span was given; give the character offsets of at least one mention, like (10, 17)")
    for mention in mentions:
        check_span(text, mention.place)
    return mentions


def dialogue_of(text: str) -> Dialogue:
    """Return what is asked by a conversation, one turn a line, the newest last; blank lines are left out.

    Raises:
        TaskInputError: no line has any text.
    """
    turns = tuple(turn.strip() for turn in text.split("\n") if turn.strip())
    if not turns:
        raise TaskInputError("the dialogue has no turn with text, wanted one turn a line, the newest last")
    return Dialogue(turns)


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


def text_of(asked: TaskInput) -> str:
    """Return the text form of what is asked; `input_of` of its task asks the same again.

    >>> text_of(Slot("Ulm", "country"))
    'Ulm [SEP] country'
    >>> text_of(Slot.backwards("country", "Germany"))
    '? [SEP] country [SEP] Germany'
    """
    match asked:
        case Question(text):
            return text
        case Slot(subject, relation, wanted):
            slot = f"{UNKNOWN if wanted is not None else subject} {SEPARATOR} {relation}"
            return slot if wanted is None else f"{slot} {SEPARATOR} {wanted}"
        case Mention():
            return f"{asked.left}{START_MENTION} {asked.name} {END_MENTION}{asked.right}"
        case Dialogue(turns):
            return "\n".join(turns)
