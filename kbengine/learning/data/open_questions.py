"""Open questions (NQ-open and the like): a question and its answers alone; evidence is looked for in the corpus.

Distant supervision: the best BM25 passage in which an answer stands is taken for the gold passage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kbengine.corpus.document import CorpusDocument
from kbengine.inputs import Question
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.data.passage_index import PassageIndex, indexed_passages
from kbengine.learning.data.places import occurrences
from kbengine.learning.data.report import FileReport, UnusableRowError

DEPTH = 20
"""Passages looked at for each question, best first."""
_CHUNK = 512


class EvidenceCorpus:
    """The passages of a corpus in memory, but for those of excluded documents."""

    def __init__(self, documents: Iterator[CorpusDocument], exclude: frozenset[str]) -> None:
        self.passages = indexed_passages(documents, exclude)
        self._index = PassageIndex([f"{each.title} {each.text}" for each in self.passages])

    def examples(self, rows: Iterator[Mapping[str, Any]], report: FileReport, source: str) -> Iterator[TrainingExample]:
        """Give an example for each row whose answer stands in one of its question's best passages."""
        chunk: list[Mapping[str, Any]] = []
        for row in rows:
            report.rows += 1
            if isinstance(row.get("question"), str) and row["question"].strip():
                chunk.append(row)
            else:
                report.refuse(UnusableRowError("no question", _id_of(row, report.rows, source)))
            if len(chunk) == _CHUNK:
                yield from self._found(chunk, report, source)
                chunk = []
        yield from self._found(chunk, report, source)

    def _found(self, rows: Sequence[Mapping[str, Any]], report: FileReport, source: str) -> Iterator[TrainingExample]:
        if not rows:
            return
        ranked = self._index.best([row["question"] for row in rows], DEPTH)
        for row, numbers in zip(rows, ranked, strict=True):
            row_id = _id_of(row, report.rows, source)
            given = row.get("answer", row.get("answers"))
            answers = [given] if isinstance(given, str) else [each for each in given or [] if isinstance(each, str)]
            for number in numbers:
                passage = self.passages[number]
                spans = dict.fromkeys(span for answer in answers for span in occurrences(passage.text, answer))
                if spans:
                    report.examples += 1
                    query = Question(row["question"])
                    yield TrainingExample(
                        row_id, query, passage.title, passage.text, tuple(spans), source=source, doc_id=passage.doc_id
                    )
                    break
            else:
                report.refuse(UnusableRowError("answer in none of the best passages", row_id))


def _id_of(row: Mapping[str, Any], number: int, source: str) -> str:
    return str(row.get("id", f"{source}-{number}"))
