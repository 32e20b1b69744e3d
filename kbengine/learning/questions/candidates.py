"""Spans of a passage that could answer a question, found by rules that need no model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple, get_args

from kbengine.learning.questions.words import Word, is_capitalised, is_function_word, is_unspaced, word_set, words_of
from kbengine.span import Span

AnswerKind = Literal["title", "anchor", "date", "quoted", "name", "number", "chunk"]
ANSWER_KINDS: Final[tuple[AnswerKind, ...]] = get_args(AnswerKind)
"""From the most to the least telling: where two rules find the same span, it is of the kind that comes first."""

_MONTHS: Final = (
    "January|February|March|April|May|June|July|August|September|October|November|December|"
    "Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec"
)
_YEAR: Final = r"(?:1\d{3}|20\d{2})"
_DATES: Final = (
    re.compile(rf"\b\d{{1,2}}(?:st|nd|rd|th|\.|º)? (?:of |de |d')?[^\W\d_]{{3,12}}\.?,? (?:de )?{_YEAR}\b"),
    re.compile(rf"\b(?!(?:In|On|At|By|Of|The)\b)[^\W\d_]{{3,12}}\.? \d{{1,2}}(?:st|nd|rd|th)?, {_YEAR}\b"),
    re.compile(rf"\b(?:{_MONTHS})\.? (?:\d{{1,2}}, )?{_YEAR}\b"),
    re.compile(rf"\b(?:{_MONTHS})\.? \d{{1,2}}\b|\b\d{{1,2}} (?:{_MONTHS})\b"),
    re.compile(rf"{_YEAR}年(?:\d{{1,2}}月(?:\d{{1,2}}日)?)?"),
    re.compile(rf"\b{_YEAR}-\d{{2}}-\d{{2}}\b|\b\d{{1,2}}[./]\d{{1,2}}[./]{_YEAR}\b"),
    re.compile(rf"\b{_YEAR}s?\b"),
)
_NUMBER: Final = re.compile(r"[$€£¥₹]?\d+(?:[.,\u00a0]\d+)*(?: ?%|°[CF]?)?(?: (?:million|billion|trillion)\b)?")
_QUOTED: Final = re.compile(
    r'"([^"\n]+)"|“([^”\n]+)”|„([^“”\n]+)[“”]|«([^»\n]+)»|「([^」\n]+)」|『([^』\n]+)』|《([^》\n]+)》'
)
# What may stand inside a name between two capitalised words, in languages that do so.
_CONNECTORS: Final = word_set(
    "of the de la le du des del della di da do dos van von der den und et y e al el bin ibn af av zu"
)
_INSIDE_NAME: Final = frozenset((" ", "\u00a0", ". ", ".\u00a0"))
_TITLES: Final = word_set("Mr Mrs Ms Dr St Sir Lord Lady Jr Sr Inc Ltd Co Corp No Vol")
_BEFORE_NOUNS: Final = word_set(
    "a an the of in with by for from its his her their our your my as on at into between some any each every no"
)


class Candidate(NamedTuple):
    """A span of a passage that could be an answer, and the rule that found it."""

    span: Span
    kind: AnswerKind


def answer_candidates(
    text: str, *, title: str = "", anchors: Iterable[Span] = (), sentences: Iterable[Span] = (), language: str = "en"
) -> list[Candidate]:
    """Return the candidates of one passage by their place, each span once.

    Args:
        text: Of the passage.
        title: Of its document; its occurrences are candidates of their own kind.
        anchors: Spans of links in `text`, where the corpus has them.
        sentences: The passage's sentences: a capital at a sentence's start does not make a name.
        language: Of the text; names months only in English, everything else works by form.
    """
    starts = {span.start for span in sentences} or {0}
    words = words_of(text)
    found: dict[Span, AnswerKind] = {}
    by_kind: dict[AnswerKind, Iterable[Span]] = {
        "title": title_spans(text, title),
        "anchor": (span for span in anchors if 0 <= span.start < span.end <= len(text)),
        "date": _dates(text),
        "quoted": _quoted(text),
        "name": _names(text, words, starts, language),
        "number": (Span(*match.span()) for match in _NUMBER.finditer(text)),
        "chunk": _chunks(text, words, language),
    }
    for kind in ANSWER_KINDS:
        for span in by_kind[kind]:
            whole = _on_word_borders(text, span) and any(each.isalnum() for each in text[span.start : span.end])
            if whole and not (kind == "number" and _inside(span, found, "date")):
                found.setdefault(span, kind)
    return [
        Candidate(span, kind) for span, kind in sorted(found.items(), key=lambda item: (item[0].start, item[0].end))
    ]


def title_spans(text: str, title: str) -> list[Span]:
    """Return where the title, with or without its qualifier in brackets or after a comma, stands in the text."""
    name = re.sub(r"\s*\([^)]*\)$", "", title).strip()
    for form in dict.fromkeys((name, name.split(", ")[0])):
        if len(form) > 1:
            spans = [Span(*match.span()) for match in re.finditer(re.escape(form), text)]
            spans = [span for span in spans if _on_word_borders(text, span)]
            if spans:
                return spans
    return []


def _dates(text: str) -> Iterator[Span]:
    taken: list[Span] = []
    for pattern in _DATES:  # the most complete first, so that a year inside a date is not a candidate of its own
        for match in pattern.finditer(text):
            span = Span(*match.span())
            if not any(span.start < other.end and other.start < span.end for other in taken):
                taken.append(span)
    yield from taken


def _quoted(text: str) -> Iterator[Span]:
    for match in _QUOTED.finditer(text):
        group = match.lastindex or 0
        if match.group(group).strip() == match.group(group):
            yield Span(*match.span(group))


def _names(text: str, words: list[Word], sentence_starts: set[int], language: str) -> Iterator[Span]:
    """Find runs of capitalised words; at a sentence's start a single word has to be capitalised elsewhere as well."""
    capital = [is_capitalised(text[word.start : word.end]) for word in words]
    elsewhere = {
        text[word.start : word.end]
        for word, is_capital in zip(words, capital, strict=True)
        if is_capital and word.start not in sentence_starts
    }
    i = 0
    while i < len(words):
        first = text[words[i].start : words[i].end]
        at_start = words[i].start in sentence_starts
        if not capital[i] or (at_start and is_function_word(first, language)):
            i += 1
            continue
        last = _end_of_name(text, words, capital, i, sentence_starts)
        alone = last == i
        if not (alone and (at_start and first not in elsewhere)) and not (alone and _is_poor_name(first, language)):
            yield Span(words[i].start, words[last].end - _possessive_chars(text, words[last]))
        i = last + 1


