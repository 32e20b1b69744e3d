"""Repair: what follows from the stored text is made again; the text itself can only come from a backup."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Connection, select

from storage import schema
from storage.addition import PlacedPassage, segment_arrays
from storage.ann_setup import AnnSetup
from storage.catalog import (
    Generation,
    SegmentRow,
    chunked,
    insert_generation,
    insert_segment,
    live_segments,
    newest_generation,
    retire_segments,
)
from storage.checksum import check_row
from storage.creation import remove_leftovers
from storage.database import database_path
from storage.errors import CorruptError, InvalidOptionError
from storage.findings import Findings
from storage.lock import WriterLock
from storage.opening import check_log
from storage.recorded_answers import read_answers, record_answers
from storage.records import Commit, NewPassage, StoredPassage
from storage.reindexing import ReindexRequest, reindex
from storage.segment import Segment, SegmentFile, open_segment, segment_path, write_segment
from storage.session import WriteSession
from storage.settings import KBSettings, read_settings
from storage.verify_database import DatabaseFacts, check_full_text, check_rows
from storage.verify_fields import check_fields, remake_fields
from storage.verify_names import check_names, remake_names
from storage.verify_segments import Reencode, check_ann, check_quantiser, load_stored

__all__ = ["repair"]

_log = logging.getLogger(__name__)
_PASSAGES_PER_SEGMENT = 2_000
_BATCH = 64


def repair(path: str | Path, reencode: Reencode, *, lock_timeout_s: float = 10.0) -> list[str]:
    """Repair what can be repaired; return one sentence for each thing, none when nothing was wrong.

    Damaged or missing segments are made again from the stored text, with the same token ids; a full-text index
    that does not fit the text, aliases that do not follow from links and titles, SQLite's own indexes and damaged ANN
    files likewise. Run `verify` afterwards: what it still finds needs a backup.

    Args:
        path: The knowledge base.
        reencode: Encodes stored passages with the knowledge base's encoder, keeping exactly the tokens asked for.
        lock_timeout_s: How long to wait for another writer.
    """
    directory = Path(path)
    database_path(directory)
    with WriterLock(directory, timeout_s=lock_timeout_s):
        check_log(directory)
        session = WriteSession(directory)
        try:
            done = _repair_database(session)
            with session.reading() as connection:
                settings = read_settings(connection, name=str(directory))
                rows = live_segments(connection)
            setup = check_quantiser(settings, Findings(directory))
            for row in rows:
                done += _repair_segment(session, row, settings, setup, reencode)
            if settings.quantiser_file is not None and setup.quantiser is None and not settings.drops_vectors:
                request = ReindexRequest(ann={})
                _, settings = reindex(
                    session,
                    settings,
                    request,
                    source=session.segment_directory,
                    stage=lambda _what, _done, _total: None,
                )
                done.append(f"trained the quantiser of index {settings.ann_options.kind} anew")
            remove_leftovers(session, settings)
        finally:
            session.close()
        try:
            read_answers(directory)
        except CorruptError:
            # Its answers are no worse now than before: all that verification looks at is sound, or was made anew.
            record_answers(directory)
            done.append("recorded answers anew")
    return done


def _unseen(_what: str, _done: int, _total: int) -> None:
    """Show no progress of the repair."""


def _repair_database(session: WriteSession) -> list[str]:
    done: list[str] = []
    with session.writing() as connection:
        messages = connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
        if any(" index " in str(message) for message in messages):
            connection.exec_driver_sql("REINDEX")
            done.append("rebuilt the indexes of kb.sqlite")
        if connection.exec_driver_sql("PRAGMA application_id").scalar() != schema.APPLICATION_ID:
            connection.exec_driver_sql(f"PRAGMA application_id={schema.APPLICATION_ID}")
            done.append("restored the application id of kb.sqlite")
        facts, findings = DatabaseFacts(), Findings(session.directory)
        with findings.checking("rows"):
            check_rows(connection, facts, findings)
            facts.complete = True
        # From damaged text nothing must be derived: it would look sound afterwards.
        if findings.found:
            return done
        with findings.checking(schema.FTS_TABLE):
            check_full_text(connection, facts, findings, deep=True)
        if findings.found or any("fts5" in str(message).lower() for message in messages):
            _rebuild_full_text(connection)
            done.append("rebuilt the full-text index")
        building = read_settings(connection, name=str(session.directory)).build_state == "building"
        names = Findings(session.directory)
        with names.checking("aliases"):
            check_names(connection, names, deep=True, building=building)
        if names.found:
            remake_names(connection, building=building)
            done.append("made the aliases that are derived from links and titles again")
        fields = Findings(session.directory)
        with fields.checking("fields"):
            check_fields(connection, fields)
        if fields.found:
            remake_fields(connection)
            done.append("made the index of fields again")
    return done


def _rebuild_full_text(connection: Connection) -> None:
    name = schema.FTS_TABLE
    sql = connection.exec_driver_sql("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).scalar_one()
    connection.exec_driver_sql(f"DROP TABLE {name}")
    connection.exec_driver_sql(sql)
    connection.exec_driver_sql(
        f"INSERT INTO {name}(rowid, title, text) SELECT p.passage_id, d.title, p.text FROM passages AS p "
        "JOIN documents AS d USING (document_id) WHERE d.dead_generation IS NULL"
    )


def _repair_segment(
    session: WriteSession, row: SegmentRow, settings: KBSettings, setup: AnnSetup, reencode: Reencode
) -> list[str]:
    try:
        segment = open_segment(segment_path(session.segment_directory, row.file.name), row.file)
    except CorruptError as error:
        _log.warning("repairing: %s", error.message)
    else:
        return _repair_ann(session, segment, setup)
    new = _encode_again(session, row, settings, setup, reencode)
    try:
        with session.writing() as connection:
            before = newest_generation(connection)
            after = Generation(before.number + 1, before.next_document_id, before.next_passage_id, before.next_token_id)
            insert_generation(
                connection,
                Commit(after.number, None, 0, 0, 0),
                operation="repair",
                after=after,
                note=f"segment {row.file.name}",
            )
            retire_segments(connection, [row.file.name], generation=after.number)
            for replacement in new:
                insert_segment(connection, replacement, generation=after.number)
    except BaseException:
        session.discard([replacement.file for replacement in new])
        raise
    session.unlink([row.file.name])
    n_passages = sum(replacement.file.n_passages for replacement in new)
    return [f"encoded {n_passages} passages of segment {row.file.name} again"]


def _repair_ann(session: WriteSession, segment: Segment, setup: AnnSetup) -> list[str]:
    findings = Findings(session.directory)
    check_ann(segment, setup, findings)
    derived = [finding for finding in findings.found if finding.severity == "derived"]
    if derived:
        setup.prepare(session.index_directory, segment)
    return [f"rebuilt {finding.where}" for finding in derived]


def _passages_of(connection: Connection, row: SegmentRow) -> list[int]:
    """Return the ids of the passages that the segment held, rising.

    Those of the dead, too, until they are compacted away: a repaired segment holds what the damaged one did, though no
    answer depends on the dead. Of those that died before it was made it held none, so what is missing to its number
    died last.
    """
    documents, passages = schema.documents, schema.passages
    statement = (
        select(passages.c.passage_id, passages.c.document_id, documents.c.dead_generation)
        .join(documents, documents.c.document_id == passages.c.document_id)
        .where(passages.c.passage_id >= row.first_passage_id, passages.c.passage_id < row.end_passage_id)
    )
    live: list[int] = []
    dead: dict[tuple[int, int], list[int]] = {}
    for passage_id, document_id, died in connection.execute(statement):
        if died is None:
            live.append(passage_id)
        else:
            dead.setdefault((died, document_id), []).append(passage_id)
    for death in sorted(dead, reverse=True):
        if len(live) >= row.file.n_passages:
            break
        live += dead[death]
    return sorted(live)


def _encode_again(
    session: WriteSession, row: SegmentRow, settings: KBSettings, setup: AnnSetup, reencode: Reencode
) -> list[SegmentRow]:
    """Write new, durable segments with the passages that `row` had; nothing refers to them yet."""
    if settings.token_scale is None or settings.passage_scale is None:
        raise CorruptError("settings token_scale and passage_scale are missing; restore kb.sqlite from a backup")
    coder = setup.quantiser if settings.drops_vectors else setup.stored
    if coder is None and (settings.drops_vectors or settings.store_file is not None):
        raise CorruptError(f"{session.directory}: the quantiser is damaged; restore segments/ from a backup")
    with session.reading() as connection:
        ids = _passages_of(connection, row)
    new: list[SegmentRow] = []
    try:
        for chunk in chunked(ids, _PASSAGES_PER_SEGMENT):
            placed = _placed(session, chunk, reencode, d=settings.d, sparse_model=settings.sparse_model)
            arrays = segment_arrays(
                placed,
                token_scale=settings.token_scale,
                passage_scale=settings.passage_scale,
                encoder=settings.encoder_fingerprint,
                quantiser=coder,
            )
            with session.file_work():
                file: SegmentFile = write_segment(session.segment_directory, arrays)
            new.append(SegmentRow(file, chunk[0], chunk[-1] + 1))
    except BaseException:
        session.discard([replacement.file for replacement in new])
        raise
    return new


def _placed(
    session: WriteSession, passage_ids: Sequence[int], reencode: Reencode, *, d: int, sparse_model: str | None
) -> list[PlacedPassage]:
    with session.reading() as connection:
        _check_texts(connection, passage_ids)
        stored = load_stored(connection, passage_ids)
    placed: list[PlacedPassage] = []
    for batch in chunked(stored, _BATCH):
        for old, new in zip(batch, reencode(batch), strict=True):
            _check_same(old, new, d=d, sparse_model=sparse_model)
            numbers = old.token_numbers
            filtered = len(numbers) and int(numbers[-1]) >= len(numbers)
            placed.append(
                PlacedPassage(
                    new,
                    old.passage_id,
                    old.document_id,
                    old.first_token_id,
                    old.title,
                    old.language,
                    numbers if filtered else None,
                )
            )
    return placed


def _check_texts(connection: Connection, passage_ids: Sequence[int]) -> None:
    """Raise CorruptError rather than encode text that is not what was stored."""
    documents, passages = schema.documents, schema.passages
    document_ids: set[int] = set()
    for row in connection.execute(select(passages).where(passages.c.passage_id.in_(passage_ids))).mappings():
        check_row("passages", row)
        document_ids.add(row["document_id"])
    for chunk in chunked(document_ids):
        for row in connection.execute(select(documents).where(documents.c.document_id.in_(chunk))).mappings():
            check_row("documents", row)


def _check_same(old: StoredPassage, new: NewPassage, *, d: int, sparse_model: str | None) -> None:
    if sparse_model != (None if new.sparse is None else new.sparse.model):
        raise InvalidOptionError(
            f"passage {old.passage_id}: encoding again gave no sparse rows, or other ones than those of sparse encoder "
            f"{sparse_model}; use the knowledge base's encoder with its sparse heads"
        )
    same_tokens = len(old.token_ordinals) == len(new.token_ordinals) and bool(
        (old.token_ordinals == new.token_ordinals).all()
    )
    if not same_tokens or new.text != old.text or new.vectors.shape[1] != d:
        raise InvalidOptionError(
            f"passage {old.passage_id}: encoding again gave {len(new.token_ordinals)} tokens of {new.vectors.shape[1]} "
            f"dimensions, wanted the {len(old.token_ordinals)} stored ones of {d}; use the knowledge base's encoder"
        )
