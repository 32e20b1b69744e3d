"""kb.sqlite: its settings, its schema's history, its log, the lock, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pysqlite3 import dbapi2
from sqlalchemy import Connection, text

from storage import schema
from storage.checksum import check_row, sealed
from storage.database import (
    check_file_system,
    check_sqlite_version,
    database_path,
    migrate,
    pending_migration,
    reader_engine,
    wal_path,
    writer_engine,
)
from storage.errors import (
    CorruptError,
    FormatTooNewError,
    InvalidOptionError,
    KBError,
    KnowledgeBaseExistsError,
    LockedError,
    NotAKnowledgeBaseError,
    PlatformError,
    StateError,
)
from storage.lock import LOCK_NAME, WriterLock, is_locked
from storage.newest_schema import create_schema, defined_in, newest_schema
from storage.reader import KBReader
from storage.settings import KBSettings
from storage.verify import verify
from storage.wal import check_wal
from storage.writer import KBWriter
from tests.storage.small_world import content, make_document, make_settings

FRAME_BYTES = 24 + 4096


def edit(path: Path, *statements: str) -> None:
    """Commit the statements to kb.sqlite behind kbengine's back."""
    connection = dbapi2.connect(str(path / "kb.sqlite"))
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def test_writing_connections_use_the_log_and_sync_every_commit(tmp_path: Path) -> None:
    """WAL, synchronous FULL, foreign keys on: what the power-cut figures were measured with."""
    engine = writer_engine(tmp_path, create=True)
    with engine.connect() as connection:
        seen = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    engine.dispose()
    assert seen == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_reading_connections_cannot_write(tmp_path: Path) -> None:
    """mode=ro: not even a programming error changes a knowledge base through a reader."""
    KBWriter.create(tmp_path / "kb", make_settings()).close()
    engine = reader_engine(tmp_path / "kb")
    with pytest.raises(Exception, match="readonly"), engine.connect() as connection:
        connection.execute(text("DELETE FROM settings"))
    engine.dispose()


def described(connection: Connection) -> dict[str, Any]:
    """What SQLite says of each table: columns, foreign keys, indexes with their conditions."""
    found: dict[str, Any] = {}
    for table in schema.metadata.tables:
        indexes = {row[1]: row[2:] for row in connection.exec_driver_sql(f"PRAGMA index_list({table})")}
        found[table] = (
            connection.exec_driver_sql(f"PRAGMA table_xinfo({table})").all(),
            sorted(row[2:5] for row in connection.exec_driver_sql(f"PRAGMA foreign_key_list({table})")),
            {
                name: (facts, connection.exec_driver_sql(f"PRAGMA index_xinfo('{name}')").all())
                for name, facts in indexes.items()
            },
        )
        flags = connection.exec_driver_sql(f"PRAGMA table_list({table})").all()
        found[f"{table} flags"] = [row[2:] for row in flags]
    return found


