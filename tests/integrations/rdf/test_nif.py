"""NIF in and out, by the library that ELEVANT uses, and with texts as GERBIL sends them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pynif import NIFCollection

from adapters.nif.documents import uri_of
from kbengine.encoders.encoder import Encoder
from tests.kbengine.small_kb import build_small_kb
from tests.tiny_encoder import write_tiny_encoder
from tests.web.conftest import Served, serve
from web.settings import ServiceSettings

TEXT = 'In "Paris" 🙂 she read\nof Marie Curie.'
GERBIL = """@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix nif: <http://persistence.uni-leipzig.org/nlp2rdf/ontologies/nif-core#> .
<http://example.org/document-1#char=0,22> a nif:RFC5147String , nif:String , nif:Context ;
    nif:isString "Marie Curie was Polish"@en ; nif:beginIndex "0"^^xsd:nonNegativeInteger ;
    nif:endIndex "22"^^xsd:nonNegativeInteger .
<http://example.org/document-1#char=0,11> a nif:RFC5147String , nif:String , nif:Phrase ;
    nif:anchorOf "Marie Curie"@en ; nif:beginIndex "0"^^xsd:nonNegativeInteger ;
    nif:endIndex "11"^^xsd:nonNegativeInteger ; nif:referenceContext <http://example.org/document-1#char=0,22> .
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A small knowledge base, served, with documents of these names."""
    folder = tmp_path_factory.mktemp("nif")
    encoder = Encoder.load(write_tiny_encoder(folder / "encoder"), device="cpu")
    made = serve(build_small_kb(folder / "kb", encoder), encoder, ServiceSettings())
    new = [
        {"id": "p", "title": "Paris", "text": "Paris is the capital of France.", "meta": {"qid": "Q90"}},
        {"id": "m c", "title": "Marie Curie", "text": "Marie Curie was a physicist.", "url": "https://x.example/a b"},
    ]
    assert made.post("/v1/documents", {"documents": new}).status_code == 201
    yield made
    made.engine.close()


def post(served: Served, data: str, **parameters: str) -> NIFCollection:
    """Return what comes back for a document, as ELEVANT posts it: bytes without a media type."""
    response = served.client.post("/nif", data=data.encode(), query_string=parameters)
    assert response.status_code == 200, response.text
    assert response.mimetype == "application/x-turtle"
    return NIFCollection.loads(response.text)


def test_mentions_are_found(served: Served) -> None:
    """The text comes back as it was sent; offsets count code points."""
    sent = NIFCollection(uri="http://example.org/")
    sent.add_context(uri="http://example.org/0", mention=TEXT)
    context = post(served, sent.contexts[0].turtle).contexts[0]
    assert context.mention == TEXT
    found = served.post("/v1/annotate", {"text": TEXT, "unlinked": False}).json["annotations"]
    phrases = sorted(context.phrases, key=lambda each: each.beginIndex)
    assert [[each.beginIndex, each.endIndex] for each in phrases] == [each["span"] for each in found]
    assert all(each.mention == TEXT[each.beginIndex : each.endIndex] and each.taIdentRef for each in phrases)


@pytest.mark.parametrize(
    ("uris", "wanted"),
    [
        ("source", "https://x.example/a%20b"),
        ("wikipedia", "https://en.wikipedia.org/wiki/Marie_Curie"),
        ("dbpedia", "http://dbpedia.org/resource/Marie_Curie"),
        ("wikidata", "http://localhost/document?id=m%20c"),
    ],
)
def test_marked_mentions_are_linked(served: Served, uris: str, wanted: str) -> None:
    """As GERBIL asks for disambiguation; documents are named as is asked for."""
    context = post(served, GERBIL, uris=uris).contexts[0]
    assert [(each.beginIndex, each.endIndex, each.taIdentRef) for each in context.phrases] == [(0, 11, wanted)]


def test_a_qid_is_wikidatas() -> None:
    """From the field of the document."""
    found = uri_of("p", "Paris", None, {"qid": "Q90"}, uris="wikidata", own="http://localhost/document?id=")
    assert found == "http://www.wikidata.org/entity/Q90"


@pytest.mark.parametrize(
    ("data", "status", "said"),
    [
        ("", 400, "holds no text"),
        ("<a> <b>", 400, "not Turtle"),
        ("[" * 20_000, 400, ""),
        (GERBIL.replace('"11"^^', '"many"^^'), 400, "wanted a number"),
        (GERBIL.replace('nif:endIndex "11"', 'nif:endIndex "99"'), 400, "0:99 of a text of 22 characters"),
        ("x" * 1_048_577, 413, ""),
    ],
)
def test_what_is_no_nif_is_refused(served: Served, data: str, status: int, said: str) -> None:
    """With a problem document."""
    response = served.client.post("/nif", data=data.encode())
    assert response.status_code == status and said in response.json["detail"], response.text


def test_other_forms_of_rdf_are_refused(served: Served) -> None:
    """By their media types."""
    assert served.client.post("/nif", data=b"<x/>", content_type="application/rdf+xml").status_code == 415
