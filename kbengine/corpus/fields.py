"""Typed access to the fields of a parsed JSON record; what is wrong is told as seen and wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from kbengine.errors import CorpusError

V = TypeVar("V")


def kind_of(value: object) -> str:
    """Return the name of a JSON value's type for messages, with its article: `a str`, `an int`, `null`."""
    if value is None:
        return "null"
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def decoded(line: bytes, wanted: str = "UTF-8") -> str:
    """Return the text of a line in UTF-8, or CorpusError with the first byte that is none."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as e:
        raise CorpusError(f"byte 0x{line[e.start]:02x} at {e.start} is not UTF-8, wanted {wanted}") from e


def as_object(value: object, what: str) -> Mapping[str, object]:
    """Return the value as a JSON object, or CorpusError."""
    if not isinstance(value, dict):
        raise CorpusError(f"{what} is {kind_of(value)}, wanted an object")
    return value


def get_list(record: Mapping[str, object], key: str, wanted: str) -> list[object]:
    """Return the list in a field that must be there; `wanted` says in words what the list holds."""
    return _get(record, key, list, wanted)


def get_text(record: Mapping[str, object], key: str) -> str:
    """Return the text in a field that must be there; it may be empty."""
    return _get(record, key, str, "a string")


def get_optional_text(record: Mapping[str, object], key: str) -> str | None:
    """Return the text in a field, or None where the field is absent or null."""
    return None if record.get(key) is None else get_text(record, key)


def get_optional_object(record: Mapping[str, object], key: str) -> Mapping[str, object]:
    """Return the object in a field, or an empty one where the field is absent or null."""
    value = record.get(key)
    return {} if value is None else as_object(value, f"'{key}'")


def get_int(record: Mapping[str, object], key: str) -> int:
    """Return the whole number, 0 or more, in a field that must be there."""
    value: object = _get(record, key, object, "a whole number")
    if type(value) is not int or not 0 <= value < 2**31:
        seen = value if isinstance(value, int) else kind_of(value)
        raise CorpusError(f"'{key}' is {seen}, wanted a whole number from 0")
    return value


def get_id(record: Mapping[str, object], key: str) -> str:
    """Return the id in a field that must be there: a string, or a whole number written as one."""
    if type(record.get(key)) is int:
        return str(record[key])
    value = _get(record, key, str, "a string or a whole number")
    if not value.strip():
        raise CorpusError(f"'{key}' is {value!r}, wanted an id")
    return value


def _get(record: Mapping[str, object], key: str, kind: type[V], wanted: str) -> V:
    if key not in record:
        present = ", ".join(repr(name) for name in list(record)[:8]) or "no field at all"
        raise CorpusError(f"'{key}' is missing, wanted {wanted}; the record has {present}")
    value = record[key]
    if not isinstance(value, kind):
        raise CorpusError(f"'{key}' is {kind_of(value)}, wanted {wanted}")
    return value
