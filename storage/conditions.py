"""A filter as a tree of conditions on the fields of documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["MAX_FILTER_CHARS", "Condition", "Connective", "Node", "Operator", "Value"]

MAX_FILTER_CHARS = 20_000
"""The longest filter that is read."""

Value = str | int | float | bool
Operator = Literal["=", "<", "<=", ">", ">=", "between", "in", "like", "null"]


@dataclass(frozen=True)
class Condition:
    """What the values of one field are compared with; `null` asks whether there is none."""

    name: str
    operator: Operator
    values: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Connective:
    """Parts of which all or any must hold, or one that must not."""

    kind: Literal["all", "any", "not"]
    parts: tuple[Node, ...]
    depth: int
    n_conditions: int


Node = Condition | Connective
