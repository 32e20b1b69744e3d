"""Exports for data people: what is in the knowledge base is in the file, whatever its texts hold."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from adapters.commands.export import export
from adapters.exporting.export import form_of
from adapters.exporting.ntriples import export_ntriples
from adapters.exporting.plain_sqlite import export_sqlite
from kbengine.encoders.encoder import Encoder
from kbengine.errors import InvalidOptionError
from kbengine.knowledge_base import KnowledgeBase
from storage.reader import KBReader
from tests.kbengine.small_kb import build_small_kb
from tests.tiny_encoder import write_tiny_encoder

EVIL = {
    "id": 'a/b <"\\>',
    "title": 'Say "hi"\\ 🙂',
    "text": "First\tline.\r\nSecond \x01line.\n\nAnother 'paragraph'.",
    "url": "https://x.example/a b?<c>",
    "meta": {"year": 1999, "tags": ["a", "b"]},
    "aliases": ["Hi", "Ahoi"],
}


def test_the_name_of_a_file_says_its_form(tmp_path):
    """Compressed or not; any other name is refused with those there are."""
    names = {"a.jsonl.zst": "jsonl", "A.DB": "sqlite", "a.sqlite3": "sqlite", "a.pq": "parquet", "a.nt.gz": "ntriples"}
    assert {name: form_of(tmp_path / name) for name in names} == names
    with pytest.raises(InvalidOptionError, match=r"a\.docx says no form to export, wanted .*\.db \(sqlite\)"):
        form_of(tmp_path / "a.docx")


LINE = re.compile(
    r'<[^<>"{}|^`\\\x00-\x20]+> <[^<>"{}|^`\\\x00-\x20]+> '
    r'(?:<[^<>"{}|^`\\\x00-\x20]+>|"(?:[^"\\\n\r]|\\[tnr"\\]|\\u[0-9A-F]{4})*"(?:\^\^<[^<>\s]+>)?) \.'
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small knowledge base with a document that is hard to write, and one that is gone."""
    made = tmp_path_factory.mktemp("exporting")
    encoder = Encoder.load(write_tiny_encoder(made / "encoder"), device="cpu")
    path = build_small_kb(made / "kb", encoder)
    with KnowledgeBase.open(path, encoder) as knowledge_base:
        knowledge_base.add([EVIL])
        knowledge_base.delete(["0"])
    return path


def test_a_plain_sqlite_file_holds_all_there_is(folder: Path, tmp_path: Path) -> None:
    """For the SQLite that comes with Python, full text included; what is deleted is not there."""
    out = tmp_path / "kb.db"
    with KBReader.open(folder) as reader:
        assert export_sqlite(reader, out) == 10
        passages = {p.passage_id: p.text for _, each in reader.iterate_documents() for p in each}
    database = sqlite3.connect(out)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert database.execute("PRAGMA foreign_key_check").fetchall() == []
    assert dict(database.execute("SELECT passage_id, text FROM passages")) == passages
    assert not database.execute("SELECT 1 FROM documents WHERE doc_id = '0'").fetchall()
    own = (EVIL["id"],)
    assert database.execute("SELECT title, url FROM documents WHERE doc_id = ?", own).fetchone() == (
        EVIL["title"],
        EVIL["url"],
    )
    assert database.execute("SELECT alias FROM aliases WHERE doc_id = ? ORDER BY 1", own).fetchall() == [
        ("Ahoi",),
        ("Hi",),
    ]
    fields = database.execute("SELECT name, value FROM fields WHERE doc_id = ? ORDER BY 1, 2", own).fetchall()
    assert fields == [("tags", "a"), ("tags", "b"), ("year", 1999)]
    found = database.execute("SELECT rowid FROM passages_fts WHERE passages_fts MATCH 'paragraph'").fetchall()
    assert [passages[rowid] for (rowid,) in found] == ["Another 'paragraph'."]
    assert dict(database.execute("SELECT key, value FROM about"))["generation"] > 1
    database.close()


def test_every_line_is_a_triple(folder: Path, tmp_path: Path) -> None:
    """By the grammar of N-Triples; each passage says where it is from."""
    out = tmp_path / "kb.nt"
    with KBReader.open(folder) as reader:
        n = export_ntriples(reader, out, base="https://kb.example/")
        n_passages = reader.info().passages
    lines = out.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    assert len(lines) == n and [line for line in lines if not LINE.fullmatch(line)] == []
    assert sum("wasDerivedFrom" in line for line in lines) == n_passages
    assert "<https://kb.example/a%2Fb%20%3C%22%5C%3E>" in out.read_text(encoding="utf-8")


def test_the_commands_write_files_whole(folder: Path, tmp_path: Path) -> None:
    """And say how much; a folder that is not there is an error, and leaves nothing."""
    for form, name in (("sqlite", "x.db"), ("ntriples", "x.nt.gz")):
        done = CliRunner().invoke(export, [form, "--kb", str(folder), "--out", str(tmp_path / name)])
        assert done.exit_code == 0, done.output
        assert "exported" in done.stderr
        assert CliRunner().invoke(export, [form, "--kb", str(folder), "--out", str(tmp_path / "no" / name)]).exit_code
    assert sorted(each.name for each in tmp_path.iterdir()) == ["x.db", "x.nt.gz"]
