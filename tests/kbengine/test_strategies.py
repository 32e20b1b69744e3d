"""Strategies and sparse scores against a plain double loop over the candidates that each strategy names."""

from __future__ import annotations

import dataclasses
import itertools
import zlib
from types import SimpleNamespace

import numpy as np
import pytest

from kbengine.errors import InvalidOptionError
from kbengine.search.effort import PASSAGES_PER_SEARCH, TOKENS_PER_SEARCH
from kbengine.search.query import STRATEGIES, Query, SearchOptions, Weights
from kbengine.search.searcher import Searcher
from kbengine.search.strategies import DOCUMENTS_PER_SEARCH, plan_of
from storage.reader import KBReader
from storage.records import NewDocument
from storage.sparse_rows import SparsePassage, SparseSide
from storage.sparse_scores import SparseQuery
from storage.terms import terms_of
from storage.writer import KBWriter
from tests.kbengine.synthetic_kb import WORDS, VectorEncoder, random_document, synthetic_settings

MODEL = "5" * 64
N_GRAMS = 30
WEIGHTS = Weights(phrase=0.5, passage=2.0, lexical=0.7, sparse=2.0)


class SparseVectorEncoder(VectorEncoder):
    """Also gives sparse vectors, drawn from the query's text."""

    sparse = SimpleNamespace(fingerprint=MODEL)

    def encode_queries(self, inputs, *, truncate=False):
        """Return random dense and sparse vectors seeded by each input's text."""
        found = []
        for each in inputs:
            rng = np.random.default_rng(zlib.crc32(each.text.encode()))
            grams = np.sort(rng.choice(N_GRAMS, size=8, replace=False)).astype(np.uint32)
            found.append(SparseQuery(grams, *rng.uniform(0, 3, (2, 8)).astype(np.float32), MODEL))
        return dataclasses.replace(super().encode_queries(inputs), sparse=tuple(found))


def with_sparse(document: NewDocument, rng: np.random.Generator) -> NewDocument:
    """Return the document with random sparse rows."""
    passages = []
    for passage in document.passages:
        t = len(passage.vectors)
        sides = []
        for _ in range(2):
            counts = rng.integers(0, 5, size=t).astype(np.uint8)
            columns = [np.sort(rng.choice(N_GRAMS, size=count, replace=False)) for count in counts.tolist()]
            joined = np.concatenate([np.empty(0, int), *columns]).astype(np.uint16)
            sides.append(SparseSide(counts, joined, rng.uniform(0.1, 2, len(joined)).astype(np.float32)))
        sparse = SparsePassage(np.arange(N_GRAMS, dtype=np.uint32), sides[0], sides[1], MODEL)
        passages.append(dataclasses.replace(passage, sparse=sparse))
    return dataclasses.replace(document, passages=tuple(passages))


@pytest.fixture(scope="module")
def kb_path(tmp_path_factory):
    """A knowledge base with sparse rows, of several commits, with a deleted document."""
    path = tmp_path_factory.mktemp("strategies") / "kb"
    rng = np.random.default_rng(3)
    with KBWriter.create(path, dataclasses.replace(synthetic_settings(), sparse={"model": MODEL})) as writer:
        for begin in range(0, 120, 40):
            documents = [random_document(rng, f"doc-{i}", keep=0.9, parted_by="; ") for i in range(begin, begin + 40)]
            writer.add([with_sparse(document, rng) for document in documents])
        writer.delete(["doc-7"])
    return path


@pytest.fixture
def searcher(kb_path):
    """A searcher on it."""
    with KBReader.open(kb_path) as reader:
        yield Searcher(reader, SparseVectorEncoder())


