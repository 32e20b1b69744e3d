"""The corpus.jsonl of BEIR: `_id`, `title`, `text`, `metadata`; each document is one passage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from kbengine.corpus.document import CorpusDocument, paragraph_passages
from kbengine.corpus.fields import get_id, get_optional_object, get_optional_text, get_text
from storage.records import JSON


def parse_beir(record: Mapping[str, object]) -> CorpusDocument:
    """Return the document of one BEIR line: its text is passage 1, `metadata` becomes meta, `metadata.url` the url."""
    metadata = dict(get_optional_object(record, "metadata"))
    url = metadata.get("url")
    return CorpusDocument(
        get_id(record, "_id"),
        get_optional_text(record, "title") or "",
        url if isinstance(url, str) and url else None,
        cast("dict[str, JSON]", metadata),  # parsed from JSON, so JSON it is
        tuple(paragraph_passages(1, get_text(record, "text"))),
    )
