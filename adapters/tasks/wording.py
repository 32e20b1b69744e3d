"""How a slot is put into words: a user's own wording of the relation, or the question form of the table of relations.

An own wording says where the subject stands, by `{}` or a single X: "instrument that X plays", "Who taught {}?".
Backwards, the question is made of the relation's words: "Who or what has place of birth Warsaw?".
"""

from __future__ import annotations

import functools
import re

from adapters.tasks.relations import PLACE, RelationTable, property_id_of
from kbengine.errors import TaskInputError
from kbengine.inputs import Question, Slot, TaskInput

_X = re.compile(r"(?<![\w-])X(?![\w-])")
_ASKING = frozenset(("who", "whom", "whose", "what", "which", "where", "when", "why", "how"))
_ARTICLES = frozenset(("a", "an", "the"))
_VERBS = frozenset(
    (
        *("crosses", "depicts", "follows", "contains", "carries", "commemorates", "connects", "encodes", "afflicts"),
        *("replaces", "represents", "regulates", "repeals", "uses", "wears", "measures", "studies", "emulates"),
        *("innervates", "overrules", "supports", "shares", "applies", "depends", "develops", "qualifies", "offers"),
        *("underlies", "overlies", "physically", "has", "is", "was", "had", "were", "takes", "plays", "lives", "works"),
    )
)
"""What begins relations that a subject needs no further verb for."""
_NEEDS_IS = re.compile(
    r" of$|^(?:\w+ )?(?:\w+ed|written|won|made|known|said|present|endemic|indigenous|different)"
    r" (?:by|in|to|after|on|with|from|for|at|within)\b"
)


def in_words(slot: Slot) -> Question:
    """Return the question that asks for a slot: by the relation's own wording or its question form.

    >>> in_words(Slot("Marie Curie", "place of birth")).text
    'Where was Marie Curie born?'
    >>> in_words(Slot("Yo-Yo Ma", "instrument that X plays")).text
    'What is the instrument that Yo-Yo Ma plays?'
    >>> in_words(Slot.backwards("founded by", "Ray Kroc")).text
    'Who or what is founded by Ray Kroc?'

    Raises:
        TaskInputError: an own wording is nothing but the subject's place.
        UnknownRelationError: the relation is a property id that the table lacks.
    """
    form = own_form(slot.relation)
    if slot.object is not None:
        words = relation_words(slot.relation)
        return Question(f"Who or what {_joined(words)} {slot.object.strip()}?")
    if form is None:
        return Question(relations().question_of(slot.relation, slot.subject))
    return Question(form.replace(PLACE, slot.subject.strip()))


def reading_input(asked: TaskInput) -> TaskInput:
    """Return what a reader trained on slots in several wordings reads best: a slot as a question (decision 0026).

    A relation that is a noun is asked for as "What sport does Ann have?", one that is a verb, or is asked in an own
    wording or backwards, as `in_words` has it. Anything that is no slot is read as it is.

    Raises:
        TaskInputError, UnknownRelationError: as `in_words` does.
    """
    if not isinstance(asked, Slot):
        return asked
    words = relation_words(asked.relation)
    if asked.object is not None or own_form(asked.relation) is not None or _joined(words) != f"has {words}":
        return in_words(asked)
    return Question(f"What {words} does {asked.subject.strip()} have?")


def own_form(relation: str) -> str | None:
    """Return a user's own wording with `{}` where the subject stands; None where the text only names a relation.

    A wording that is no question is made one, unless it begins with the subject: "What is the instrument that {}
    plays?", but "{} was born in".

    Raises:
        TaskInputError: it is nothing but the subject's place.
    """
    form = " ".join((relation if PLACE in relation else _X.sub(PLACE, relation)).split())
    if PLACE not in form or property_id_of(relation) is not None:
        return None
    if not any(each.isalnum() for each in form.replace(PLACE, "")):
        raise TaskInputError(
            f"the relation is {relation!r}, the subject's place alone; wanted words around it, as in "
            "'instrument that X plays', or a relation's name"
        )
    if form.endswith("?") or form.startswith(PLACE):
        return form
    first, second = (*form.casefold().split(), "")[:2]
    if first in _ASKING or second in _ASKING:  # "In which city was X born"
        return f"{form}?"
    return f"What is {form}?" if first in _ARTICLES else f"What is the {form}?"


def relation_words(relation: str) -> str:
    """Return the words of a relation to match texts with: its name for an id, a wording without the subject's place.

    Raises:
        UnknownRelationError: it is a property id that the table lacks.
    """
    if property_id_of(relation) is not None:
        return relations().relation_text(relation)
    if own_form(relation) is None:
        return relation.strip()
    return " ".join((relation if PLACE in relation else _X.sub(PLACE, relation)).replace(PLACE, " ").split())


def has_one_value(asked: TaskInput) -> bool:
    """Tell whether a subject has one value of the slot's relation, such as a date of birth."""
    known = relations().find(asked.relation) if isinstance(asked, Slot) else None
    return known is not None and known.has_one_value


def _joined(words: str) -> str:
    """Return a relation's words with the verb that joins them to a subject, where they hold none themselves."""
    first = words.split(" ", 1)[0].casefold()
    if first in _VERBS:
        return words
    return f"is {words}" if _NEEDS_IS.search(words.casefold()) else f"has {words}"


@functools.cache
def relations() -> RelationTable:
    """Return the table that ships, read once: it never changes."""
    return RelationTable.load()
