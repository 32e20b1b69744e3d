"""Results as the one answer envelope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapters.answers import Answer, Evidence, TaskAnswer
from adapters.kilt.submission import PageProvenance
from kbengine.results import Hit, SearchResult, Span
from kbengine.sentences import covering_sentence, sentence_spans

if TYPE_CHECKING:
    from web.engine import Engine


def task_envelope(answer: TaskAnswer, engine: Engine) -> dict[str, Any]:
    """Return the answer to a task's request."""
    return _with_model(answer.to_json(), engine)


def search_envelope(result: SearchResult, engine: Engine) -> dict[str, Any]:
    """Return the answer to a plain search: each hit is an answer with itself as evidence."""
    answers = [_hit_answer(hit).to_json() for hit in result.hits]
    return _with_model(
        {
            "task": "search",
            "status": "answered" if answers else "no_answer",
            "reason": None if answers else "nothing_found",
            "answers": answers,
            "threshold": None,
            "mention": None,
            "generation": result.generation,
            "encoder": result.encoder,
            "query_tokens": result.n_query_tokens,
            "truncated": result.truncated,
            "timings_ms": {name: round(value, 3) for name, value in result.timings_ms.items()},
        },
        engine,
    )


def _with_model(record: dict[str, Any], engine: Engine) -> dict[str, Any]:
    fingerprint = record.pop("encoder")
    return {**record, "model": {"encoder": engine.encoder_name, "fingerprint": fingerprint}, "cached": False}


def _hit_answer(hit: Hit) -> Answer:
    text = hit.passage.text
    span = hit.phrase if hit.unit in ("phrase", "document") else hit.span
    sentence = covering_sentence(sentence_spans(text), hit.phrase)
    evidence = Evidence(
        document=hit.document,
        passage=hit.passage,
        span=span,
        sentence=sentence,
        score=hit.score,
        parts=hit.parts,
        provenance=_provenance(hit, span),
    )
    return Answer(hit.rank, hit.text, hit.unit, hit.score, None, (evidence,))


def _provenance(hit: Hit, span: Span) -> PageProvenance:
    shift = hit.passage.char_offset
    return PageProvenance(
        wikipedia_id=hit.document.doc_id,
        title=hit.document.title,
        section=hit.passage.section,
        start_paragraph_id=hit.passage.ordinal,
        start_character=span.start + shift,
        end_paragraph_id=hit.passage.ordinal,
        end_character=span.end + shift,
        text=hit.passage.text[span.start : span.end],
        score=hit.score,
    )
