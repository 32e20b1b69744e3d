"""PDF, Word and EPUB files and texts of other encodings, as corpora and over HTTP."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random

import pytest

from kbengine.corpus.epub import epub_prose
from kbengine.corpus.pdf import pdf_prose
from kbengine.corpus.reader import read_corpus
from kbengine.corpus.word import word_prose
from kbengine.errors import CorpusError
from tests.integrations.documents.made_files import CONTAINER, PACKAGE, zipped
from tests.test_docs import ROOT, run_examples
from tests.waiting import wait_until


def texts(prose):
    """Return the paragraphs with their sections."""
    return [(each.text, each.section) for each in prose.paragraphs]


def test_a_pdf_has_paragraphs_under_their_pages(paper):
    """Lines are joined, parted words too; a page without text is named."""
    prose = pdf_prose(paper)

    assert texts(prose)[-1] == ("The lighthouse of Harrowby was lit in 1851.", "page 3")
    first = " ".join(text for text, section in texts(prose) if section == "page 1")
    assert "the waterwheels of Harrowby." in first and "was redirected in 1851." in first
    assert prose.title == "On mills"
    assert prose.meta == {
        "author": "Rosa Quill", "date": "1902-05-01", "file_format": "pdf", "pages": 3, "pages_without_text": [2]
    }  # fmt: skip


def test_a_word_document_has_sections_and_tables(word_file):
    """In their order; its title is the heading of that style."""
    prose = word_prose(word_file)

    assert prose.title == "The mill of Quillmere"
    assert texts(prose) == [
        ("It was built in 1764.", None),
        ("year | owner\n1764 | Ada Thorne", "Owners"),
        ("The mill has a wheel.", "Owners"),
    ]
    assert prose.meta["author"] == "Rosa Quill" and prose.meta["file_format"] == "docx"


def test_a_book_is_read_in_its_order(book):
    """By its spine, without its table of contents."""
    prose = epub_prose(book)

    assert texts(prose) == [("The Tarn is a river.", "One"), ("Its mill was built in 1764.", "Quillmere")]
    assert prose.title == "Mills of the Tarn"
    assert prose.meta == {"author": "Rosa Quill", "language": "en", "date": "1902-05-01", "file_format": "epub"}


def test_a_folder_holds_all_kinds(tmp_path, paper, word_file, book):
    """Packed ones too; ids are the paths."""
    (tmp_path / "a.pdf").write_bytes(paper)
    (tmp_path / "b.pdf.gz").write_bytes(gzip.compress(paper))
    (tmp_path / "c.docx").write_bytes(word_file)
    (tmp_path / "d.epub").write_bytes(book)
    (tmp_path / "e.txt.xz").write_bytes(lzma.compress(b"Text."))
    (tmp_path / "f.md.bz2").write_bytes(bz2.compress(b"# Title\n\nText."))
    reading = read_corpus(tmp_path)

    assert [document.doc_id for document, _ in reading] == [
        "a.pdf", "b.pdf.gz", "c.docx", "d.epub", "e.txt.xz", "f.md.bz2"
    ]  # fmt: skip
    assert [document.title for document, _ in read_corpus(tmp_path / "c.docx")] == ["The mill of Quillmere"]


def test_files_that_cannot_be_read_are_named(tmp_path, damaged):
    """Each with what is wrong; the others are read if that is wanted."""
    for name, (data, said) in damaged.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(CorpusError, match="fix the file") as caught:
            list(read_corpus(tmp_path / name))
        assert said in caught.value.message and name in caught.value.message
    (tmp_path / "good.txt").write_text("Text.")
    reading = read_corpus(tmp_path, skip_bad=True)

    assert [document.doc_id for document, _ in reading] == ["good.txt"]
    assert reading.report.bad_records == len(damaged) == len(reading.unreadable_files)


def test_whatever_is_damaged_is_told_as_such(paper, word_file, book):
    """Never by another error: bytes changed at random."""
    chance = random.Random(7)
    for data, read in ((paper, pdf_prose), (word_file, word_prose), (book, epub_prose)):
        for _ in range(40):
            changed = bytearray(data)
            for _ in range(chance.randint(1, 30)):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            try:
                read(bytes(changed))
            except CorpusError as error:
                assert error.message


def test_an_archive_that_unpacks_to_too_much_is_refused():
    """Before it is unpacked."""
    large = zipped({"META-INF/container.xml": CONTAINER, "big": "0" * (257 << 20)})

    assert len(large) < 1 << 20
    with pytest.raises(CorpusError, match="unpacks to 2 files of 257 MiB"):
        epub_prose(large)


def test_entities_of_a_book_are_not_followed():
    """Neither files nor bombs."""
    package = '<!DOCTYPE p [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + PACKAGE.replace("Mills of the Tarn", "&x;")
    page = "<html><body><p>Text.</p></body></html>"
    made = zipped({"META-INF/container.xml": CONTAINER, "OEBPS/book.opf": package,
                   "OEBPS/one.xhtml": page, "OEBPS/two b.xhtml": page})  # fmt: skip

    assert "root" not in (epub_prose(made).title or "")


LATIN = "Die Mühle von Quillmere wurde 1764 gebaut. Später fand man heraus, daß sie größer war als die übrigen Mühlen."
GREEK = "Ο μύλος χτίστηκε το 1764 από την Άντα. Αργότερα τον αγόρασε η κοινότητα και τον επισκεύασε με πολύ κόπο."


@pytest.mark.parametrize(("text", "encoding"), [(LATIN, "cp1252"), (GREEK, "cp1253")])
def test_other_encodings_are_recognised_and_told(tmp_path, text, encoding):
    """The field `encoding` says that it was guessed."""
    (tmp_path / "a.txt").write_bytes(text.encode(encoding))
    ((document, _),) = read_corpus(tmp_path)

    assert document.passages[0].text == text
    assert "encoding" in document.meta


def test_bytes_that_are_no_text_stay_an_error(tmp_path):
    """Rather than being guessed."""
    (tmp_path / "a.txt").write_bytes(random.Random(1).randbytes(2000))
    with pytest.raises(CorpusError, match="is not UTF-8"):
        list(read_corpus(tmp_path))


def test_a_job_of_the_service_takes_them(service, paper):
    """The name says what the file is, and is the document's id."""
    client = service.client
    answer = client.post("/v1/documents:upload?name=mills.pdf", data=paper, content_type="application/octet-stream")
    assert answer.status_code == 202, answer.text
    job = answer.json["id"]
    wait_until(lambda: client.get(f"/v1/jobs/{job}").json["state"] in ("succeeded", "failed", "cancelled"))
    assert client.get(f"/v1/jobs/{job}").json["state"] == "succeeded"
    document = client.get("/v1/documents/mills.pdf").json
    assert document["title"] == "On mills" and document["passages"][-1]["section"] == "page 3"


def test_the_page_takes_them(service, word_file, damaged):
    """What cannot be read is named there, too."""
    from werkzeug.datastructures import FileStorage

    from web.page.uploads import uploaded_documents

    (document,) = uploaded_documents([FileStorage(io.BytesIO(word_file), "mill.docx")])
    assert document.doc_id == "mill.docx" and document.passages[1].section == "Owners"
    for name, (data, said) in damaged.items():
        with pytest.raises(CorpusError) as caught:
            uploaded_documents([FileStorage(io.BytesIO(data), name)])
        assert said in caught.value.message and caught.value.message.startswith(f"the file {name}: ")


def test_the_examples_of_the_page_run(bases, tmp_path, monkeypatch, paper):
    """As a reader would type them."""
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "mills.pdf").write_bytes(paper)
    run_examples(ROOT / "docs" / "how-to" / "read-files.md", bases, tmp_path, monkeypatch)
