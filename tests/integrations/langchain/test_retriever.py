"""The LangChain retriever: LangChain's own conformance tests, and what its documents say."""

from __future__ import annotations

import pytest
from langchain_core.runnables import RunnableLambda
from langchain_tests.integration_tests import RetrieversIntegrationTests

from adapters.retrievers.langchain import KnowledgeBaseRetriever
from kbengine.errors import EmptyQueryError, InvalidOptionError
from tests.test_docs import ROOT, run_examples

QUESTION = "Who conducted research on radioactivity?"


class TestConformance(RetrieversIntegrationTests):
    """As LangChain has it."""

    @pytest.fixture(autouse=True)
    def opened(self, kb):
        """The knowledge base that is searched."""
        self.kb = kb

    @property
    def retriever_constructor(self):
        return KnowledgeBaseRetriever

    @property
    def retriever_constructor_params(self):
        return {"knowledge_base": self.kb}

    @property
    def retriever_query_example(self):
        return QUESTION


def test_a_document_says_where_it_stands(kb):
    """As the search itself has it."""
    documents = KnowledgeBaseRetriever(knowledge_base=kb, k=2).invoke(QUESTION)
    hits = kb.search(QUESTION, k=2, unit="passage").hits

    assert [each.page_content for each in documents] == [hit.passage.text for hit in hits]
    for document, hit in zip(documents, hits, strict=True):
        facts = document.metadata
        assert (facts["id"], facts["title"], facts["score"]) == (hit.document.doc_id, hit.document.title, hit.score)
        assert document.page_content[facts["start"] : facts["end"]] == facts["phrase"]
    assert len({each.id for each in documents}) == 2


@pytest.mark.parametrize("unit", ["sentence", "document", "phrase"])
def test_what_is_found_is_chosen(kb, unit):
    """At the construction or with a call."""
    made = KnowledgeBaseRetriever(knowledge_base=kb, unit=unit, k=2).invoke(QUESTION)

    assert made == KnowledgeBaseRetriever(knowledge_base=kb, k=2).invoke(QUESTION, unit=unit)
    assert all(each.page_content for each in made)


def test_it_is_part_of_a_chain(kb):
    """As any runnable."""
    chain = KnowledgeBaseRetriever(knowledge_base=kb, k=1) | RunnableLambda(lambda found: found[0].metadata["title"])

    assert chain.batch([QUESTION, "Paris"]) == [chain.invoke(QUESTION), chain.invoke("Paris")]


def test_what_cannot_be_asked_is_told(kb):
    """By the errors of the knowledge base."""
    retriever = KnowledgeBaseRetriever(knowledge_base=kb)
    with pytest.raises(EmptyQueryError):
        retriever.invoke(" ")
    with pytest.raises(InvalidOptionError, match="k is 0"):
        retriever.invoke(QUESTION, k=0)
    with pytest.raises(InvalidOptionError, match="unit is 'page', wanted one of"):
        retriever.invoke(QUESTION, unit="page")


def test_the_examples_of_the_page_run(bases, tmp_path, monkeypatch):
    """As a reader would type them."""
    run_examples(ROOT / "docs" / "how-to" / "langchain.md", bases, tmp_path, monkeypatch)
