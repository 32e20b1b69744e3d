"""The form of the search page: read from the address, checked as the API checks, written back as an address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from pydantic import ValidationError

from adapters.tasks.defaults import DEFAULT_UNITS
from kbengine.errors import InvalidOptionError, TaskInputError
from kbengine.inputs import END_MENTION, START_MENTION, TASKS, Task
from kbengine.search.query import EFFORTS, MAX_K, MAX_READ, STRATEGIES, UNITS, Effort, Strategy, Unit
from storage.tuned_files import check_name
from web import limits
from web.models.queries import TASK_QUERIES, TaskQuery
from web.page.answer_order import SORTED, Shown
from web.page.marked_text import marked_text
from web.request_context import page_root

if TYPE_CHECKING:
    from werkzeug.datastructures import MultiDict

OPTION_NAMES = ("unit", "k", "effort", "threshold", "strategy", "read", "encoder", "where")
"""How is asked, by the names that the address, the API and the engine have for it."""
LIST_NAMES = ("sort", "page")
"""Which of the answers are shown, by the names that the address has for it."""
_OWN_FIELDS: Mapping[Task, tuple[str, ...]] = {
    "question": ("q",),
    "slot-filling": ("subject", "relation", "object"),
    "entity-linking": ("text",),
    "dialogue": ("turns",),
}


@dataclass(frozen=True)
class SearchForm:
    """What the search page shows and asks for; the address holds all of it, nothing else is kept.

    Attributes:
        task: The task of the open tab.
        q: The question.
        subject: Of the slot.
        relation: Of the slot: a name, free text, a Wikidata id, or a wording with X where the subject stands.
        object: Of the slot, where its subjects are wanted.
        text: Entity linking: the text with its mentions marked.
        turns: The dialogue, oldest first.
        unit: What an answer is; None takes the task's own choice.
        k: Answers wanted.
        effort: How many candidates are looked at.
        threshold: The probability wanted; None takes the task's own choice.
        strategy: Where candidates come from; None takes the task's own choice.
        read: How many of the best passages are read; None takes the task's own choice.
        encoder: Name of a tuned query encoder; None is the one that the service was opened with.
        where: A filter over the documents' fields; None searches all.
        sort: How the answers are ordered, as in `web.page.answer_order`; None is by score.
        page: Which page of `k` answers is shown, from 1.
        problems: What was wrong with the address, for the reader; such fields hold their default.
    """

    task: Task = "question"
    q: str = ""
    subject: str = ""
    relation: str = ""
    object: str = ""
    text: str = ""
    turns: tuple[str, ...] = ()
    unit: Unit | None = None
    k: int = 10
    effort: Effort = "normal"
    threshold: float | None = None
    strategy: Strategy | None = None
    read: int | None = None
    encoder: str | None = None
    where: str | None = None
    sort: str | None = None
    page: int = 1
    problems: tuple[str, ...] = ()

    @property
    def shown_unit(self) -> Unit:
        """Return the unit that answers will have."""
        is_backwards = self.task == "slot-filling" and self.object != ""
        return self.unit or ("document" if is_backwards else DEFAULT_UNITS[self.task])

    @property
    def shown(self) -> Shown:
        """Return which answers the page shows."""
        return Shown(self.sort or "", (self.page - 1) * self.k, self.k)

    @property
    def n_wanted(self) -> int:
        """Return how many answers are asked for: those up to the end of the page, or all that are sorted."""
        return max(min(self.k * self.page, MAX_K), SORTED if self.sort else 1)

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing was asked yet."""
        return not any(getattr(self, name) for name in _OWN_FIELDS[self.task])

    @property
    def summary(self) -> str:
        """Return what is asked, in one line, for the window's title."""
        match self.task:
            case "entity-linking":
                asked = ", ".join(self.mentions) or self.text
            case "dialogue":
                asked = "".join(self.turns[-1:])
            case _:
                asked = " · ".join(filter(None, (getattr(self, name) for name in _OWN_FIELDS[self.task])))
        return asked if len(asked) <= 80 else asked[:79] + "…"

    @property
    def mentions(self) -> tuple[str, ...]:
        """Return the marked mentions' texts; none when the marks make no sense."""
        try:
            return marked_text(self.text).names
        except TaskInputError:
            return ()

    def body(self) -> dict[str, Any]:
        """Return the body that asks the API for the same; options that have their default are left out.

        Raises:
            TaskInputError: the address could not be read, or the marks make no sense.
        """
        if self.problems:
            raise TaskInputError("; ".join(self.problems))
        own: dict[str, Any] = {name: getattr(self, name) for name in _OWN_FIELDS[self.task]}
        match self.task:
            case "question":
                own = {"text": self.q}
            case "slot-filling":
                left_out = "subject" if self.object and not self.subject else "object" if not self.object else None
                own = {name: text for name, text in own.items() if name != left_out}
            case "dialogue":
                own = {"turns": list(self.turns)}
            case "entity-linking":
                marked = marked_text(self.text)
                spans = [[span.start, span.end] for span in marked.mentions]
                own = {"text": marked.text} | ({"span": spans[0]} if len(spans) == 1 else {"spans": spans})
        options = replace(self, k=self.n_wanted)
        return own | {
            field.name: getattr(options, field.name)
            for field in fields(options)
            if field.name in OPTION_NAMES and getattr(options, field.name) != field.default
        }

    def query(self) -> TaskQuery:
        """Return what is asked, as the API reads it.

        Raises:
            TaskInputError: something is missing, too long or too much; the message says what to do.
        """
        try:
            return TASK_QUERIES[self.task].model_validate(self.body())
        except ValidationError as error:
            raise TaskInputError(_in_words(error)) from None

    def parameters(self) -> list[tuple[str, str]]:
        """Return the state as the address's parameters; what has its default is left out."""
        named: list[tuple[str, str]] = [("task", self.task)]
        if self.task == "dialogue":
            named += [("turn", turn) for turn in self.turns]
        else:
            named += [(name, getattr(self, name)) for name in _OWN_FIELDS[self.task]]
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in (*OPTION_NAMES, *LIST_NAMES) and value != field.default:
                named.append((field.name, f"{value:g}" if isinstance(value, float) else str(value)))
        return [(name, value) for name, value in named if value]

    def address(self, path: str | None = None, **changes: Any) -> str:
        """Return the address of this state, with some of it changed; on the search page, or another."""
        path = f"{page_root()}/" if path is None else path
        return f"{path}?{urlencode(replace(self, **changes).parameters())}"


