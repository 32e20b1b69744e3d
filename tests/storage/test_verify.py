"""Verification names every damage; repair makes again what follows from the text."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from pysqlite3 import dbapi2

from storage.errors import CorruptError, InvalidOptionError, KBError, NotAKnowledgeBaseError
from storage.feedback_records import NewFeedback
from storage.reader import KBReader
from storage.records import NewPassage, StoredPassage
from storage.repair import repair
from storage.verify import VerifyReport, verify
from storage.writer import KBWriter
from tests.storage.small_world import content, make_document, make_passage, make_settings, random_document, reencode


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A knowledge base with several segments, tombstones, ANN files and a few commits in its history."""
    path = tmp_path_factory.mktemp("sound") / "kb"
    rng = np.random.default_rng(0)
    with KBWriter.create(path, make_settings(ann={"exact_below_rows": 20, "nlist": 4})) as writer:
        for number in range(6):
            writer.add([random_document(f"d{number}-{i}", rng, passages=3) for i in range(4)])
        writer.merge_all()
        writer.add([random_document("late", rng, passages=3), make_document("d0-1", "amber basalt", "cedar")])
        writer.delete(["d3-1", "d4-2"])
    with KBReader.open(path) as reader:
        reader.snapshot()
    assert list((path / "index").iterdir())
    return path


@pytest.fixture
def kb(sound: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(sound, tmp_path / "kb"))


def edit(path: Path, *statements: str) -> None:
    """Commit the statements to kb.sqlite behind kbengine's back."""
    connection = dbapi2.connect(str(path / "kb.sqlite"))
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def severities(report: VerifyReport) -> set[str]:
    """The severities of the findings."""
    return {finding.severity for finding in report.findings}


def segment_files(path: Path) -> list[Path]:
    """The segment files, largest first."""
    return sorted((path / "segments").iterdir(), key=lambda file: -file.stat().st_size)


def flip(path: Path, position: int, bit: int = 1) -> None:
    """Flip one bit of the file."""
    data = bytearray(path.read_bytes())
    data[position] ^= bit
    path.write_bytes(data)


def test_sound_knowledge_base_is_clean(sound: Path) -> None:
    """Also deeply, and while a writer holds it."""
    report = verify(sound, deep=True, reencode=reencode)
    assert report.clean, report.findings
    assert (report.segments, report.reencoded > 10, report.documents) == (2, True, 26)
    with KBWriter.open(sound):
        assert verify(sound).clean


def test_nothing_to_verify_is_an_error(tmp_path: Path) -> None:
    """A path without kb.sqlite raises; so do senseless options."""
    with pytest.raises(NotAKnowledgeBaseError):
        verify(tmp_path)
    KBWriter.create(tmp_path / "kb", make_settings()).close()
    with pytest.raises(InvalidOptionError):
        verify(tmp_path / "kb", sample=0)


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        ("UPDATE passages SET text = text || '!' WHERE passage_id = 5", "passages"),
        ("UPDATE passages SET token_count = token_count + 1 WHERE passage_id = 5", "passages"),
        ("DELETE FROM passages WHERE passage_id = 5", "passages"),
        ("UPDATE documents SET title = 'Other' WHERE document_id = 2", "documents"),
        ("UPDATE documents SET dead_generation = NULL WHERE doc_id = 'd3-1'", "documents"),
        ("DELETE FROM generations WHERE generation = 3", "generations"),
        ("UPDATE generations SET next_token_id = 1", "generations"),
        ("UPDATE settings SET value = '1' WHERE key = 'token_scale'", "settings"),
        ("UPDATE segments SET sha256 = 'x' WHERE dead_generation IS NULL", "segments"),
        ("DROP VIEW history", "schema"),
        ("DROP INDEX ix_passages_first_token_id", "schema"),
    ],
)
def test_changed_row_or_schema_is_named(kb: Path, statement: str, place: str) -> None:
    """Whatever SQLite itself finds nothing wrong with."""
    edit(kb, statement)
    report = verify(kb)
    assert not report.ok
    assert any(place in finding.where for finding in report.findings), report.findings


