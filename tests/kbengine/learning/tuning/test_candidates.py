"""Candidates: what the index serves, and which of them are right, by each loss."""

from __future__ import annotations

import numpy as np
import pytest

from kbengine.encoders.encoder import QueryVectors
from kbengine.learning.tuning.candidates import CandidateSource
from kbengine.learning.tuning.losses import LOSSES
from kbengine.search.query import SearchOptions, Weights
from kbengine.search.searcher import Searcher
from storage.reader import KBReader
from tests.kbengine.learning.tuning.tuning_world import open_world, planted_rows
from tests.storage import clustered_world
from tests.tiny_encoder import SENTENCES


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A knowledge base open for the whole module."""
    with open_world(tmp_path_factory.mktemp("candidates")) as knowledge_base:
        yield knowledge_base


def find(world, loss="doc", retrieval="both", top_k=400, rows=None):
    """The candidates of the planted rows."""
    source = CandidateSource(world.searcher(), top_k=top_k, retrieval=retrieval, loss=loss)
    rows = rows or planted_rows()
    return source.find(rows, world.encoder.encode_queries([row.query.input for row in rows]))


def test_vectors_are_those_that_search_ranks_by(world) -> None:
    """Scores from them are the scores that a search by phrase vectors gives."""
    row = planted_rows()[0]
    found = find(world, retrieval="dense", rows=[row])
    encoded = world.encoder.encode_queries([row.query.input])

    scores = (found.start @ encoded.start[0] + found.end @ encoded.end[0])[0][found.is_phrase[0]]

    best = world.search(row.query, k=1, weights=Weights(1, 0, 0)).hits[0]
    assert scores.max() == pytest.approx(best.score, rel=1e-5)


class ClusteredEncoder:
    """Asks near the clusters of the storage tests' knowledge base."""

    d, fingerprint, passage_fingerprint = clustered_world.D, "c" * 64, "c" * 64
    max_phrase_tokens, sparse = 5, None

    def encode_queries(self, inputs, *, truncate=False):
        """The same vectors for whatever is asked."""
        near = clustered_world.queries(3)[None].repeat(len(inputs), axis=0)
        n = len(inputs)
        return QueryVectors(near[:, 0], near[:, 1], near[:, 2], np.full(n, 3), np.zeros(n, dtype=np.bool_))