def read_form(parameters: MultiDict[str, str]) -> SearchForm:
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
    return SearchForm(
        task=task,
        q=parameters.get("q", "").strip(),
        subject=parameters.get("subject", "").strip(),
        relation=parameters.get("relation", "").strip(),
        object=parameters.get("object", "").strip(),
        text=parameters.get("text", "").replace("\r\n", "\n").strip(),
        turns=tuple(turn.strip() for part in parameters.getlist("turn") for turn in part.splitlines() if turn.strip()),
        unit=None if unit == DEFAULT_UNITS[task] else unit,
        k=k,
        effort=_choice(parameters, "effort", EFFORTS, "normal", problems),
        threshold=threshold,
        strategy=_choice(parameters, "strategy", STRATEGIES, None, problems),
        read=_passages_read(parameters, problems),
        encoder=encoder or None,
        where=parameters.get("where", "").strip() or None,
        sort=parameters.get("sort", "").strip()[: limits.TITLE_CHARS] or None,
        page=_page(parameters, k, problems),
        problems=tuple(problems),
    )


def _page(parameters: MultiDict[str, str], k: int, problems: list[str]) -> int:
    text = parameters.get("page", "").strip()
    if not text:
        return 1
    last = max(MAX_K // k, 1)
    if re.fullmatch("[0-9]{1,9}", text, re.ASCII) and 1 <= int(text) <= last:
        return int(text)
    problems.append(f"the page is {text[:20]!r}, wanted 1 to {last} with {k} answers a page")
    return 1


def _passages_read(parameters: MultiDict[str, str], problems: list[str]) -> int | None:
    text = parameters.get("read", "").strip()
    if not text:
        return None
    if text.isascii() and text.isdigit() and len(text) < 4 and int(text) <= MAX_READ:
        return int(text)
    problems.append(f"the number of passages read is {text[:20]!r}, wanted 0 to {MAX_READ}")
    return None


def _choice(parameters: MultiDict[str, str], name: str, choices: Any, default: Any, problems: list[str]) -> Any:
    value = parameters.get(name, "").strip()
    if not value:
        return default
    if value not in choices:
        problems.append(f"{name} is {value[:20]!r}, wanted one of {', '.join(choices)}")
        return default
    return value


def _in_words(error: ValidationError) -> str:
    """Return the first thing that is wrong with a body, as the page's reader would say it."""
    first = error.errors(include_url=False)[0]
    field, limit = str(first["loc"][0]), first.get("ctx", {})
    match first["type"]:
        case "string_too_long":
            return f"a text has more than {limit['max_length']:,} characters; shorten it"
        case "too_long":
            what = "mentions" if field == "spans" else field
            return f"{limit['actual_length']} {what}, wanted at most {limit['max_length']}; leave some out"
        case "too_short" if field == "spans":
            return (
                f"no mention is marked; select it in the text, or write {START_MENTION} before and {END_MENTION} "
                "after it"
            )
        case "string_too_short" | "string_pattern_mismatch" if field not in OPTION_NAMES:
            return f"the {field} is empty; fill it in"
    return f"{field}: {first['msg']}"