class Reference:
    """Every phrase of every live passage with the parts of its score, from explicit sparse vectors."""

    def __init__(self, path, query):
        encoded = SparseVectorEncoder().encode_queries([query.input])
        with KBReader.open(path) as reader:
            self.snapshot = snapshot = reader.snapshot()
            self.start, self.end, self.passage = encoded.start[0], encoded.end[0], encoded.passage[0]
            self.lexical = snapshot.lexical_scores(dict.fromkeys(terms_of(query.input.text), 1.0))
            asked = encoded.sparse[0]
            of_query = np.zeros((2, N_GRAMS))
            of_query[0, asked.grams], of_query[1, asked.grams] = asked.start, asked.end
            self.codes, scales = snapshot.gather(np.arange(snapshot.n_rows))
            self.vectors = self.codes.astype(np.float32) * scales[:, None]
            self.sparse = np.concatenate(
                [self._sparse(loaded.segment, of_query) for loaded in snapshot.segments], axis=1
            )

    @staticmethod
    def _sparse(segment, of_query):
        """Return the start and end scores of a segment's rows, float64 (2, n), entry by entry."""
        sparse, arrays = segment.arrays.sparse, segment.arrays
        found = np.zeros((2, segment.n_rows))
        for s, side in enumerate(("start", "end")):
            entry = 0
            counts, columns = getattr(sparse, f"{side}_counts"), getattr(sparse, f"{side}_columns")
            for row in range(segment.n_rows):
                p = int(np.searchsorted(arrays.first_rows, row, side="right")) - 1
                for _ in range(int(counts[row])):
                    gram = int(sparse.grams[sparse.gram_starts[p] + columns[entry]])
                    weight = float(getattr(sparse, f"{side}_weights")[entry]) * float(sparse.scales[p, s])
                    found[s, row] += weight * of_query[s, gram]
                    entry += 1
        return found

    def candidates(self, strategy):
        """Return the passages that a strategy looks at first, all tokens of them."""
        snapshot, live = self.snapshot, self.snapshot.live_passages
        owners = snapshot.passages_of_rows(np.arange(snapshot.n_rows))
        near = set()
        for target in (self.start, self.end):
            scores = np.where(live[owners], self.vectors @ target, -np.inf)
            near |= set(owners[np.argsort(-scores, kind="stable")[:TOKENS_PER_SEARCH]].tolist())
        similar = np.where(live, snapshot.passage_vectors(np.arange(snapshot.n_passages)) @ self.passage, -np.inf)
        near |= set(np.argsort(-similar, kind="stable")[:PASSAGES_PER_SEARCH].tolist())
        by_words = [i for i in np.lexsort((np.arange(len(live)), -self.lexical)) if live[i] and self.lexical[i] > 0]
        by_words = by_words[:PASSAGES_PER_SEARCH]
        documents = list(dict.fromkeys(snapshot.document_ids[by_words].tolist()))[:DOCUMENTS_PER_SEARCH]
        whole = np.flatnonzero(np.isin(snapshot.document_ids, documents) & live).tolist()
        return {"dense": near, "dfs": near, "sfs": {*by_words, *whole}, "hybrid": near | set(by_words)}[strategy]

    def best(self, passages, weights):
        """Return the best phrase of these passages: (score, sparse part, passage, first row, last row)."""
        snapshot = self.snapshot
        ordinals = snapshot.token_ordinals(np.arange(snapshot.n_rows))
        cosines = snapshot.passage_vectors(np.arange(snapshot.n_passages)) @ self.passage
        found = []
        for p in passages:
            rows = range(int(snapshot.first_rows[p]), int(snapshot.first_rows[p] + snapshot.token_counts[p]))
            shared = weights.passage * cosines[p] + weights.lexical * self.lexical[p]
            for a, b in itertools.combinations_with_replacement(rows, 2):
                if ordinals[b] - ordinals[a] < VectorEncoder.max_phrase_tokens:
                    dense = self.vectors[a] @ self.start + self.vectors[b] @ self.end
                    sparse = weights.phrase * weights.sparse * (self.sparse[0, a] + self.sparse[1, b])
                    found.append((weights.phrase * dense + sparse + shared, sparse, p, a, b))
        return max(found)


