"""Readers and writers of BEIR and TREC files, so that other tools can score our runs and we theirs.

A run is, per query id, hits with the best first. Files may be gzipped when read; what is written is plain, complete
or not there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from adapters.errors import RecordError, SubmissionError
from adapters.kilt.lines import JSON, json_type, read_lines, read_text_lines
from adapters.kilt.records import TaskRecord, read_gold, read_guess
from adapters.kilt.retrieval import PAGE_KEYS, evidence_ids
from storage.durable import write_durably

Qrels: TypeAlias = dict[str, dict[str, int]]
"""Relevance by query id and document id."""

_BEIR_HEADER = ("query-id", "corpus-id", "score")


@dataclass(frozen=True, slots=True)
class Hit:
    """One retrieved document of a run."""

    doc_id: str
    score: float


Run: TypeAlias = dict[str, list[Hit]]


@dataclass(frozen=True, slots=True)
class BeirQuery:
    """One line of `queries.jsonl`."""

    id: str
    text: str
    metadata: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BeirDocument:
    """One line of `corpus.jsonl`."""

    id: str
    title: str
    text: str
    metadata: Mapping[str, JSON] = field(default_factory=dict)


def read_trec_run(path: str | Path) -> Run:
    """Hits of each query from `query Q0 document rank score tag` lines, ordered by falling score.

    Equal scores keep the order of the rank column, then of the file.
    """
    ranked: dict[str, dict[str, tuple[float, float, int]]] = {}
    for number, columns in _columns(path, 6, "query Q0 document rank score tag"):
        query, _, document, rank, score, _ = columns
        hits = ranked.setdefault(query, {})
        if document in hits:
            raise _error(path, number, f"document {document!r} comes twice for query {query!r}", "keep its best line")
        hits[document] = (
            -_float(path, number, "score", score),
            _float(path, number, "rank", rank),
            number,
        )
    return {
        query: [Hit(document, -hits[document][0]) for document in sorted(hits, key=lambda name: hits[name])]
        for query, hits in ranked.items()
    }


def write_trec_run(run: Mapping[str, Sequence[Hit]], path: str | Path, *, tag: str = "kbengine") -> None:
    """Write `query Q0 document rank score tag` lines, ranks from 1, in the order of the hits.

    Raises:
        SubmissionError: an id has blanks, a score is NaN, or scores rise along a query's hits: other tools sort by
            score and would see another order.
    """

    def lines() -> Iterator[str]:
        for query, hits in run.items():
            last = math.inf
            for rank, hit in enumerate(hits, start=1):
                if not hit.score <= last:
                    raise SubmissionError(
                        f"{path}: query {query!r} has score {hit.score} at rank {rank} behind {last}; "
                        "give hits best first, with finite scores"
                    )
                last = hit.score
                yield f"{_word(query)} Q0 {_word(hit.doc_id)} {rank} {hit.score!r} {_word(tag)}\n"

    _write(path, lines())


def read_trec_qrels(path: str | Path) -> Qrels:
    """Judgements from `query 0 document relevance` lines."""
    qrels: Qrels = {}
    for number, (query, _, document, relevance) in _columns(path, 4, "query 0 document relevance"):
        _judge(qrels, path, number, query, document, relevance)
    return qrels


def write_trec_qrels(qrels: Mapping[str, Mapping[str, int]], path: str | Path) -> None:
    """Write `query 0 document relevance` lines."""
    _write(
        path,
        (
            f"{_word(query)} 0 {_word(document)} {relevance}\n"
            for query, judged in qrels.items()
            for document, relevance in judged.items()
        ),
    )


def read_beir_qrels(path: str | Path) -> Qrels:
    """Judgements from a BEIR qrels TSV, with or without its header line."""
    qrels: Qrels = {}
    for number, columns in _columns(path, 3, "\t".join(_BEIR_HEADER), separator="\t"):
        if number == 1 and tuple(columns) == _BEIR_HEADER:
            continue
        query, document, relevance = columns
        _judge(qrels, path, number, query, document, relevance)
    return qrels


def write_beir_qrels(qrels: Mapping[str, Mapping[str, int]], path: str | Path) -> None:
    """Write a BEIR qrels TSV with its header line."""

    def lines() -> Iterator[str]:
        yield "\t".join(_BEIR_HEADER) + "\n"
        for query, judged in qrels.items():
            for document, relevance in judged.items():
                yield f"{_cell(query)}\t{_cell(document)}\t{relevance}\n"

    _write(path, lines())


def read_beir_queries(path: str | Path) -> Iterator[BeirQuery]:
    """Queries of a BEIR `queries.jsonl`, in order."""
    for number, value in _objects(path):
        yield BeirQuery(
            _text(path, number, value, "_id"), _text(path, number, value, "text"), _metadata(value.get("metadata"))
        )


def write_beir_queries(queries: Iterable[BeirQuery], path: str | Path) -> None:
    """Write a BEIR `queries.jsonl`."""
    _write(
        path,
        (
            json.dumps({"_id": query.id, "text": query.text, "metadata": dict(query.metadata)}) + "\n"
            for query in queries
        ),
    )


def read_beir_corpus(path: str | Path) -> Iterator[BeirDocument]:
    """Documents of a BEIR `corpus.jsonl`, in order; a missing title is the empty text."""
    for number, value in _objects(path):
        yield BeirDocument(
            _text(path, number, value, "_id"),
            _text(path, number, {"title": "", **value}, "title"),
            _text(path, number, value, "text"),
            _metadata(value.get("metadata")),
        )


def write_beir_corpus(documents: Iterable[BeirDocument], path: str | Path) -> None:
    """Write a BEIR `corpus.jsonl`."""
    _write(
        path,
        (
            json.dumps(
                {
                    "_id": document.id,
                    "title": document.title,
                    "text": document.text,
                    "metadata": dict(document.metadata),
                }
            )
            + "\n"
            for document in documents
        ),
    )


def qrels_of_gold(path: str | Path, *, rank_keys: Sequence[str] = PAGE_KEYS) -> Qrels:
    """Relevance 1 for every piece of evidence of a KILT gold file, by record id.

    Evidence sets become plain sets: a record that needs two pages together counts each alone.
    """
    return {
        record.id: dict.fromkeys((name for output in record.outputs for name in evidence_ids(output, rank_keys)), 1)
        for record in read_gold(path)
    }


def run_of_submission(path: str | Path, *, rank_keys: Sequence[str] = PAGE_KEYS) -> Run:
    """Hits of each record of a KILT submission; a submission has an order but no scores, so 1/rank stands for it."""
    return {record.id: _hits(record, rank_keys) for record in read_guess(path)}


def _hits(record: TaskRecord, rank_keys: Sequence[str]) -> list[Hit]:
    names = dict.fromkeys(name for output in record.outputs for name in evidence_ids(output, rank_keys))
    return [Hit(name, 1 / rank) for rank, name in enumerate(names, start=1)]


def _judge(qrels: Qrels, path: str | Path, number: int, query: str, document: str, relevance: str) -> None:
    judged = qrels.setdefault(query, {})
    if document in judged:
        raise _error(path, number, f"document {document!r} is judged twice for query {query!r}", "keep one line")
    value = _float(path, number, "relevance", relevance)
    if value != int(value):
        raise _error(path, number, f"the relevance is {relevance!r}", "write a whole number")
    judged[document] = int(value)


def _columns(
    path: str | Path, wanted: int, form: str, *, separator: str | None = None
) -> Iterator[tuple[int, list[str]]]:
    for number, text, error in read_text_lines(path):
        if error is not None:
            raise error
        if not text.strip():
            raise _error(path, number, "blank line", "delete it")
        columns = text.split(separator)
        if len(columns) != wanted:
            raise _error(path, number, f"{len(columns)} columns, {wanted} are wanted", f"write `{form}`")
        yield number, columns


def _objects(path: str | Path) -> Iterator[tuple[int, dict[str, JSON]]]:
    for line in read_lines(path):
        if line.error is not None:
            raise line.error
        yield line.number, line.value or {}


def _text(path: str | Path, number: int, value: Mapping[str, JSON], name: str) -> str:
    text = value.get(name)
    if not isinstance(text, str):
        seen = f"`{name}` is {json_type(text)}" if name in value else f"no `{name}`"
        raise _error(path, number, seen, "write it as a string")
    return text


def _metadata(value: JSON) -> dict[str, JSON]:
    return value if isinstance(value, dict) else {}


def _float(path: str | Path, number: int, name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise _error(path, number, f"the {name} is {text!r}", "write a finite number")
    return value


def _error(path: str | Path, number: int, seen: str, remedy: str) -> RecordError:
    return RecordError(seen, file=str(path), line=number, problem="bad_line", remedy=remedy)


def _word(text: str) -> str:
    if not text or len(text.split()) != 1 or text != text.strip():
        raise SubmissionError(f"the id {text!r} has blanks or is empty, which TREC files cannot hold; use other ids")
    return text


def _cell(text: str) -> str:
    if not text or any(character in text for character in "\t\r\n"):
        raise SubmissionError(f"the id {text!r} is empty or has a tab or newline; use other ids")
    return text


def _write(path: str | Path, lines: Iterable[str]) -> None:
    write_durably(Path(path), (line.encode() for line in lines), replace=True)
