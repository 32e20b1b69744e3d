"""Passages as Parquet, a row each, with the documents that they stand in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters.errors import MissingExtraError
from kbengine.build.exporting import whole_file

if TYPE_CHECKING:
    from storage.reader import KBReader

ROWS_AT_ONCE = 20_000


def export_parquet(reader: KBReader, path: Path, *, progress: Callable[[int], None] | None = None) -> int:
    """Write the live passages of one generation to `path`, and return how many.

    The columns are `doc_id`, `title`, `url`, `meta` (JSON), `aliases` (a list), `passage_id`, `paragraph`, `section`,
    `char_offset` and `text`: a place in a passage is one in the paragraph of the user's document, `char_offset` later.

    Args:
        reader: of the knowledge base.
        path: the file; it appears only when it is complete.
        progress: is told how many documents are done.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError.of("writing Parquet", "pyarrow", "tables") from error
    names = ("doc_id", "title", "url", "meta", "section", "text")
    schema = pa.schema(
        [*((name, pa.string()) for name in names), ("aliases", pa.list_(pa.string()))]
        + [(name, pa.int64()) for name in ("passage_id", "paragraph", "char_offset")]
    )
    waiting: list[dict[str, Any]] = []
    n = 0
    with whole_file(path) as partial, pq.ParquetWriter(partial, schema, compression="zstd") as writer:
        for done, (document, passages, given) in enumerate(reader.iterate_with_names(), start=1):
            shared = {
                "doc_id": document.doc_id,
                "title": document.title,
                "url": document.url,
                "meta": json.dumps(dict(document.meta), ensure_ascii=False),
                "aliases": [each.alias for each in given.aliases],
            }
            for each in passages:
                place = {"paragraph": each.ordinal, "section": each.section, "char_offset": each.char_offset}
                waiting.append({**shared, **place, "passage_id": each.passage_id, "text": each.text})
            n += len(passages)
            if len(waiting) >= ROWS_AT_ONCE:
                writer.write_table(pa.Table.from_pylist(waiting, schema))
                waiting.clear()
            if progress is not None:
                progress(done)
        writer.write_table(pa.Table.from_pylist(waiting, schema))
    return n
