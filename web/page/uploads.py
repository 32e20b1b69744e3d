"""Documents from the page's form: a pasted text, or files that are read where they are, in memory."""

from __future__ import annotations

import itertools
import json
import re
import tempfile
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from kbengine.corpus.compression import MAX_RECORD_BYTES, CorpusFile
from kbengine.corpus.document import CorpusDocument, CorpusPassage, paragraph_passages
from kbengine.corpus.folder import DOCUMENT_SUFFIXES, PACKED, TextFile, document_suffix, text_document
from kbengine.corpus.reader import read_corpus
from kbengine.errors import CorpusError, MissingExtraError
from storage.records import JSON
from web import limits
from web.page.answer_view import safe_source

if TYPE_CHECKING:
    from werkzeug.datastructures import FileStorage

LINES_SUFFIXES = (".jsonl", ".ndjson", ".json")
ACCEPTED = (*DOCUMENT_SUFFIXES, *LINES_SUFFIXES, *PACKED)
_FIELDS_WANTED = """wanted an object such as {"source": "manual", "tags": ["new"]}"""
_UNNAMEABLE = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def pasted_document(
    title: str, text: str, *, url: str = "", doc_id: str = "", fields: str = "", is_taken: Callable[[str], bool]
) -> CorpusDocument:
    """Return the document of a pasted text, paragraphs parted by blank lines; without an id it gets a free one.

    Raises:
        CorpusError: title or text is blank, the address is none of the web, or the fields are no JSON object.
    """
    if not title.strip() or not text.strip():
        missing = "title" if not title.strip() else "text"
        raise CorpusError(f"the {missing} is empty; give the document a title and some text")
    if len(title) > limits.TITLE_CHARS:
        raise CorpusError(f"the title has {len(title):,} characters, wanted at most {limits.TITLE_CHARS:,}; shorten it")
    if url.strip() and safe_source(url.strip()) is None:
        raise CorpusError(f"the source is {url.strip()[:80]!r}, wanted an address that begins with http:// or https://")
    passages: list[CorpusPassage] = []
    paragraphs = re.split(r"\n[^\S\n]*\n", text.replace("\r\n", "\n"))
    for ordinal, paragraph in enumerate((one.strip() for one in paragraphs if one.strip()), start=1):
        passages.extend(paragraph_passages(ordinal, paragraph))
    return CorpusDocument(
        _checked_id(doc_id.strip()) if doc_id.strip() else free_id(title, is_taken),
        title.strip(),
        url.strip() or None,
        _fields(fields),
        tuple(passages),
    )


def _fields(text: str) -> dict[str, JSON]:
    """Return the fields of a document as they were typed."""
    try:
        value = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"the fields cannot be read as JSON ({error}); {_FIELDS_WANTED}") from error
    if not isinstance(value, dict):
        raise CorpusError(f"the fields are {text.strip()[:80]!r}; {_FIELDS_WANTED}")
    return value


def uploaded_documents(files: Iterable[FileStorage]) -> list[CorpusDocument]:
    """Return the documents of uploaded files: a text file is one, with its name as id; JSON lines hold one a line.

    Raises:
        CorpusError: a file cannot be read, or there are too many documents; names the file.
    """
    documents: list[CorpusDocument] = []
    for file in files:
        name = _UNNAMEABLE.sub(" ", PurePosixPath((file.filename or "").replace("\\", "/")).name).strip()
        if not name:
            continue
        try:
            documents += _file_documents(name, file.stream.read())
        except CorpusError as error:
            raise CorpusError(f"the file {name}: {error.message}") from error
        if len(documents) > limits.DOCUMENTS:
            raise CorpusError(
                f"the file {name}: more than {limits.DOCUMENTS:,} documents at once; add large collections with "
                "'kbengine add'"
            )
    return documents


def free_id(title: str, is_taken: Callable[[str], bool]) -> str:
    """Return an id made of the title's letters and digits that no document has."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    base = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:80] or "document"
    candidates = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
    return next(candidate for candidate in candidates if not is_taken(candidate))


def _checked_id(doc_id: str) -> str:
    if len(doc_id) > limits.ID_CHARS or _UNNAMEABLE.search(doc_id):
        raise CorpusError(f"the id is {doc_id[:80]!r}, wanted at most {limits.ID_CHARS} printable characters")
    return doc_id


def _file_documents(name: str, data: bytes) -> list[CorpusDocument]:
    """Return the documents of a file: of JSON lines one a line, otherwise one under the file's name."""
    suffix = document_suffix(PurePosixPath(name))
    if suffix not in (*DOCUMENT_SUFFIXES, *LINES_SUFFIXES):
        raise CorpusError(f"is of a kind that is not read here; wanted {', '.join(ACCEPTED)}")
    with tempfile.TemporaryDirectory(prefix="kbengine-upload-") as folder:
        path = Path(folder, "upload.jsonl")  # a name of our own
        path.write_bytes(data)
        try:
            if suffix in LINES_SUFFIXES:
                return [each for each, _ in itertools.islice(read_corpus(path), limits.DOCUMENTS + 1)]
            with CorpusFile(path, takes_zip=True) as file:
                document = text_document(TextFile(Path(name), _checked_id(name)), file.read(MAX_RECORD_BYTES + 1))
        except (CorpusError, MissingExtraError) as error:
            raise CorpusError(error.message.replace(f"{path}: ", "").replace(f"{path}, ", "")) from None
    if not document.passages:
        raise CorpusError("holds no text; choose another file")
    return [document]
