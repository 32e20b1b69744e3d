"""A folder of text files and of books and papers (.pdf, .docx, .epub), or one such file: each is a document."""

from __future__ import annotations

import codecs
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Final

from bs4.dammit import EncodingDetector

from kbengine.corpus.compression import MAX_RECORD_BYTES, CorpusFile
from kbengine.corpus.document import CorpusDocument, Record, paragraph_passages
from kbengine.corpus.epub import epub_prose
from kbengine.corpus.html import html_text
from kbengine.corpus.markdown import markdown_text
from kbengine.corpus.paragraphs import plain_text
from kbengine.corpus.pdf import pdf_prose
from kbengine.corpus.word import word_prose
from kbengine.errors import CorpusError, InvalidOptionError, MissingExtraError
from storage.alias_records import NewAlias

_READERS: Final = {
    ".txt": plain_text,
    ".md": markdown_text,
    ".markdown": markdown_text,
    ".html": html_text,
    ".htm": html_text,
}
_BOOK_READERS: Final = {".pdf": pdf_prose, ".docx": word_prose, ".epub": epub_prose}
"""Of bytes that are no text."""
_ZIPPED: Final = (".docx", ".epub")
_MOST_CHAOS: Final = 10.0
"""Percent of a text that may look unlike any language where its encoding is guessed."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1f]")
PACKED: Final = (".gz", ".zst", ".bz2", ".xz")
DOCUMENT_SUFFIXES: Final = (*_READERS, *_BOOK_READERS)
"""Suffixes of files that are a document each."""
DOCUMENT_KINDS: Final = ".txt, .md, .html, .pdf, .docx or .epub file"
_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins like UTF-16's mark, so it comes first
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file to read and the id of its document: the path relative to the folder, with slashes."""

    path: Path
    doc_id: str


@dataclass(frozen=True, slots=True)
class FolderListing:
    """The documents below a folder, sorted by id, and how many other files there are by the end of their names."""

    files: tuple[TextFile, ...]
    ignored: Mapping[str, int]

    @property
    def n_ignored(self) -> int:
        """Return the number of files that are something else."""
        return sum(self.ignored.values())


def is_text_name(path: PurePath) -> bool:
    """Return whether the name is that of a text file, a book or a paper, packed or not."""
    return document_suffix(path) in DOCUMENT_SUFFIXES


def is_book_name(path: PurePath) -> bool:
    """Return whether the name is that of a .pdf, .docx or .epub file, packed or not: their bytes are no text."""
    return document_suffix(path) in _BOOK_READERS


def list_folder(root: Path) -> FolderListing:
    """Return the documents of a folder and its sub-folders, or of a path that is a file.

    Names that begin with a dot are left out, and links to folders are not followed.
    """
    if not root.is_dir():
        return FolderListing((TextFile(root, root.name),), {})
    files: list[TextFile] = []
    ignored: Counter[str] = Counter()
    for folder, below, names in os.walk(root, onerror=_refuse):
        below[:] = [name for name in below if not name.startswith(".")]
        for name in names:
            path = Path(folder, name)
            if is_text_name(path) and not name.startswith("."):
                files.append(TextFile(path, path.relative_to(root).as_posix()))
            elif not name.startswith("."):
                ignored[path.suffix.lower() or "no suffix"] += 1
    return FolderListing(tuple(sorted(files, key=lambda file: file.doc_id)), dict(ignored.most_common()))


def folder_records(listing: FolderListing) -> Iterator[Record]:
    """Yield one record a file, in the order of the listing, each read when it is asked for."""
    bytes_read = 0
    for number, file in enumerate(listing.files, 1):
        try:
            with CorpusFile(file.path, takes_zip=document_suffix(file.path) in _ZIPPED) as opened:
                data = opened.read(MAX_RECORD_BYTES + 1)
                bytes_read += opened.bytes_read
            document = text_document(file, data)
        except (CorpusError, MissingExtraError) as e:
            # The file names itself in its own errors; the reader of the corpus names it anyway.
            problem = e.message.removeprefix(f"{file.path}: ")
            yield Record(number, bytes_read, problem=problem, path=file.doc_id)
        else:
            empty = not document.passages
            yield Record(number, bytes_read, None if empty else document, path=file.doc_id, empty=empty)