QUESTIONS = [" ".join(np.random.default_rng(i).choice(WORDS, size=2).tolist()) for i in range(8)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_best_phrase_is_the_best_of_the_strategys_candidates(kb_path, searcher, strategy):
    """With its exact score and sparse part; dense ranks without words and sparse vectors."""
    options = SearchOptions(k=1, weights=WEIGHTS, strategy=strategy, explain=True, effort="exact")
    for text in QUESTIONS:
        query = Query.question(text)
        reference = Reference(kb_path, query)
        score, sparse, passage, first, last = reference.best(
            reference.candidates(strategy), plan_of(strategy, WEIGHTS).weights
        )

        (hit,) = searcher.search([query], options)[0].hits

        assert hit.score == pytest.approx(score, abs=5e-3)
        assert hit.parts.sparse == pytest.approx(sparse, abs=5e-3)
        parts = dataclasses.astuple(hit.parts)
        assert sum(parts) == pytest.approx(hit.score, abs=1e-3)
        ids = reference.snapshot.token_ids_of_rows(np.array([first, last]))
        assert (hit.first_token_id, hit.last_token_id) == tuple(ids.tolist())
        assert hit.passage.passage_id == reference.snapshot.passage_ids[passage]


def test_strategies_and_sparse_scores_make_a_difference(searcher):
    """Each pair of strategies, and the weight of sparse scores, gives another best phrase to some question."""

    def best(**changed):
        options = SearchOptions(k=1, **{"weights": WEIGHTS, "effort": "exact", **changed})
        hits = [result.hits[0] for result in searcher.search([Query.question(text) for text in QUESTIONS], options)]
        return [(hit.first_token_id, hit.last_token_id) for hit in hits]

    answers = {strategy: best(strategy=strategy) for strategy in STRATEGIES}
    assert answers["dense"] != answers["dfs"] and answers["sfs"] != answers["dfs"]
    assert best() == answers["hybrid"]
    assert best(weights=dataclasses.replace(WEIGHTS, sparse=0.0)) != answers["hybrid"]


def test_queries_of_several_strategies_are_searched_together(searcher):
    """Each gives what it gives alone; the option outranks the query's own."""
    queries = [dataclasses.replace(Query.question(QUESTIONS[0]), strategy=strategy) for strategy in STRATEGIES]
    together = searcher.search(queries, SearchOptions(k=3, weights=WEIGHTS))

    for query, expected in zip(queries, together, strict=True):
        assert searcher.search([query], SearchOptions(k=3, weights=WEIGHTS))[0].hits == expected.hits
    (forced,) = searcher.search(queries[:1], SearchOptions(k=3, weights=WEIGHTS, strategy="sfs"))
    assert forced.hits == together[2].hits


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_too_few_candidates_are_filled_up(searcher, strategy):
    """Words that stand nowhere still give the k answers asked for, and as many documents as there are."""
    options = SearchOptions(k=5, weights=WEIGHTS, strategy=strategy)
    (result,) = searcher.search([Query.question("zzz")], options)
    assert len(result.hits) == 5
    (documents,) = searcher.search([Query.question(QUESTIONS[0])], dataclasses.replace(options, k=200, unit="document"))
    assert len(documents.hits) == 119


def test_sparse_first_finds_by_words_that_do_not_count(searcher):
    """Weight 0 for lexical scores ranks without them; the candidates still come from words."""
    weights = dataclasses.replace(WEIGHTS, lexical=0.0)
    (result,) = searcher.search(
        [Query.question(QUESTIONS[1])], SearchOptions(k=3, weights=weights, strategy="sfs", explain=True)
    )

    words = set(QUESTIONS[1].split())
    assert result.hits and all(hit.parts.lexical == 0 for hit in result.hits)
    assert any(words & set(hit.passage.text.lower().replace(".", "").split()) for hit in result.hits)


def test_wrong_strategies_and_weights_are_refused():
    """With the value seen and the value wanted."""
    with pytest.raises(InvalidOptionError, match="strategy is 'sparse'"):
        SearchOptions(strategy="sparse")
    with pytest.raises(InvalidOptionError, match="all 0"):
        plan_of("dense", Weights(phrase=0.0, passage=0.0, lexical=1.0))
    with pytest.raises(InvalidOptionError, match="'sparse'"):
        Weights(sparse=-1.0)
