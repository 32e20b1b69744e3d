"""Passages for a reader, measured on a small knowledge base: every way of ranking, every number of passages."""

from __future__ import annotations

import json

import pytest

from adapters.open_domain.questions import read_open_questions
from adapters.tasks.answerer import Answerer
from benchmarks.passages_read import ReadingOptions, measure, pages_of
from kbengine.encoders.encoder import Encoder
from kbengine.knowledge_base import KnowledgeBase, KnowledgeBaseOptions
from tests.kbengine.small_kb import build_small_kb
from tests.tiny_encoder import SENTENCES, write_tiny_encoder
from tests.tiny_reader import write_tiny_reader


def test_what_ranks_passages_also_ranks_answers_beside_the_reader():
    """The reader's weight is the task's own; how many passages it reads is said."""
    options = ReadingOptions(retriever="bm25", read=2).search_options()

    assert (options.read, options.weights.lexical, options.weights.phrase) == (2, 1.0, 0.0)
    assert options.weights.reader > 0 and ReadingOptions(read=1).search_options().weights is None


def test_every_way_of_ranking_is_measured(tmp_path):
    """Table 1's measures of passages, and EM for each number of passages read; errors need more than one page."""
    rows = [
        {"id": i, "input": SENTENCES[n], "output": [{"answer": a, "provenance": [{"wikipedia_id": str(n)}]}]}
        for i, (n, a) in enumerate([(2, "Nobel Prize"), (0, "South America")])
    ]
    path = tmp_path / "nqopen.dev.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_tiny_encoder(tmp_path / "encoder")
    encoder = Encoder.load(tmp_path / "encoder", device="cpu", dtype="float32")
    options = KnowledgeBaseOptions(reader=str(write_tiny_reader(tmp_path / "reader")))
    with KnowledgeBase.open(build_small_kb(tmp_path / "kb", encoder), options=options) as knowledge_base:
        found = measure(Answerer(knowledge_base), read_open_questions(path), pages_of(path), (1, 2))

    assert list(found) == ["all", "phrases", "vectors", "bm25"]
    assert found["bm25"]["passages"]["top-1"] == 100 and found["bm25"]["passages"]["top-1 error"] == pytest.approx(0)
    assert all(set(each["answers by passages read"]) == {"1", "2"} for each in found.values())
    assert "EM@1 error" in found["all"]["answers by passages read"]["2"]
