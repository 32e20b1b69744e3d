"""Asking many things together, where one that cannot be asked must not spoil the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from kbengine.errors import QueryError

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


def in_halves(
    run: Callable[[Sequence[A]], Sequence[B]], items: Sequence[A], instead: Callable[[QueryError], C]
) -> list[B | C]:
    """Return what `run` gives for the items, in order; `instead` stands for one that cannot be asked.

    All are run together; where that fails, halves find which of them are bad without running each alone.
    """
    if not items:
        return []
    try:
        return list(run(items))
    except QueryError as error:
        if len(items) == 1:
            return [instead(error)]
    middle = len(items) // 2
    return in_halves(run, items[:middle], instead) + in_halves(run, items[middle:], instead)
