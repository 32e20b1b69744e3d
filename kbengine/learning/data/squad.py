"""SQuAD v1.1 and v2.0 JSON: articles, paragraphs, questions with answers at character offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kbengine.corpus.span import Span
from kbengine.encoders.query_input import QuestionInput
from kbengine.errors import TrainingDataError
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.data.places import checked_span
from kbengine.learning.data.report import FileReport, UnusableRowError


def squad_examples(value: Mapping[str, Any], report: FileReport, source: str) -> Iterator[TrainingExample]:
    """Give an example for each question; those marked impossible (v2.0) come without answers.

    Answers that several annotators gave are all kept, each once.

    Args:
        value: the parsed file.
        report: where rows are counted.
        source: the data set's name.

    Raises:
        TrainingDataError: the structure is not SQuAD's.
    """
    for article in _list(value, "data", report.file):
        title = str(article.get("title", "")).replace("_", " ")
        for paragraph in _list(article, "paragraphs", report.file):
            context = paragraph.get("context")
            if not isinstance(context, str):
                raise TrainingDataError(f"{report.file}: a paragraph of {title!r} has no `context`, wanted SQuAD JSON")
            for row in _list(paragraph, "qas", report.file):
                report.rows += 1
                try:
                    example = _example(row, title, context, report, source)
                except UnusableRowError as e:
                    report.refuse(e)
                else:
                    report.examples += 1
                    yield example


def _example(row: Mapping[str, Any], title: str, context: str, report: FileReport, source: str) -> TrainingExample:
    row_id = str(row.get("id", f"{source}-{report.rows}"))
    question = row.get("question")
    if not isinstance(question, str) or not question.strip():
        raise UnusableRowError("no question", row_id)
    if not context.strip():
        raise UnusableRowError("empty passage", row_id)
    if row.get("is_impossible"):
        return TrainingExample(row_id, QuestionInput(question), title, context, (), answerable=False, source=source)
    spans: dict[Span, None] = {}
    answers = row.get("answers") or []
    for answer in answers:
        text, start = answer.get("text"), answer.get("answer_start")
        if isinstance(text, str) and isinstance(start, int) and text.strip():
            span = checked_span(context, start, start + len(text), text)
            if span is not None:
                spans[span] = None
    if not spans:
        raise UnusableRowError("answer not at its offset" if answers else "no answer", row_id)
    return TrainingExample(row_id, QuestionInput(question), title, context, tuple(spans), source=source)


def _list(value: Mapping[str, Any], key: str, file: str) -> list[Mapping[str, Any]]:
    found = value.get(key)
    if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
        raise TrainingDataError(f"{file}: {key!r} is not a list of objects, wanted SQuAD JSON")
    return found
