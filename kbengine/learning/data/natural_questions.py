"""Natural Questions: the simplified long/short-answer file, and DPR's open version with positive contexts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from kbengine.inputs import Question
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.data.places import occurrences
from kbengine.learning.data.report import FileReport, UnusableRowError
from kbengine.span import Span


def simplified_examples(
    row: Mapping[str, Any], report: FileReport, source: str, *, max_passages: int = 1
) -> list[TrainingExample]:
    """Return the examples of one line of the simplified file: passage = long answer, answers = short answers.

    All annotations count (a development row has five): the long answer that most of them name comes first, and the
    short answers of all that stand in it are its answers. HTML tags among the tokens are left out and offsets count in
    what is left. A long answer without short ones comes without answers (passage loss alone); a row without any long
    answer is refused.

    Args:
        row: the line.
        report: where rows without a short answer are noted.
        source: the file's name.
        max_passages: examples of one row at most, each of another long answer.
    """
    row_id = str(row.get("example_id", f"{source}-{report.rows}"))
    question, tokens = row.get("question_text"), str(row.get("document_text", "")).split(" ")
    if not isinstance(question, str) or not question.strip():
        raise UnusableRowError("no question", row_id)
    annotations = [each for each in row.get("annotations") or [] if isinstance(each, Mapping)]
    named = Counter(place for place in map(_long_answer, annotations) if 0 <= place[0] < place[1] <= len(tokens))
    short_answers = [short for each in annotations for short in each.get("short_answers") or []]
    title = str(row.get("document_title") or _title_of(tokens))
    examples: list[TrainingExample] = []
    for (begin, end), _ in named.most_common():  # of equally common ones the first
        passage, places = _text_of(tokens, begin, end)
        if not passage:
            continue
        spans = [
            Span(places[first][0], places[last][1])
            for first, last in (_kept_range(short, places, begin, end) for short in short_answers)
            if first is not None and last is not None
        ]
        if not spans:
            report.note("long answer alone: passage loss alone", row_id)
        own_id = f"{row_id}#{len(examples)}" if examples else row_id
        answers = tuple(dict.fromkeys(spans))
        examples.append(TrainingExample(own_id, Question(question), title, passage, answers, source=source))
        if len(examples) == max_passages:
            break
    if not examples:
        raise UnusableRowError("no long answer", row_id)
    return examples


def dpr_example(row: Mapping[str, Any], report: FileReport, source: str, *, max_negatives: int = 1) -> TrainingExample:
    """Return the example of one object of DPR's file: the first positive context in which an answer stands.

    Its hard negatives (BM25's top contexts without an answer) come along.
    """
    row_id = str(row.get("id", f"{source}-{report.rows}"))
    question = row.get("question")
    if not isinstance(question, str) or not question.strip():
        raise UnusableRowError("no question", row_id)
    contexts = row.get("positive_ctxs") or []
    if not contexts:
        raise UnusableRowError("no positive context", row_id)
    answers = [answer for answer in row.get("answers") or [] if isinstance(answer, str) and answer.strip()]
    mined = [each for each in row.get("hard_negative_ctxs") or [] if each.get("text")][:max_negatives]
    for context in contexts:
        text = str(context.get("text", ""))
        spans = dict.fromkeys(span for answer in answers for span in occurrences(text, answer))
        if spans:
            return TrainingExample(
                row_id,
                Question(question),
                str(context.get("title", "")),
                text,
                tuple(spans),
                source=source,
                doc_id=str(context.get("passage_id", "")),
                negatives=tuple(str(each["text"]) for each in mined),
                negative_titles=tuple(str(each.get("title", "")) for each in mined),
            )
    raise UnusableRowError("answer in no positive context", row_id)


def _long_answer(annotation: Mapping[str, Any]) -> tuple[int, int]:
    """Return the first token of the long answer and the one after its last, -1 and -1 without one."""
    long = annotation.get("long_answer") or {}
    return long.get("start_token", -1), long.get("end_token", -1)


def _text_of(tokens: list[str], begin: int, end: int) -> tuple[str, dict[int, tuple[int, int]]]:
    """Return the text of the tokens that are no HTML tags, and each one's characters in it."""
    parts: list[str] = []
    places: dict[int, tuple[int, int]] = {}
    at = 0
    for number in range(begin, end):
        token = tokens[number]
        if not token or (token.startswith("<") and token.endswith(">")):
            continue
        places[number] = (at, at + len(token))
        parts.append(token)
        at += len(token) + 1
    return " ".join(parts), places


def _kept_range(
    short: Mapping[str, Any], places: Mapping[int, tuple[int, int]], begin: int, stop: int
) -> tuple[int | None, int | None]:
    """Return the first and last token of a short answer that are text of the passage, None when it is not inside."""
    first, end = short.get("start_token", -1), short.get("end_token", -1)
    inside = [number for number in range(first, end) if number in places]
    return (inside[0], inside[-1]) if inside and begin <= first and end <= stop else (None, None)


def _title_of(tokens: list[str]) -> str:
    """Return the page's first heading: the simplified file has no title of its own."""
    if "<H1>" not in tokens:
        return ""
    begin = tokens.index("<H1>") + 1
    end = tokens.index("</H1>", begin) if "</H1>" in tokens[begin:] else begin
    return " ".join(tokens[begin:end])
