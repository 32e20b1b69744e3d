"""Wikidata property ids and the English names of the relations that users meet.

`relations.tsv` holds id, name, aliases, description, question form and "one" where there is only one value. The name is
the property's label around 2018, which is what T-REx, zsRE, DocRED and FewRel use and encoders were trained on; a later
label is an alias. Descriptions and question forms say the same in words, for models that never saw the name: "Where was
{} born?". Ids, names and most descriptions are Wikidata's (CC0), shortened; the rest is our own wording.
"""

from __future__ import annotations

import difflib
import importlib.resources
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from adapters.errors import UnknownRelationError

PLACE = "{}"
"""Where the subject stands in a question form."""
_GENERIC_QUESTION = "What is the %s of {}?"
_N_SUGGESTIONS = 3
_PROPERTY_ID = re.compile(
    r"(?:wdt?:|https?://www\.wikidata\.org/(?:wiki/(?:Property:)?|entity/|prop/direct/))?(P[0-9]+)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Relation:
    """One Wikidata property: `P19`, its English name, other names for it, what it says, and how it is asked for.

    The question form has `{}` where the subject stands, once; it is "" where the relation has none of its own. A
    relation has one value where nothing can have two, ever: a date of birth, but not a spouse or a head of state.
    """

    id: str
    name: str
    aliases: tuple[str, ...] = ()
    description: str = ""
    question: str = ""
    has_one_value: bool = False


class RelationTable:
    """Relations by id and by name; names are compared without case, accents kept, blanks collapsed."""

    def __init__(self, relations: Iterable[Relation]) -> None:
        self._by_id = {relation.id: relation for relation in relations}
        self._by_name: dict[str, Relation] = {}
        for relation in self._by_id.values():
            for name in (relation.name, *relation.aliases):
                self._by_name[_folded(name)] = relation

    @classmethod
    def load(cls) -> Self:
        """Return the table that ships with kbengine, read from its file."""
        text = importlib.resources.files("adapters").joinpath("relations.tsv").read_text(encoding="utf-8")
        rows = (line.split("\t") for line in text.split("\n")[1:] if line)
        return cls(
            Relation(id, name, tuple(filter(None, aliases.split("|"))), description, question, values == "one")
            for id, name, aliases, description, question, values in rows
        )

    def __iter__(self) -> Iterator[Relation]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def by_id(self, text: str) -> Relation:
        """Return the relation with a property id: `P19`, `p19`, `wdt:P19` or the address of its Wikidata page.

        Raises:
            UnknownRelationError: the text is no property id or the table lacks it; the message names close ids.
        """
        property_id = property_id_of(text)
        if property_id is None:
            raise UnknownRelationError(f"{text!r} is not a Wikidata property id; write it like P19 (place of birth)")
        relation = self._by_id.get(property_id)
        if relation is None:
            close = difflib.get_close_matches(property_id, self._by_id, n=_N_SUGGESTIONS)
            raise UnknownRelationError(
                f"{property_id} is not among the {len(self)} relations that kbengine knows by id"
                f"{self._suggestion(self._by_id[match] for match in close)}; "
                "give the relation's name instead, any English text will do"
            )
        return relation

    def by_name(self, text: str) -> Relation:
        """Return the relation with this name or alias.

        Raises:
            UnknownRelationError: no relation is called so; the message names close ones.
        """
        relation = self._by_name.get(_folded(text))
        if relation is None:
            close = difflib.get_close_matches(_folded(text), self._by_name, n=2 * _N_SUGGESTIONS)
            found = dict.fromkeys(self._by_name[match] for match in close)
            raise UnknownRelationError(
                f"no relation is called {text!r}{self._suggestion(list(found)[:_N_SUGGESTIONS])}; "
                "an unlisted relation may be given as free text where no id is needed"
            )
        return relation

    def find(self, text: str) -> Relation | None:
        """Return the relation with this id, name or alias; None for any other text.

        Raises:
            UnknownRelationError: the text is a property id that the table lacks.
        """
        if property_id_of(text) is not None:
            return self.by_id(text)
        return self._by_name.get(_folded(text))

    def relation_text(self, text: str) -> str:
        """Return the words to search with: the name of a property id, any other text as it is, stripped.

        Raises:
            UnknownRelationError: the text is a property id that the table lacks.
        """
        return self.by_id(text).name if property_id_of(text) is not None else text.strip()

    def question_of(self, relation: str, subject: str) -> str:
        """Return the question that asks for the relation of the subject: "Where was Marie Curie born?".

        The relation is an id, name or alias of the table; any other text is asked for as "What is the … of …?".

        Raises:
            UnknownRelationError: the relation is a property id that the table lacks.
        """
        known = self.find(relation)
        words = known.name if known is not None else " ".join(relation.split())
        form = known.question if known is not None and known.question else _GENERIC_QUESTION % words
        return form.replace(PLACE, subject.strip(), 1)

    @staticmethod
    def _suggestion(relations: Iterable[Relation]) -> str:
        names = [f"{relation.id} ({relation.name})" for relation in relations]
        return f"; close to it: {', '.join(names)}" if names else ""


def property_id_of(text: str) -> str | None:
    """Return the property id that a text is, as `P19`, or None if it is something else."""
    match = _PROPERTY_ID.fullmatch(text.strip())
    return match[1].upper() if match else None


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
