"""The answers of the search page in the order that was chosen, and the part of them that one page shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from storage.field_rows import fields_of_meta

if TYPE_CHECKING:
    from adapters.tasks.answers import Answer

SORTED = 100
"""Answers that are sorted when another order than the scores' is chosen: so many of the best."""
ORDERS: tuple[tuple[str, str], ...] = (
    ("", "Score"),
    ("text", "Answer, A to Z"),
    ("title", "Document, A to Z"),
)
"""The orders that there are without fields, and what they are called."""


@dataclass(frozen=True)
class Shown:
    """Which answers a page shows.

    Attributes:
        sort: As in `in_order`; empty for the order of scores.
        first: How many are left out before the first.
        limit: How many at most; None shows all.
    """

    sort: str = ""
    first: int = 0
    limit: int | None = None

    def of(self, answers: Sequence[Answer]) -> list[Answer]:
        """Return the answers that are shown, in their order."""
        chosen = in_order(answers, self.sort)
        return chosen[self.first : None if self.limit is None else self.first + self.limit]

    def has_more(self, n: int) -> bool:
        """Tell whether some of `n` answers come after those that are shown."""
        return self.limit is not None and n > self.first + self.limit


def in_order(answers: Sequence[Answer], sort: str) -> list[Answer]:
    """Return the answers sorted: equal ones, and those without a value, the best first.

    Args:
        answers: Best first.
        sort: `text`, `title`, or a field of the documents that they stand in, from small to large; from large to small
            with a minus before it; empty leaves them as they are. Those without the field come last either way.
    """
    if not sort:
        return list(answers)
    name, falling = sort.removeprefix("-"), sort.startswith("-")
    keyed = [(_key(answer, name, falling), answer) for answer in answers]
    valued = [(key, answer) for key, answer in keyed if key is not None]
    # Python's sort keeps equal ones in their order in either direction: they stay the best first.
    valued.sort(key=lambda pair: pair[0], reverse=falling)
    return [answer for _, answer in valued] + [answer for key, answer in keyed if key is None]


def _key(answer: Answer, name: str, falling: bool) -> tuple[int, float, str] | None:
    """Return what an answer is sorted by; None where it has no such value."""
    if name == "text":
        return (1, 0.0, answer.text.casefold())
    if name == "title":
        return (1, 0.0, answer.document.title.casefold())
    values = [
        (1, 0.0, row.value) if isinstance(row.value, str) else (0, float(row.value), "")
        for row in fields_of_meta(0, answer.document.meta)
        if row.name == name
    ]
    return (max if falling else min)(values) if values else None
