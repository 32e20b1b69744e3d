"""Documents as JSON lines: all of them, and nothing lost on the way out and in again."""

from __future__ import annotations

import io
import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kbengine.corpus.exported import parse_exported
from storage.exchange import PlainDocument, PlainPassage, export_documents
from storage.reader import KBReader
from storage.writer import KBWriter
from tests.storage.small_world import content, make_document, make_settings

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)


def test_exported_documents_can_be_read_and_stored_again(tmp_path: Path) -> None:
    """Every live document with its passages, title, url and meta; deleted ones stay behind."""
    with KBWriter.create(tmp_path / "one", make_settings()) as writer:
        writer.add([make_document(f"d{n}", f"amber {n}", f"basalt {n}") for n in range(700)])
        writer.delete(["d5"])
    file = io.StringIO()
    with KBReader.open(tmp_path / "one") as reader:
        assert export_documents(reader, file) == 699

    read = [parse_exported(json.loads(line)) for line in file.getvalue().split("\n") if line]

    assert (read[0].doc_id, read[0].title, read[0].url) == ("d0", "Title of d0", "https://example.org/d0")
    assert [(p.ordinal, p.text) for p in read[0].passages] == [(1, "amber 0"), (2, "basalt 0")]
    with KBWriter.create(tmp_path / "two", make_settings()) as writer:
        writer.add([make_document(each.doc_id, *(passage.text for passage in each.passages)) for each in read])
    assert content(tmp_path / "one") == content(tmp_path / "two")


IDS = TEXT.filter(lambda text: text.strip() and text == text.strip().strip("\ufeff"))


@settings(deadline=None)
@given(IDS, TEXT, TEXT.filter(str.strip), TEXT, st.integers(0, 10**6))
def test_any_document_survives_a_line(doc_id: str, title: str, text: str, section: str, char_offset: int) -> None:
    """Whatever Unicode is in it, it is one line and reads back equal, with section and offset."""
    document = PlainDocument(doc_id, title, None, {}, (PlainPassage(3, text, section, char_offset),))

    line = document.to_json()
    read = parse_exported(json.loads(line))

    assert "\n" not in line
    (passage,) = read.passages
    assert (read.doc_id, read.title) == (doc_id, title)
    assert (passage.ordinal, passage.text, passage.section, passage.char_offset) == (3, text, section, char_offset)
