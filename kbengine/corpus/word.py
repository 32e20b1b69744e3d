"""Word documents (.docx): paragraphs under their headings, tables row by row (extra `documents`)."""

from __future__ import annotations

import io
import re
from typing import Any, Final

from kbengine.corpus.paragraphs import Paragraph, Prose
from kbengine.corpus.zipped import opened_zip
from kbengine.errors import CorpusError, MissingExtraError
from storage.records import JSON

_HEADING: Final = re.compile(r"(heading \d|title)", re.IGNORECASE)


def word_prose(data: bytes) -> Prose:
    """Return the paragraphs of a .docx file; headings are sections, a table is one paragraph with a row a line.

    Title, author, subject, keywords and date are taken from what the file says of itself; without a title it is the
    first paragraph of the style Title.

    Raises:
        CorpusError: it is damaged, or no .docx file.
        MissingExtraError: the package python-docx is not installed.
    """
    try:
        import docx
    except ImportError as error:
        raise MissingExtraError.of("reading a Word document", "python-docx", "documents") from error
    opened_zip(data, ".docx").close()
    try:
        file = docx.Document(io.BytesIO(data))
        stated = file.core_properties
        facts = {
            "author": stated.author,
            "subject": stated.subject,
            "keywords": stated.keywords,
            "date": stated.created.date().isoformat() if stated.created else "",
        }
        title, paragraphs = _content(file)
        title = " ".join((stated.title or "").split()) or title
    except Exception as error:  # a damaged file can fail anywhere in the library
        raise CorpusError(
            f"is no .docx file, or is damaged ({type(error).__name__}: {error}); save it again"
        ) from error
    meta: dict[str, JSON] = {name: value for name, value in facts.items() if value}
    return Prose(title, tuple(paragraphs), meta={**meta, "file_format": "docx"})


def _content(file: Any) -> tuple[str | None, list[Paragraph]]:
    """Return the first paragraph of the style Title, and the paragraphs and tables in order."""
    from docx.table import Table

    title: str | None = None
    section: str | None = None
    paragraphs: list[Paragraph] = []
    for each in file.iter_inner_content():
        if isinstance(each, Table):
            rows = (" | ".join(" ".join(cell.text.split()) for cell in row.cells) for row in each.rows)
            text = "\n".join(row for row in rows if row.strip(" |"))
        else:
            text = each.text.strip()
            style = _HEADING.fullmatch(each.style.name if each.style is not None else "")
            if style is not None and text:
                if style[1].lower() == "title" and title is None:
                    title = " ".join(text.split())
                else:
                    section = " ".join(text.split())
                continue
        if text:
            paragraphs.append(Paragraph(text, section))
    return title, paragraphs
