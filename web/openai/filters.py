"""OpenAI's filters as filters over the fields of documents."""

from __future__ import annotations

from kbengine.errors import InvalidOptionError
from web.models.openai import ComparisonFilter, CompoundFilter

_OPERATORS = {"eq": "=", "ne": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "in": "in", "nin": "not in"}


def where_of(given: ComparisonFilter | CompoundFilter) -> str:
    """Return the filter in the language of `where`.

    >>> where_of(ComparisonFilter(type="eq", key="language", value="it's"))
    '"language" = \\'it\\'\\'s\\''

    Raises:
        InvalidOptionError: a comparison has a value of the wrong form.
    """
    if isinstance(given, CompoundFilter):
        return f" {given.type} ".join(f"({where_of(each)})" for each in given.filters)
    if '"' in given.key:
        raise InvalidOptionError(f"the filter's key is {given.key!r}, wanted a field's name without double quotes")
    takes_list = given.type in ("in", "nin")
    if isinstance(given.value, list) != takes_list or given.value == []:
        wanted = "a list of values that is not empty" if takes_list else "one value"
        raise InvalidOptionError(f"the filter {given.type!r} of {given.key!r} has no {wanted.removeprefix('a ')}")
    values = given.value if isinstance(given.value, list) else [given.value]
    written = ", ".join(map(_written, values))
    return f'"{given.key}" {_OPERATORS[given.type]} ' + (f"({written})" if takes_list else written)


def _written(value: str | float | bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(int(value)) if value == int(value) else repr(value)