def test_migrations_make_the_schema_that_the_code_uses(tmp_path: Path) -> None:
    """The newest revision and `storage.schema` describe the same tables, keys and indexes."""
    (tmp_path / "by-code").mkdir()
    migrated, declared = writer_engine(tmp_path, create=True), writer_engine(tmp_path / "by-code", create=True)
    with migrated.begin() as connection:
        migrate(connection)
        seen = described(connection)
        version = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        views = set(connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'view'")).scalars())
    with declared.begin() as connection:
        schema.metadata.create_all(connection)
        assert seen == described(connection)
    migrated.dispose()
    declared.dispose()
    assert version == schema.REVISIONS[-1]
    assert views == set(schema.VIEWS)


def test_a_new_database_has_what_migrations_make(tmp_path: Path) -> None:
    """Definition for definition, with the same revision, and there is nothing to migrate."""
    (tmp_path / "new").mkdir()
    migrated, created = writer_engine(tmp_path, create=True), writer_engine(tmp_path / "new", create=True)
    with migrated.begin() as one, created.begin() as other:
        migrate(one)
        create_schema(other)
        assert defined_in(one) == defined_in(other) == newest_schema()
        assert pending_migration(other, name="new") is None
        for pragma in ("application_id", "user_version", "encoding"):
            assert (
                one.exec_driver_sql(f"PRAGMA {pragma}").scalar() == other.exec_driver_sql(f"PRAGMA {pragma}").scalar()
            )
    migrated.dispose()
    created.dispose()


def test_failed_migration_leaves_nothing(tmp_path: Path) -> None:
    """Schema changes and the row that records them are one transaction."""
    engine = writer_engine(tmp_path, create=True)
    with pytest.raises(RuntimeError), engine.begin() as connection:
        migrate(connection)
        raise RuntimeError("killed here")
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM sqlite_master")).scalar() == 0
    engine.dispose()


@pytest.mark.parametrize(("version", "fine"), [("3.40.1", False), ("3.51.2", False), ("3.51.3", True), ("3.54", True)])
def test_sqlite_that_can_corrupt_its_log_is_refused(version: str, fine: bool) -> None:
    """The WAL-reset bug was fixed in 3.51.3."""
    if fine:
        check_sqlite_version(version)
    else:
        with pytest.raises(PlatformError, match=r"3\.51\.3"):
            check_sqlite_version(version)


@pytest.mark.parametrize(("kind", "fine"), [("nfs4", False), ("cifs", False), ("fuse.sshfs", False), ("ext4", True)])
def test_network_file_systems_are_refused(tmp_path: Path, kind: str, fine: bool) -> None:
    """The longest mount point that holds the directory decides."""
    directory = tmp_path / "data" / "kb"
    directory.mkdir(parents=True)
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        f"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 0:5 / {tmp_path / 'data'} rw shared:1 - {kind} server:/x rw\n"
    )
    if fine:
        check_file_system(directory, mounts=mounts)
    else:
        with pytest.raises(PlatformError, match=kind):
            check_file_system(directory, mounts=mounts)


def test_directory_that_is_no_knowledge_base_is_named(tmp_path: Path) -> None:
    """Nothing there, an empty directory, another program's SQLite file."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    edit(tmp_path / "other", "CREATE TABLE notes (body)")
    for name in ("absent", "empty", "other"):
        with pytest.raises(NotAKnowledgeBaseError, match=name):
            KBReader.open(tmp_path / name)
        with pytest.raises(NotAKnowledgeBaseError, match=name):
            KBWriter.open(tmp_path / name)
    with pytest.raises(NotAKnowledgeBaseError):
        database_path(tmp_path / "absent")


def test_creating_over_something_is_refused(tmp_path: Path) -> None:
    """Neither a knowledge base nor anybody's files are overwritten; an empty directory may become one."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("words")
    (tmp_path / "empty").mkdir()
    KBWriter.create(tmp_path / "empty", make_settings()).close()
    for name in ("full", "empty"):
        with pytest.raises(KnowledgeBaseExistsError, match=name):
            KBWriter.create(tmp_path / name, make_settings())
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_newer_format_is_refused_with_the_versions(tmp_path: Path) -> None:
    """The message says what to upgrade, and the lock is not kept."""
    with pytest.raises(FormatTooNewError, match="format 3"):
        KBWriter.create(tmp_path / "kb", make_settings(format_version=3))
    for opener in (KBReader.open, KBWriter.open):
        with pytest.raises(FormatTooNewError, match="install a newer kbengine"):
            opener(tmp_path / "kb")


def test_unknown_schema_revision_is_refused(tmp_path: Path) -> None:
    """A revision that this version does not know must come from a newer one."""
    KBWriter.create(tmp_path / "kb", make_settings()).close()
    edit(tmp_path / "kb", "UPDATE alembic_version SET version_num = '9999'")
    for opener in (KBReader.open, KBWriter.open):
        with pytest.raises(FormatTooNewError, match="9999"):
            opener(tmp_path / "kb")