def decode_text(data: bytes, *, is_html: bool = False) -> tuple[str, str | None]:
    r"""Return the text of a file, line ends as `\n`, and its encoding where that had to be guessed.

    It is UTF-8, or what a byte order mark or an HTML page declares; otherwise what charset-normalizer (extra
    `documents`) takes it for, where that is installed and sure.
    """
    guessed: str | None = None
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), "utf-8-sig")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as e:
        declared = _declared_text(data) if is_html and encoding == "utf-8-sig" else None
        if declared is None and encoding == "utf-8-sig":
            declared, guessed = _guessed_text(data)
        if declared is None:
            seen = f"byte 0x{data[e.start]:02x} at {e.start}" if e.start < len(data) else "an early end"
            raise CorpusError(
                f"{seen} is not {encoding.removesuffix('-sig').upper()}, wanted UTF-8, or UTF-16 with a byte "
                "order mark; save the file as UTF-8"
            ) from e
        text = declared
    return text.replace("\r\n", "\n").replace("\r", "\n"), guessed


def _guessed_text(data: bytes) -> tuple[str | None, str | None]:
    """Return the text and its likely encoding; None for both where nothing is likely, or nothing can guess."""
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return None, None
    best = from_bytes(data).best()
    if best is None or best.percent_chaos > _MOST_CHAOS or _CONTROL.search(str(best)):
        return None, None
    return str(best), str(best.encoding)


def _declared_text(data: bytes) -> str | None:
    name = EncodingDetector.find_declared_encoding(data[:4096], is_html=True)
    if not name:
        return None
    # Browsers read both names as windows-1252, and pages are written for browsers.
    codec = "windows-1252" if name.lower() in ("iso-8859-1", "latin-1", "us-ascii", "ascii") else name
    try:
        return data.decode(codec)
    except (LookupError, UnicodeError):
        return None


def text_document(file: TextFile, data: bytes) -> CorpusDocument:
    """Return the document of a file's bytes, its format by the name's suffix; the path is not opened.

    Raises:
        CorpusError: the bytes are too many, or no text.
        MissingExtraError: what reads files of this kind is not installed.
    """
    if len(data) > MAX_RECORD_BYTES:
        raise CorpusError(f"holds more than {MAX_RECORD_BYTES // 2**20} MiB, wanted one document a file; split it")
    suffix = document_suffix(file.path)
    if suffix in _BOOK_READERS:
        prose = _BOOK_READERS[suffix](data)
    else:
        read = _READERS.get(suffix, plain_text)
        text, guessed = decode_text(data, is_html=read is html_text)
        prose = read(text)
        if guessed is not None:
            prose = replace(prose, meta={**prose.meta, "encoding": guessed})
    passages = tuple(
        part for n, each in enumerate(prose.paragraphs, 1) for part in paragraph_passages(n, each.text, each.section)
    )
    try:
        aliases = tuple(NewAlias(alias, "document") for alias in prose.aliases)
    except InvalidOptionError as e:
        raise CorpusError(e.message) from e
    title = prose.title or _unpacked(file.path).stem.replace("_", " ").strip()
    return CorpusDocument(file.doc_id, title, prose.url, prose.meta, passages, aliases)


def document_suffix(path: PurePath) -> str:
    """Return the suffix that says what the document is, lower-case: of `a.md.gz` it is `.md`."""
    return _unpacked(path).suffix.lower()


def _unpacked(path: PurePath) -> PurePath:
    return path.with_suffix("") if path.suffix.lower() in PACKED else path


def _refuse(error: OSError) -> None:
    raise CorpusError(f"{error.filename}: the folder cannot be listed: {error.strerror}") from error
