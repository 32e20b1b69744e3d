"""Fields of documents: which there are, that every write keeps them, that verification and migration know them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pysqlite3 import dbapi2

from storage.errors import InvalidOptionError, StateError
from storage.field_rows import delete_fields, fields_of_meta, is_date
from storage.findings import Findings
from storage.reader import KBReader
from storage.records import JSON
from storage.repair import repair
from storage.verify import verify
from storage.verify_fields import check_fields
from storage.writer import KBWriter
from tests.storage.field_world import connect, store
from tests.storage.small_world import make_document, make_settings, reencode


def document(doc_id: str, **meta: JSON) -> Any:
    """A document of one passage with these fields."""
    return dataclasses.replace(make_document(doc_id, f"amber basalt {doc_id}"), meta=meta)


def passing(path: Path, where: str) -> list[str]:
    """The ids of the documents that are found under a filter."""
    with KBReader.open(path) as reader:
        snapshot = reader.snapshot(where)
        documents = reader.documents(snapshot.document_ids[snapshot.live_passages])
        return sorted(each.doc_id for each in documents.values())


@pytest.fixture
def kb(tmp_path: Path) -> Path:
    """Three documents, two of them with fields."""
    path = tmp_path / "kb"
    with KBWriter.create(path, make_settings()) as writer:
        writer.add([document("a", source="manual", year=2019), document("b", source="wire", year=2021), document("c")])
    return path


def edit(path: Path, *statements: str) -> None:
    """Commit the statements to kb.sqlite behind kbengine's back."""
    connection = dbapi2.connect(str(path / "kb.sqlite"))
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def test_meta_gives_a_row_for_each_value_under_each_name() -> None:
    """Nested objects are dotted, lists give their elements once, nothing comes of null and of objects in lists."""
    meta: dict[str, JSON] = {
        "source": "manual",
        "added": "2020-02-29",
        "tags": ["x", "y", "x", None, 2, 2.0, {"deep": 1}, [3]],
        "author": {"name": "Ann", "": {"k": True}},
        "none": None,
        "empty": [],
        "huge": 10**400,
    }
    rows = [row[:3] for row in fields_of_meta(1, meta)]
    assert rows == [
        ("added", "date", "2020-02-29"),
        ("author..k", "boolean", 1),
        ("author.name", "text", "Ann"),
        ("huge", "number", float("inf")),
        ("source", "text", "manual"),
        ("tags", "number", 2),
        ("tags", "text", "x"),
        ("tags", "text", "y"),
    ]


def test_what_is_nested_too_deep_is_refused_before_anything_is_written(kb: Path) -> None:
    """It could not be read again; the writer goes on."""
    deep: JSON = "bottom"
    for _ in range(101):
        deep = {"k": deep}
    with KBWriter.open(kb) as writer:
        with pytest.raises(InvalidOptionError, match="'deep' is nested more than 100 deep"):
            writer.add([document("deep", k=deep)])
        writer.add([document("fine", k=deep["k"]["k"])])  # type: ignore[index, call-overload]
    assert passing(kb, f"{'.'.join(['k'] * 100)} = 'bottom'") == ["fine"]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("2020-02-29", True),
        ("2021-02-29", False),
        ("2020-01-31T12:00", True),
        ("2020-01-31 12:00:59.25", True),
        ("2020-01-31T12:00:00Z", True),
        ("2020-01-31T12:00:00+02:00", True),
        ("2020-01-31T25:00", False),
        ("20200131", False),
        ("2020-01", False),
        ("31.01.2020", False),
        ("٢٠٢٠-01-31", False),
    ],
)
def test_dates_are_what_iso_8601_writes_and_the_calendar_has(text: str, is_one: bool) -> None:
    """Only full dates and times count, so that the order of texts is the order of days."""
    assert is_date(text) is is_one


def test_adding_replacing_deleting_and_compacting_keep_the_fields(kb: Path) -> None:
    """A filter sees every commit, a replaced document with its new fields only."""
    assert passing(kb, "source = 'manual'") == ["a"]
    with KBWriter.open(kb) as writer:
        writer.add([document("a", source="scan", year=2022), document("d", source="manual")])
        assert passing(kb, "source = 'manual'") == ["d"] and passing(kb, "year > 2019") == ["a", "b"]
        writer.delete(["b"])
        assert passing(kb, "year > 2000") == ["a"] and passing(kb, "source is null") == ["c"]
        writer.compact(purge=True)
        assert passing(kb, "year > 2000") == ["a"] and passing(kb, "source = 'manual' or id = 'c'") == ["c", "d"]
    assert verify(kb, deep=True).clean
    assert b"wire" not in (kb / "kb.sqlite").read_bytes()


