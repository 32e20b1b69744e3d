"""N-Triples read back by rdflib."""

from __future__ import annotations

from pathlib import Path

from rdflib import Graph, Literal, URIRef
from rdflib.namespace import DCTERMS, RDFS, SKOS

from adapters.exporting.ntriples import DERIVED, export_ntriples
from storage.reader import KBReader
from tests.adapters.exporting.test_exporting import EVIL, folder

__all__ = ["folder"]


def test_rdflib_reads_what_was_written(folder: Path, tmp_path: Path) -> None:
    """Every text as it was; passages lead to their documents and their sources."""
    with KBReader.open(folder) as reader:
        n = export_ntriples(reader, tmp_path / "kb.nt", base="https://kb.example/")
        texts = {str(p.text) for _, each in reader.iterate_documents() for p in each}
    graph = Graph().parse(tmp_path / "kb.nt", format="nt")
    assert len(graph) == n
    own = graph.value(predicate=DCTERMS.identifier, object=Literal(EVIL["id"]))
    assert graph.value(own, RDFS.label) == Literal(EVIL["title"])
    assert {str(each) for each in graph.objects(own, SKOS.altLabel)} == set(EVIL["aliases"])
    nif = "http://persistence.uni-leipzig.org/nlp2rdf/ontologies/nif-core#"
    assert {str(each) for each in graph.objects(predicate=URIRef(f"{nif}isString"))} == texts
    parts = list(graph.subjects(DCTERMS.isPartOf, own))
    sources = {str(graph.value(part, URIRef(DERIVED))) for part in parts}
    assert len(parts) == 2 and sources == {"https://x.example/a%20b?%3Cc%3E"}
