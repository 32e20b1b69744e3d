"""NIF documents: texts with or without marked mentions in, links out."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args
from urllib.parse import quote

from adapters.errors import MissingExtraError, TaskInputError
from kbengine.span import Span

if TYPE_CHECKING:
    from storage.records import JSON

Uris = Literal["source", "wikipedia", "dbpedia", "wikidata"]
URIS: tuple[Uris, ...] = get_args(Uris)
NIF = "http://persistence.uni-leipzig.org/nlp2rdf/ontologies/nif-core#"
ITSRDF = "http://www.w3.org/2005/11/its/rdf#"
_TITLES = {"wikipedia": "https://en.wikipedia.org/wiki/", "dbpedia": "http://dbpedia.org/resource/"}
_SAFE = "/:(),'!*;@&=+$~-_.%?#"


@dataclass(frozen=True)
class NifContext:
    """One text of a NIF document.

    Attributes:
        uri: Of the text, without its offsets.
        text: The text.
        spans: Mentions that are marked in it, in order; offsets count Unicode code points.
    """

    uri: str
    text: str
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class NifLink:
    """A mention and what it means; without `uri` it has no link."""

    span: Span
    uri: str | None
    probability: float | None = None


def read_nif(data: bytes) -> list[NifContext]:
    """Return the texts of a NIF document in Turtle, in the order of their URIs; contexts without a text are left out.

    Raises:
        TaskInputError: it is no Turtle, holds no text, or marks what is not in its text.
        MissingExtraError: rdflib is not installed.
    """
    graph = _parsed(data)
    from rdflib import URIRef
    from rdflib.namespace import RDF

    found = []
    for subject in sorted(set(graph.subjects(RDF.type, URIRef(f"{NIF}Context"))), key=str):
        text = graph.value(subject, URIRef(f"{NIF}isString"))
        if text is None:
            continue
        marked = set(graph.subjects(URIRef(f"{NIF}referenceContext"), subject)) - {subject}
        spans = {_span(graph, each, len(text)) for each in marked}
        found.append(NifContext(str(subject), str(text), tuple(sorted(spans, key=lambda s: (s.start, s.end)))))
    if not found:
        raise TaskInputError("the NIF document holds no text; send a nif:Context with nif:isString")
    return found


def write_nif(contexts: Iterable[tuple[NifContext, Sequence[NifLink]]]) -> str:
    """Return a NIF document in Turtle: the texts with their mentions, and what these mean."""
    from rdflib import Graph, Literal, URIRef
    from rdflib.namespace import RDF, XSD

    graph = Graph()
    graph.bind("nif", NIF)
    graph.bind("itsrdf", ITSRDF)
    for context, links in contexts:
        whole = URIRef(context.uri)
        base = context.uri.partition("#")[0]
        graph.add((whole, RDF.type, URIRef(f"{NIF}Context")))
        graph.add((whole, RDF.type, URIRef(f"{NIF}RFC5147String")))
        graph.add((whole, URIRef(f"{NIF}isString"), Literal(context.text, datatype=XSD.string)))
        for name, value in (("beginIndex", 0), ("endIndex", len(context.text))):
            graph.add((whole, URIRef(NIF + name), Literal(value, datatype=XSD.nonNegativeInteger)))
        for link in links:
            start, end = link.span.start, link.span.end
            phrase = URIRef(f"{base}#char={start},{end}")
            graph.add((phrase, RDF.type, URIRef(f"{NIF}Phrase")))
            graph.add((phrase, RDF.type, URIRef(f"{NIF}RFC5147String")))
            graph.add((phrase, URIRef(f"{NIF}referenceContext"), whole))
            graph.add((phrase, URIRef(f"{NIF}anchorOf"), Literal(context.text[start:end], datatype=XSD.string)))
            for name, value in (("beginIndex", start), ("endIndex", end)):
                graph.add((phrase, URIRef(NIF + name), Literal(value, datatype=XSD.nonNegativeInteger)))
            if link.uri is not None:
                graph.add((phrase, URIRef(f"{ITSRDF}taIdentRef"), URIRef(link.uri)))
                if link.probability is not None:
                    confidence = Literal(round(link.probability, 6), datatype=XSD.double)
                    graph.add((phrase, URIRef(f"{ITSRDF}taConfidence"), confidence))
    return str(graph.serialize(format="turtle"))


def uri_of(doc_id: str, title: str, url: str | None, meta: Mapping[str, JSON], *, uris: Uris, own: str) -> str:
    """Return the URI by which a link names a document.

    >>> uri_of("1", "Marie Curie", None, {}, uris="wikipedia", own="http://localhost/document?id=")
    'https://en.wikipedia.org/wiki/Marie_Curie'

    Args:
        doc_id: its id.
        title: its title.
        url: where it is from.
        meta: its fields; `qid` is that of Wikidata.
        uris: `source` takes its url, `wikidata` its qid, the others its title as that of an article of the English
            Wikipedia; its page of this service where it has none.
        own: begins the addresses of these pages; the id comes last.
    """
    if uris in _TITLES and title:
        return _TITLES[uris] + quote(title.replace(" ", "_"), safe="/:(),'!*;@&=+$~-_.")
    qid = meta.get("qid") or meta.get("wikidata_id")
    if uris == "wikidata" and isinstance(qid, str) and qid.startswith("Q") and qid[1:].isdigit():
        return f"http://www.wikidata.org/entity/{qid}"
    if uris == "source" and url and url.startswith(("http://", "https://")):
        return quote(url, safe=_SAFE)
    return own + quote(doc_id, safe="")


def _parsed(data: bytes) -> Any:
    try:
        from rdflib import Graph
    except ImportError as error:
        raise MissingExtraError.of("reading NIF", "rdflib", "rdf") from error
    logging.getLogger("rdflib.term").setLevel(logging.CRITICAL)  # ill-typed numbers are told of below
    try:
        return Graph().parse(data=data, format="turtle", publicID="http://example.org/")
    except RecursionError:
        raise TaskInputError("the NIF document is nested too deeply; send plain triples") from None
    except Exception as error:  # what rdflib raises has no class in common
        lines = [line.strip() for line in str(error).split("\n") if line.strip()]
        raise TaskInputError(
            f"the NIF document is not Turtle ({lines[0][:100] if lines else 'it cannot be read'})"
        ) from None


def _span(graph: Any, phrase: Any, n_chars: int) -> Span:
    from rdflib import URIRef

    places = []
    for name in ("beginIndex", "endIndex"):
        value = graph.value(phrase, URIRef(NIF + name))
        try:
            places.append(int(str(value)))
        except ValueError:
            raise TaskInputError(
                f"the mention {str(phrase)[:100]!r} has {value!s:.20} as nif:{name}, wanted a number"
            ) from None
    start, end = places
    if not 0 <= start < end <= n_chars:
        raise TaskInputError(
            f"the mention {str(phrase)[:100]!r} stands at {start}:{end} of a text of {n_chars} characters"
        )
    return Span(start, end)
