"""Search against a plain double loop over everything that is stored."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from kbengine.errors import InvalidOptionError
from kbengine.search.aggregation import rank_phrases
from kbengine.search.query import UNITS, Query, SearchOptions, Weights
from kbengine.search.query_vectors import QueryVectors
from kbengine.search.rescoring import score_windows
from kbengine.search.searcher import Searcher
from storage.reader import KBReader
from storage.terms import terms_of
from storage.writer import KBWriter
from tests.kbengine.synthetic_kb import VectorEncoder, write_synthetic_kb

WEIGHTS = Weights(phrase=1.0, passage=2.0, lexical=0.5)


@pytest.fixture(scope="module")
def kb_path(tmp_path_factory):
    """A synthetic knowledge base with one deleted document."""
    path = tmp_path_factory.mktemp("searcher") / "kb"
    write_synthetic_kb(path)
    with KBWriter.open(path) as writer:
        writer.delete(["doc-7"])
    return path


@pytest.fixture(scope="module")
def unparted_path(tmp_path_factory):
    """A synthetic knowledge base whose passages are one sentence each: no phrase crosses the end of one."""
    path = tmp_path_factory.mktemp("unparted") / "kb"
    write_synthetic_kb(path, parted_by="; ")
    return path


@pytest.fixture
def searcher(kb_path):
    """A searcher on it."""
    with KBReader.open(kb_path) as reader:
        yield Searcher(reader, VectorEncoder())


def every_phrase(path, query, weights=WEIGHTS, longest=VectorEncoder.max_phrase_tokens):
    """Return (score, doc_id, passage_id, start, end) of every phrase in one sentence, best first, from the codes."""
    vectors = VectorEncoder().encode_queries([query.input])
    with KBReader.open(path) as reader:
        snapshot = reader.snapshot()
        lexical = snapshot.lexical_scores(dict.fromkeys(terms_of(query.input.text), 1.0))
        passages = reader.passages(snapshot.passage_ids)
        documents = reader.documents(set(snapshot.document_ids.tolist()))
        found = []
        for i in np.flatnonzero(snapshot.live_passages):
            rows = np.arange(snapshot.first_rows[i], snapshot.first_rows[i] + snapshot.token_counts[i])
            codes, scales = snapshot.gather(rows)
            stored = codes.astype(np.float32) * scales[:, None]
            ordinals = snapshot.token_ordinals(rows)
            start, end = stored @ vectors.start[0], stored @ vectors.end[0]
            shared = weights.passage * float(snapshot.passage_vectors(np.array([i]))[0] @ vectors.passage[0])
            shared += weights.lexical * float(lexical[i])
            record = passages[int(snapshot.passage_ids[i])]
            for a, b in itertools.combinations_with_replacement(range(len(rows)), 2):
                if ordinals[b] - ordinals[a] < longest:
                    score = weights.phrase * float(start[a] + end[b]) + shared
                    where = (int(record.offsets.starts[a]), int(record.offsets.ends[b]))
                    if ". " in record.text[slice(*where)]:
                        continue
                    found.append((score, documents[record.document_id].doc_id, record.passage_id, *where))
    return sorted(found, key=lambda each: -each[0])


QUESTIONS = ["amber basil", "Where is the heron?", "quartz and reed and opal", "kelp", "who sang lark mesa"]


@pytest.mark.parametrize("text", QUESTIONS)
def test_the_best_phrase_is_the_best_of_all_phrases(kb_path, searcher, text):
    """Nothing that is stored scores higher than the first hit, and its score is exact."""
    query = Query.question(text)
    best = every_phrase(kb_path, query)[0]

    hit = searcher.search([query], SearchOptions(k=5, weights=WEIGHTS))[0].hits[0]

    assert hit.score == pytest.approx(best[0], abs=1e-3)
    assert (hit.document.doc_id, hit.passage.passage_id, hit.phrase.start, hit.phrase.end) == best[1:]


@pytest.mark.parametrize("text", QUESTIONS)
def test_documents_are_ranked_by_their_best_phrase(unparted_path, text):
    """The document order equals that of an exact maximum over every phrase of every document."""
    query = Query.question(text)
    best: dict[str, float] = {}
    for score, doc_id, *_ in every_phrase(unparted_path, query):
        best.setdefault(doc_id, score)

    with KBReader.open(unparted_path) as reader:
        searcher = Searcher(reader, VectorEncoder())
        hits = searcher.search([query], SearchOptions(k=10, unit="document", weights=WEIGHTS))[0].hits

    assert [hit.document.doc_id for hit in hits] == list(best)[:10]
    assert [hit.score for hit in hits] == pytest.approx(list(best.values())[:10], abs=1e-3)


@pytest.mark.parametrize("text", QUESTIONS)
def test_passages_show_their_best_phrase_in_one_sentence(kb_path, searcher, text):
    """A phrase over the end of a sentence gives way to the best of its passage, which decides about the score."""
    query = Query.question(text)
    best: dict[int, tuple[float, int, int]] = {}
    for score, _, passage_id, *where in every_phrase(kb_path, query):
        best.setdefault(passage_id, (score, *where))

    hits = searcher.search([query], SearchOptions(k=20, unit="passage", weights=WEIGHTS, explain=True))[0].hits

    for hit in hits:
        score, *where = best[hit.passage.passage_id]
        assert (hit.phrase.start, hit.phrase.end) == tuple(where)
        assert hit.score == pytest.approx(score, abs=1e-3)
        assert sum(dataclasses.astuple(hit.parts)) == pytest.approx(hit.score, abs=1e-3)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@pytest.mark.parametrize("unit", UNITS)
def test_k_distinct_units_come_back_until_there_are_no_more(kb_path, searcher, unit):
    """Asking for more than one search fetches goes on fetching; a thousand gives all there are."""
    result = searcher.search([Query.question("amber")], SearchOptions(k=1000, unit=unit, weights=WEIGHTS))[0]

    keys = {
        "phrase": [(hit.passage.passage_id, hit.phrase) for hit in result.hits],
        "sentence": [(hit.passage.passage_id, hit.span) for hit in result.hits],
        "passage": [hit.passage.passage_id for hit in result.hits],
        "document": [hit.document.doc_id for hit in result.hits],
    }[unit]
    assert len(set(keys)) == len(keys)
    if unit == "document":
        assert len(keys) == 39
    if unit == "passage":
        assert len(keys) == 117


def test_a_deleted_document_is_in_no_answer(searcher):
    """Not even when everything is asked for."""
    result = searcher.search([Query.question("amber")], SearchOptions(k=1000, unit="document", weights=WEIGHTS))[0]

    assert "doc-7" not in {hit.document.doc_id for hit in result.hits}


def test_parts_sum_to_the_score(searcher):
    """`explain` hides nothing."""
    result = searcher.search([Query.question("heron iris")], SearchOptions(k=20, explain=True, weights=WEIGHTS))[0]

    for hit in result.hits:
        parts = hit.parts
        assert parts.start + parts.end + parts.passage + parts.lexical == pytest.approx(hit.score, abs=1e-4)


def test_answers_do_not_depend_on_the_batch(searcher):
    """Alone or with others: the same hits in the same order."""
    queries = [Query.question(text) for text in QUESTIONS]
    options = SearchOptions(k=10, weights=WEIGHTS)

    together = searcher.search(queries, options)
    alone = [searcher.search([query], options)[0] for query in queries]

    for a, b in zip(together, alone, strict=True):
        assert [(h.passage.passage_id, h.phrase) for h in a.hits] == [(h.passage.passage_id, h.phrase) for h in b.hits]
        assert [h.score for h in a.hits] == pytest.approx([h.score for h in b.hits], abs=1e-4)


def test_phrases_of_one_answer_list_never_overlap(searcher):
    """Of overlapping phrases the better one stays."""
    hits = searcher.search([Query.question("dune ember")], SearchOptions(k=200, weights=WEIGHTS))[0].hits

    by_passage: dict[int, list[tuple[int, int]]] = {}
    for hit in hits:
        for start, end in by_passage.setdefault(hit.passage.passage_id, []):
            assert hit.phrase.end <= start or end <= hit.phrase.start
        by_passage[hit.passage.passage_id].append((hit.phrase.start, hit.phrase.end))


def test_the_sentence_unit_gives_whole_sentences(searcher):
    """The span holds the phrase and ends with the sentence."""
    for hit in searcher.search([Query.question("jade")], SearchOptions(k=30, unit="sentence", weights=WEIGHTS))[0].hits:
        assert hit.span.start <= hit.phrase.start and hit.phrase.end <= hit.span.end
        assert hit.text.endswith(".") and hit.text == hit.passage.text[hit.span.start : hit.span.end]


def test_every_effort_gives_the_same_on_a_knowledge_base_that_is_scanned_whole(searcher):
    """Small segments are exact whatever the effort."""
    lists = [
        searcher.search([Query.question("opal")], SearchOptions(k=10, effort=effort, weights=WEIGHTS))[0].hits
        for effort in ("low", "normal", "high", "exact")
    ]

    assert all(hits == lists[0] for hits in lists)


@pytest.mark.parametrize("k", [0, -1, 1001, 10**9])
def test_a_k_out_of_range_is_refused(k):
    """The error names the range."""
    with pytest.raises(InvalidOptionError, match="wanted 1 to 1000"):
        SearchOptions(k=k)


def test_a_longest_phrase_of_one_token_gives_single_tokens(searcher):
    """The limit is respected exactly (DensePhrases allowed one more)."""
    options = SearchOptions(k=50, max_phrase_tokens=1, weights=WEIGHTS)

    for hit in searcher.search([Query.question("reed")], options)[0].hits:
        assert hit.first_token_id == hit.last_token_id


def test_without_passage_and_lexical_weight_only_phrases_count(kb_path, searcher):
    """Weights of 0 switch a signal off."""
    weights = Weights(phrase=1.0, passage=0.0, lexical=0.0)
    query = Query.question("pine")

    hit = searcher.search([query], SearchOptions(k=1, weights=weights, explain=True))[0].hits[0]

    assert hit.parts.passage == 0 and hit.parts.lexical == 0
    assert hit.score == pytest.approx(every_phrase(kb_path, query, weights)[0][0], abs=1e-3)


def test_documents_by_passage_vectors_alone_need_no_second_fetch(searcher):
    """All phrases of a passage tie then; the list of phrases must not be cut before there are k documents."""
    weights = Weights(phrase=0.0, passage=1.0, lexical=0.0)

    hits = searcher.search([Query.question("nectar")], SearchOptions(k=20, unit="document", weights=weights))[0].hits

    assert len({hit.document.doc_id for hit in hits}) == 20
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_a_compaction_between_finding_and_reading_is_no_error(tmp_path):
    """Another process may forget a deleted document just when it was found: the search is begun anew."""
    path = tmp_path / "kb"
    write_synthetic_kb(path, n_documents=6)

    class CompactedMeanwhile(KBReader):
        """Compacts after the snapshot was taken, once."""

        done = False

        def passages_with_documents(self, passage_ids):
            """Compact first, then read."""
            if not self.done:
                type(self).done = True
                with KBWriter.open(path) as writer:
                    writer.delete(["doc-1"])
                    writer.compact()
            return super().passages_with_documents(passage_ids)

    with CompactedMeanwhile.open(path) as reader:
        options = SearchOptions(k=50, unit="document", weights=WEIGHTS)
        hits = Searcher(reader, VectorEncoder()).search([Query.question("amber")], options)[0].hits

    assert {hit.document.doc_id for hit in hits} == {f"doc-{i}" for i in (0, 2, 3, 4, 5)}


def score_some(searcher, *, of_ends_too):
    """The phrases of the first passages, and what they are scored from."""
    snapshot = searcher.reader.snapshot()
    encoded = VectorEncoder().encode_queries([Query.question("amber heron quartz").input])
    vectors = QueryVectors(encoded.start[0], encoded.end[0], encoded.passage[0], None, None)
    no_rows, passages = np.zeros(0, dtype=np.int64), np.arange(20, dtype=np.int64)
    longest = VectorEncoder.max_phrase_tokens
    found = score_windows(snapshot, vectors, WEIGHTS, "phrase", longest, no_rows, passages, of_ends_too=of_ends_too)
    return snapshot, vectors, passages, rank_phrases(found, len(found))


def test_phrases_of_both_ends_are_those_of_all_spans(searcher) -> None:
    """The best of all spans with the same first token, and the best of those with the same last one, each once."""
    snapshot, vectors, passages, found = score_some(searcher, of_ends_too=True)

    expected = {}
    for passage in passages.tolist():
        begin = int(snapshot.first_rows[passage])
        rows = np.arange(begin, begin + int(snapshot.token_counts[passage]))
        codes, scales = snapshot.gather(rows)
        stored = codes.astype(np.float32) * scales[:, None]
        ordinals = snapshot.token_ordinals(rows).astype(int)
        distance = ordinals[None, :] - ordinals[:, None]
        is_phrase = (distance >= 0) & (distance < VectorEncoder.max_phrase_tokens)
        table = np.where(is_phrase, (stored @ vectors.start)[:, None] + stored @ vectors.end, -np.inf)
        shared = WEIGHTS.passage * float(snapshot.passage_vectors(np.array([passage]))[0] @ vectors.passage)
        for at in range(len(rows)):
            for first, last in ((at, int(table[at].argmax())), (int(table[:, at].argmax()), at)):
                expected[int(rows[first]), int(rows[last])] = float(table[first, last]) + shared
    phrases = list(zip(found.first_rows.tolist(), found.last_rows.tolist(), strict=True))
    assert sorted(phrases) == sorted(expected)
    assert found.score.tolist() == pytest.approx([expected[phrase] for phrase in phrases], rel=1e-4, abs=1e-4)
    assert (np.diff(found.score) <= 0).all()


def test_a_search_takes_no_phrases_of_ends(searcher) -> None:
    """One phrase for each first token, the same ones as among those of both ends."""
    *_, plain = score_some(searcher, of_ends_too=False)
    *_, both = score_some(searcher, of_ends_too=True)

    assert len(np.unique(plain.first_rows)) == len(plain) < len(both)
    of_both = dict(zip(zip(both.first_rows.tolist(), both.last_rows.tolist(), strict=True), both.score, strict=True))
    for first, last, score in zip(plain.first_rows.tolist(), plain.last_rows.tolist(), plain.score, strict=True):
        assert of_both[first, last] == score