def _end_of_name(text: str, words: list[Word], capital: list[bool], i: int, sentence_starts: set[int]) -> int:
    """Return the last word of the name that begins at word `i`; connectors count only before another capital."""
    last = i
    j = i + 1
    while j < len(words) and words[j].start not in sentence_starts:
        gap = text[words[j - 1].end : words[j].start]
        if gap not in _INSIDE_NAME or _possessive_chars(text, words[j - 1]):
            break
        word = text[words[j].start : words[j].end]
        if capital[j] or (word.isdigit() and j == last + 1):
            last = j
        elif word not in _CONNECTORS or j - last > 2:
            break
        j += 1
    return last


def _is_poor_name(word: str, language: str) -> bool:
    return len(word) < 2 or is_function_word(word, language) or word in _TITLES


def _possessive_chars(text: str, word: Word) -> int:
    return 2 if text[word.start : word.end].endswith(("'s", "’s")) and word.end - word.start > 2 else 0


def _chunks(text: str, words: list[Word], language: str) -> Iterator[Span]:
    """Find one to three lower-case content words after a word that nouns follow, as far as the language is known."""
    run: list[Word] = []
    before = ""
    for i, word in enumerate(words):
        joins = i > 0 and text[words[i - 1].end : word.start] in (" ", "")
        content = _is_content(text[word.start : word.end], language)
        if run and not (joins and content):
            yield from _chunk(text, run, before, language)
            run = []
        if content:
            if not run:
                before = text[words[i - 1].start : words[i - 1].end] if joins else ""
            run.append(word)
    yield from _chunk(text, run, before, language)


def _chunk(text: str, run: list[Word], before: str, language: str) -> Iterator[Span]:
    if not run:
        return
    if is_unspaced(text[run[0].start : run[0].end]):
        yield Span(run[0].start, run[min(len(run), 4) - 1].end)
    elif len(run) <= 3 and (before.lower() in _BEFORE_NOUNS if language == "en" else before != ""):
        yield Span(run[0].start, run[-1].end)


def _is_content(word: str, language: str) -> bool:
    # Adverbs in -ly say how, not what; cutting them by form costs few nouns.
    adverb = language == "en" and word.endswith("ly")
    return not is_capitalised(word) and not word[:1].isdigit() and not is_function_word(word, language) and not adverb


def _inside(span: Span, found: dict[Span, AnswerKind], kind: AnswerKind) -> bool:
    return any(
        other.start <= span.start and span.end <= other.end for other, found_as in found.items() if found_as == kind
    )


def _on_word_borders(text: str, span: Span) -> bool:
    def inside(i: int) -> bool:
        if not 0 < i < len(text):
            return False
        left, right = text[i - 1], text[i]
        return left.isalnum() and right.isalnum() and not is_unspaced(left) and not is_unspaced(right)

    return not inside(span.start) and not inside(span.end)
