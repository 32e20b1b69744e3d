"""What can be asked: a question, a slot, a mention or a dialogue; the same at every door and for every encoder.

Their text form is that of KILT's `input` (`kbengine.text_form`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

from kbengine.errors import TaskInputError
from kbengine.span import Span

Task = Literal["question", "slot-filling", "entity-linking", "dialogue"]
TASKS: tuple[Task, ...] = get_args(Task)

SEPARATOR = "[SEP]"
START_MENTION = "[START_ENT]"
END_MENTION = "[END_ENT]"


@dataclass(frozen=True)
class Question:
    """A question, or any short text.

    >>> Question("Who wrote Pride and Prejudice?")
    Question(text='Who wrote Pride and Prejudice?')
    """

    text: str


@dataclass(frozen=True, repr=False)
class Slot:
    """A subject whose objects of a relation are wanted; or, asked backwards, an object whose subjects are.

    The relation is a name, any free text, a Wikidata id such as P19, or a wording of your own that says by X or {}
    where the subject stands, such as "instrument that X plays" or "Who taught {}?".

    >>> Slot("Marie Curie", "place of birth")
    Slot(subject='Marie Curie', relation='place of birth')
    """

    subject: str
    relation: str
    object: str | None = None

    @classmethod
    def backwards(cls, relation: str, object: str) -> Slot:  # KILT's word
        """Return what asks for the subjects that stand in the relation to the object: who was born in Warsaw.

        >>> Slot.backwards("place of birth", "Warsaw")
        Slot.backwards(relation='place of birth', object='Warsaw')
        """
        return cls("", relation, object)

    def __repr__(self) -> str:
        if self.object is None:
            return f"Slot(subject={self.subject!r}, relation={self.relation!r})"
        return f"Slot.backwards(relation={self.relation!r}, object={self.object!r})"


@dataclass(frozen=True)
class Mention:
    """A text and one name in it whose entity is wanted, as half-open character offsets.

    >>> Mention("From Lincoln to Omaha.", (5, 12)).name
    'Lincoln'
    """

    text: str
    span: Span | tuple[int, int]

    def __post_init__(self) -> None:
        if not isinstance(self.span, Span):
            object.__setattr__(self, "span", Span(*_pair(self.span)))

    @classmethod
    def from_parts(cls, left: str, name: str, right: str) -> Mention:
        """Return the mention that has these texts before and after it."""
        return cls(left + name + right, Span(len(left), len(left) + len(name)))

    @property
    def place(self) -> Span:
        """Return the offsets as a span."""
        return cast(Span, self.span)

    @property
    def start(self) -> int:
        """Return the offset of the name's first character."""
        return self.place.start

    @property
    def end(self) -> int:
        """Return the offset past the name's last character."""
        return self.place.end

    @property
    def left(self) -> str:
        """Return the text before the name."""
        return self.text[: self.start]

    @property
    def name(self) -> str:
        """Return the name as it stands in the text."""
        return self.text[self.start : self.end]

    @property
    def right(self) -> str:
        """Return the text after the name."""
        return self.text[self.end :]


@dataclass(frozen=True)
class Dialogue:
    """A conversation whose last turn wants grounding: turns oldest first, as they were said.

    >>> Dialogue(("I love Kafka.", "Did he want his manuscripts burnt?")).turns[-1]
    'Did he want his manuscripts burnt?'
    """

    turns: Sequence[str]


TaskInput = Question | Slot | Mention | Dialogue


def task_of(asked: TaskInput) -> Task:
    """Return the name of the task that belongs to what is asked."""
    match asked:
        case Question():
            return "question"
        case Slot():
            return "slot-filling"
        case Mention():
            return "entity-linking"
        case Dialogue():
            return "dialogue"


def _pair(span: object) -> tuple[int, int]:
    if isinstance(span, tuple | list) and len(span) == 2:
        start, end = span
        return start, end
    raise TaskInputError(f"a span is {span!r}, wanted two offsets, start and end")
