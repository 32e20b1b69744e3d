"""A folder of text, Markdown and HTML files is a corpus; so is one such file."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from kbengine.corpus import CorpusDocument, read_corpus
from kbengine.errors import CorpusError, EmptyCorpusError


def documents(path: Path) -> list[CorpusDocument]:
    """All documents of a corpus."""
    return [document for document, _ in read_corpus(path)]


def texts(document: CorpusDocument) -> list[str]:
    """The texts of the passages."""
    return [passage.text for passage in document.passages]


def sections(document: CorpusDocument) -> list[str | None]:
    """The sections of the passages."""
    return [passage.section for passage in document.passages]


def one(folder: Path, name: str, text: str) -> CorpusDocument:
    """The document of a file with this text."""
    path = folder / name
    path.write_text(text, "utf-8")
    [document] = documents(path)
    return document


def test_folder_is_read_recursively_in_order_of_paths(tmp_path: Path) -> None:
    """Ids are relative paths, hidden files are left out, other files are counted."""
    for name in ("b/z.md", "b/a.txt", "a.html", ".git/x.txt", "b/.hidden.md", "b/photo.jpg", "c.TXT"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("some text")
    (tmp_path / "b/packed.txt.gz").write_bytes(gzip.compress(b"packed text"))
    reading = read_corpus(tmp_path)
    found = [document for document, _ in reading]
    assert [each.doc_id for each in found] == ["a.html", "b/a.txt", "b/packed.txt.gz", "b/z.md", "c.TXT"]
    assert texts(found[2]) == ["packed text"]
    assert found[2].title == "packed"
    assert reading.report.ignored_files == 1 and reading.report.ignored_suffixes == {".jpg": 1}


def test_empty_files_are_counted_and_named_but_are_no_documents(tmp_path: Path) -> None:
    """A folder of nothing but such files is refused."""
    (tmp_path / "a.txt").write_text("text")
    for name in ("b.txt", "c.md"):
        (tmp_path / name).write_text("\n \n")
    reading = read_corpus(tmp_path)
    assert [document.doc_id for document, _ in reading] == ["a.txt"]
    assert (reading.report.documents, reading.report.empty_files) == (1, 2)
    assert [Path(name).name for name in reading.report.first_empty] == ["b.txt", "c.md"]
    (tmp_path / "a.txt").unlink()
    with pytest.raises(EmptyCorpusError, match="its 2 files are empty"):
        documents(tmp_path)


def test_plain_text_is_split_at_blank_lines(tmp_path: Path) -> None:
    """Line breaks inside a paragraph stay, line ends of any system are one, the file name is the title."""
    path = tmp_path / "city_of_ulm.txt"
    path.write_bytes(b"Ulm is\r\na city.\r\n \t\r\n\r\nIt is old.\r\n")
    [document] = documents(path)
    assert (document.doc_id, document.title) == ("city_of_ulm.txt", "city of ulm")
    assert texts(document) == ["Ulm is\na city.", "It is old."]
    assert [passage.ordinal for passage in document.passages] == [1, 2]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_text_is_decoded_by_its_byte_order_mark(tmp_path: Path, encoding: str) -> None:
    """UTF-8 needs no mark, the others are known by theirs."""
    path = tmp_path / "a.txt"
    path.write_bytes("Zürich 東京".encode(encoding))
    assert texts(documents(path)[0]) == ["Zürich 東京"]


def test_unknown_encoding_is_refused_and_can_be_skipped(tmp_path: Path) -> None:
    """A Latin-1 file is named with the byte that tells."""
    (tmp_path / "bad.txt").write_bytes("Z\xfcrich".encode("latin-1"))
    (tmp_path / "good.txt").write_text("Ulm")
    with pytest.raises(CorpusError) as caught:
        documents(tmp_path)
    message = caught.value.message
    assert message.startswith(f"{tmp_path / 'bad.txt'}: byte 0xfc at 1 is not UTF-8")
    assert message.endswith("fix the file or pass --skip-bad")
    reading = read_corpus(tmp_path, skip_bad=True)
    assert [document.doc_id for document, _ in reading] == ["good.txt"]
    assert reading.report.bad[0].file == str(tmp_path / "bad.txt")


def test_markdown_headings_become_sections_and_markup_goes(tmp_path: Path) -> None:
    """The words stay, with links, emphasis, quotes and tables reduced to their text."""
    document = one(
        tmp_path,
        "ulm.md",
        "# Ulm *city*\n\n"
        'Ulm is a **city** on the [Danube](https://x/(d) "t"), see [minster][m] &amp; ![spire](s.png).\n\n'
        "[m]: https://x/minster\n\n"
        "## History ##\n\n"
        "> First named in\n> 854 as _Hulma_, a snake_case_word and 2 * 3 * 4.\n\n"
        "Modern\n------\n\n"
        "- one\n- two <b>bold</b>\n\n"
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n"
        "<!-- hidden\n\nover paragraphs -->\n\n"
        "```python\n# not a heading\n\nx = a*b*c\n```\n\n"
        "Call `f(*args)` if a<b and c>d, \\*literally\\*.\n",
    )
    assert document.title == "Ulm city"
    assert texts(document) == [
        "Ulm is a city on the Danube, see minster & spire.",
        "First named in\n854 as Hulma, a snake_case_word and 2 * 3 * 4.",
        "- one\n- two bold",
        "| a | b |\n| 1 | 2 |",
        "# not a heading\n\nx = a*b*c",
        "Call f(*args) if a<b and c>d, *literally*.",
    ]
    assert sections(document) == [None, "History", "Modern", "Modern", "Modern", "Modern"]


def test_markdown_title_comes_from_front_matter_heading_or_name(tmp_path: Path) -> None:
    """Front matter first, then a first heading, then the file name."""
    front = one(tmp_path, "a.md", '---\ntitle: "The Danube"\ntags: x\n---\n# Other\n\ntext\n')
    assert (front.title, texts(front), sections(front)) == ("The Danube", ["text"], ["Other"])
    assert one(tmp_path, "b.md", "## Second level\n\ntext\n").title == "Second level"
    assert one(tmp_path, "c_d.md", "text\n\n## Later\n\nmore\n").title == "c d"
    assert texts(one(tmp_path, "e.md", "---\n\ntext\n\n---\n\nmore\n")) == ["text", "more"]


def test_front_matter_is_what_a_document_says_of_itself(tmp_path: Path) -> None:
    """Title, url and aliases are the document's own; all else is meta, dates as ISO strings that can be compared."""
    document = one(
        tmp_path,
        "a.md",
        "---\ntitle: 1.10\nurl: https://x/danube\naliases: [Donau, Ister]\ntags: [river]\ndate: 2020-01-31\n"
        "updated: 2021-02-03 04:05:06\nlength: {km: 2850}\ndraft: no\nnote:\n---\n\nThe Danube flows.\n",
    )
    assert (document.title, document.url) == ("1.10", "https://x/danube")
    assert [alias.alias for alias in document.aliases] == ["Donau", "Ister"]
    assert document.meta == {
        "tags": ["river"],
        "date": "2020-01-31",
        "updated": "2021-02-03T04:05:06",
        "length": {"km": 2850},
        "draft": False,
    }
    assert texts(document) == ["The Danube flows."]


