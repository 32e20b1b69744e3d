"""The Haystack document store: Haystack's own tests of stores, and what it keeps."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil

import pytest
from haystack import Document
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError
from haystack.testing.document_store import DocumentStoreBaseTests, create_filterable_docs
from haystack.utils.filters import document_matches_filter

from adapters.retrievers.haystack import KnowledgeBaseDocumentStore, KnowledgeBaseRetriever
from adapters.retrievers.haystack_filters import where_of


class TestConformance(DocumentStoreBaseTests):
    """As Haystack has it; embeddings are not kept."""

    @pytest.fixture
    def document_store(self, empty_kb, tmp_path):
        """A store without documents."""
        store = KnowledgeBaseDocumentStore(shutil.copytree(empty_kb, tmp_path / "kb"))
        with contextlib.closing(store):
            yield store

    @staticmethod
    def assert_documents_are_equal(received, expected):
        """Compare all but the embeddings."""
        assert received == [dataclasses.replace(each, embedding=None) for each in expected]

    def test_write_documents(self, document_store):
        """Without a policy an id that is there is an error."""
        documents = [Document(id="1", content="test doc")]
        assert document_store.write_documents(documents) == 1
        with pytest.raises(DuplicateDocumentError):
            document_store.write_documents(documents)
        self.assert_documents_are_equal(document_store.filter_documents(), documents)


@pytest.fixture
def store(kb_path):
    """A store with the documents of a small knowledge base."""
    with contextlib.closing(KnowledgeBaseDocumentStore(kb_path)) as opened:
        yield opened


def test_documents_that_were_built_are_documents_of_the_store(store):
    """With title and text; more than one process may write."""
    documents = {each.id: each for each in store.filter_documents()}

    assert documents["paris"].meta["title"] == "Paris"
    assert documents["paris"].content.count("\n\n") == 1
    store.write_documents([Document(id="mill", content="Built in 1764.", meta={"title": "Mill", "year": 1764})])
    with contextlib.closing(KnowledgeBaseDocumentStore(store.path)) as other:
        assert other.write_documents([Document(id="x", content="Text.")]) == 1
        assert other.count_documents() == 7


def test_documents_without_text_are_refused(store):
    """And nothing is written."""
    with pytest.raises(ValueError, match="'b' has no text in `content`"):
        store.write_documents([Document(id="a", content="Text."), Document(id="b", content=None)])
    assert store.count_documents() == 5


def test_skipping_writes_the_others(store):
    """Each once."""
    new = [Document(id="new", content="One."), Document(id="new", content="Two."), Document(id="paris", content="X.")]

    assert store.write_documents(new, policy=DuplicatePolicy.SKIP) == 1
    assert store.write_documents(new, policy=DuplicatePolicy.SKIP) == 0


FILTERS = [
    {"field": "meta.number", "operator": "==", "value": 2},
    {"field": "meta.number", "operator": "!=", "value": 2},
    {"field": "meta.number", "operator": ">", "value": -5},
    {"field": "meta.number", "operator": "<=", "value": -2},
    {"field": "meta.number", "operator": "==", "value": None},
    {"field": "meta.number", "operator": "!=", "value": None},
    {"field": "meta.chapter", "operator": "in", "value": ["intro", "abstract"]},
    {"field": "meta.chapter", "operator": "not in", "value": ["intro", "abstract"]},
    {"field": "meta.no_embedding", "operator": "==", "value": True},
    {"field": "meta.name", "operator": "==", "value": "it's"},
    {
        "operator": "OR",
        "conditions": [
            {
                "operator": "NOT",
                "conditions": [
                    {"field": "meta.number", "operator": ">", "value": -5},
                    {"field": "meta.chapter", "operator": "==", "value": "intro"},
                ],
            },
            {"field": "meta.name", "operator": "not in", "value": ["name_1"]},
        ],
    },
    {"operator": "NOT", "conditions": [{"field": "meta.number", "operator": "<", "value": 0}]},
]


@pytest.fixture(scope="module")
def filtered(empty_kb, tmp_path_factory):
    """A store with Haystack's documents for filters."""
    path = shutil.copytree(empty_kb, tmp_path_factory.mktemp("filtered") / "kb")
    with contextlib.closing(KnowledgeBaseDocumentStore(path)) as opened:
        opened.write_documents(create_filterable_docs())
        yield opened


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_searching_passes_what_haystacks_own_filter_passes(filtered, filters):
    """Documents without the field too."""
    found = KnowledgeBaseRetriever(filtered, top_k=100, unit="document").run("Document", filters=filters)["documents"]
    wanted = {each.id for each in filtered.filter_documents() if document_matches_filter(filters, each)}

    assert {each.meta["id"] for each in found} == wanted


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ({"field": "content", "operator": "==", "value": "x"}, "wanted a field of meta"),
        ({"field": "meta.a", "operator": "~", "value": "x"}, "operator '~'"),
        ({"field": "meta.a", "operator": "=="}, "has no 'value'"),
        ({"field": "meta.a", "operator": "in", "value": "x"}, "wanted a list"),
        ({"field": "meta.a", "operator": "==", "value": {}}, "wanted a text, a number"),
        ({"operator": "XOR", "conditions": []}, "'XOR', wanted AND, OR or NOT"),
    ],
)
def test_filters_that_cannot_be_asked_are_told(filters, said):
    """With what was seen and what is wanted."""
    with pytest.raises(FilterError, match=said):
        where_of(filters)
