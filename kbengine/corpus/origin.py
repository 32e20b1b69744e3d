"""Where a document that is kept in step is from: the source's name and a digest of what the source had.

Both stand in the document's meta under `sync`, so they go wherever the document goes: into exports, through
compactions, to filters (`sync.source = 'handbook'`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace

from kbengine.corpus.document import CorpusDocument
from kbengine.errors import CorpusError
from storage.records import JSON

KEY = "sync"


@dataclass(frozen=True, slots=True)
class Origin:
    """The name of a source, and the digest of the document as it was read there."""

    source: str
    digest: str


def origin_of(meta: Mapping[str, JSON]) -> Origin | None:
    """Return where a document is from; None when it is not kept in step with anything."""
    value = meta.get(KEY)
    if isinstance(value, dict) and value.keys() == {"source", "digest"}:
        return Origin(str(value["source"]), str(value["digest"]))
    return None


def with_origin(document: CorpusDocument, *, source: str, prefix: str = "") -> CorpusDocument:
    """Return the document of a source, with `prefix` before its id and its origin in its meta.

    Raises:
        CorpusError: its meta has a `sync` of its own.
    """
    if KEY in document.meta and origin_of(document.meta) is None:
        raise CorpusError(f"its field {KEY!r} is {document.meta[KEY]!r}, which says where it is from; rename the field")
    meta = {key: value for key, value in document.meta.items() if key != KEY}
    digest = _digest(replace(document, meta=meta))
    return replace(document, doc_id=prefix + document.doc_id, meta={**meta, KEY: {"source": source, "digest": digest}})


def _digest(document: CorpusDocument) -> str:
    """Return a digest of all that is stored of the document but its id."""
    parts = (
        document.title,
        document.url,
        document.meta,
        [astuple(passage) for passage in document.passages],
        sorted(map(repr, document.aliases)),
        sorted(map(repr, document.links)),
    )
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=12).hexdigest()
