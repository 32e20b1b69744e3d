"""The words of a cloze question: a sentence without its answer, words dropped at random, and what is put to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from kbengine.learning.questions.answers import Answer
from kbengine.learning.questions.candidates import AnswerKind, answer_candidates, title_spans
from kbengine.learning.questions.words import Word, is_function_word, joined, words_of
from kbengine.span import Span

MIN_WORDS: Final = 3
MAX_WORDS: Final = 20
MAX_RELATION_WORDS: Final = 5
_MAX_RELATION_GAP: Final = 9
"""Words between a subject and its answer; farther apart they are seldom one relation."""

_WH_WORDS: Final[Mapping[str, Mapping[AnswerKind, Sequence[str]]]] = {
    "en": {
        "date": ("when", "when", "what year", "what date"),
        "number": ("how many", "how much", "what number"),
        "name": ("who", "what", "which", "where"),
        "title": ("who", "what", "which"),
        "anchor": ("who", "what", "which", "where"),
        "quoted": ("what", "which"),
        "chunk": ("what", "what", "which"),
    }
}


def content_words(text: str, words: Sequence[Word], language: str) -> list[Word]:
    """Return those of the words that are not function words."""
    return [word for word in words if not is_function_word(text[word.start : word.end], language)]


def remaining_words(answer: Answer, *, without: Sequence[Span] = ()) -> list[Word]:
    """Return the words of the answer's sentence that do not touch the answer's text, anywhere, nor `without`."""
    text = answer.passage.text
    gaps = [answer.span, *without, *_other_occurrences(answer)]
    words = words_of(text, answer.sentence.start, answer.sentence.end)
    return [word for word in words if not any(word.start < gap.end and gap.start < word.end for gap in gaps)]


def thinned(
    text: str, words: Sequence[Word], random: Random, *, drop: float, language: str, least: int = MIN_WORDS
) -> list[Word]:
    """Return the words that stay when each is dropped with probability `drop`, in order.

    At least `least` content words stay where there are so many: function words alone ask nothing.
    """
    shuffled = list(words)
    random.shuffle(shuffled)
    content = content_words(text, shuffled, language)
    kept = {word for word in words if random.random() >= drop}
    for word in content:
        if sum(each in kept for each in content) >= least:
            break
        kept.add(word)
    return sorted(kept)


def nearest(words: Sequence[Word], span: Span, n: int) -> list[Word]:
    """Return the `n` words nearest to the span, in order."""
    by_distance = sorted(words, key=lambda word: max(span.start - word.end, word.start - span.end))
    return sorted(by_distance[:n])


def cloze_text(answer: Answer, title: str, random: Random, *, drop: float, language: str, title_share: float) -> str:
    """Return the question text for an answer: thinned words, often the title and, where known, a question word.

    A sentence that leaves its subject to the passage cannot be found by anyone; the title takes its place with
    probability `title_share`, unless the words name it or it is the answer itself.
    """
    text = answer.passage.text
    words = nearest(remaining_words(answer), answer.span, MAX_WORDS)
    question = joined(text, thinned(text, words, random, drop=drop, language=language))
    names_title = bool(title_spans(question, title))
    tellable = bool(title) and not in_title(answer, title)
    if tellable and not names_title and random.random() < title_share:
        question = f"{title} {question}" if random.random() < 0.5 else f"{question} {title}"
    table = _WH_WORDS.get(language)
    if table is not None and random.random() < 0.6:
        question = f"{random.choice(table[answer.kind])} {question}?"
    return question


def in_title(answer: Answer, title: str) -> bool:
    """Return whether the title would give the answer away."""
    return answer.kind == "title" or answer.text.casefold() in title.casefold()


def slot_words(answer: Answer, title: str, random: Random, *, drop: float, language: str) -> str:
    """Return the words of a slot-like query: a few of those nearest to the answer, the title's left out."""
    text = answer.passage.text
    words = remaining_words(answer, without=title_spans(text, title))
    near = nearest(words, answer.span, 2 + MAX_RELATION_WORDS)
    return joined(text, thinned(text, near, random, drop=drop, language=language, least=2))


def relation_of(answer: Answer, title: str, random: Random, *, language: str) -> tuple[str, str] | None:
    """Return a subject of the sentence and the words between it and the answer, or None where there are none.

    The subject is the title where the sentence has it, else the nearest name on either side.
    """
    text = answer.passage.text
    subject = _subject(answer, title, language)
    if subject is None:
        return None
    first, last = sorted((subject, answer.span), key=lambda span: span.start)
    between = words_of(text, first.end, last.start)
    if not 1 <= len(between) <= _MAX_RELATION_GAP:
        return None
    content = content_words(text, between, language)
    # Names of relations are short, and most have no function word at all.
    words = content if content and random.random() < 0.5 else between
    kept = sorted(words[:MAX_RELATION_WORDS] if first == subject else words[-MAX_RELATION_WORDS:])
    if not kept or not any(word in content for word in kept):
        return None
    named = text[subject.start : subject.end]
    return (title if title_spans(named, title) else named), joined(text, kept)


def _subject(answer: Answer, title: str, language: str) -> Span | None:
    text, sentence = answer.passage.text, answer.sentence
    named = [span for span in title_spans(text, title) if _beside(span, answer)]
    if not named:
        found = answer_candidates(text[sentence.start : sentence.end], language=language)
        shifted = [
            Span(each.span.start + sentence.start, each.span.end + sentence.start)
            for each in found
            if each.kind == "name"
        ]
        named = [span for span in shifted if _beside(span, answer)]
    named = [span for span in named if text[span.start : span.end].casefold() != answer.text.casefold()]
    return min(named, key=lambda span: max(span.start - answer.span.end, answer.span.start - span.end), default=None)


def _beside(span: Span, answer: Answer) -> bool:
    inside = answer.sentence.start <= span.start and span.end <= answer.sentence.end
    return inside and (span.end <= answer.span.start or answer.span.end <= span.start)


def _other_occurrences(answer: Answer) -> list[Span]:
    """Find the answer's text elsewhere in its sentence: left there, it would give the answer away."""
    sentence = answer.passage.text[answer.sentence.start : answer.sentence.end].lower()
    wanted = answer.text.lower()
    spans: list[Span] = []
    at = sentence.find(wanted)
    while at >= 0:
        spans.append(Span(at + answer.sentence.start, at + answer.sentence.start + len(wanted)))
        at = sentence.find(wanted, at + 1)
    return spans