def test_damaged_database_is_corrupt_not_a_traceback(tmp_path: Path) -> None:
    """A file that is no SQLite file any more."""
    KBWriter.create(tmp_path / "kb", make_settings()).close()
    data = bytearray((tmp_path / "kb" / "kb.sqlite").read_bytes())
    data[:16] = b"not a database.."
    (tmp_path / "kb" / "kb.sqlite").write_bytes(data)
    for opener in (KBReader.open, KBWriter.open):
        with pytest.raises(CorruptError, match="verify"):
            opener(tmp_path / "kb")


def test_changed_setting_is_noticed(tmp_path: Path) -> None:
    """Settings carry checksums like every row."""
    KBWriter.create(tmp_path / "kb", make_settings()).close()
    edit(tmp_path / "kb", "UPDATE settings SET value = '9' WHERE key = 'd'")
    with pytest.raises(CorruptError, match="settings"):
        KBReader.open(tmp_path / "kb")


def test_row_checksum_tells_values_and_their_boundaries_apart() -> None:
    """Moving a character between columns, or a number into a string, changes the checksum."""
    pairs: list[tuple[Any, Any]] = [("ab", "c"), ("a", "bc"), (1, "c"), ("1", "c"), (None, b"c"), (None, "c")]
    assert len({sealed({"a": a, "b": b})["checksum"] for a, b in pairs}) == len(pairs)
    with pytest.raises(CorruptError, match="table t"):
        check_row("t", {**sealed({"a": "ab"}), "a": "ac"})


def test_second_writer_is_told_who_writes(tmp_path: Path) -> None:
    """The message has the process id; the lock is free again after closing."""
    with KBWriter.create(tmp_path / "kb", make_settings()):
        assert is_locked(tmp_path / "kb")
        with pytest.raises(LockedError, match=r"process \d+"):
            KBWriter.open(tmp_path / "kb", lock_timeout_s=0)
    assert not is_locked(tmp_path / "kb")
    KBWriter.open(tmp_path / "kb", lock_timeout_s=0).close()


def test_lock_waits_for_the_holder_to_finish(tmp_path: Path) -> None:
    """A lock released within the time-out is taken; releasing twice is harmless."""
    first = WriterLock(tmp_path)
    first.release()
    first.release()
    with WriterLock(tmp_path, timeout_s=1):
        assert json.loads((tmp_path / LOCK_NAME).read_text())["pid"] > 0
    with pytest.raises(InvalidOptionError):
        WriterLock(tmp_path, timeout_s=-1)


def test_unknown_and_wrong_settings_are_refused() -> None:
    """Each with the value seen."""
    with pytest.raises(InvalidOptionError, match="-3"):
        make_settings(d=-3)
    with pytest.raises(InvalidOptionError, match="n_probe"):
        make_settings(ann={"n_probe": 3})
    with pytest.raises(InvalidOptionError, match="half"):
        make_settings(build={"state": "half"})
    with pytest.raises(InvalidOptionError, match="fingerprint"):
        KBSettings("toy", "", 8)


def make_log(tmp_path: Path) -> Path:
    """The path of a write-ahead log with several commits, of a knowledge base that nobody closed."""
    writer = KBWriter.create(tmp_path / "kb", make_settings())
    for number in range(6):
        writer.add([make_document(f"d{number}", "amber basalt cedar delta")])
    copy = tmp_path / "copy-wal"
    copy.write_bytes(wal_path(tmp_path / "kb").read_bytes())
    writer.close()
    return copy


def last_transaction(log: bytes) -> int:
    """Where the last transaction of the log begins."""
    starts = range(32, len(log), FRAME_BYTES)
    marks = [start for start in starts if log[start + 4 : start + 8] != bytes(4)]
    return marks[-2] + FRAME_BYTES


def test_damaged_byte_in_the_log_is_found(tmp_path: Path) -> None:
    """SQLite would silently drop every commit after the damaged frame."""
    log = make_log(tmp_path)
    check_wal(log)
    data = log.read_bytes()
    assert len(data) > 8 * FRAME_BYTES
    for position in [9, 30, *range(33, last_transaction(data) - FRAME_BYTES, 1997)]:
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        log.write_bytes(damaged)
        with pytest.raises(CorruptError, match="wal"):
            check_wal(log)


