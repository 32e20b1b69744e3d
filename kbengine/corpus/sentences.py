"""Sentences of a passage, as character spans."""

from __future__ import annotations

import sentencex

from kbengine.span import Span


def sentence_spans(text: str, language: str = "en") -> list[Span]:
    """Return the half-open spans of the sentences of `text`, in order, without the white space between them."""
    spans: list[Span] = []
    position = 0
    for sentence in sentencex.segment(language, text):
        start = text.find(sentence, position)
        if start < 0:  # sentencex gives substrings in order; anything else would put spans on wrong characters
            return [Span(0, len(text))]
        position = start + len(sentence)
        stripped = sentence.strip()
        if stripped:
            first = start + sentence.index(stripped)
            spans.append(Span(first, first + len(stripped)))
    return spans or [Span(0, len(text))]


def covering_sentence(spans: list[Span], phrase: Span) -> Span:
    """Return the span of the sentence that holds `phrase`, joined with its neighbours where the phrase crosses them."""
    touched = [span for span in spans if span.start < phrase.end and phrase.start < span.end]
    if not touched:
        return phrase
    return Span(min(touched[0].start, phrase.start), max(touched[-1].end, phrase.end))