@pytest.mark.parametrize("drop", [False, True])
def test_vectors_are_those_that_search_ranks_by_where_the_index_holds_codes(tmp_path, drop) -> None:
    """int8 ones where they are kept; the codes where these are all there is."""
    clustered_world.create(tmp_path / "kb")
    clustered_world.change(tmp_path / "kb", "opq16", drop=drop)
    row = planted_rows()[0]
    with KBReader.open(tmp_path / "kb") as reader:
        searcher = Searcher(reader, ClusteredEncoder())
        encoded = ClusteredEncoder().encode_queries([row.query.input])
        found = CandidateSource(searcher, top_k=50, retrieval="dense", loss="doc").find([row], encoded)
        best = searcher.search([row.query], SearchOptions(k=1, weights=Weights(1, 0, 0)))[0].hits[0]

    scores = (found.start @ encoded.start[0] + found.end @ encoded.end[0])[0][found.is_phrase[0]]
    assert scores.max() == pytest.approx(best.score, rel=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_right_is_what_the_loss_says(world, loss) -> None:
    """An answer, any phrase of the document, of the passage, an answer in the document."""
    found = find(world, loss)
    n_right = (found.is_right & found.is_phrase).sum(axis=1)

    if loss == "task":
        assert found.is_right.tolist() == find(world, "phrase").is_right.tolist()
    elif loss in ("doc", "passage"):
        # Every token begins one candidate, so the document's candidates are its tokens.
        n_tokens = [len(v.starts) for v in world.encoder.encode_passages([_passage(row) for row in planted_rows()])]
        assert n_right.tolist() == n_tokens
    else:
        assert (n_right <= 3).all()
        assert n_right.sum() >= 1
    assert found.is_right_passage.sum(axis=1).max() <= 2


def test_where_boundaries_count_each_token_begins_a_candidate_and_ends_one(world) -> None:
    """For answers, and in a batch of several tasks for these alone; some phrases are both."""
    import dataclasses

    question, other = planted_rows()[:2]
    rows = [question, dataclasses.replace(other, right="doc")]
    by_documents, by_tasks = (find(world, loss, "dense", rows=rows).is_phrase.sum(axis=1) for loss in ("doc", "task"))

    assert by_documents[0] < by_tasks[0] < 2 * by_documents[0]
    assert by_documents[1] == by_tasks[1]


def test_an_answer_elsewhere_is_right_for_phrase_and_wrong_for_joint(world) -> None:
    """The same text in another document."""
    import dataclasses

    row = dataclasses.replace(planted_rows()[0], doc_ids=frozenset(("3",)))
    phrase, joint = (find(world, loss, rows=[row]).is_right.sum() for loss in ("phrase", "joint"))

    assert phrase == find(world, "phrase", rows=[planted_rows()[0]]).is_right.sum()
    assert joint == 0


def test_rows_of_several_tasks_have_each_their_own_right(world) -> None:
    """A question beside a mention in one batch: the one by its answer, the other by its document."""
    import dataclasses

    question, other = planted_rows()[:2]
    mixed = find(world, "task", rows=[question, dataclasses.replace(other, right="doc")]).is_right.sum(axis=1)

    assert mixed[0] == find(world, "phrase", rows=[question]).is_right.sum()
    assert mixed[1] == find(world, "doc", rows=[other]).is_right.sum()


def test_what_a_commit_changed_is_read_anew(tmp_path) -> None:
    """A document that is written again has other passages; the one that was kept in memory is not asked."""
    row = planted_rows()[0]
    with open_world(tmp_path) as knowledge_base:
        source = CandidateSource(knowledge_base.searcher(), top_k=400, retrieval="dense", loss="phrase")
        encoded = knowledge_base.encoder.encode_queries([row.query.input])
        before = source.find([row], encoded).is_right.sum()
        knowledge_base.delete(["6"])
        after = source.find([row], encoded).is_right.sum()

    assert before > 0 and after == 0


def test_fused_retrieval_finds_what_the_vectors_miss(world) -> None:
    """The words of the question stand in the gold document: with few candidates only fused retrieval has it."""
    dense, fused, both = (
        find(world, "doc", retrieval, top_k=3).is_right.any(axis=1).sum() for retrieval in ("dense", "fused", "both")
    )

    assert fused > dense
    assert both >= fused


def test_candidates_are_distinct_and_padding_is_zero(world) -> None:
    """Both searches together give each phrase once."""
    found = find(world, "doc", "both", top_k=20)

    for i in range(len(found.start)):
        kept = np.concatenate([found.start[i], found.end[i]], axis=1)[found.is_phrase[i]]
        assert len(np.unique(kept, axis=0)) == len(kept)
    assert not found.start[~found.is_phrase].any()
    assert not found.passage[~found.is_passage].any()
    assert np.linalg.norm(found.passage[found.is_passage], axis=1) == pytest.approx(1, abs=0.02)


def test_the_parts_of_a_fused_score_are_those_of_a_search(world) -> None:
    """Vectors, passage vector and lexical part of the best candidate sum to the score of the best hit."""
    row = planted_rows()[0]
    found = find(world, "doc", "fused", rows=[row])
    encoded = world.encoder.encode_queries([row.query.input])
    weights = row.query.weights

    cosines = found.passage[0] @ encoded.passage[0]
    scores = (
        weights.phrase * (found.start[0] @ encoded.start[0] + found.end[0] @ encoded.end[0])
        + weights.passage * cosines[found.passage_of[0]]
        + found.lexical[0]
    )[found.is_phrase[0]]

    assert found.lexical.max() > 0
    assert scores.max() == pytest.approx(world.search(row.query, k=1).hits[0].score, rel=1e-5)


def _passage(row):
    from kbengine.encoders.encoder import PassageText

    (doc_id,) = row.doc_ids
    return PassageText(f"Page {doc_id}", SENTENCES[int(doc_id)])
