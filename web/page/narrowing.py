"""Fewer documents by their fields: links that add a condition to a filter, or take it away again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage.document_listing import FieldChoice


@dataclass(frozen=True)
class NarrowValue:
    """A value that a list can be narrowed to; its address leads there, or back where it is chosen already."""

    shown: str
    count: int
    address: str
    is_chosen: bool


@dataclass(frozen=True)
class NarrowField:
    """A field with the values that a list can be narrowed to."""

    name: str
    values: tuple[NarrowValue, ...]


def narrow_fields(
    choices: Sequence[FieldChoice], where: str | None, address: Callable[[str | None], str]
) -> tuple[NarrowField, ...]:
    """Return the fields that have few values, each value with the address of the list that it narrows.

    Args:
        choices: The fields of the documents.
        where: The filter that the list has now.
        address: The address of the list with another filter.
    """
    return tuple(
        NarrowField(
            choice.name,
            tuple(
                NarrowValue(value.shown, value.count, address(after), is_chosen)
                for value in choice.values
                for after, is_chosen in (toggled(where, value.where),)
            ),
        )
        for choice in choices
        if choice.values
    )


def toggled(where: str | None, condition: str) -> tuple[str | None, bool]:
    """Return the filter with a condition added, or without it where it has it; and whether it had it.

    >>> toggled(None, "lang = 'en'")
    ("lang = 'en'", False)
    >>> toggled("lang = 'en' and year = 2020", "lang = 'en'")
    ('year = 2020', True)
    >>> toggled("year = 2020 or year is null", "lang = 'en'")
    ("(year = 2020 or year is null) and lang = 'en'", False)
    """
    before = (where or "").strip()
    if not before:
        return condition, False
    if before == condition:
        return None, True
    if before.startswith(f"{condition} and "):
        return before.removeprefix(f"{condition} and "), True
    if before.endswith(f" and {condition}"):
        rest = before.removesuffix(f" and {condition}")
        whole = rest.startswith("(") and rest.endswith(")") and rest.count("(") == 1
        return rest[1:-1] if whole else rest, True
    if f" and {condition} and " in before:
        return before.replace(f" and {condition} and ", " and ", 1), True
    return f"{before if _is_plain(before) else f'({before})'} and {condition}", False


def _is_plain(where: str) -> bool:
    """Return whether a filter can stand before an `and` as it is; brackets do no harm where it could."""
    return " or " not in f" {' '.join(where.lower().split())} "


def sort_choices(choices: Sequence[FieldChoice]) -> list[tuple[str, str]]:
    """Return the orders that the fields of the documents give: value and name of each."""
    words = {"date": ("oldest first", "newest first"), "number": ("smallest first", "largest first")}
    return [
        (f"{sign}{choice.name}", f"{choice.name}, {name}")
        for choice in choices
        for sign, name in zip(("", "-"), words.get(choice.types[0], ("A to Z", "Z to A")), strict=True)
    ]
