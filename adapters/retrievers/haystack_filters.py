"""Haystack's filters as filters over fields (`where`), with Haystack's meaning of what is missing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from haystack.errors import FilterError

_NEGATED = {"==": "!=", "!=": "==", ">": "not >", ">=": "not >=", "<": "not <", "<=": "not <=", "in": "not in"}
_OPPOSITE = {">": "<=", ">=": "<", "<": ">=", "<=": ">"}


def where_of(filters: Mapping[str, Any]) -> str:
    """Return the filter over fields that passes what Haystack's filter passes.

    >>> where_of({"field": "meta.year", "operator": "!=", "value": 2020})
    '("year" != 2020 or "year" is null)'

    A field that is missing is never more or less than a value, and is unequal to all, as Haystack has it.

    Raises:
        FilterError: It is no filter of Haystack's, or compares what fields are not compared with.
    """
    return _where(filters, negated=False)


def _where(filters: Mapping[str, Any], *, negated: bool) -> str:
    if "field" in filters:
        return _comparison(filters, negated=negated)
    operator, conditions = _part(filters, "operator"), _part(filters, "conditions")
    if operator not in ("AND", "OR", "NOT") or not isinstance(conditions, list) or not conditions:
        raise FilterError(f"the filter has the operator {operator!r}, wanted AND, OR or NOT with a list of conditions")
    negated ^= operator == "NOT"
    is_any = (operator == "OR") != negated
    parts = [_where(each, negated=negated) for each in conditions]
    return f"({(' or ' if is_any else ' and ').join(parts)})"


def _comparison(filters: Mapping[str, Any], *, negated: bool) -> str:
    field, operator, value = (_part(filters, name) for name in ("field", "operator", "value"))
    name = _name(field)
    if negated:
        negative: str | None = "in" if operator == "not in" else _NEGATED.get(operator)
        if negative is None:
            raise FilterError(f"the filter has the operator {operator!r}, wanted one of {', '.join(_NEGATED)}, not in")
        operator = negative
    if operator in ("in", "not in"):
        if not isinstance(value, list) or not value:
            raise FilterError(f"'{operator}' has {value!r}, wanted a list with values")
        among = f"{name} {operator} ({', '.join(map(_literal, value))})"
        return among if operator == "in" else f"({among} or {name} is null)"
    if value is None and operator in ("==", "!="):
        return f"{name} is {'not ' if operator == '!=' else ''}null"
    literal = _literal(value)
    if operator == "==":
        return f"{name} = {literal}"
    if operator == "!=":
        return f"({name} != {literal} or {name} is null)"
    if operator in _OPPOSITE:
        return f"{name} {operator} {literal}"
    if operator.startswith("not "):
        return f"({name} {_OPPOSITE[operator.removeprefix('not ')]} {literal} or {name} is null)"
    raise FilterError(f"the filter has the operator {operator!r}, wanted one of {', '.join(_NEGATED)}, not in")


def _part(filters: Mapping[str, Any], name: str) -> Any:
    if not isinstance(filters, Mapping) or name not in filters:
        raise FilterError(f"the filter {filters!r} has no '{name}'")
    return filters[name]


def _name(field: str) -> str:
    if not field.startswith("meta."):
        raise FilterError(f"the filter asks for {field!r}, wanted a field of meta, such as 'meta.date'")
    return ".".join('"' + part.replace('"', '""') + '"' for part in field.removeprefix("meta.").split("."))


def _literal(value: Any) -> str:
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    raise FilterError(f"the filter compares with {value!r}, wanted a text, a number or a truth value")
