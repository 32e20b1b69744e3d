"""From hits to a task's output: the answer and the places that speak for it."""

from __future__ import annotations

from collections.abc import Sequence

from adapters.tasks.answers import Evidence
from adapters.tasks.provenance import PageProvenance
from kbengine.corpus.sentences import covering_sentence, sentence_spans
from kbengine.inputs import Task
from kbengine.search.query import Unit
from kbengine.search.results import Hit
from kbengine.span import Span
from storage.languages import language_of


def answer_of(task: Task, hits: Sequence[Hit]) -> str:
    """Return the task's answer from hits on distinct documents, best first; empty when there is none.

    Questions and slot filling: the best phrase of the best document. Entity linking: its title. Dialogue: the sentence
    around its best phrase.
    """
    if task == "entity-linking":
        return hits[0].document.title if hits else ""
    for hit in hits:
        span = _evidence_span(task, hit)
        if span.start < span.end:
            return hit.passage.text[span.start : span.end]
    return ""


def provenance_of(task: Task, hits: Sequence[Hit]) -> tuple[PageProvenance, ...]:
    """Return one entry a hit, in order: page, title, section, paragraph and its characters that answer."""
    return tuple(PageProvenance.of_hit(hit, _evidence_span(task, hit)) for hit in hits)


def evidence_of(task: Task, unit: Unit, hit: Hit, *, explain: bool) -> Evidence:
    """Return the hit as a place that speaks for an answer of the unit."""
    sentences = sentence_spans(hit.passage.text, language_of(hit.document.meta))
    span = hit.phrase
    if unit == "sentence":
        span = hit.span
    elif task == "dialogue" and unit != "phrase":
        span = covering_sentence(sentences, hit.phrase)
    return Evidence(
        document=hit.document,
        passage=hit.passage,
        span=span,
        sentence=covering_sentence(sentences, span),
        score=hit.score,
        parts=hit.parts if explain else None,
        provenance=PageProvenance.of_hit(hit, span),
    )


def _evidence_span(task: Task, hit: Hit) -> Span:
    """Return the characters of the passage that the task calls its answer."""
    if task == "dialogue":
        return covering_sentence(sentence_spans(hit.passage.text, language_of(hit.document.meta)), hit.phrase)
    return hit.phrase
