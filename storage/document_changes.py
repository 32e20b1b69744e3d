"""Adding and deleting documents: the files first, then one transaction that names them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlalchemy import insert

from storage import schema
from storage.addition import (
    PlacedPassage,
    check_documents,
    common_scales,
    measured_code,
    prepare_batch,
    segment_arrays,
)
from storage.alias_changes import change_names
from storage.ann_setup import AnnSetup
from storage.catalog import (
    SegmentRow,
    commit_of,
    insert_generation,
    insert_segment,
    live_document_rows,
    newest_generation,
    retire_documents,
)
from storage.errors import CorruptError, DuplicateDocumentError, UnknownDocumentError
from storage.field_rows import delete_fields, insert_fields
from storage.quantiser import Quantiser
from storage.quantiser_file import write_quantiser
from storage.records import JSON, Commit, NewDocument
from storage.segment import SegmentFile, write_segment
from storage.session import WriteSession
from storage.settings import KBSettings, write_setting

__all__ = ["add_documents", "delete_documents"]


def add_documents(
    session: WriteSession,
    settings: KBSettings,
    documents: Iterable[NewDocument],
    *,
    replace: bool,
    op_id: str | None,
    build_position: Mapping[str, JSON] | None,
    ann: Callable[[], AnnSetup],
) -> tuple[Commit, KBSettings]:
    """Add documents in one commit; return it and the settings as they are now. The rest is as in `KBWriter.add`.

    Args:
        session: Where.
        settings: As they are.
        documents: What to store.
        replace: As there.
        op_id: As there.
        build_position: As there.
        ann: Gives how segments are searched, for where only codes are stored.
    """
    documents = list(documents)
    check_documents(documents, d=settings.d, sparse_model=settings.sparse_model)
    with session.mutex:
        with session.reading() as connection:
            earlier = commit_of(connection, op_id)
            if earlier is not None:
                return earlier, settings
            replaced = live_document_rows(connection, [document.doc_id for document in documents])
            before = newest_generation(connection)
        if replaced and not replace:
            raise DuplicateDocumentError(
                f"{_some(row['doc_id'] for row in replaced)} already in {session.directory}, and replace is "
                "off; turn it on, or leave them out"
            )
        batch = prepare_batch(documents, before)
        commit = Commit(batch.after.number, op_id, len(documents) - len(replaced), len(replaced), 0)
        before_change = settings
        if build_position is not None:
            settings = dataclasses.replace(
                settings, build={"state": settings.build_state, "position": dict(build_position)}
            )
        files: list[SegmentFile] = []
        try:
            if batch.placed:
                tokens, passages = common_scales(batch.placed, settings)
                settings = dataclasses.replace(settings, token_scale=tokens, passage_scale=passages)
                coder, settings = _stored_with(session, batch.placed, settings, ann)
                arrays = segment_arrays(
                    batch.placed,
                    token_scale=tokens,
                    passage_scale=passages,
                    encoder=settings.encoder_fingerprint,
                    quantiser=coder,
                )
                with session.file_work():
                    files.append(write_segment(session.segment_directory, arrays))
            with session.writing() as connection:
                insert_generation(connection, commit, operation="add", after=batch.after)
                # First: the unique index allows one live document per id.
                retire_documents(connection, replaced, generation=commit.generation)
                delete_fields(connection, replaced)
                if batch.documents:
                    connection.execute(insert(schema.documents), batch.documents)
                    insert_fields(connection, batch.documents)
                if batch.passages:
                    connection.execute(insert(schema.passages), batch.passages)
                    connection.exec_driver_sql(
                        f"INSERT INTO {schema.FTS_TABLE}(rowid, title, text) VALUES (?, ?, ?)", batch.full_text
                    )
                ids = [row["document_id"] for row in batch.documents]
                change_names(
                    connection,
                    retired=replaced,
                    added=list(zip(ids, documents, strict=True)),
                    count_links=settings.build_state != "building",
                )
                for file in files:
                    row = SegmentRow(file, batch.placed[0].passage_id, batch.placed[-1].passage_id + 1)
                    insert_segment(connection, row, generation=commit.generation)
                for name in ("token_scale", "passage_scale", "build", "store"):
                    value = getattr(settings, name)
                    if value != getattr(before_change, name):
                        write_setting(connection, name, value)
        except BaseException:
            session.discard(files)
            raise
    return commit, settings


def _stored_with(
    session: WriteSession, placed: Sequence[PlacedPassage], settings: KBSettings, ann: Callable[[], AnnSetup]
) -> tuple[Quantiser | None, KBSettings]:
    """Return what codes the vectors that are stored, None for int8, and the settings, which name its file."""
    if not settings.drops_vectors and settings.code_bits == 8:
        return None, settings
    if not settings.drops_vectors and settings.store_file is None:
        code = measured_code(placed)
        with session.file_work():
            file = write_quantiser(session.segment_directory, code)
        return code, dataclasses.replace(settings, store={**settings.store, "code": file.to_json()})
    setup = ann()
    quantiser = setup.quantiser if settings.drops_vectors else setup.stored
    if quantiser is None:
        raise CorruptError(
            f"{session.directory} stores quantised vectors and what decodes them is damaged or missing; restore "
            "segments/ from a backup"
        )
    return quantiser, settings


def delete_documents(session: WriteSession, doc_ids: Iterable[str], *, op_id: str | None, count_links: bool) -> Commit:
    """Delete documents in one commit and return it; as in `KBWriter.delete`.

    Args:
        session: Where.
        doc_ids: Which.
        op_id: As there.
        count_links: Whether aliases from links are counted: not while building.
    """
    wanted = list(dict.fromkeys(doc_ids))
    with session.writing() as connection:
        earlier = commit_of(connection, op_id)
        if earlier is not None:
            return earlier
        rows = live_document_rows(connection, wanted)
        missing = set(wanted) - {row["doc_id"] for row in rows}
        if missing:
            raise UnknownDocumentError(
                f"no live document {_some(doc_id for doc_id in wanted if doc_id in missing)} in {session.directory}; "
                "nothing was deleted: check the ids ('kbengine inspect live_documents')"
            )
        before = newest_generation(connection)
        commit = Commit(before.number + 1, op_id, 0, 0, len(rows))
        after = dataclasses.replace(before, number=commit.generation)
        insert_generation(connection, commit, operation="delete", after=after)
        retire_documents(connection, rows, generation=commit.generation)
        delete_fields(connection, rows)
        change_names(connection, retired=rows, added=[], count_links=count_links)
    return commit


def _some(names: Iterable[str], *, limit: int = 5) -> str:
    """Return the first names, quoted, and how many more there are."""
    listed = list(names)
    shown = ", ".join(repr(name) for name in listed[:limit])
    return shown if len(listed) <= limit else f"{shown} and {len(listed) - limit:,} more"
