"""Each format of corpus gives the documents and passages it says, and names what is wrong in a record."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from kbengine.corpus import CorpusDocument, CorpusPassage, read_corpus
from kbengine.corpus.plain import parse_plain
from kbengine.errors import CorpusError

ULM = {
    "_id": "7",
    "wikipedia_id": "7",
    "wikipedia_title": "Ulm",
    "text": [
        "Ulm\n",
        "Ulm is a city on the Danube. ",
        "",
        "Section::::History.\n",
        "Ulm was first named in 854.",
        "Section::::History.:Modern times.",
        "BULLET::::- 1810: border city",
    ],
    "anchors": [{"text": "Danube", "href": "Danube", "paragraph_id": 1, "start": 21, "end": 27}],
    "categories": "Ulm,Cities in Baden-Württemberg",
    "history": {"pageid": 7, "url": "https://en.example.org/Ulm"},
    "wikidata_info": {
        "wikidata_id": "Q3012",
        "description": "city",
        "aliases": [{"alias": "Ulm an der Donau"}, {"alias": "Ulma"}],
    },
}


def write_jsonl(path: Path, records: Sequence[object]) -> Path:
    """The path, with one record a line written to it."""
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), "utf-8")
    return path


def documents(path: Path, **options: bool | str) -> list[CorpusDocument]:
    """All documents of a corpus."""
    return [document for document, _ in read_corpus(path, **options)]  # type: ignore[arg-type]  # bool or str fit


def refusal(path: Path, format: str | None = None) -> str:
    """The message of the CorpusError that reading raises."""
    with pytest.raises(CorpusError) as caught:
        list(read_corpus(path, format=format))
    return caught.value.message


def test_kilt_page_keeps_paragraph_ids_sections_and_facts(tmp_path: Path) -> None:
    """Title, blank and heading paragraphs are no passages, and the others keep their numbers and texts."""
    [ulm] = documents(write_jsonl(tmp_path / "pages.jsonl", [ULM]))
    assert (ulm.doc_id, ulm.title, ulm.url) == ("7", "Ulm", "https://en.example.org/Ulm")
    assert ulm.passages == (
        CorpusPassage(1, "Ulm is a city on the Danube. "),
        CorpusPassage(4, "Ulm was first named in 854.", "History"),
        CorpusPassage(6, "BULLET::::- 1810: border city", "History: Modern times"),
    )
    assert ulm.meta == {
        "qid": "Q3012",
        "description": "city",
        "aliases": ["Ulm an der Donau", "Ulma"],
        "categories": "Ulm,Cities in Baden-Württemberg",
    }


def test_kilt_anchors_are_kept_only_when_asked(tmp_path: Path) -> None:
    """Links can outweigh the text, so they come with `anchors=True` alone."""
    path = write_jsonl(tmp_path / "pages.jsonl", [ULM])
    assert "anchors" not in documents(path)[0].meta
    assert documents(path, anchors=True)[0].meta["anchors"] == ULM["anchors"]


def test_kilt_ids_may_be_numbers_and_facts_may_be_absent(tmp_path: Path) -> None:
    """An int id becomes a string; `wikidata_info` may be null; a page may be only a title."""
    path = write_jsonl(
        tmp_path / "pages.jsonl",
        [
            {"wikipedia_id": 12, "wikipedia_title": "A", "text": ["A", "a"], "wikidata_info": None},
            {"kilt_id": "13", "wikipedia_title": "B", "text": {"paragraph": ["B"]}},
        ],
    )
    reading = read_corpus(path)
    found = [document for document, _ in reading]
    assert [(each.doc_id, len(each.passages), dict(each.meta)) for each in found] == [("12", 1, {}), ("13", 0, {})]
    assert reading.report.textless_documents == 1


def test_kilt_first_paragraph_that_is_not_the_title_is_kept(tmp_path: Path) -> None:
    """A page without the title in text[0] loses no text."""
    page = {"_id": "1", "wikipedia_title": "Ulm", "text": ["Ulm is a city.", "It is old."]}
    [ulm] = documents(write_jsonl(tmp_path / "pages.jsonl", [page]))
    assert [passage.ordinal for passage in ulm.passages] == [0, 1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"text": "Ulm is a city."}, "'text' is a str, wanted a list of paragraphs"),
        ({"text": ["Ulm", None]}, "'text'[1] is null, wanted a paragraph"),
        ({"wikipedia_title": None}, "'wikipedia_title' is null, wanted a string"),
        ({"wikipedia_id": "8"}, "'wikipedia_id' is '8', '_id' is '7', wanted one id"),
        ({"wikipedia_id": 7.0}, "'wikipedia_id' is a float"),
        ({"wikipedia_id": True}, "'wikipedia_id' is a bool"),
        ({"wikipedia_id": " ", "_id": " "}, "'wikipedia_id' is ' ', wanted an id"),
        ({"wikidata_info": []}, "'wikidata_info' is a list, wanted an object"),
        ({"wikidata_info": {"aliases": [3]}}, "an alias is an int, wanted an object"),
        ({"text": ["Ulm", "half \ud83d pair"]}, "lone surrogate U+D83D at character 5"),
        ({"text": ["Ulm", "a\x00b"]}, "NUL character at 1"),
        ({"categories": "a\x00b"}, "meta holds a NUL character"),
        ({"wikipedia_title": "\udc00", "text": ["x"]}, "the title holds a lone surrogate"),
    ],
)
def test_kilt_fault_names_file_line_value_and_remedy(tmp_path: Path, change: Mapping[str, object], words: str) -> None:
    """The message has the place, what was seen, what was wanted and what to do."""
    path = tmp_path / "pages.jsonl"
    path.write_text(json.dumps({**ULM, "_id": "1", "wikipedia_id": "1"}) + "\n\n" + json.dumps({**ULM, **change}))
    message = refusal(path, "kilt")
    assert message.startswith(f"{path}, line 3: ")
    assert words in message
    assert message.endswith("; fix the line or pass --skip-bad")


def test_kilt_missing_field_is_named(tmp_path: Path) -> None:
    """A record without text says so."""
    path = write_jsonl(tmp_path / "pages.jsonl", [{"_id": "1", "wikipedia_title": "Ulm"}])
    assert "'text' is missing, wanted a list of paragraphs" in refusal(path)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"_id": "1", ', "malformed JSON at character"),
        (b"[1, 2]", "the line holds a list, wanted a JSON object"),
        (b'{"_id": "\xe4"}', "byte 0xe4 at 9 is not UTF-8"),
        (b'{"a": ' + b"[" * 100_000, "JSON that cannot be read"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "JSON that cannot be read"),
        (b'{"_id": "1", "text": "x", "metadata": {"score": NaN}}', "meta cannot be stored as JSON"),
    ],
)
def test_line_that_is_no_json_object_is_named(tmp_path: Path, line: bytes, words: str) -> None:
    """Malformed, mis-encoded and over-deep lines are bad records, not crashes."""
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(b'{"_id": "0", "title": "", "text": "good"}\n' + line)
    message = refusal(path, "beir")
    assert f"{path}, line 2: " in message and words in message


def test_line_separators_inside_strings_do_not_end_a_line(tmp_path: Path) -> None:
    """U+2028, U+0085 and form feed inside a JSON string are text; CRLF ends a line as LF does."""
    text = "one\u2028two\u0085three"
    path = tmp_path / "corpus.jsonl"
    record = json.dumps({"_id": "1", "title": "", "text": text}, ensure_ascii=False)
    path.write_bytes(b"\xef\xbb\xbf" + record.encode() + b"\r\n" + record.replace('"1"', '"2"').encode() + b"\r\n")
    assert [each.passages[0].text for each in documents(path)] == [text, text]


def test_beir_document_is_one_passage_with_metadata(tmp_path: Path) -> None:
    """`_id`, `title` and `text` are taken, `metadata` becomes meta and its url the url; title may be absent."""
    path = write_jsonl(
        tmp_path / "corpus.jsonl",
        [
            {"_id": "d1", "title": "Ulm", "text": "A city.\n\nOn a river.", "metadata": {"url": "http://u"}},
            {"_id": 2, "text": "No title."},
        ],
    )
    first, second = documents(path)
    assert first == CorpusDocument(
        "d1", "Ulm", "http://u", {"url": "http://u"}, (CorpusPassage(1, "A city.\n\nOn a river."),)
    )
    assert (second.doc_id, second.title, second.url) == ("2", "", None)


def test_export_keeps_ordinals_sections_and_offsets(tmp_path: Path) -> None:
    """What was exported is read back as it was."""
    record = {
        "doc_id": "ulm",
        "title": "Ulm",
        "url": None,
        "meta": {"qid": "Q3012"},
        "passages": [
            {"ordinal": 0, "text": "lead"},
            {"ordinal": 4, "text": "first part ", "section": "History", "char_offset": 0},
            {"ordinal": 4, "text": "second part", "section": "History", "char_offset": 11},
        ],
    }
    [ulm] = documents(write_jsonl(tmp_path / "export.jsonl", [record]))
    assert ulm.meta == {"qid": "Q3012"}
    assert ulm.passages == (
        CorpusPassage(0, "lead"),
        CorpusPassage(4, "first part ", "History"),
        CorpusPassage(4, "second part", "History", 11),
    )


@pytest.mark.parametrize(
    ("passages", "words"),
    [
        ([{"ordinal": 1}], "'passages'[0]: 'text' is missing"),
        ([{"ordinal": -1, "text": "x"}], "'ordinal' is -1, wanted a whole number from 0"),
        ([{"ordinal": True, "text": "x"}], "'ordinal' is True"),
        ([{"ordinal": 2, "text": "x"}, {"ordinal": 2, "text": "y"}], "passage ordinal 2 follows 2"),
        (["x"], "'passages'[0]: the passage is a str, wanted an object"),
    ],
)
def test_export_fault_is_named(tmp_path: Path, passages: list[object], words: str) -> None:
    """A passage without a text, a number or an order is refused."""
    record: object = {"doc_id": "ulm", "title": "Ulm", "url": None, "meta": {}, "passages": passages}
    assert words in refusal(write_jsonl(tmp_path / "export.jsonl", [record]))


def test_densephrases_documents_come_one_by_one(tmp_path: Path) -> None:
    """Keys around `data`, ids, blank contexts and repeated titles are handled; ordinals count from 1."""
    path = tmp_path / "wiki.json"
    data = [
        {"title": "Ulm", "paragraphs": [{"context": "A city."}, {"context": " "}, {"context": "Old.", "qas": []}]},
        {"title": "Ulm", "paragraphs": [{"context": "Another."}]},
        {"title": "", "paragraphs": []},
        {"id": 5, "title": "Danube", "paragraphs": [{"context": "A river.", "is_paragraph": True}]},
    ]
    path.write_text(json.dumps({"version": 1.1, "data": data, "note": {"data": [1]}}, indent=1))
    found = documents(path)
    assert [each.doc_id for each in found] == ["Ulm", "Ulm (wiki.json:2)", "untitled", "5"]
    assert [passage.ordinal for passage in found[0].passages] == [1, 3]
    assert found[3].passages == (CorpusPassage(1, "A river."),)


def test_densephrases_document_over_many_chunks_is_whole(tmp_path: Path) -> None:
    """Documents larger than the read buffer, with escapes and astral characters, come back exactly."""
    texts = [('𓂀 \\u00e9 "q" \\ ' + "x" * 997) * 800, "é" * 1_500_000, "short"]
    data = [{"title": f"t{i}", "paragraphs": [{"context": text}]} for i, text in enumerate(texts)]
    for ascii_only in (True, False):
        path = tmp_path / f"wiki-{ascii_only}.json"
        path.write_text(json.dumps({"data": data}, ensure_ascii=ascii_only), "utf-8")
        found = documents(path)
        assert ["".join(passage.text for passage in each.passages) for each in found] == texts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"data": [{"title": "A", "paragraphs": []}', "the JSON ends early"),
        ('{"data": [{"title": "A", "par', "the JSON ends early"),
        ('{"data": [{"title": "A" "paragraphs": []}]}' + " " * 100, "character 24: malformed JSON"),
        ('{"data": {"title": "A"}}', "wanted the list of documents"),
        ('{"dat": []}', "the object has no 'data'"),
        ('{"data": []} {', "wanted the end of the file"),
        ('{"data": [3]}', "document 1: the document is an int, wanted an object"),
        ('{"data": [{"title": "A", "paragraphs": ["x"]}]}', "paragraph 1: the paragraph is a str"),
        ('{"data": [{"paragraphs": []}]}', "document 1: 'title' is missing"),
    ],
)
def test_densephrases_fault_is_named(tmp_path: Path, text: str, words: str) -> None:
    """Truncated and malformed files stop with the place; wrong types name the document."""
    path = tmp_path / "wiki.json"
    path.write_text(text)
    message = refusal(path, "densephrases")
    assert message.startswith(str(path)) and words in message


def test_dpr_rows_of_one_title_are_one_document(tmp_path: Path) -> None:
    """Runs of a title are documents, quotes are undone, a quoted text may span lines."""
    path = tmp_path / "psgs.tsv"
    path.write_text(
        "id\ttext\ttitle\n"
        '1\t"Ulm, ""the city"", is old."\tUlm\n'
        '2\tIt said "Spatz" once.\tUlm\n'
        '3\t"two\nlines"\t"The ""Blue"" Danube"\n'
        "4\tno title\t\n"
        "5\tno title either\t\n"
        "\n"
        "6\tback\tUlm",
        "utf-8",
    )
    found = documents(path)
    assert [(each.doc_id, each.title, dict(each.meta)) for each in found] == [
        ("1", "Ulm", {"dpr_ids": ["1", "2"]}),
        ("3", 'The "Blue" Danube', {"dpr_ids": ["3"]}),
        ("4", "", {"dpr_ids": ["4"]}),
        ("5", "", {"dpr_ids": ["5"]}),
        ("6", "Ulm", {"dpr_ids": ["6"]}),
    ]
    assert [passage.text for passage in found[0].passages] == ['Ulm, "the city", is old.', 'It said "Spatz" once.']
    assert [passage.ordinal for passage in found[0].passages] == [1, 2]
    assert found[1].passages[0].text == "two\nlines"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("2\tonly two", "the row has 2 columns, wanted 3"),
        ("2\ta\tb\tc", "the row has 4 columns, wanted 3"),
        ('2\t"Spatz" he said\tUlm', "column 2 begins with a quote and has another inside that is not doubled"),
        ('2\t"never closed\tUlm', "a quoted field is never closed"),
        (" \ttext\tUlm", "the id is blank"),
        ("2\ta\x00b\tUlm", "the text holds a NUL character"),
    ],
)
def test_dpr_bad_row_is_named_and_the_next_row_is_read(tmp_path: Path, row: str, words: str) -> None:
    """A broken row, even one with an open quote, costs only itself."""
    path = tmp_path / "psgs.tsv"
    path.write_text(f"id\ttext\ttitle\n1\tone\tA\n{row}\n3\tthree\tB\n")
    assert f"{path}, line 3: {words}" in refusal(path)
    reading = read_corpus(path, skip_bad=True)
    assert [document.doc_id for document, _ in reading] == ["1", "3"]
    assert reading.report.bad_records == 1


def test_dpr_needs_its_header_and_takes_columns_by_name(tmp_path: Path) -> None:
    """Other orders of the columns are read right; a file without a header is refused."""
    path = tmp_path / "psgs.tsv"
    path.write_text("title\tid\ttext\textra\nUlm\t1\tA city.\tx\n")
    assert documents(path)[0].passages[0].text == "A city."
    path.write_text("1\tA city.\tUlm\n")
    assert "wanted a header with id, text and title" in refusal(path, "dpr")


def test_dpr_run_without_end_is_cut(tmp_path: Path) -> None:
    """A title column that says nothing does not make one endless document."""
    path = tmp_path / "psgs.tsv"
    path.write_text("id\ttext\ttitle\n" + "".join(f"{i}\ttext {i}\tsame\n" for i in range(1, 2501)))
    assert [(each.doc_id, len(each.passages)) for each in documents(path)] == [
        ("1", 1000),
        ("1001", 1000),
        ("2001", 500),
    ]


def test_very_long_paragraph_is_split_with_exact_offsets(tmp_path: Path) -> None:
    """Parts of a paragraph beyond 100,000 characters end after whitespace and know where they begin."""
    text = "word " * 50_000 + "x" * 150_000
    [document] = documents(write_jsonl(tmp_path / "c.jsonl", [{"_id": "1", "title": "", "text": text}]))
    assert len(document.passages) == 4
    assert {passage.ordinal for passage in document.passages} == {1}
    for passage in document.passages:
        assert len(passage.text) <= 100_000
        assert text[passage.char_offset : passage.char_offset + len(passage.text)] == passage.text
    assert "".join(passage.text for passage in document.passages) == text
    assert document.passages[0].text.endswith("word ")


def plain(**keys: object) -> CorpusDocument:
    """The document of an object with these keys besides id, title and text."""
    return parse_plain({"id": "a", "title": "T", "text": "One.\n\n \nTwo\nlines.", **keys})


def test_plain_objects_are_the_same_at_every_door() -> None:
    """Text is split at blank lines or comes as paragraphs; a whole number is an id."""
    document = plain(url="https://x/", meta={"n": 1}, aliases=["A", "A", "B"], id=7)
    assert (document.doc_id, document.url, document.meta) == ("7", "https://x/", {"n": 1})
    assert [(each.ordinal, each.text) for each in document.passages] == [(1, "One."), (2, "Two\nlines.")]
    assert [each.alias for each in document.aliases] == ["A", "B"]
    listed = plain(text=["One.\n\nTwo.", " ", "Three."])
    assert [(each.ordinal, each.text) for each in listed.passages] == [(1, "One.\n\nTwo."), (3, "Three.")]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"text": " \n"}, "'text' is blank, wanted some text"),
        ({"text": ["", " "]}, "'text' is blank, wanted some text"),
        ({"text": None}, "'text' is null, wanted a string"),
        ({"text": [1]}, r"'text'\[0\] is an int, wanted a paragraph"),
        ({"title": 3}, "'title' is an int, wanted a string"),
        ({"lang": "de"}, "has 'lang', wanted only 'id', 'title', 'text', .* under 'meta'"),
        ({"aliases": "A"}, "'aliases' is 'A', wanted a list of names"),
        ({"aliases": [" "]}, "alias"),
        ({"meta": [1]}, "'meta' is a list, wanted an object"),
    ],
)
def test_plain_objects_that_are_no_documents_are_refused(keys: dict[str, object], message: str) -> None:
    """With what was seen and what is wanted."""
    with pytest.raises(CorpusError, match=message):
        plain(**keys)
