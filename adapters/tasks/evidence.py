"""From hits to a task's output: the answer, with stray punctuation left out, and the places that speak for it."""

from __future__ import annotations

from collections.abc import Sequence

from adapters.tasks.answers import Evidence
from adapters.tasks.provenance import PageProvenance
from kbengine.corpus.sentences import covering_sentence, sentence_spans
from kbengine.inputs import Task
from kbengine.search.query import Unit
from kbengine.search.results import Hit
from kbengine.span import Span

_BRACKETS = {"(": ")", "[": "]", "{": "}"}
_CLOSING = {close: opening for opening, close in _BRACKETS.items()}
_QUOTES = {'"': '"', "“": "”", "„": "“", "‘": "’", "'": "'", "«": "»"}
_ALWAYS_LEADING = frozenset(",;:!?…–—»”’)]}")
_ALWAYS_TRAILING = frozenset(",;:…–—-([{“‘«„'’")
_ABBREVIATIONS = frozenset(
    ("jr", "sr", "inc", "ltd", "co", "corp", "bros", "st", "dr", "mr", "mrs", "ms", "no", "mt", "ft", "gen", "col")
)


def trimmed_span(text: str, span: Span) -> Span:
    """Return the span without white space, stray punctuation and wrapping quotes or brackets at its ends.

    What belongs to a name or a number stays: "U.S.", "Jr.", "Yahoo!", "'s-Hertogenbosch", "-40 °C", "Java (island)".
    A span of nothing but punctuation becomes empty.
    """
    start, end = span.start, span.end
    while start < end:
        piece = text[start:end]
        if _is_wrapped(piece):
            start, end = start + 1, end - 1
        elif _is_stray_at_start(piece):
            start += 1
        elif _is_stray_at_end(piece):
            end -= 1
        else:
            break
    return Span(start, end)


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
    sentences = sentence_spans(hit.passage.text)
    span = trimmed_span(hit.passage.text, hit.phrase)
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
        return covering_sentence(sentence_spans(hit.passage.text), hit.phrase)
    return trimmed_span(hit.passage.text, hit.phrase)


def _is_wrapped(piece: str) -> bool:
    close = _BRACKETS.get(piece[0]) or _QUOTES.get(piece[0])
    inside = piece[1:-1]
    return len(piece) > 1 and piece[-1] == close and piece[0] not in inside and close not in inside


def _is_stray_at_start(piece: str) -> bool:
    first, following = piece[0], piece[1:2]
    if first.isspace() or first in _ALWAYS_LEADING:
        return True
    if first in _BRACKETS:
        return _BRACKETS[first] not in piece
    if first in "-.":  # "-40 °C", ".com"
        return not following.isalnum()
    if first == "'":  # "'s-Hertogenbosch"
        return not following.isalpha()
    return first in _QUOTES and piece.count(_QUOTES[first]) == (1 if _QUOTES[first] == first else 0)


def _is_stray_at_end(piece: str) -> bool:
    last = piece[-1]
    if last.isspace() or last in _ALWAYS_TRAILING:
        return True
    if last in _CLOSING:
        return _CLOSING[last] not in piece
    if last == ".":
        return not _is_abbreviation(piece.split()[-1])
    if last == '"':
        return piece.count('"') == 1
    return last in "”»" and not any(opening in piece for opening in "“„«")


def _is_abbreviation(word: str) -> bool:
    """Tell whether the word's last dot is its own: "U.S.", "Ph.D.", "Jr."; of "Malcolm X." it is the sentence's."""
    stem = word[:-1]
    return "." in stem.strip(".") or stem.lower() in _ABBREVIATIONS
