"""SQuAD v1.1 and v2.0 JSON: articles, paragraphs, questions with answers at character offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kbengine.errors import TrainingDataError
from kbengine.inputs import Question
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.data.places import checked_span
from kbengine.learning.data.report import FileReport, UnusableRowError
from kbengine.span import Span


class SquadRow(NamedTuple):
    """One question, and the paragraph that it is about."""

    title: str
    context: str
    question: Mapping[str, Any]


def squad_rows(value: object, file: str) -> Iterator[SquadRow]:
    """Give the questions of a parsed file with their paragraphs.

    Raises:
        TrainingDataError: the structure is not SQuAD's.
    """
    if not isinstance(value, Mapping):
        raise TrainingDataError(f"{file}: holds {type(value).__name__}, wanted an object with 'data'")
    for article in _list(value, "data", file):
        title = str(article.get("title", "")).replace("_", " ")
        for paragraph in _list(article, "paragraphs", file):
            context = paragraph.get("context")
            if not isinstance(context, str):
                raise TrainingDataError(f"{file}: a paragraph of {title!r} has no `context`, wanted SQuAD JSON")
            for question in _list(paragraph, "qas", file):
                yield SquadRow(title, context, question)


def squad_example(row: SquadRow, report: FileReport, source: str) -> TrainingExample:
    """Return the example of a question; one marked impossible (v2.0) comes without answers.

    Answers that several annotators gave are all kept, each once.

    Raises:
        UnusableRowError: the row gives no example.
    """
    title, context, given = row
    row_id = str(given.get("id", f"{source}-{report.rows}"))
    question = given.get("question")
    if not isinstance(question, str) or not question.strip():
        raise UnusableRowError("no question", row_id)
    if not context.strip():
        raise UnusableRowError("empty passage", row_id)
    query = Question(question)
    if given.get("is_impossible"):
        return TrainingExample(row_id, query, title, context, (), answerable=False, source=source)
    spans: dict[Span, None] = {}
    answers = given.get("answers") or []
    for answer in answers:
        text, start = answer.get("text"), answer.get("answer_start")
        if isinstance(text, str) and isinstance(start, int) and text.strip():
            span = checked_span(context, start, start + len(text), text)
            if span is not None:
                spans[span] = None
    if not spans:
        raise UnusableRowError("answer not at its offset" if answers else "no answer", row_id)
    return TrainingExample(row_id, query, title, context, tuple(spans), source=source)


def _list(value: Mapping[str, Any], key: str, file: str) -> list[Mapping[str, Any]]:
    found = value.get(key)
    if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
        raise TrainingDataError(f"{file}: {key!r} is not a list of objects, wanted SQuAD JSON")
    return found