def test_full_text_of_other_passages_is_found_and_repaired(kb: Path) -> None:
    """A missing row, a row of a dead passage."""
    edit(kb, "DELETE FROM passages_fts WHERE rowid = 7")
    edit(kb, "INSERT INTO passages_fts(rowid, title, text) VALUES (9999, 'x', 'y')")
    report = verify(kb)
    assert severities(report) == {"repairable"} and len(report.findings) == 2
    assert repair(kb, reencode) == ["rebuilt the full-text index"]
    assert verify(kb, deep=True).clean


def test_full_text_of_other_words_is_found_deeply(kb: Path) -> None:
    """The rows are right, the words are not: only a comparison with the text shows it."""
    edit(kb, "DELETE FROM passages_fts WHERE rowid = 7")
    edit(kb, "INSERT INTO passages_fts(rowid, title, text) VALUES (7, 'wrong', 'words')")
    assert verify(kb).clean
    assert severities(verify(kb, deep=True)) == {"repairable"}
    repair(kb, reencode)
    assert verify(kb, deep=True).clean


def test_any_flipped_bit_of_a_segment_is_found_and_never_served(kb: Path) -> None:
    """Header, vectors, ids, postings: everything is under the checksum."""
    file = segment_files(kb)[0]
    size = file.stat().st_size
    for position in np.random.default_rng(1).integers(size, size=15).tolist():
        flip(file, position)
        report = verify(kb)
        assert severities(report) == {"repairable"}, position
        assert file.name in report.findings[0].where
        with KBReader.open(kb) as reader, pytest.raises(CorruptError, match=file.stem):
            reader.snapshot()
        flip(file, position)
    assert verify(kb).clean


def replace_by_other(file: Path) -> None:
    """The file's content is that of another segment."""
    file.write_bytes(next(other for other in file.parent.iterdir() if other != file).read_bytes())


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: flip(file, 5000),
        lambda file: file.write_bytes(file.read_bytes()[:-7]),
        lambda file: file.unlink(),
        lambda file: file.write_bytes(b""),
        replace_by_other,
    ],
    ids=["flipped", "truncated", "missing", "empty", "swapped"],
)
def test_damaged_segment_is_made_again_from_the_text(kb: Path, damage: Callable[[Path], object]) -> None:
    """Same token ids, same answers; tombstones of its documents need no rows any more."""
    query = make_passage("amber basalt cedar delta").vectors

    def answers() -> tuple[list[list[int]], dict[str, tuple[str, ...]]]:
        with KBReader.open(kb) as reader:
            snapshot = reader.snapshot()
            _, rows = snapshot.search_tokens(query, 5, exact=True)
            return snapshot.token_ids_of_rows(rows).tolist(), content(kb)

    before = answers()
    damage(segment_files(kb)[0])
    assert severities(verify(kb)) >= {"repairable"}
    done = repair(kb, reencode)
    assert len(done) == 1 and "encoded" in done[0]
    assert answers() == before
    assert verify(kb, deep=True, reencode=reencode).clean
    assert repair(kb, reencode) == []


def test_repair_with_another_encoder_changes_nothing(kb: Path) -> None:
    """Other tokens than the kept ones, or other dimensions, are refused."""

    def careless(stored: Sequence[StoredPassage]) -> list[NewPassage]:
        return [make_passage(passage.text + " more", passage.ordinal) for passage in stored]

    segment_files(kb)[0].unlink()
    files = segment_files(kb)
    with pytest.raises(InvalidOptionError, match="knowledge base's encoder"):
        repair(kb, careless)
    assert segment_files(kb) == files


