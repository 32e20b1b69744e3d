"""Search through other names: the lexical part of a score, by hand; candidates; and no effect where there are none."""

from __future__ import annotations

import dataclasses
import math
import shutil

import numpy as np
import pytest

from kbengine.inputs import Question
from kbengine.search.naming import FORM_FACTORS
from kbengine.search.query import Query, SearchOptions, Weights
from kbengine.search.searcher import Searcher
from storage.alias_records import NewAlias, NewLink
from storage.reader import KBReader
from storage.writer import KBWriter
from tests.kbengine.synthetic_kb import VectorEncoder, random_document, synthetic_settings

N_DOCUMENTS, N_PASSAGES = 60, 3
WEIGHTS = Weights(phrase=1.0, passage=2.0, lexical=0.5)
IDF = math.log1p((N_DOCUMENTS * N_PASSAGES - N_PASSAGES + 0.5) / (N_PASSAGES + 0.5))


@pytest.fixture(scope="module")
def kb_path(tmp_path_factory):
    """Sixty documents: some with another name, one found by links, one with a title that folds."""
    path = tmp_path_factory.mktemp("naming") / "kb"
    rng = np.random.default_rng(3)
    documents = [random_document(rng, f"doc-{i}") for i in range(N_DOCUMENTS)]
    documents[20] = dataclasses.replace(documents[20], title="Łódź")
    links = (NewLink("Mercury", "doc-5", count=3), NewLink("Mercury", "doc-6"))
    documents[50] = dataclasses.replace(documents[50], links=links)
    with KBWriter.create(path, synthetic_settings()) as writer:
        writer.add(documents)
        writer.add_aliases([("doc-9", NewAlias("Ancien Nom")), ("doc-10", NewAlias("Née", prior=0.25))])
    return path


@pytest.fixture
def searcher(kb_path):
    """A searcher on it."""
    with KBReader.open(kb_path) as reader:
        yield Searcher(reader, VectorEncoder())


def named(*names, weight=1.0):
    """A query whose only lexical signal is names; the vectors are always the same."""
    return Query(input=Question("the same"), names=tuple((name, weight) for name in names), weights=WEIGHTS)


def lexical_parts(searcher, query, **options):
    """The lexical part of the score of each document, of all documents."""
    options = SearchOptions(k=N_DOCUMENTS, unit="document", explain=True, **options)
    return {hit.document.doc_id: hit.parts.lexical for hit in searcher.search([query], options)[0].hits}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Ancien Nom", {"doc-9": 1.0}),
        ("ancien nom", {"doc-9": FORM_FACTORS["case"]}),
        ("Nee", {"doc-10": 0.25 * FORM_FACTORS["accent"]}),
        ("Mercury", {"doc-5": 0.75, "doc-6": 0.25}),
        ("Lodz", {"doc-20": FORM_FACTORS["accent"]}),
        ("Łódź", {"doc-20": 1.0}),  # the title itself, once
        ("Nobody", {}),
    ],
)
def test_a_name_adds_its_idf_scaled_by_prior_and_form(searcher, name, expected):
    """Weight · idf · prior · form for the documents that the name can mean, nothing for all others."""
    parts = {doc_id: part for doc_id, part in lexical_parts(searcher, named(name)).items() if part}

    assert parts == pytest.approx({doc_id: 0.5 * IDF * factor for doc_id, factor in expected.items()}, abs=1e-4)


def test_of_several_names_of_a_document_the_best_counts(searcher):
    """Names of a query are ways to say the same."""
    both = lexical_parts(searcher, named("ancien nom", "Ancien Nom", weight=0.7))

    assert both["doc-9"] == pytest.approx(0.5 * 0.7 * IDF, abs=1e-4)


def test_a_document_known_by_its_alias_alone_becomes_a_candidate(searcher):
    """Without any other signal it is the first: no vector had to find it."""
    weights = Weights(phrase=0.0, passage=0.0, lexical=1.0)

    hits = searcher.search([named("ANCIEN NOM")], SearchOptions(k=3, unit="document", weights=weights))[0].hits

    assert hits[0].document.doc_id == "doc-9"


