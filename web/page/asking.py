"""The state of the search page: read from the address, checked, made into requests, written back as an address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from adapters.tasks.defaults import DEFAULT_UNITS
from kbengine.errors import InvalidOptionError, TaskInputError
from kbengine.inputs import END_MENTION, START_MENTION, TASKS, Dialogue, Mention, Question, Slot, Task, TaskInput
from kbengine.search.query import EFFORTS, MAX_K, STRATEGIES, UNITS, Effort, Strategy, Unit
from kbengine.span import Span
from storage.tuned_files import check_name
from web import limits

if TYPE_CHECKING:
    from werkzeug.datastructures import MultiDict

    from adapters.tasks.answerer import AnswerOptions

OPTION_NAMES = ("unit", "k", "effort", "threshold", "strategy", "encoder", "where")
"""How is asked, by the names that the address, the API and the engine have for it."""

_MARK = re.compile(f"{re.escape(START_MENTION)}|{re.escape(END_MENTION)}")


@dataclass(frozen=True)
class MarkedText:
    """A text without its marks, and where the mentions stood: half-open character offsets, in order."""

    text: str
    mentions: tuple[Span, ...]


@dataclass(frozen=True)
class Asking:
    """What the search page shows and asks for; the address holds all of it, nothing else is kept.

    Attributes:
        task: The task of the open tab.
        q: The question.
        subject: Of the slot.
        relation: Of the slot: a name, free text, or a Wikidata id.
        text: Entity linking: the text with its mentions marked.
        turns: The dialogue, oldest first.
        unit: What an answer is; None takes the task's own choice.
        k: Answers wanted.
        effort: How many candidates are looked at.
        threshold: The probability wanted; None takes the task's own choice.
        strategy: Where candidates come from; None takes the task's own choice.
        encoder: Name of a tuned query encoder; None is the one that the service was opened with.
        where: A filter over the documents' fields; None searches all.
        problems: What was wrong with the address, for the reader; such fields hold their default.
    """

    task: Task = "question"
    q: str = ""
    subject: str = ""
    relation: str = ""
    text: str = ""
    turns: tuple[str, ...] = ()
    unit: Unit | None = None
    k: int = 10
    effort: Effort = "normal"
    threshold: float | None = None
    strategy: Strategy | None = None
    encoder: str | None = None
    where: str | None = None
    problems: tuple[str, ...] = ()

    @property
    def shown_unit(self) -> Unit:
        """Return the unit that answers will have."""
        return self.unit or DEFAULT_UNITS[self.task]

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing was asked yet."""
        match self.task:
            case "question":
                return not self.q
            case "slot-filling":
                return not (self.subject or self.relation)
            case "entity-linking":
                return not self.text
            case "dialogue":
                return not self.turns

    @property
    def summary(self) -> str:
        """Return what is asked, in one line, for the window's title."""
        match self.task:
            case "question":
                asked = self.q
            case "slot-filling":
                asked = f"{self.subject} · {self.relation}"
            case "entity-linking":
                asked = ", ".join(self.mentions) or self.text
            case "dialogue":
                asked = self.turns[-1] if self.turns else ""
        return asked if len(asked) <= 80 else asked[:79] + "…"

    @property
    def mentions(self) -> tuple[str, ...]:
        """Return the marked mentions' texts; none when the marks make no sense."""
        try:
            marked = marked_text(self.text)
        except TaskInputError:
            return ()
        return tuple(marked.text[span.start : span.end] for span in marked.mentions)

    def requests(self) -> list[TaskInput]:
        """Return what the engine is asked: one request, or one for each mention.

        Raises:
            TaskInputError: something is missing, too long or too much; the message says what to do.
        """
        if self.problems:
            raise TaskInputError("; ".join(self.problems))
        for text in (self.q, self.subject, self.relation, self.text, *self.turns):
            if len(text) > limits.TEXT_CHARS:
                raise TaskInputError(
                    f"a text has {len(text):,} characters, wanted at most {limits.TEXT_CHARS:,}; shorten it"
                )
        match self.task:
            case "question":
                return [Question(self.q)]
            case "slot-filling":
                if not self.subject or not self.relation:
                    missing = "subject" if not self.subject else "relation"
                    raise TaskInputError(f"the {missing} is empty; fill in both, such as 'Marie Curie' and 'spouse'")
                return [Slot(self.subject, self.relation)]
            case "entity-linking":
                return self._linking_requests()
            case "dialogue":
                if len(self.turns) > limits.TURNS:
                    raise TaskInputError(f"{len(self.turns)} turns, wanted at most {limits.TURNS}; leave out old ones")
                return [Dialogue(self.turns)]

    def _linking_requests(self) -> list[TaskInput]:
        marked = marked_text(self.text)
        if not marked.mentions:
            raise TaskInputError(
                f"no mention is marked; select it in the text, or write {START_MENTION} before and {END_MENTION} "
                "after it"
            )
        if len(marked.mentions) > limits.SPANS:
            raise TaskInputError(f"{len(marked.mentions)} mentions, wanted at most {limits.SPANS}; split the text")
        return [Mention(marked.text, mention) for mention in marked.mentions]

    def options(self) -> AnswerOptions:
        """Return how the engine shall answer; score parts are always asked for, the page shows them.

        Raises:
            InvalidOptionError: a value is out of its range.
        """
        from adapters.tasks.answerer import AnswerOptions

        if self.k > limits.K:
            raise InvalidOptionError(f"k is {self.k}, wanted 1 to {limits.K}; ask for fewer answers")
        return AnswerOptions(**{name: getattr(self, name) for name in OPTION_NAMES}, explain=True, truncate=True)

    def parameters(self) -> list[tuple[str, str]]:
        """Return the state as the address's parameters; what has its default is left out."""
        own: Mapping[Task, tuple[str, ...]] = {
            "question": ("q",),
            "slot-filling": ("subject", "relation"),
            "entity-linking": ("text",),
            "dialogue": (),
        }
        named = [("task", self.task), *((name, getattr(self, name)) for name in own[self.task])]
        named += [("turn", turn) for turn in self.turns if self.task == "dialogue"]
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in OPTION_NAMES and value != field.default:
                named.append((field.name, f"{value:g}" if isinstance(value, float) else str(value)))
        return [(name, value) for name, value in named if value]

    def address(self, path: str = "/", **changes: Any) -> str:
        """Return the address of this state, with some of it changed."""
        return f"{path}?{urlencode(replace(self, **changes).parameters())}"


