"""Passage text cut into pieces for display: what is marked, what stands in the same sentence, what is around."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kbengine.span import Span

PieceKind = Literal["around", "sentence", "mark"]

SHOWN_CONTEXT_CHARS = 220
"""Characters of a very long sentence shown on either side of its mark."""


@dataclass(frozen=True)
class Piece:
    """Consecutive characters shown in the same way."""

    text: str
    kind: PieceKind


def pieces(text: str, *, mark: Span, sentence: Span | None = None) -> tuple[Piece, ...]:
    """Return the whole text as pieces; joined they give it back. Spans that reach beyond the text are cut."""
    mark = _within(mark, len(text))
    sentence = mark if sentence is None else _within(sentence, len(text))
    cuts = sorted({0, len(text), mark.start, mark.end, sentence.start, sentence.end})
    found: list[Piece] = []
    for start, end in itertools.pairwise(cuts):
        kind: PieceKind = "around"
        if mark.start <= start < mark.end:
            kind = "mark"
        elif sentence.start <= start < sentence.end:
            kind = "sentence"
        if found and found[-1].kind == kind:
            found[-1] = Piece(found[-1].text + text[start:end], kind)
        else:
            found.append(Piece(text[start:end], kind))
    return tuple(found)


def sentence_pieces(
    text: str, *, mark: Span, sentence: Span, context_chars: int = SHOWN_CONTEXT_CHARS
) -> tuple[Piece, ...]:
    """Return the sentence around the mark as pieces, a very long one cut near the mark with an ellipsis."""
    start, end = min(sentence.start, mark.start), max(sentence.end, mark.end)
    before, after = "", ""
    if mark.start - start > context_chars:
        start, before = _word_border(text, mark.start - context_chars, mark.start), "… "
    if end - mark.end > context_chars:
        end, after = _word_border(text, mark.end + context_chars, mark.end), " …"
    shown = pieces(text[start:end], mark=Span(mark.start - start, mark.end - start))
    lead = (Piece(before, "around"),) if before else ()
    tail = (Piece(after, "around"),) if after else ()
    return (*lead, *shown, *tail)


def marked_pieces(text: str, marks: Sequence[Span]) -> tuple[Piece, ...]:
    """Return the whole text as pieces with several disjoint marks, in order."""
    found: list[Piece] = []
    end = 0
    for span in marks:
        found += [Piece(text[end : span.start], "around"), Piece(text[span.start : span.end], "mark")]
        end = span.end
    found.append(Piece(text[end:], "around"))
    return tuple(piece for piece in found if piece.text)


def _within(span: Span, length: int) -> Span:
    start = min(max(span.start, 0), length)
    return Span(start, min(max(span.end, start), length))


def _word_border(text: str, place: int, mark: int) -> int:
    """Return the border of the word at `place`, moved towards the mark so that no word is cut."""
    step = 1 if place < mark else -1
    index = place
    while 0 < index < len(text) and index != mark and not text[index - (step < 0)].isspace():
        index += step
    return place if index == mark else index + (step > 0) - (step < 0) if 0 < index < len(text) else index
