"""The Haystack retriever in a pipeline."""

from __future__ import annotations

import contextlib

import pytest
from haystack import Pipeline
from haystack.components.builders import PromptBuilder

from adapters.retrievers.haystack import KnowledgeBaseDocumentStore, KnowledgeBaseRetriever
from kbengine.errors import EmptyQueryError, InvalidOptionError
from tests.test_docs import ROOT, run_examples

QUESTION = "Who conducted research on radioactivity?"


@pytest.fixture
def store(built_kb):
    """A store of a small knowledge base."""
    with contextlib.closing(KnowledgeBaseDocumentStore(built_kb)) as opened:
        yield opened


def test_a_document_says_where_it_stands(store):
    """As the search itself has it."""
    documents = KnowledgeBaseRetriever(store, top_k=2).run(QUESTION)["documents"]
    hits = store.knowledge_base.search(QUESTION, k=2, unit="passage").hits

    assert [(each.content, each.score) for each in documents] == [(hit.passage.text, hit.score) for hit in hits]
    assert [each.meta["title"] for each in documents] == [hit.document.title for hit in hits]
    assert all(each.content[each.meta["start"] : each.meta["end"]] == each.meta["phrase"] for each in documents)
    assert KnowledgeBaseRetriever(store).run(QUESTION, top_k=1)["documents"] == documents[:1]


def test_a_pipeline_is_written_and_read_again(store):
    """With its store; both ask the same."""
    pipeline = Pipeline()
    pipeline.add_component("retriever", KnowledgeBaseRetriever(store, top_k=1))
    pipeline.add_component(
        "prompt", PromptBuilder("{% for each in documents %}{{ each.content }}{% endfor %}", required_variables="*")
    )
    pipeline.connect("retriever.documents", "prompt.documents")
    answer = pipeline.run({"retriever": {"query": QUESTION}})
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=["adapters.retrievers.haystack"])

    assert answer["prompt"]["prompt"] == store.knowledge_base.search(QUESTION, k=1, unit="passage").hits[0].text
    assert again.run({"retriever": {"query": QUESTION}}) == answer
    again.get_component("retriever").document_store.close()


def test_what_cannot_be_asked_is_told(store):
    """By the errors of the knowledge base."""
    with pytest.raises(EmptyQueryError):
        KnowledgeBaseRetriever(store).run(" ")
    with pytest.raises(InvalidOptionError, match="unit is 'page', wanted one of"):
        KnowledgeBaseRetriever(store, unit="page")
    with pytest.raises(InvalidOptionError, match="wanted KnowledgeBaseDocumentStore"):
        KnowledgeBaseRetriever("my-kb")


def test_the_examples_of_the_page_run(bases, tmp_path, monkeypatch):
    """As a reader would type them."""
    run_examples(ROOT / "docs" / "how-to" / "haystack.md", bases, tmp_path, monkeypatch)