def test_repair_does_not_encode_damaged_text(kb: Path) -> None:
    """Vectors of a wrong text would look sound afterwards."""
    segment_files(kb)[0].unlink()
    edit(kb, "UPDATE passages SET text = 'x' || substr(text, 2) WHERE passage_id = 9")
    with pytest.raises(CorruptError, match="passage_id 9"):
        repair(kb, reencode)


def test_vectors_of_another_text_are_found_by_encoding_again(kb: Path) -> None:
    """Only possible to see with the encoder."""

    def other(stored: Sequence[StoredPassage]) -> list[NewPassage]:
        return [make_passage(p.text.upper(), p.ordinal, kept=p.token_ordinals) for p in stored]

    report = verify(kb, deep=True, reencode=other, sample=5)
    assert severities(report) == {"repairable"} and report.reencoded == 5


def test_damaged_ann_file_is_reported_and_rebuilt(kb: Path) -> None:
    """Derived: nothing is lost, so the report is ok but not clean; the next reader repairs it by itself."""
    files = sorted((kb / "index").iterdir())
    for file in files:
        flip(file, file.stat().st_size // 2)
    report = verify(kb)
    assert report.ok and severities(report) == {"derived"} and len(report.findings) == len(files)
    with KBReader.open(kb) as reader:
        reader.snapshot()
    assert verify(kb).clean
    flip(files[0], 100)
    assert repair(kb, reencode) == [f"rebuilt index/{files[0].name}"]
    assert verify(kb).clean


def test_damaged_index_of_the_database_is_repaired(kb: Path) -> None:
    """An index that misses rows: SQLite can make it again."""
    connection = dbapi2.connect(str(kb / "kb.sqlite"))
    connection.execute("PRAGMA writable_schema=ON")
    with connection:
        # An index made over the condition "false" and then declared complete holds no row.
        connection.execute("DROP INDEX ix_passages_document_id")
        connection.execute("CREATE INDEX ix_passages_document_id ON passages (document_id) WHERE passage_id < 0")
        connection.execute(
            "UPDATE sqlite_master SET sql = 'CREATE INDEX ix_passages_document_id ON passages (document_id)' "
            "WHERE name = 'ix_passages_document_id'"
        )
    connection.close()
    assert "repairable" in severities(verify(kb))
    assert repair(kb, reencode) == ["rebuilt the indexes of kb.sqlite"]
    assert verify(kb, deep=True).clean


def test_flipped_bit_of_the_database_is_found_or_harmless(kb: Path) -> None:
    """Wherever the bit lies: verify finds it, or every row and every answer is what it was (unused space)."""
    with KBWriter.open(kb) as writer:  # so that no table is empty
        writer.add_feedback([NewFeedback("question", f"Which city is number {i}?", "Ulm", "right") for i in range(400)])
    file = kb / "kb.sqlite"
    original = file.read_bytes()
    expected = content(kb)
    found = 0
    for position in np.random.default_rng(5).integers(len(original), size=60).tolist():
        for name in ("kb.sqlite-wal", "kb.sqlite-shm"):
            (kb / name).unlink(missing_ok=True)
        file.write_bytes(original)
        flip(file, position, 1 << (position % 8))
        try:
            damaged = not verify(kb, deep=True).ok
        except KBError:
            damaged = True
        found += damaged
        if not damaged:
            assert content(kb) == expected, position
    assert found >= 10


def test_damaged_log_is_an_error(kb: Path) -> None:
    """Commits that only the log has would be lost silently."""
    writer = KBWriter.open(kb)
    for number in range(4):
        writer.add([make_document(f"new{number}", "amber")])
    for name in ("kb.sqlite", "kb.sqlite-wal"):
        shutil.copy(kb / name, kb / f"{name}.copy")
    writer.close()
    for name in ("kb.sqlite", "kb.sqlite-wal"):
        (kb / f"{name}.copy").rename(kb / name)
    flip(kb / "kb.sqlite-wal", 4000)
    report = verify(kb)
    assert "error" in severities(report)
    assert any("wal" in finding.where for finding in report.findings)
