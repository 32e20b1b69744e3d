"""Our own export: `doc_id`, `title`, `url`, `meta`, `passages`, and where there are any `aliases` and `links`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar, cast

from kbengine.corpus.document import CorpusDocument, CorpusPassage, paragraph_passages
from kbengine.corpus.fields import (
    as_object,
    get_id,
    get_int,
    get_list,
    get_optional_object,
    get_optional_text,
    get_text,
    kind_of,
)
from kbengine.errors import CorpusError, InvalidOptionError
from storage.alias_records import AliasSource, NewAlias, NewLink, aliases_of_meta
from storage.records import JSON

T = TypeVar("T")


def parse_exported(record: Mapping[str, object]) -> CorpusDocument:
    """Return the document of one exported line; passages keep their ordinals, sections and character offsets.

    A line of a version that knew no aliases has them in its meta, if its corpus had any.
    """
    meta = get_optional_object(record, "meta")
    return CorpusDocument(
        get_id(record, "doc_id"),
        get_optional_text(record, "title") or "",
        get_optional_text(record, "url"),
        cast("Mapping[str, JSON]", meta),  # parsed from JSON, so JSON it is
        tuple(_passages(get_list(record, "passages", "a list of {'ordinal', 'text'}"))),
        tuple(_each(record, "aliases", _alias)) if "aliases" in record else tuple(aliases_of_meta(meta)),
        tuple(_each(record, "links", _link)),
    )


def _each(record: Mapping[str, object], key: str, read: Callable[[Mapping[str, object]], T]) -> Iterator[T]:
    """Yield what `read` makes of each object in a list that may be missing."""
    values = record.get(key)
    if values is None:
        return
    if not isinstance(values, list):
        raise CorpusError(f"'{key}' is {kind_of(values)}, wanted a list of objects")
    for index, value in enumerate(values):
        try:
            yield read(as_object(value, "it"))
        except (CorpusError, InvalidOptionError) as e:
            raise CorpusError(f"'{key}'[{index}]: {e.message}") from e


def _alias(value: Mapping[str, object]) -> NewAlias:
    prior = value.get("prior")
    if prior is not None and (isinstance(prior, bool) or not isinstance(prior, int | float)):
        raise CorpusError(f"'prior' is {kind_of(prior)}, wanted a number")
    source = get_optional_text(value, "source") or "document"
    uses = get_int(value, "uses") if "uses" in value else 0
    return NewAlias(get_text(value, "alias"), cast("AliasSource", source), prior, uses)  # it refuses unknown sources


def _link(value: Mapping[str, object]) -> NewLink:
    by_title = "doc_id" not in value
    count = get_int(value, "count") if "count" in value else 1
    return NewLink(get_text(value, "text"), get_text(value, "title" if by_title else "doc_id"), by_title, count)


def _passages(values: list[object]) -> Iterator[CorpusPassage]:
    for index, value in enumerate(values):
        try:
            passage = as_object(value, "the passage")
            ordinal, text = get_int(passage, "ordinal"), get_text(passage, "text")
            section = get_optional_text(passage, "section")
            offset = get_int(passage, "char_offset") if "char_offset" in passage else 0
        except CorpusError as e:
            raise CorpusError(f"'passages'[{index}]: {e.message}") from e
        for part in paragraph_passages(ordinal, text, section):
            yield CorpusPassage(ordinal, part.text, section, offset + part.char_offset)