def test_parts_still_sum_to_the_score(searcher):
    """The name's share is in the lexical part."""
    hits = searcher.search([named("Mercury")], SearchOptions(k=20, unit="document", explain=True))[0].hits

    for hit in hits:
        assert sum(dataclasses.astuple(hit.parts)) == pytest.approx(hit.score, abs=1e-4)


def test_answers_do_not_depend_on_the_batch(searcher):
    """Names of one query never help another."""
    queries = [named("Mercury"), named("Ancien Nom"), named("Nobody"), named("Mercury", "nee")]
    options = SearchOptions(k=10, unit="document")

    together = searcher.search(queries, options)

    for query, result in zip(queries, together, strict=True):
        alone = searcher.search([query], options)[0]
        assert [hit.document.doc_id for hit in alone.hits] == [hit.document.doc_id for hit in result.hits]
        assert [hit.score for hit in alone.hits] == pytest.approx([hit.score for hit in result.hits])


def test_names_of_deleted_documents_count_no_more(kb_path, tmp_path, searcher):
    """Nor do links of deleted documents; a reader that is open sees it at the next query."""
    copy = shutil.copytree(kb_path, tmp_path / "kb")
    with KBReader.open(copy) as reader, KBWriter.open(copy) as writer:
        fresh = Searcher(reader, VectorEncoder())
        assert lexical_parts(fresh, named("Mercury"))["doc-5"] > 0
        writer.delete(["doc-9", "doc-50"])
        assert not any(lexical_parts(fresh, named("Ancien Nom")).values())
        assert not any(lexical_parts(fresh, named("Mercury")).values())
        writer.add_aliases([("doc-1", NewAlias("Mercury"))])
        assert lexical_parts(fresh, named("Mercury"))["doc-1"] > 0


def test_passages_of_a_document_are_its_live_ones(kb_path):
    """Also after a merge and a replacement: the ids of documents rise with those of passages."""
    with KBReader.open(kb_path) as reader:
        snapshot = reader.snapshot()
        assert (np.diff(snapshot.document_ids) >= 0).all()
        for document_id in [1, 30, 60]:
            expected = np.flatnonzero(snapshot.document_ids == document_id).tolist()
            assert list(snapshot.passages_of_document(document_id)) == expected != []
        assert not snapshot.passages_of_document(999)


def test_the_name_part_is_shown_and_weighed(searcher):
    """A signal of its own: by its weight a document that is called as asked leads, and parts still sum to the score."""
    weights = Weights(phrase=1.0, passage=2.0, lexical=0.0, name=50.0)

    hits = searcher.search([named("Ancien Nom")], SearchOptions(k=5, unit="document", explain=True, weights=weights))[
        0
    ].hits

    assert hits[0].document.doc_id == "doc-9" and hits[0].parts.name == pytest.approx(50.0)
    assert all(hit.parts.name == 0 for hit in hits[1:])
    for hit in hits:
        assert sum(dataclasses.astuple(hit.parts)) == pytest.approx(hit.score, abs=1e-4)


@pytest.mark.parametrize(("strategy", "part"), [("dense", 0.0), ("dfs", 50.0), ("sfs", 50.0), ("hybrid", 50.0)])
def test_dense_search_leaves_names_out(searcher, strategy, part):
    """As it leaves out words; the others rank by them."""
    weights = Weights(phrase=1.0, passage=2.0, lexical=0.5, name=50.0)
    options = SearchOptions(k=N_DOCUMENTS, unit="document", explain=True, weights=weights, strategy=strategy)

    parts = {hit.document.doc_id: hit.parts.name for hit in searcher.search([named("Ancien Nom")], options)[0].hits}

    assert parts["doc-9"] == pytest.approx(part)
