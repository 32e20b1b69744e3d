"""Restoring the case of all-lower-case queries for cased models, from the statistics of a corpus.

A cased encoder reads "paris" and "Paris" as different words, and people type the first. DensePhrases found the effect
large (passage Top-1 on Natural Questions 34 without, 45 with).
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kbengine.errors import EncoderError
from kbengine.inputs import Dialogue, Mention, Question, Slot, TaskInput

TRUECASE_FILE = "truecase.json"
_WORD = re.compile(r"\w+(?:['’\-]\w+)*")
_STARTS_SENTENCE = re.compile(r"(?:^|[.!?:\n])[\s\"'“”‘’()\[\]]*$")
_LOOK_BACK_CHARS = 8


@dataclass(frozen=True)
class Truecaser:
    """The usual forms of words, and of pairs of words where these differ from each word's own.

    Attributes:
        words: Usual form by lower-case word; words that are usually lower-case are there too: others are unknown.
        pairs: Usual form by lower-case pair ("new york").
    """

    words: Mapping[str, str]
    pairs: Mapping[str, str]

    @classmethod
    def from_texts(cls, texts: Iterable[str], *, least: int = 2, n_words: int = 100_000) -> Truecaser:
        """Return the statistics of texts with case.

        The first word of a sentence says nothing about a word's case and is not counted.

        Args:
            texts: passages.
            least: words and pairs seen less often are unknown.
            n_words: the most frequent words are kept, and as many pairs.
        """
        words: defaultdict[str, Counter[str]] = defaultdict(Counter)
        pairs: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for text in texts:
            before = ""
            for match in _WORD.finditer(text):
                word = match.group()
                gap = text[max(0, match.start() - _LOOK_BACK_CHARS) : match.start()]
                if _STARTS_SENTENCE.search(gap if match.start() >= _LOOK_BACK_CHARS else text[: match.start()]):
                    before = ""
                    continue
                words[word.lower()][word] += 1
                if before and gap.endswith(" "):
                    pairs[f"{before} {word}".lower()][f"{before} {word}"] += 1
                before = word
        usual = _usual(words, least, n_words)
        differing = {
            low: form
            for low, form in _usual(pairs, max(least, 3), n_words).items()
            if form != " ".join(usual.get(part, part) for part in low.split(" "))
        }
        return cls(usual, differing)

    @classmethod
    def from_json(cls, text: str, source: str) -> Truecaser:
        """Return what `to_json` wrote.

        Raises:
            EncoderError: it is something else.
        """
        try:
            value = json.loads(text)
            return cls(_forms(value["words"]), _forms(value["pairs"]))
        except (ValueError, KeyError, TypeError) as e:
            raise EncoderError(
                f"{source}: {TRUECASE_FILE} cannot be used ({e!r}); copy the model directory again"
            ) from e

    def to_json(self) -> str:
        """Return the statistics as the text of a file."""
        return json.dumps({"words": self.words, "pairs": self.pairs}, ensure_ascii=False, sort_keys=True)

    def restore(self, text: str) -> str:
        """Return a text with its usual case; one that has any capital is returned as it is.

        Unknown words are taken for names and begin with a capital; so does the first word.
        """
        if text != text.lower() or text == text.upper():
            return text
        matches = list(_WORD.finditer(text))
        forms = [self.words.get(match.group(), match.group().capitalize()) for match in matches]
        for i in range(len(matches) - 1):
            if text[matches[i].end() : matches[i + 1].start()] == " ":
                pair = self.pairs.get(f"{matches[i].group()} {matches[i + 1].group()}")
                if pair is not None:
                    forms[i], forms[i + 1] = pair.split(" ")
        restored: list[str] = []
        at = 0
        for i, (match, form) in enumerate(zip(matches, forms, strict=True)):
            restored += [text[at : match.start()], form if i or form != form.lower() else form.capitalize()]
            at = match.end()
        return "".join(restored) + text[at:]

    def query(self, query: TaskInput) -> TaskInput:
        """Return a query with the case of its texts restored; a mention's context is looked at with the mention."""
        match query:
            case Question(text):
                return Question(self.restore(text))
            case Slot(subject, _):
                return replace(query, subject=self.restore(subject))  # relations are lower-case by nature
            case Mention(left=left, name=name, right=right):
                whole = f"{left}\x1f{name}\x1f{right}"
                restored = self.restore(whole)
                # Some letters change their number with their case; the parts are then left as they are.
                parts = restored.split("\x1f")
                return Mention.from_parts(*parts) if len(parts) == 3 else query
            case Dialogue(turns):
                return Dialogue(tuple(self.restore(turn) for turn in turns))


def restored(queries: Sequence[TaskInput], truecaser: Truecaser | None) -> Sequence[TaskInput]:
    """Return the queries with their case restored, where there is a truecaser."""
    return queries if truecaser is None else [truecaser.query(query) for query in queries]


def _usual(seen: Mapping[str, Counter[str]], least: int, n: int) -> dict[str, str]:
    """Return the most frequent form of the n most frequent entries; of equally frequent ones the first by name."""
    totals = {low: sum(forms.values()) for low, forms in seen.items()}
    kept = sorted((low for low, total in totals.items() if total >= least), key=lambda low: (-totals[low], low))[:n]
    return {low: min(seen[low].items(), key=lambda item: (-item[1], item[0]))[0] for low in kept}


def _forms(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or any(
        not isinstance(form, str) or form.lower() != low for low, form in value.items()
    ):
        raise ValueError("wanted forms by lower-case word")
    return value
