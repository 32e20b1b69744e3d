"""Front matter: YAML between two lines of `---` at the beginning of a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Final

import yaml

from kbengine.corpus.fields import kind_of
from kbengine.errors import CorpusError
from storage.records import JSON

_BLOCK: Final = re.compile(r"---[^\S\n]*\n(.*?)^(?:---|\.\.\.)[^\S\n]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What a file says of itself: its title, its address, other names, and everything else as JSON in `meta`."""

    title: str | None = None
    url: str | None = None
    aliases: tuple[str, ...] = ()
    meta: Mapping[str, JSON] = field(default_factory=dict)


def split_front_matter(text: str) -> tuple[FrontMatter, str]:
    """Return the front matter and the text after it; what stands between the lines but has no keys is text.

    Dates become ISO strings, so that they can be compared.

    Raises:
        CorpusError: it is no YAML, or a title, url or aliases in it are of another kind.
    """
    block = _BLOCK.match(text)
    if block is None or ":" not in block[1]:
        return FrontMatter(), text
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(block[1])):
            raise ValueError("references (*name) are not supported")  # nine lines of them stand for a billion values
        given = yaml.safe_load(block[1])
        spelled = yaml.load(block[1], yaml.BaseLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as e:
        seen = " ".join(str(e).split())
        raise CorpusError(f"the front matter between the lines of --- cannot be read: {seen}; wanted YAML") from e
    if not isinstance(given, dict):
        return FrontMatter(), text
    meta = {str(key): _as_json(value, str(key)) for key, value in given.items()}
    names = meta.pop("aliases", None)
    front = FrontMatter(
        _text_of(spelled, meta, "title"),
        _text_of(spelled, meta, "url"),
        () if names is None else tuple(_texts(spelled["aliases"], "aliases")),
        {key: value for key, value in meta.items() if value is not None},
    )
    return front, text[block.end() :]


def _as_json(value: object, key: str) -> JSON:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(name): _as_json(each, key) for name, each in value.items()}
    if isinstance(value, list):
        return [_as_json(each, key) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise CorpusError(f"'{key}' in the front matter is {kind_of(value)}, wanted text, a number, a date or a list")


def _text_of(spelled: Mapping[str, Any], meta: dict[str, JSON], key: str) -> str | None:
    """Take one of the document's own fields out of the facts."""
    if meta.pop(key, None) is None:
        return None
    value = spelled[key]
    if not isinstance(value, str):
        raise CorpusError(f"'{key}' in the front matter is {kind_of(value)}, wanted text")
    return " ".join(value.split()) or None


def _texts(value: Any, key: str) -> list[str]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise CorpusError(f"'{key}' in the front matter is {kind_of(value)}, wanted a list of names")
    return list(dict.fromkeys(each for each in values if each.strip()))