@pytest.mark.parametrize(
    ("front", "message"),
    [
        ("title: a: b", "front matter .* mapping values are not allowed"),
        ("aliases: {a: b}", "'aliases' in the front matter is a dict, wanted a list of names"),
        ("title: [a]", "'title' in the front matter is a list, wanted text"),
        ("a: &x [1]\nb: *x", "references .* not supported"),
        ("a: !!python/object:os.system x", "front matter"),
        ("a: .nan", "meta cannot be stored"),
    ],
)
def test_front_matter_that_cannot_be_read_is_refused(tmp_path: Path, front: str, message: str) -> None:
    """With the file's name, what is wrong, and how to go on without it."""
    (tmp_path / "a.md").write_text(f"---\n{front}\n---\n\ntext\n")
    with pytest.raises(CorpusError, match=rf"a\.md: .*{message}.*--skip-bad"):
        documents(tmp_path / "a.md")


def test_markdown_lists_are_one_paragraph_unless_their_items_stand_apart(tmp_path: Path) -> None:
    """Items keep their marks and levels; blank lines between items part them."""
    tight = one(tmp_path, "a.md", "1. one\n   - inner *text*\n     goes on\n2. | a |\n   |---|\n   | 1 |\n")
    assert texts(tight) == ["1. one\n   - inner text\n     goes on\n2. | a |\n   | 1 |"]
    loose = one(tmp_path, "b.md", "* one\n\n  more\n* two\n  ```\n  x\n\n  y\n  ```\n")
    assert texts(loose) == ["* one\n  more", "* two\n  x\n\n  y"]


def test_html_in_markdown_is_read_as_html(tmp_path: Path) -> None:
    """Blocks of HTML give their text, and a heading in front the title; what only looks like a tag stays."""
    document = one(
        tmp_path,
        "a.md",
        "<h1 align='center'>Ulm</h1>\n\n<div><script>no</script>A <b>city</b></div>\n\n"
        "A `List<String>` is a List<String>,<br>press <kbd class='k'>x</kbd>.\n",
    )
    assert document.title == "Ulm"
    assert texts(document) == ["A city", "A List<String> is a List<String>,\npress x."]