def read_asking(parameters: MultiDict[str, str]) -> Asking:
    """Return the state that an address holds; what cannot be read is named in `problems` and has its default."""
    problems: list[str] = []
    task = _choice(parameters, "task", TASKS, "question", problems)
    unit = _choice(parameters, "unit", UNITS, None, problems)
    k_text, threshold_text = parameters.get("k", "").strip(), parameters.get("threshold", "").strip()
    k, threshold = 10, None
    if k_text:
        # At most nine digits: int() of a very long text takes quadratic time.
        if re.fullmatch("[0-9]{1,9}", k_text, re.ASCII) and 1 <= int(k_text) <= MAX_K:
            k = int(k_text)
        else:
            problems.append(f"the number of answers is {k_text[:20]!r}, wanted 1 to {MAX_K}")
    if threshold_text:
        if re.fullmatch(r"(?:0|1|[01]?\.[0-9]{1,9})", threshold_text, re.ASCII) and float(threshold_text) <= 1:
            threshold = float(threshold_text)
        else:
            problems.append(f"the threshold is {threshold_text[:20]!r}, wanted a probability from 0 to 1")
    encoder = parameters.get("encoder", "").strip()
    try:
        encoder = encoder and check_name(encoder)
    except InvalidOptionError as error:
        problems.append(error.message)
        encoder = ""
    return Asking(
        task=task,
        q=parameters.get("q", "").strip(),
        subject=parameters.get("subject", "").strip(),
        relation=parameters.get("relation", "").strip(),
        text=parameters.get("text", "").replace("\r\n", "\n").strip(),
        turns=tuple(turn.strip() for part in parameters.getlist("turn") for turn in part.splitlines() if turn.strip()),
        unit=None if unit == DEFAULT_UNITS[task] else unit,
        k=k,
        effort=_choice(parameters, "effort", EFFORTS, "normal", problems),
        threshold=threshold,
        strategy=_choice(parameters, "strategy", STRATEGIES, None, problems),
        encoder=encoder or None,
        where=parameters.get("where", "").strip() or None,
        problems=tuple(problems),
    )


def marked_text(text: str) -> MarkedText:
    """Return the text without `[START_ENT]` and `[END_ENT]`, and its mentions without the blanks at their ends.

    Raises:
        TaskInputError: a mark is not closed, not opened, nested, or has no word in it.
    """
    plain, mentions, end, opened = "", [], 0, -1
    for mark in _MARK.finditer(text):
        plain += text[end : mark.start()]
        end = mark.end()
        if mark[0] == START_MENTION:
            if opened >= 0:
                raise TaskInputError(f"{START_MENTION} stands inside a mention; close it with {END_MENTION} first")
            # The blanks inside the marks belong to the marks, unless the words around would run together.
            end += text[end : end + 1] == " " and not plain[-1:].isalnum()
            opened = len(plain)
        else:
            if opened < 0:
                raise TaskInputError(f"{END_MENTION} has no {START_MENTION} before it; put one before the mention")
            if plain.endswith(" ") and not text[end : end + 1].isalnum():
                plain = plain[:-1]
            start = opened + len(plain[opened:]) - len(plain[opened:].lstrip())
            stop = len(plain.rstrip())
            if start >= stop:
                raise TaskInputError(f"the mention between {START_MENTION} and {END_MENTION} is empty; mark a word")
            mentions.append(Span(start, stop))
            opened = -1
    if opened >= 0:
        raise TaskInputError(f"{START_MENTION} is not closed; put {END_MENTION} behind the mention")
    return MarkedText(plain + text[end:], tuple(mentions))


def _choice(parameters: MultiDict[str, str], name: str, choices: Any, default: Any, problems: list[str]) -> Any:
    value = parameters.get(name, "").strip()
    if not value:
        return default
    if value not in choices:
        problems.append(f"{name} is {value[:20]!r}, wanted one of {', '.join(choices)}")
        return default
    return value
