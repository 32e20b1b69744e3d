"""Sentences of a passage, as character spans."""

from __future__ import annotations

import re
from functools import lru_cache

import sentencex

from kbengine.span import Span

# sentencex ends a sentence after these; they lead on to what follows: always, or to a number.
_LEADING_ON = re.compile(
    r"\b(?:abp|approx|bp|dr|excl|feat|figs|incl|ssp|spp|subsp|vols)\.(?=.$)"
    r"|\b(?:avg|cca|ch|circa|ed|est|fl|max|min|sect|tel|vol)\.(?=\d$)",
    re.IGNORECASE,
)


def sentence_spans(text: str, language: str = "en") -> list[Span]:
    """Return the half-open spans of the sentences of `text`, in order, without the white space between them.

    The language is a code such as "de", whose abbreviations end no sentence; one that sentencex has no rules for is
    split as English.

    An abbreviation that leads on ("vol. 3") ends none, nor does a question or exclamation mark before a small letter:
    in "Who's Afraid of Virginia Woolf? is a play" it belongs to the title.
    """
    return list(_spans(text, language))


# A search asks for the sentences of one passage for each phrase of it.
@lru_cache(maxsize=1024)
def _spans(text: str, language: str) -> tuple[Span, ...]:
    spans: list[Span] = []
    position = 0
    for sentence in sentencex.segment(language, text):
        start = text.find(sentence, position)
        if start < 0:  # sentencex gives substrings in order; anything else would put spans on wrong characters
            return (Span(0, len(text)),)
        position = start + len(sentence)
        stripped = sentence.strip()
        if stripped:
            first = start + sentence.index(stripped)
            begin = spans.pop().start if spans and _goes_on(text[spans[-1].start : spans[-1].end], stripped) else first
            spans.append(Span(begin, first + len(stripped)))
    return tuple(spans) or (Span(0, len(text)),)


def covering_sentence(spans: list[Span], phrase: Span) -> Span:
    """Return the span of the sentence that holds `phrase`, joined with its neighbours where the phrase crosses them."""
    touched = [span for span in spans if span.start < phrase.end and phrase.start < span.end]
    if not touched:
        return phrase
    return Span(min(touched[0].start, phrase.start), max(touched[-1].end, phrase.end))


def _goes_on(sentence: str, following: str) -> bool:
    """Tell whether what follows still belongs to the sentence."""
    return (sentence[-1] in "?!" and following[0].islower()) or _LEADING_ON.search(
        sentence[-12:] + following[0]
    ) is not None
