"""Generated questions as KILT rows: input, answer, and provenance down to the characters of a paragraph."""

from __future__ import annotations

from kbengine.learning.questions.generated import GeneratedQuestion
from kbengine.text_form import text_of
from storage.records import JSON


def kilt_row(question: GeneratedQuestion) -> dict[str, JSON]:
    """Return the KILT record of a question.

    Offsets are half-open and count in the paragraph as the corpus has it. The answer of a mention is the title of its
    page, as in KILT's entity linking; the offsets are those of the title's first occurrence.
    """
    shift = question.passage.char_offset
    answer = question.document.title if question.kind in ("mention", "link") else question.answer_text
    place: dict[str, JSON] = {
        "wikipedia_id": question.document.doc_id,
        "title": question.document.title,
        "start_paragraph_id": question.passage.ordinal,
        "start_character": question.answer.start + shift,
        "end_paragraph_id": question.passage.ordinal,
        "end_character": question.answer.end + shift,
    }
    if question.passage.section is not None:
        place["section"] = question.passage.section
    return {
        "id": question.id,
        "input": text_of(question.query),
        "output": [{"answer": answer, "provenance": [place]}],
        "meta": {"dataset": question.source, "kind": question.kind, "answer_kind": question.answer_kind},
    }
