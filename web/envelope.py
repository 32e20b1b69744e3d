"""Results as the one answer envelope."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from adapters.tasks.answers import Answer, Evidence, TaskAnswer
from adapters.tasks.provenance import PageProvenance
from kbengine.corpus.sentences import covering_sentence, sentence_spans
from kbengine.search.results import Hit, SearchResult, shards_json
from storage.languages import language_of


def envelope(result: TaskAnswer | SearchResult, encoder: str) -> dict[str, Any]:
    """Return the answer to a task's request, or to a plain search, as plain JSON values.

    Args:
        result: the answer.
        encoder: name of the encoder that gave it.
    """
    record = _search_json(result) if isinstance(result, SearchResult) else result.to_json()
    fingerprint = record.pop("encoder")
    return {**record, "model": {"encoder": encoder, "fingerprint": fingerprint}, "cached": False}


def _search_json(result: SearchResult) -> dict[str, Any]:
    """Return the hits as answers, each with itself as evidence."""
    answers = [_hit_answer(hit).to_json() for hit in result.hits]
    return {
        "task": "search",
        "status": "answered" if answers else "no_answer",
        "reason": None if answers else "nothing_found",
        "answers": answers,
        "values": [],
        "threshold": None,
        "answerable": None,
        "mention": None,
        "generation": result.generation,
        "encoder": result.encoder,
        "query_tokens": result.n_query_tokens,
        "truncated": result.truncated,
        "lexical_factor": result.lexical_factor,
        "timings_ms": {name: round(value, 3) for name, value in result.timings_ms.items()},
        **shards_json(result.shards),
    }


def _hit_answer(hit: Hit) -> Answer:
    text = hit.passage.text
    span = hit.phrase if hit.unit in ("phrase", "document") else hit.span
    sentence = covering_sentence(sentence_spans(text, language_of(hit.document.meta)), hit.phrase)
    evidence = Evidence(
        document=hit.document,
        passage=hit.passage,
        span=span,
        sentence=sentence,
        score=hit.score,
        parts=hit.parts,
        provenance=replace(PageProvenance.of_hit(hit, span), text=text[span.start : span.end], score=hit.score),
    )
    return Answer(hit.rank, hit.text, hit.unit, hit.score, None, (evidence,))
