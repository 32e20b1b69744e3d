"""Question files of the open-domain literature, each form known by its content.

| form | from | what a question looks like |
| --- | --- | --- |
| `densephrases` | DensePhrases | `{"data": [{"id", "question", "answers", "titles", "origin"}]}` |
| `squad` | SQuAD | `{"data": [{"paragraphs": [{"qas": [{"question", "answers": [{"text"}]}]}]}]}` |
| `triviaqa` | TriviaQA | `{"Data": [{"QuestionId", "Question", "Answer": {"Aliases"}}]}` |
| `webquestions` | WebQuestions | `[{"utterance", "targetValue": "(list (description …))"}]` |
| `dpr` | DPR, FiD | `[{"question", "answers"}]`, or a question, a tab and a Python list of answers a line |
| `drqa` | DrQA, NQ-open | `{"question", "answer": […]}` a line |
| `kilt` | KILT | `{"id", "input", "output": [{"answer"}]}` a line |
"""

from __future__ import annotations

import ast
import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from adapters.errors import RecordError
from adapters.kilt.lines import open_text

Form = Literal["densephrases", "squad", "triviaqa", "webquestions", "dpr", "drqa", "kilt"]

_REMEDY = "give a file of one of the forms in docs/how-to/evaluate.md"
_DESCRIPTION = re.compile(r"(?<=\(description )(.+?)(?=\) \(description|\)\)$)")


@dataclass(frozen=True)
class OpenQuestion:
    """A question with its right answers, which are regular expressions where `is_pattern` says so."""

    id: str
    text: str
    answers: tuple[str, ...]
    is_pattern: bool = False


@dataclass
class OpenQuestions:
    """The questions of a file: its form, and why questions were left out, with how many."""

    path: Path
    form: Form
    questions: list[OpenQuestion] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def read_open_questions(path: str | Path, *, patterns: bool | None = None, limit: int | None = None) -> OpenQuestions:
    """Return the questions of a file, plain or gzipped, whose form is told by what is in it.

    Questions without an answer are left out and counted, as the published evaluations leave them out.

    Args:
        path: the file.
        patterns: whether answers are regular expressions; by default those of files and ids with "trec" in the name.
        limit: the first so many questions; by default all.

    Raises:
        RecordError: the file has none of the forms, or no question with an answer.
    """
    path = Path(path)
    with open_text(path) as stream:
        text = stream.read()
    form, rows = _rows(text, path)
    found = OpenQuestions(path, form)
    ids: set[str] = set()
    for number, row in enumerate(rows):
        if limit is not None and len(found.questions) == limit:
            break
        asked = row.question.strip() if isinstance(row.question, str) else ""
        answers = tuple(dict.fromkeys(each for each in row.answers if isinstance(each, str) and each.strip()))
        if not asked or not answers:
            found.left_out["no answer" if asked else "no question"] += 1
            continue
        own_id = row.id if row.id not in ("", *ids) else f"{path.name.partition('.')[0]}_{number}"
        ids.add(own_id)
        is_pattern = "trec" in f"{path.name} {own_id}".lower() if patterns is None else patterns
        found.questions.append(OpenQuestion(own_id, asked, answers, is_pattern))
    if not found.questions:
        why = ", ".join(f"{n:,} with {reason}" for reason, n in found.left_out.items()) or "no question at all"
        raise _error(path, f"holds nothing to evaluate ({form}: {why})", "give a file with questions and their answers")
    return found


@dataclass(frozen=True)
class _Row:
    question: object
    answers: Iterable[object]
    id: str = ""


def _rows(text: str, path: Path) -> tuple[Form, Iterator[_Row]]:
    """Return the form of a file's text and its rows."""
    first = next((line for line in text.split("\n") if line.strip()), "").removeprefix("\ufeff")
    try:
        head = json.loads(first)
    except ValueError:
        head = None
    if isinstance(head, dict) and {"question", "input"} & head.keys():
        rows = list(_json_lines(text, path))
        return _form_of_row(head), map(_row, rows)
    if first.lstrip()[:1] not in ("{", "["):
        return "dpr", _tabbed(text, path)
    try:
        whole = json.loads(text)
    except ValueError as error:
        raise _error(
            path, f"is no JSON ({error})", "give a file of one of the forms in docs/how-to/evaluate.md"
        ) from error
    listed = whole.get("data", whole.get("Data")) if isinstance(whole, dict) else whole
    if not isinstance(listed, list) or not listed or not isinstance(listed[0], dict):
        raise _error(path, "has no list of questions", _REMEDY)
    if isinstance(whole, dict) and "Data" in whole:
        return "triviaqa", map(_trivia_row, listed)
    if "paragraphs" in listed[0]:
        return "squad", _squad_rows(listed)
    if "utterance" in listed[0]:
        return "webquestions", map(_web_row, listed)
    return ("densephrases" if isinstance(whole, dict) else "dpr"), map(_row, listed)


def _form_of_row(row: Mapping[str, Any]) -> Form:
    return "kilt" if "input" in row else "drqa" if "answer" in row else "dpr"


def _json_lines(text: str, path: Path) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise _error(path, f"is no JSON ({error})", "mend the line", line=number) from error
        if not isinstance(row, dict):
            raise _error(path, "is no JSON object", "write one question a line", line=number)
        yield row


def _tabbed(text: str, path: Path) -> Iterator[_Row]:
    for number, cells in enumerate(csv.reader(text.splitlines(), delimiter="\t"), start=1):
        if not cells:
            continue
        try:
            answers = ast.literal_eval(cells[1])
        except (IndexError, ValueError, SyntaxError) as error:
            remedy = "write a question, a tab and a list such as ['Warsaw', 'Warszawa']"
            raise _error(path, "has no list of answers after a tab", remedy, line=number) from error
        yield _Row(cells[0], _texts(answers))


def _row(row: Mapping[str, Any]) -> _Row:
    """Return a row of DensePhrases, DPR, DrQA or KILT."""
    own_id = "" if row.get("id") is None else str(row["id"])
    if "input" in row:
        outputs = row.get("output") or []
        return _Row(row["input"], [each.get("answer") for each in outputs if isinstance(each, dict)], own_id)
    if own_id and row.get("origin"):
        own_id = f"{str(row['origin']).partition('.')[0]}-{own_id}"
    return _Row(row.get("question"), _texts(row.get("answers", row.get("answer"))), own_id)


def _squad_rows(articles: Iterable[Mapping[str, Any]]) -> Iterator[_Row]:
    for article in articles:
        for paragraph in article.get("paragraphs") or []:
            for asked in paragraph.get("qas") or []:
                given = asked.get("answers") or []
                answers = [given] if isinstance(given, dict) else given
                yield _Row(asked.get("question"), [each.get("text") for each in answers], str(asked.get("id", "")))


def _trivia_row(row: Mapping[str, Any]) -> _Row:
    answer = row.get("Answer") or {}
    answers = [answer.get("Value"), *(answer.get("Aliases") or []), *(answer.get("HumanAnswers") or [])]
    return _Row(row.get("Question"), answers, str(row.get("QuestionId", "")))


def _web_row(row: Mapping[str, Any]) -> _Row:
    """Return a row of WebQuestions, whose answers stand in a form of Lisp."""
    found = _DESCRIPTION.findall(str(row.get("targetValue", "")))
    return _Row(row.get("utterance"), [each.replace('"', "") for each in found])


def _texts(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _error(path: Path, seen: str, remedy: str, *, line: int | None = None) -> RecordError:
    return RecordError(seen, "bad_questions", remedy, file=str(path), line=line)
