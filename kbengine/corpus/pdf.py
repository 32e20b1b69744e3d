"""PDF: the text of its pages by paragraphs, each under the page that it stands on (extra `documents`)."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kbengine.corpus.paragraphs import Paragraph, Prose
from kbengine.errors import CorpusError, MissingExtraError
from storage.records import JSON

_FACTS: Final = {"/Author": "author", "/Subject": "subject", "/Keywords": "keywords"}
_DATE: Final = re.compile(r"D:(\d{4})(\d{2})(\d{2})")
_SENTENCE_END: Final = re.compile(r"""[.!?:]["'”’)]*$""")
_SHORT: Final = 0.75
"""A line that ends a sentence and is shorter than this share of the page's widest ends its paragraph, too."""


def pdf_prose(data: bytes) -> Prose:
    """Return the paragraphs of a PDF file; the section of each is its page, such as "page 3".

    Lines are joined to paragraphs, and words that were parted at the end of a line to words. Title, author, subject and
    date are taken from what the file says of itself; `pages` is their number, `pages_without_text` names those that
    hold pictures only.

    Raises:
        CorpusError: it is damaged, needs a password, or has no text on any page.
        MissingExtraError: the package pypdf is not installed.
    """
    try:
        import pypdf
    except ImportError as error:
        raise MissingExtraError.of("reading a PDF file", "pypdf", "documents") from error
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # what matters is told by the errors below
    try:
        file = pypdf.PdfReader(io.BytesIO(data))
        if file.is_encrypted and not file.decrypt(""):
            raise CorpusError("needs a password; save it without one")
        pages = [page.extract_text() for page in file.pages]
        facts = _facts(file.metadata or {})
    except CorpusError:
        raise
    except ImportError as error:  # AES needs one more package
        raise CorpusError(f"is encrypted in a way that needs another package ({error}); save it without") from error
    except Exception as error:  # a damaged file can fail anywhere in the library
        raise CorpusError(f"is no PDF file, or is damaged ({type(error).__name__}: {error}); save it again") from error
    blank = [number for number, text in enumerate(pages, start=1) if not text.strip()]
    if len(blank) == len(pages):
        raise CorpusError(
            f"has {len(pages)} pages and no text on them: pictures of pages, perhaps; recognise their text first, for "
            "example with ocrmypdf"
        )
    paragraphs = tuple(
        Paragraph(text, f"page {number}") for number, page in enumerate(pages, start=1) for text in _paragraphs(page)
    )
    title = " ".join(str((file.metadata or {}).get("/Title") or "").split()) or None
    meta: dict[str, JSON] = {**facts, "file_format": "pdf", "pages": len(pages)}
    if blank:
        meta["pages_without_text"] = list(blank)
    return Prose(title, paragraphs, meta=meta)


def _facts(stated: Mapping[str, Any]) -> dict[str, JSON]:
    facts: dict[str, JSON] = {}
    for key, name in _FACTS.items():
        value = " ".join(str(stated.get(key) or "").split())
        if value:
            facts[name] = value
    date = _DATE.match(str(stated.get("/CreationDate") or ""))
    if date is not None:
        facts["date"] = "-".join(date.groups())
    return facts


def _paragraphs(page: str) -> Iterator[str]:
    """Yield the paragraphs of a page: parted by blank lines, or where a sentence ends in a short line."""
    lines = [" ".join(line.replace("\x00", "").split()) for line in page.split("\n")]
    widest = max(map(len, lines), default=0)
    paragraph = ""
    for line in lines:
        if not line:
            if paragraph:
                yield paragraph
            paragraph = ""
            continue
        paragraph = _joined(paragraph, line)
        if len(line) < _SHORT * widest and _SENTENCE_END.search(line):
            yield paragraph
            paragraph = ""
    if paragraph:
        yield paragraph


def _joined(before: str, line: str) -> str:
    if not before:
        return line
    if before.endswith("\u00ad") or (before.endswith("-") and before[-2:-1].islower() and line[:1].islower()):
        return before[:-1] + line
    return f"{before} {line}"