@pytest.mark.parametrize("piece", ["> ", "- ", "[", "*a ", "x ` ", "x <!-- ", "<a ", "![", "|", "a\\\n"])
def test_markdown_made_to_be_slow_is_read_or_refused(tmp_path: Path, piece: str) -> None:
    """Thousands of openings that are never closed take no quadratic time and lose no text in silence."""
    path = tmp_path / "a.md"
    path.write_text("x\n\n" + piece * 2_000 + "end\n")
    try:
        assert "end" in texts(documents(path)[0])[-1]
    except CorpusError as e:
        assert "nested" in e.message


def test_html_says_language_address_and_facts(tmp_path: Path) -> None:
    """Of `<html lang>`, the canonical link and `<meta>` tags about the content; those about the page are left out."""
    document = one(
        tmp_path,
        "a.html",
        '<html lang="de"><head><title>Ulm</title><link rel="canonical" href="https://x/ulm">'
        '<meta name="viewport" content="width=1"><meta name="Author" content="A. Author">'
        '<meta name="date" content="2020-01-31"><meta name="keywords" content="city, Danube ,"></head>'
        "<body><p>Ulm ist eine Stadt.</p></body></html>",
    )
    assert document.url == "https://x/ulm"
    assert document.meta == {
        "language": "de",
        "author": "A. Author",
        "date": "2020-01-31",
        "keywords": ["city", "Danube"],
    }


def test_html_keeps_what_people_read(tmp_path: Path) -> None:
    """Scripts, styles and navigation go; headings are sections; lists and tables stay together."""
    document = one(
        tmp_path,
        "ulm.html",
        "<!doctype html><html><head><title>Ulm &amp; region</title><style>p {x}</style></head><body>"
        "<nav><ul><li>Home</li></ul></nav><script>var x = '<p>no</p>';</script>"
        "<h1>Ulm &amp; region</h1><p>Ulm is\n   a <b>city</b><!-- no -->.</p>loose <i>text</i>"
        "<h2>Hi<em>story</em></h2><div>First <div>nested</div> last</div>"
        "<ul><li>one</li><li>two <a href='x'>link</a></li></ul>"
        "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>"
        "<pre>x  =\n   1</pre><p>a<br>b</p></body></html>",
    )
    assert document.title == "Ulm & region"
    assert texts(document) == [
        "Ulm is a city.",
        "loose text",
        "First",
        "nested",
        "last",
        "one\ntwo link",
        "a | b\n1 | 2",
        "x  =\n   1",
        "a\nb",
    ]
    assert sections(document) == [None, None] + ["History"] * 7


def test_html_title_falls_back_to_the_first_heading_and_the_name(tmp_path: Path) -> None:
    """XHTML is read without warnings; a file without tags is plain text."""
    xhtml = '<?xml version="1.0" encoding="UTF-8"?>\n<html xmlns="x"><body><h1>Ulm</h1><p>text</p></body></html>'
    document = one(tmp_path, "a.html", xhtml)
    assert (document.title, texts(document), sections(document)) == ("Ulm", ["text"], [None])
    plain = one(tmp_path, "no_tags.htm", "just words.html")
    assert (plain.title, texts(plain)) == ("no tags", ["just words.html"])


def test_html_declared_encoding_is_respected(tmp_path: Path) -> None:
    """A page in windows-1252 that says so is read; one that says nothing is refused."""
    page = '<html><head><meta charset="ISO-8859-1"></head><body><p>Zürich – old</p></body></html>'
    (tmp_path / "a.html").write_bytes(page.encode("windows-1252"))
    assert texts(documents(tmp_path / "a.html")[0]) == ["Zürich – old"]
    (tmp_path / "a.html").write_bytes(page.replace("charset", "name").encode("windows-1252"))
    with pytest.raises(CorpusError, match="is not UTF-8"):
        documents(tmp_path / "a.html")


def test_html_nested_deeper_than_the_recursion_limit_is_read(tmp_path: Path) -> None:
    """Five thousand nested elements are walked without recursion."""
    document = one(tmp_path, "deep.html", "<p>start</p>" + "<div>" * 5000 + "<p>deep</p>")
    assert texts(document)[0] == "start"


def test_folder_without_text_files_says_what_it_holds(tmp_path: Path) -> None:
    """Files of other formats in a folder have to be named, and the message says so."""
    (tmp_path / "pages.jsonl").write_text("{}")
    with pytest.raises(CorpusError, match=r"no \.txt, .* or \.epub file among its 1 files"):
        read_corpus(tmp_path)
    with pytest.raises(CorpusError, match="is a folder, but the format kilt is one of files"):
        read_corpus(tmp_path, format="kilt")
