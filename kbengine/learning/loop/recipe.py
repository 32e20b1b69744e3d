"""Recipes: all options of a run, from a TOML file, the command line, or both."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from kbengine.errors import InvalidOptionError

R = TypeVar("R")


def read_recipe(kind: type[R], path: Path | None, overrides: Sequence[tuple[str, Any]] = ()) -> R:
    """Return a recipe of a TOML file with single options replaced; paths in the file count from its folder.

    Args:
        kind: a dataclass of sections.
        path: the file, or None for the defaults.
        overrides: (dotted name, value) pairs such as ("loop.optimizer.learning_rate", 1e-4), applied in order.

    Raises:
        InvalidOptionError: the file is no TOML, or an option is unknown or has a value it may not have.
    """
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
            raise InvalidOptionError(f"cannot read the recipe {path}: {e}") from e
        if isinstance(values.get("data"), dict):
            values["data"] = {name: _from_folder(value, path.parent, name) for name, value in values["data"].items()}
        if "reader" in values:
            values["reader"] = _from_folder(values["reader"], path.parent, "reader")
    for name, value in overrides:
        put_option(values, name, value)
    return from_mapping(kind, values, "the recipe" if path is None else str(path))


def parse_override(text: str) -> tuple[str, Any]:
    """Return the (dotted name, value) of `name=value`; the value is TOML, or else a text as it stands.

    Raises:
        InvalidOptionError: there is no `=`.
    """
    name, found, value = text.partition("=")
    if not found or not name.strip():
        raise InvalidOptionError(f"{text!r} sets nothing, wanted section.option=value")
    try:
        return name.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name.strip(), value.strip()


def from_mapping(kind: type[R], values: Mapping[str, Any], where: str) -> R:
    """Return the dataclass made of a section of a recipe; nested sections become nested dataclasses.

    Raises:
        InvalidOptionError: a key is unknown or its value not one it may have.
    """
    known = get_type_hints(kind)
    defaults = {each.name: each.default_factory for each in fields(kind)}  # type: ignore[arg-type]  # a dataclass
    if unknown := sorted(set(values) - set(known)):
        raise InvalidOptionError(
            f"{where} has unknown options {', '.join(unknown)}; known are {', '.join(sorted(known))}"
        )
    made: dict[str, Any] = {}
    for name, value in values.items():
        # The default of a section may be a subclass with defaults of its own.
        nested = [each for each in (defaults[name], known[name], *get_args(known[name])) if is_dataclass(each)]
        if isinstance(value, Mapping) and nested:
            value = from_mapping(nested[0], value, f"{where}.{name}")  # type: ignore[arg-type]  # a class, not an instance
        made[name] = tuple(value) if isinstance(value, list) else value
    try:
        return kind(**made)
    except TypeError as e:
        raise InvalidOptionError(f"{where}: {e}; correct the value's type") from e


_PATHS = frozenset({"train", "dev", "pages", "exclude_pages", "adapt", "reader"})


def _from_folder(value: Any, folder: Path, name: str) -> Any:
    if name not in _PATHS:
        return value
    if isinstance(value, str):
        # A reader may be one of those bundled, which have names.
        return value if name == "reader" and not (folder / value).exists() else str(folder / value)
    return [str(folder / each) for each in value] if isinstance(value, list) else value


def put_option(values: dict[str, Any], name: str, value: Any) -> None:
    """Set one option of a recipe's plain values by its dotted name.

    Raises:
        InvalidOptionError: a section of the name is a value.
    """
    *sections, last = name.split(".")
    for section in sections:
        inner = values.setdefault(section, {})
        if not isinstance(inner, dict):
            raise InvalidOptionError(f"{name} names no option: {section} is a value, not a section")
        values = inner
    values[last] = value