def test_fields_of_a_failed_write_are_not_there(kb: Path) -> None:
    """They are written in the transaction of their documents."""
    with KBWriter.open(kb) as writer:
        with pytest.raises(Exception, match="twice"):
            writer.add([document("x", source="manual"), document("x", source="manual")])
        with pytest.raises(Exception, match="no live document"):
            writer.delete(["a", "nobody"])
    assert passing(kb, "source = 'manual'") == ["a"] and verify(kb, deep=True).clean


def test_listings_and_words_take_a_filter(kb: Path) -> None:
    """By id with a page's begin, by words although others match better, and what fields there are."""
    with KBReader.open(kb) as reader:
        assert [each.doc_id for each in reader.list_documents(where="year > 2000")] == ["a", "b"]
        assert [each.doc_id for each in reader.list_documents(where="year > 2000", after="a")] == ["b"]
        found = reader.lexical_documents("amber basalt a", where="source = 'wire' or id = 'c'", limit=5)
        assert sorted(document.doc_id for document, _ in found) == ["b", "c"]
        assert reader.info().fields == {"source": ["text"], "year": ["number"]}


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM fields WHERE value = 'manual'",
        "UPDATE fields SET value = 'Manual' WHERE value = 'manual'",
        "INSERT INTO fields VALUES ('source', 'text', 'manual', 77)",
        "UPDATE fields SET type = 'text' WHERE name = 'year' AND value = 2019",
    ],
)
def test_fields_that_do_not_follow_from_their_documents_are_found_and_made_again(kb: Path, damage: str) -> None:
    """One row missing, changed, too many or of another type."""
    edit(kb, damage)
    assert {finding.severity for finding in verify(kb).findings} == {"repairable"}
    assert repair(kb, reencode) == ["made the index of fields again"]
    assert verify(kb, deep=True).clean and passing(kb, "source = 'manual' and year = 2019") == ["a"]


def test_knowledge_base_of_the_revision_before_answers_and_is_migrated_by_a_writer(kb: Path) -> None:
    """A reader finds everything in it but cannot filter; the next writer indexes the fields that are stored."""
    with KBWriter.open(kb) as writer:
        writer.delete(["b"])
    edit(kb, "DROP TABLE fields", "DROP TABLE feedback", "UPDATE alembic_version SET version_num = '0002'")
    with KBReader.open(kb) as reader:
        assert reader.snapshot().n_live_passages == 2 and len(reader.list_documents()) == 2
        assert reader.info().fields == {}
        with pytest.raises(StateError, match="open it once for writing"):
            reader.snapshot("source = 'manual'")
        assert verify(kb, deep=True).clean and repair(kb, reencode) == []
        KBWriter.open(kb).close()
        assert reader.snapshot("source = 'manual'").n_live_passages == 1  # the reader that was open goes on
    assert (kb / "kb.sqlite.before-0005").is_file()
    assert passing(kb, "year < 3000") == ["a"] and verify(kb, deep=True).clean


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text("a.\"'é %"),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text("ab.", max_size=2), values, max_size=3),
    max_leaves=8,
)


@settings(max_examples=50, deadline=None)
@given(metas=st.lists(st.dictionaries(st.text("ab.", max_size=2), json_values, max_size=3), min_size=1, max_size=3))
def test_fields_of_any_json_object_are_found_sound_and_go_with_it(metas: list[dict[str, JSON]]) -> None:
    """Whatever documents carry, the rows that come with them are those that verification expects and a delete takes."""
    with connect() as connection:
        store(connection, metas)
        findings = Findings(Path())
        check_fields(connection, findings)
        assert findings.found == []
        delete_fields(connection, connection.exec_driver_sql("SELECT * FROM documents").mappings().all())
        assert connection.exec_driver_sql("SELECT count(*) FROM fields").scalar() == 0
