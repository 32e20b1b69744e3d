"""Our own export: `doc_id`, `title`, `url`, `meta`, `passages`, one document a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from kbengine.corpus.document import CorpusDocument, CorpusPassage, paragraph_passages
from kbengine.corpus.fields import (
    as_object,
    get_id,
    get_int,
    get_list,
    get_optional_object,
    get_optional_text,
    get_text,
)
from kbengine.errors import CorpusError
from storage.records import JSON


def parse_exported(record: Mapping[str, object]) -> CorpusDocument:
    """The document of one exported line; passages keep their ordinals, sections and character offsets."""
    return CorpusDocument(
        get_id(record, "doc_id"),
        get_optional_text(record, "title") or "",
        get_optional_text(record, "url"),
        cast("Mapping[str, JSON]", get_optional_object(record, "meta")),  # parsed from JSON, so JSON it is
        tuple(_passages(get_list(record, "passages", "a list of {'ordinal', 'text'}"))),
    )


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
