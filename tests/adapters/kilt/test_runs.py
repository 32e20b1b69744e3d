"""BEIR and TREC files."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.errors import RecordError, SubmissionError
from adapters.kilt.runs import (
    BeirDocument,
    BeirQuery,
    Hit,
    qrels_of_gold,
    read_beir_corpus,
    read_beir_qrels,
    read_beir_queries,
    read_trec_qrels,
    read_trec_run,
    run_of_submission,
    write_beir_corpus,
    write_beir_qrels,
    write_beir_queries,
    write_trec_qrels,
    write_trec_run,
)

WriteJsonl = Callable[[str, Iterable[dict[str, object]]], Path]
QRELS = {"q1": {"d1": 1, "d2": 0}, "q2": {"d 3": 2}}


def test_a_trec_run_has_ranks_from_one_and_comes_back_as_it_was(tmp_path: Path) -> None:
    """Six columns, best first."""
    run = {"q1": [Hit("d1", 2.5), Hit("d2", 2.5), Hit("d0", -1.0)], "q2": [Hit("d1", 1e-7)]}
    write_trec_run(run, tmp_path / "run.txt", tag="ours")
    assert (tmp_path / "run.txt").read_text().split("\n")[:2] == ["q1 Q0 d1 1 2.5 ours", "q1 Q0 d2 2 2.5 ours"]
    assert read_trec_run(tmp_path / "run.txt") == run


@given(scores=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=9))
def test_any_scores_survive_a_trec_run(tmp_path_factory: pytest.TempPathFactory, scores: list[float]) -> None:
    """Scores are written with all their digits."""
    path = tmp_path_factory.mktemp("runs") / "run.txt"
    run = {"q": [Hit(f"d{number}", score) for number, score in enumerate(sorted(scores, reverse=True))]}
    write_trec_run(run, path)
    assert read_trec_run(path) == (run if scores else {})


def test_a_trec_run_in_any_order_is_read_best_first(tmp_path: Path) -> None:
    """Falling score, then rank, then file order; tabs or blanks."""
    path = tmp_path / "run.gz"
    path.write_bytes(gzip.compress(b"q Q0 low 1 0.5 t\nq\tQ0\ttie2\t3\t0.9\tt\nq Q0 tie1 2 0.9 t\n"))
    assert [hit.doc_id for hit in read_trec_run(path)["q"]] == ["tie1", "tie2", "low"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q Q0 d 1 0.5\n", "run:1: 5 columns, 6 are wanted; write `query Q0 document rank score tag`"),
        ("q Q0 d 1 nan t\n", "run:1: the score is 'nan'; write a finite number"),
        ("q Q0 d x 1 t\n", "run:1: the rank is 'x'; write a finite number"),
        ("q Q0 d 1 2 t\nq Q0 d 2 1 t\n", "run:2: document 'd' comes twice for query 'q'"),
        ("\n", "run:1: blank line"),
    ],
)
def test_a_bad_run_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    """File, line, what is wrong."""
    (tmp_path / "run").write_text(text)
    with pytest.raises(RecordError) as caught:
        read_trec_run(tmp_path / "run")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("query", "hits", "message"),
    [
        ("q", [Hit("d1", 1.0), Hit("d2", 2.0)], "has score 2.0 at rank 2 behind 1.0"),
        ("q", [Hit("d1", float("nan"))], "has score nan at rank 1"),
        ("q 1", [Hit("d1", 1.0)], "'q 1' has blanks"),
        ("q", [Hit("", 1.0)], "is empty"),
    ],
)
def test_a_run_that_others_would_read_differently_is_not_written(
    tmp_path: Path, query: str, hits: list[Hit], message: str
) -> None:
    """Nothing is left behind either."""
    with pytest.raises(SubmissionError, match=message):
        write_trec_run({query: hits}, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_trec_qrels_come_back_as_they_were(tmp_path: Path) -> None:
    """Four columns; document ids without blanks."""
    qrels = {"q1": {"d1": 1, "d2": 0}, "q2": {"d3": -1}}
    write_trec_qrels(qrels, tmp_path / "qrels")
    assert (tmp_path / "qrels").read_text() == "q1 0 d1 1\nq1 0 d2 0\nq2 0 d3 -1\n"
    assert read_trec_qrels(tmp_path / "qrels") == qrels


def test_beir_qrels_come_back_as_they_were(tmp_path: Path) -> None:
    """Tabs with a header; the header may be absent when read."""
    path = tmp_path / "test.tsv"
    write_beir_qrels(QRELS, path)
    header, _, rest = path.read_text().partition("\n")
    assert header == "query-id\tcorpus-id\tscore"
    assert read_beir_qrels(path) == QRELS
    path.write_text(rest)
    assert read_beir_qrels(path) == QRELS


@pytest.mark.parametrize("text", ["q\td\t0.5\n", "q\td\tx\n", "q d 1\n", "q\td\t1\nq\td\t1\n"])
def test_a_bad_judgement_is_named(tmp_path: Path, text: str) -> None:
    """Fractions, words, wrong separators and contradictions."""
    (tmp_path / "qrels.tsv").write_text(text)
    with pytest.raises(RecordError, match=r"qrels\.tsv:[12]: "):
        read_beir_qrels(tmp_path / "qrels.tsv")


def test_beir_queries_and_corpus_come_back_as_they_were(tmp_path: Path) -> None:
    """JSON lines with `_id`; a missing title is empty."""
    queries = [BeirQuery("q1", "where\u2028is Ulm", {"k": [1]}), BeirQuery("q2", "")]
    documents = [BeirDocument("d1", "Ulm", "A city.", {"url": "x"})]
    write_beir_queries(queries, tmp_path / "queries.jsonl")
    write_beir_corpus(documents, tmp_path / "corpus.jsonl")
    assert list(read_beir_queries(tmp_path / "queries.jsonl")) == queries
    assert list(read_beir_corpus(tmp_path / "corpus.jsonl")) == documents
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d", "text": "x"}\n')
    assert list(read_beir_corpus(tmp_path / "corpus.jsonl")) == [BeirDocument("d", "", "x")]
    (tmp_path / "corpus.jsonl").write_text('{"_id": 5, "text": "x"}\n')
    with pytest.raises(RecordError, match=r"corpus\.jsonl:1: `_id` is a number; write it as a string"):
        list(read_beir_corpus(tmp_path / "corpus.jsonl"))


def test_kilt_files_become_qrels_and_runs(write_jsonl: WriteJsonl) -> None:
    """Gold pages are judged 1; a submission's order becomes falling scores, each page once."""
    gold = write_jsonl(
        "gold",
        [{"id": 1, "output": [{"provenance": [{"wikipedia_id": "5"}]}, {"provenance": [{"wikipedia_id": 6}]}]}],
    )
    guess = write_jsonl(
        "guess", [{"id": 1, "output": [{"answer": "x", "provenance": [{"wikipedia_id": n} for n in ("9", "5", "9")]}]}]
    )
    assert qrels_of_gold(gold) == {"1": {"5": 1, "6": 1}}
    assert run_of_submission(guess) == {"1": [Hit("9", 1.0), Hit("5", 0.5)]}
