"""The LlamaIndex retriever, alone and in a query engine."""

from __future__ import annotations

import anyio
import pytest
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import QueryBundle

from adapters.retrievers.llamaindex import KnowledgeBaseRetriever
from kbengine.errors import EmptyQueryError, InvalidOptionError
from tests.test_docs import ROOT, run_examples

QUESTION = "Who conducted research on radioactivity?"


def test_a_node_says_where_it_stands(kb):
    """As the search itself has it."""
    nodes = KnowledgeBaseRetriever(kb, similarity_top_k=2).retrieve(QUESTION)
    hits = kb.search(QUESTION, k=2, unit="passage").hits

    assert [each.text for each in nodes] == [hit.passage.text for hit in hits]
    assert [each.score for each in nodes] == [hit.score for hit in hits]
    for node, hit in zip(nodes, hits, strict=True):
        assert node.node.ref_doc_id == node.metadata["id"] == hit.document.doc_id
        assert node.text[node.metadata["start"] : node.metadata["end"]] == node.metadata["phrase"]
    assert len({each.node.node_id for each in nodes}) == 2


@pytest.mark.parametrize("unit", ["sentence", "document", "phrase"])
def test_what_is_found_is_chosen(kb, unit):
    """A query bundle and an asynchronous call find the same."""
    retriever = KnowledgeBaseRetriever(kb, similarity_top_k=1, unit=unit)
    (node,) = retriever.retrieve(QueryBundle(QUESTION))

    assert node.text
    assert anyio.run(retriever.aretrieve, QUESTION) == [node]


def test_a_query_engine_reads_what_is_found(kb):
    """The passages are in the prompt."""
    engine = RetrieverQueryEngine.from_args(KnowledgeBaseRetriever(kb, similarity_top_k=1), llm=MockLLM())
    answer = engine.query(QUESTION)

    assert answer.source_nodes[0].text in str(answer)


def test_what_cannot_be_asked_is_told(kb):
    """By the errors of the knowledge base."""
    with pytest.raises(EmptyQueryError):
        KnowledgeBaseRetriever(kb).retrieve(" ")
    with pytest.raises(InvalidOptionError, match="unit is 'page', wanted one of"):
        KnowledgeBaseRetriever(kb, unit="page")


def test_the_examples_of_the_page_run(bases, tmp_path, monkeypatch):
    """As a reader would type them."""
    run_examples(ROOT / "docs" / "how-to" / "llamaindex.md", bases, tmp_path, monkeypatch)
