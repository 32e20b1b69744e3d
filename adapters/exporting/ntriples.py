"""Documents, names, links and passages as N-Triples, each passage with where it is from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from kbengine.build.exporting import open_text, whole_file

if TYPE_CHECKING:
    from storage.alias_records import DocumentNames
    from storage.reader import KBReader
    from storage.records import DocumentRecord, PassageRecord

BASE = "http://localhost:8080/document?id="
"""Begins the IRIs of documents: their pages, as a service shows them."""
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_DC = "http://purl.org/dc/terms/"
_NIF = "http://persistence.uni-leipzig.org/nlp2rdf/ontologies/nif-core#"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
ALIAS = "http://www.w3.org/2004/02/skos/core#altLabel"
DERIVED = "http://www.w3.org/ns/prov#wasDerivedFrom"
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = re.compile(r'[\\"\x00-\x1f\x7f]')
_SAFE_IN_IRI = "/:(),'!*;@&=+$~-_.%?#[]"


def export_ntriples(
    reader: KBReader, path: Path, *, base: str = BASE, progress: Callable[[int], None] | None = None
) -> int:
    """Write the live documents of one generation to `path` (`.gz` and `.zst` compress), and return how many triples.

    Args:
        reader: of the knowledge base.
        path: the file; it appears only when it is complete.
        base: begins the IRI of each document; its id comes behind it, its passages behind `#p` and their number.
        progress: is told how many documents are done.
    """
    n = 0
    with whole_file(path) as partial, open_text(partial, path.suffix) as file:
        for done, (document, passages, names) in enumerate(reader.iterate_with_names(), start=1):
            for line in _triples(document, passages, names, base):
                file.write(line)
                n += 1
            if progress is not None:
                progress(done)
    return n


def _triples(
    document: DocumentRecord, passages: Sequence[PassageRecord], names: DocumentNames, base: str
) -> Iterator[str]:
    own = _document_iri(base, document.doc_id)
    yield _triple(own, f"{_RDF}type", f"<{_DC}BibliographicResource>")
    yield _triple(own, f"{_DC}identifier", _text(document.doc_id))
    yield _triple(own, LABEL, _text(document.title))
    source = document.url and quote(document.url, safe=_SAFE_IN_IRI)
    has_source = bool(source) and re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", source or "") is not None
    if has_source:
        yield _triple(own, f"{_DC}source", f"<{source}>")
    for alias in dict.fromkeys(each.alias for each in names.aliases):
        yield _triple(own, ALIAS, _text(alias))
    for target in dict.fromkeys(each.target for each in names.links if not each.by_title):
        yield _triple(own, f"{_DC}references", f"<{_document_iri(base, target)}>")
    for number, passage in enumerate(passages):
        part = f"{own}#p{number}"
        yield _triple(part, f"{_RDF}type", f"<{_NIF}Paragraph>")
        yield _triple(part, f"{_DC}isPartOf", f"<{own}>")
        yield _triple(part, f"{_NIF}isString", _text(passage.text))
        yield _triple(part, f"{_DC}identifier", _number(passage.ordinal))
        yield _triple(part, f"{_NIF}beginIndex", _number(passage.char_offset))
        yield _triple(part, DERIVED, f"<{source}>" if has_source else f"<{own}>")
        if passage.section is not None:
            yield _triple(part, f"{_DC}title", _text(passage.section))


def _document_iri(base: str, doc_id: str) -> str:
    return base + quote(doc_id, safe="")


def _triple(subject: str, predicate: str, value: str) -> str:
    return f"<{subject}> <{predicate}> {value} .\n"


def _number(value: int) -> str:
    return f'"{value}"^^<{_XSD}nonNegativeInteger>'


def _text(text: str) -> str:
    return '"' + _ESCAPED.sub(lambda found: _ESCAPES.get(found[0], f"\\u{ord(found[0]):04X}"), text) + '"'
