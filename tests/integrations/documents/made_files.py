"""A PDF, a .docx and an EPUB file, each with text that is known."""

from __future__ import annotations

import io
import zipfile

import docx
import pypdf
import pytest
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

PAGES = [
    ["The mill of Quillmere was built in 1764 by Ada Thorne, who had seen the water-", "wheels of Harrowby.", "",
     "It ground wheat until the river was re-", "directed in 1851."],
    [],
    ["The lighthouse of Harrowby was lit in 1851."],
]  # fmt: skip
CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0"><rootfiles>'
    '<rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
PACKAGE = (
    '<package xmlns="http://www.idpf.org/2007/opf" version="3.0">'
    '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Mills of the Tarn</dc:title>'
    "<dc:creator>Rosa Quill</dc:creator><dc:language>en</dc:language><dc:date>1902-05-01</dc:date></metadata>"
    '<manifest><item id="b" href="two%20b.xhtml" media-type="application/xhtml+xml"/>'
    '<item id="a" href="one.xhtml" media-type="application/xhtml+xml"/>'
    '<item id="n" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/></manifest>'
    '<spine><itemref idref="n"/><itemref idref="a"/><itemref idref="b"/></spine></package>'
)


def pdf(pages, password=None):
    """Return a PDF file with the lines of each page; an empty line is left blank."""
    writer = pypdf.PdfWriter()
    for lines in pages:
        page = writer.add_blank_page(600, 800)
        font = DictionaryObject(
            {NameObject("/Type"): NameObject("/Font"), NameObject("/Subtype"): NameObject("/Type1"),
             NameObject("/BaseFont"): NameObject("/Helvetica")}
        )  # fmt: skip
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): writer._add_object(font)})}
        )
        drawn = "".join(f"({line}) Tj T* " if line else "T* T* " for line in lines)
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 14 TL 50 750 Td {drawn}ET".encode("latin-1") if lines else b"")
        page[NameObject("/Contents")] = writer._add_object(stream)
    writer.add_metadata({"/Title": "On mills", "/Author": "Rosa Quill", "/CreationDate": "D:19020501120000Z"})
    if password is not None:
        writer.encrypt(password, algorithm="RC4-128")
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


def zipped(files):
    """Return a zip archive of texts by their names."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return file.getvalue()


@pytest.fixture(scope="session")
def paper():
    """A PDF file of three pages, the second without text."""
    return pdf(PAGES)


@pytest.fixture(scope="session")
def scan():
    """A PDF file without text."""
    return pdf([[], []])


@pytest.fixture(scope="session")
def word_file():
    """A .docx file with headings and a table."""
    made = docx.Document()
    made.core_properties.author = "Rosa Quill"
    made.add_heading("The mill of Quillmere", 0)
    made.add_paragraph("It was built in 1764.")
    made.add_heading("Owners", 1)
    table = made.add_table(2, 2)
    for row, texts in zip(table.rows, [("year", "owner"), ("1764", "Ada  Thorne")], strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    made.add_paragraph("The mill has a wheel.")
    file = io.BytesIO()
    made.save(file)
    return file.getvalue()


@pytest.fixture(scope="session")
def book():
    """An EPUB file of two chapters, the later one named first."""
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": CONTAINER,
            "OEBPS/book.opf": PACKAGE,
            "OEBPS/nav.xhtml": "<html><body><p>Contents</p></body></html>",
            "OEBPS/one.xhtml": "<html><head><title>One</title></head><body><p>The Tarn is a river.</p></body></html>",
            "OEBPS/two b.xhtml": "<html><body><h2>Quillmere</h2><p>Its mill was built in 1764.</p></body></html>",
        }
    )


@pytest.fixture(scope="session")
def damaged(paper, word_file, book):
    """A file of each kind that cannot be read, by its name, with what is said of it."""
    return {
        "cut.pdf": (paper[: len(paper) // 3], "is damaged"),
        "text.pdf": (b"no PDF at all", "is no PDF file"),
        "locked.pdf": (pdf(PAGES, password="x"), "needs a password"),
        "empty.pdf": (pdf([[]]), "1 pages and no text on them"),
        "cut.docx": (word_file[: len(word_file) // 2], "is no .docx file, or is damaged"),
        "book.docx": (book, "is no .docx file, or is damaged"),
        "cut.epub": (book[:100], "is no EPUB file, or is damaged"),
        "word.epub": (word_file, "is no EPUB file: it holds no 'META-INF/container.xml'"),
        "locked.epub": (
            zipped({"META-INF/container.xml": CONTAINER, "META-INF/rights.xml": "<x/>"}), "is protected (DRM)"
        ),
        "gone.epub": (zipped({"META-INF/container.xml": CONTAINER}), "holds no 'OEBPS/book.opf'"),
        "blank.epub": (
            zipped({"META-INF/container.xml": CONTAINER, "OEBPS/book.opf": "<package/>"}), "names no chapters"
        ),
    }  # fmt: skip
