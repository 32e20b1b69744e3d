"""EPUB: the chapters of a book in their order, each read as the HTML page that it is."""

from __future__ import annotations

import posixpath
import zipfile
from typing import Final
from urllib.parse import unquote

from lxml import etree

from kbengine.corpus.html import html_text
from kbengine.corpus.paragraphs import Paragraph, Prose
from kbengine.corpus.zipped import opened_zip, zip_member
from kbengine.errors import CorpusError
from storage.records import JSON

_CONTAINER: Final = "META-INF/container.xml"
_RIGHTS: Final = "META-INF/rights.xml"
_FACTS: Final = {"creator": "author", "publisher": "publisher", "language": "language", "date": "date"}
_PAGES: Final = ("application/xhtml+xml", "text/html")


def epub_prose(data: bytes) -> Prose:
    """Return the paragraphs of a book in reading order; the section of each is the heading it stands under.

    Title, author, publisher, language and date are those of the book; a chapter without a heading has its own title as
    section, if it has one.

    Raises:
        CorpusError: it is damaged, no EPUB file, or protected against being read.
    """
    with opened_zip(data, "EPUB") as archive:
        names = set(archive.namelist())
        if _CONTAINER not in names:
            raise CorpusError(f"is no EPUB file: it holds no {_CONTAINER!r}; save it again")
        if _RIGHTS in names:
            raise CorpusError("is protected (DRM); give a copy that may be read")
        rootfile = _xml(archive, _CONTAINER).find(".//{*}rootfile")
        package_name = "" if rootfile is None else str(rootfile.get("full-path") or "")
        package = _xml(archive, package_name)
        paragraphs: list[Paragraph] = []
        for name in _spine(package, posixpath.dirname(package_name)):
            paragraphs += _chapter(zip_member(archive, name))
    title = _stated(package, "title")
    facts = {meant: _stated(package, name) for name, meant in _FACTS.items()}
    meta: dict[str, JSON] = {name: value for name, value in facts.items() if value}
    return Prose(title or None, tuple(paragraphs), meta={**meta, "file_format": "epub"})


def _xml(archive: zipfile.ZipFile, name: str) -> etree._Element:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False)
    try:
        return etree.fromstring(zip_member(archive, name), parser)
    except etree.XMLSyntaxError as error:
        raise CorpusError(f"{name!r} in it is damaged ({error}); save it again") from error


def _stated(package: etree._Element, name: str) -> str:
    found = package.find(f".//{{http://purl.org/dc/elements/1.1/}}{name}")
    return "" if found is None else " ".join("".join(found.itertext()).split())


def _spine(package: etree._Element, folder: str) -> list[str]:
    """Return the names of the chapters' files, in reading order."""
    items = {each.get("id"): each for each in package.iterfind(".//{*}manifest/{*}item")}
    names: list[str] = []
    for each in package.iterfind(".//{*}spine/{*}itemref"):
        item = items.get(each.get("idref"))
        if item is not None and item.get("media-type") in _PAGES and item.get("properties") != "nav":
            names.append(posixpath.normpath(posixpath.join(folder, unquote(str(item.get("href") or "")))))
    if not names:
        raise CorpusError("names no chapters, wanted some in its spine; save it again")
    return names


def _chapter(data: bytes) -> tuple[Paragraph, ...]:
    prose = html_text(data.decode("utf-8-sig", errors="strict") if _is_utf8(data) else data.decode("utf-16"))
    return tuple(Paragraph(each.text, each.section or prose.title) for each in prose.paragraphs)


def _is_utf8(data: bytes) -> bool:
    return not data.startswith((b"\xff\xfe", b"\xfe\xff"))
