"""The facts of a knowledge base as people and programs read them, the same for command line and service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from storage.index_kind import DEFAULT_KIND, LARGE_KIND, LARGE_ROWS

if TYPE_CHECKING:
    from storage.alias_records import AliasMatch, AliasRecord
    from storage.information import KBInfo
    from storage.records import DocumentRecord


def kb_facts(info: KBInfo) -> dict[str, Any]:
    """Return counts, sizes, settings and the last commits as plain JSON values."""
    total_bytes = sum(info.bytes_by_kind.values())
    settings = info.settings
    return {
        "path": str(info.path),
        "state": settings.build_state,
        "generation": info.generation,
        "documents": info.documents,
        "passages": info.passages,
        "tokens": info.tokens_total,
        "stored_vectors": info.tokens_stored,
        "indexed_vectors": info.tokens_indexed,
        "kept_fraction": round(info.kept_fraction, 4),
        "deleted_documents_not_compacted": info.tombstones,
        "aliases": info.aliases,
        "links": info.links,
        "fields": info.fields,
        "segments": info.segments,
        "bytes": total_bytes,
        "bytes_by_kind": info.bytes_by_kind,
        "bytes_by_use": info.bytes_by_use,
        "bytes_per_vector": round(total_bytes / info.tokens_stored, 1) if info.tokens_stored else None,
        "bytes_per_vector_without_text": _per_vector(info),
        "index": settings.ann_options.kind,
        "index_quantiser": _quantiser_state(info),
        "index_nprobe": None if settings.probing is None else settings.ann_options.nprobe or settings.probing.nprobe,
        "index_recall": None if settings.probing is None else settings.probing.recall,
        "stored_tokens": "all" if settings.stores_all else "indexed",
        "stored_as": _stored_as(info),
        "int8_vectors": "kept" if _stored_as(info) == "int8" else "dropped",
        "encoder": settings.encoder_name,
        "encoder_fingerprint": settings.encoder_fingerprint,
        "dimension": settings.d,
        "filter": {name: value for name, value in settings.filter.items() if value is not None} or "none",
        "created_at": settings.created_at,
        "kbengine_version": settings.kbengine_version,
        "format_version": settings.format_version,
        "last_commits": [
            {
                "generation": entry.generation,
                "at": entry.at,
                "operation": entry.operation,
                "added": entry.documents_added,
                "replaced": entry.documents_replaced,
                "deleted": entry.documents_deleted,
                "note": entry.note,
            }
            for entry in info.last_commits
        ],
    }


def _per_vector(info: KBInfo) -> float | None:
    """Return the bytes of vectors and index for each stored vector."""
    own = info.bytes_by_use["vectors"] + info.bytes_by_use["index"]
    return round(own / info.segment_rows, 1) if info.segment_rows else None


def _stored_as(info: KBInfo) -> str:
    """Return what token vectors are stored as."""
    if info.settings.drops_vectors:
        return "index codes"
    return "4 bits" if info.settings.code_bits == 4 else "int8"


def _quantiser_state(info: KBInfo) -> str:
    """Return whether the index has the quantiser that its kind needs."""
    settings = info.settings
    if not settings.ann_options.index_kind.needs_quantiser:
        if settings.ann_options.kind == DEFAULT_KIND and info.indexed_rows >= LARGE_ROWS:
            return f"not needed; 'kbengine reindex --index {LARGE_KIND}' makes a smaller and faster one of so many"
        return "not needed"
    if settings.quantiser_file is None:
        return "not trained: searched as ivf-sq8 until 'kbengine reindex --index' trains one"
    return "trained"


def alias_facts(alias: AliasRecord) -> dict[str, Any]:
    """Return a listed alias as plain JSON values; `cursor` is where the page after it begins."""
    return {
        "alias": alias.alias,
        "doc_id": alias.doc_id,
        "title": alias.title,
        "source": alias.source,
        "uses": alias.uses,
        "prior": round(alias.prior, 6),
        "cursor": alias.cursor,
    }


def match_facts(name: str, document: DocumentRecord, match: AliasMatch) -> dict[str, Any]:
    """Return what a name can mean as plain JSON values."""
    return {
        "name": name,
        "doc_id": document.doc_id,
        "title": document.title,
        "alias": match.alias,
        "form": match.form,
        "prior": round(match.prior, 6),
        "sources": list(match.sources),
    }