def test_what_a_power_cut_leaves_of_a_transaction_is_no_damage(tmp_path: Path) -> None:
    """A disk may keep later frames and not earlier ones, the commit mark too: SQLite drops the transaction."""
    log = make_log(tmp_path)
    data = log.read_bytes()
    begin = last_transaction(data)
    for position in range(begin, len(data) - FRAME_BYTES, FRAME_BYTES):
        for lost in (bytes(FRAME_BYTES), data[position : position + 512].ljust(FRAME_BYTES, b"\0")):
            log.write_bytes(data[:position] + lost + data[position + FRAME_BYTES :])
            check_wal(log)


def test_damage_anywhere_in_the_log_is_seen_by_whoever_opens_it(tmp_path: Path) -> None:
    """In its last transaction, too, where it looks like an interrupted write: the commit was acknowledged."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        for number in range(3):
            writer.add([make_document(f"d{number}", "amber basalt cedar delta")])
        shutil.copytree(tmp_path / "kb", tmp_path / "crashed")
    crashed = tmp_path / "crashed"
    data = wal_path(crashed).read_bytes()
    positions = np.random.default_rng(0).integers(32, len(data), size=20).tolist()
    for position in [len(data) - 1, len(data) - FRAME_BYTES - 1, *positions]:
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        wal_path(crashed).write_bytes(damaged)
        for opened in (KBReader.open, KBWriter.open):
            with pytest.raises(CorruptError, match="--accept-loss"):
                opened(crashed)
        assert wal_path(crashed).read_bytes() == damaged, "the damaged log is kept for whoever looks into it"
        assert not verify(crashed).ok
    wal_path(crashed).write_bytes(data)
    KBWriter.open(crashed).close()
    assert set(content(crashed)) == {"d0", "d1", "d2"}


def test_unfinished_write_at_the_end_of_the_log_is_no_damage(tmp_path: Path) -> None:
    """What a kill leaves: the log cut anywhere in its last frame, or absent."""
    log = make_log(tmp_path)
    data = log.read_bytes()
    for cut in (1, 100, 4119):
        log.write_bytes(data[:-cut])
        check_wal(log)
    log.unlink()
    check_wal(log)


def test_writer_does_not_open_over_a_damaged_log(tmp_path: Path) -> None:
    """Opening would remove the files of the commits that the damage hides."""
    log = make_log(tmp_path)
    damaged = bytearray(log.read_bytes())
    damaged[5000] ^= 1
    wal_path(tmp_path / "kb").write_bytes(damaged)
    before = sorted((tmp_path / "kb" / "segments").iterdir())
    with pytest.raises(CorruptError, match="wal"):
        KBWriter.open(tmp_path / "kb")
    assert sorted((tmp_path / "kb" / "segments").iterdir()) == before


def test_closed_writer_refuses_further_calls(tmp_path: Path) -> None:
    """The message says to open it again."""
    writer = KBWriter.create(tmp_path / "kb", make_settings())
    writer.close()
    with pytest.raises(StateError, match="open it again"):
        writer.add([make_document("a", "amber")])


def test_a_damaged_schema_is_a_named_error_whatever_its_letters(tmp_path: Path) -> None:
    """SQLite quotes the damaged name in its message, and that may be no UTF-8."""
    KBWriter.create(tmp_path / "kb", make_settings()).close()
    file = tmp_path / "kb" / "kb.sqlite"
    sound = file.read_bytes()
    damaged = 0
    for found in re.finditer(rb"indexsqlite_autoindex_\w", sound):
        data = bytearray(sound)
        data[found.end() - 1] ^= 0x80
        file.write_bytes(data)
        try:
            KBReader.open(tmp_path / "kb").close()
        except KBError as error:
            damaged += isinstance(error, CorruptError)
    assert damaged
    file.write_bytes(sound)
    KBReader.open(tmp_path / "kb").close()
