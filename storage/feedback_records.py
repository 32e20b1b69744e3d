"""What people say about answers, as it goes into a knowledge base and comes out of it: plain frozen records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from storage.alias_records import unstorable_character
from storage.errors import InvalidOptionError

__all__ = ["MAX_ANSWER_CHARS", "MAX_INPUT_CHARS", "VERDICTS", "FeedbackRecord", "NewFeedback", "Verdict"]

Verdict = Literal["right", "wrong"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

MAX_INPUT_CHARS = 64_000
MAX_ANSWER_CHARS = 16_000


@dataclass(frozen=True)
class NewFeedback:
    """What somebody says about one answer to one input, to be stored.

    Attributes:
        task: What kind of input it is.
        input: What was asked, in the task's text form; blanks around it are trimmed.
        answer: The answer, as it was shown or as it should have been; trimmed too.
        verdict: "right" or "wrong".
        doc_id: The document that the answer is of or stands in, by the user's id; None where nobody says.
        paragraph: The ordinal of the paragraph that it stands in.
    """

    task: str
    input: str
    answer: str
    verdict: Verdict
    doc_id: str | None = None
    paragraph: int | None = None

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise InvalidOptionError(f"a verdict is {self.verdict!r}, wanted one of {', '.join(VERDICTS)}")
        for name, most in (("task", 100), ("input", MAX_INPUT_CHARS), ("answer", MAX_ANSWER_CHARS)):
            value = getattr(self, name).strip()
            problem = _problem(value, most)
            if problem is not None:
                raise InvalidOptionError(f"the {name} of feedback {problem}")
            object.__setattr__(self, name, value)
        if self.doc_id is not None and (not self.doc_id or unstorable_character(self.doc_id) is not None):
            raise InvalidOptionError(f"the document of feedback is {self.doc_id!r}, wanted a document's id or none")
        if self.paragraph is not None and (self.doc_id is None or self.paragraph < 0):
            raise InvalidOptionError(
                f"the paragraph of feedback is {self.paragraph} of document {self.doc_id!r}, wanted 0 or more of a "
                "document"
            )


@dataclass(frozen=True)
class FeedbackRecord:
    """Stored feedback.

    Attributes:
        feedback_id: Its number, never used twice.
        task: What kind of input it is.
        input: What was asked, in the task's text form.
        answer: The answer that was judged.
        verdict: "right" or "wrong".
        doc_id: The document of the answer, whether it is still there or not.
        paragraph: The ordinal of its paragraph.
        at: When it was given, ISO 8601 in UTC.
    """

    feedback_id: int
    task: str
    input: str
    answer: str
    verdict: Verdict
    doc_id: str | None
    paragraph: int | None
    at: str


def _problem(text: str, most: int) -> str | None:
    """Return what is wrong with a text, as the end of a sentence that names it; None when nothing is."""
    if not text:
        return "is blank; say what it is about"
    if len(text) > most:
        return f"has {len(text):,} characters, wanted {most:,} at most"
    wrong = unstorable_character(text)
    return None if wrong is None else f"holds {wrong}, which cannot be stored; leave it out"
