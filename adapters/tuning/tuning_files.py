"""KILT files as what tuning learns from: each record as a query with its gold answers, documents and passages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from adapters.kilt.gold_rows import GoldRow, read_rows
from adapters.kilt.records import Provenance
from adapters.kilt.task_files import task_of_file
from adapters.tasks.defaults import PHRASE_TASKS
from kbengine.errors import InvalidOptionError
from kbengine.inputs import Task
from kbengine.learning.tuning.rows import TuningRow
from kbengine.search.query import Weights

MAX_PARAGRAPHS = 1000
"""Paragraphs that one piece of evidence may span."""


@dataclass(frozen=True)
class TaskFile:
    """A file of records of one task."""

    path: Path
    task: Task

    @property
    def name(self) -> str:
        """The file's name without its endings: `el_news.dev`."""
        return self.path.name.removesuffix(".gz").removesuffix(".jsonl")


def task_files(paths: Sequence[Path], tasks: Sequence[Task]) -> list[TaskFile]:
    """Return the files with their tasks: one task for all, one for each in order, or by the names of the files.

    Raises:
        InvalidOptionError: the tasks are neither none, nor one, nor as many as the files, a file comes twice, or its
            task is not known.
    """
    if len(tasks) not in (0, 1, len(paths)):
        raise InvalidOptionError(
            f"{len(tasks)} tasks were given for {len(paths)} files, wanted one for all, or one for each in their order"
        )
    of_files = tuple(tasks) * len(paths) if len(tasks) == 1 else tuple(tasks)
    files = [TaskFile(path, of_files[i] if of_files else task_of_file(path)) for i, path in enumerate(paths)]
    names = [file.name for file in files]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidOptionError(f"several files are called {', '.join(doubled)}; rename one, or give it once")
    return files


def read_gold_rows(
    file: TaskFile, *, limit: int | None = None, seed: int = 0, notice: Callable[[str], None] | None = None
) -> list[GoldRow]:
    """Return the records of a file that can be asked, `limit` of them drawn at random where it has more, in order.

    Raises:
        RecordError: the file cannot be read.
        InvalidOptionError: none of its records can be asked.
    """
    rows = read_rows(file.path, file.task, limit=limit, seed=seed, notice=notice or _ignore)
    if not rows:
        raise InvalidOptionError(f"{file.path} holds no record that can be asked as {file.task}; check file and task")
    return rows


def tuning_rows(file: TaskFile, rows: Sequence[GoldRow], weights: Weights) -> list[TuningRow]:
    """Return what tuning learns from; fused retrieval searches with these weights."""
    return [_tuning_row(file, row, weights) for row in rows]


def _tuning_row(file: TaskFile, row: GoldRow, weights: Weights) -> TuningRow:
    entries = [entry for output in row.record.outputs for entry in output.provenance if "wikipedia_id" in entry.fields]
    return TuningRow(
        id=row.record.id,
        source=file.name,
        task=file.task,
        query=replace(row.query, weights=weights),
        answers=row.record.answers(),
        doc_ids=frozenset(_doc_id(entry) for entry in entries),
        passages=frozenset(each for entry in entries for each in _paragraphs(entry)),
        right="phrase" if file.task in PHRASE_TASKS else "doc",
    )


def _doc_id(entry: Provenance) -> str:
    return str(entry.fields["wikipedia_id"]).strip()


def _paragraphs(entry: Provenance) -> list[tuple[str, int]]:
    """Return the document and the ordinal of each paragraph that the evidence spans; none where it names none."""
    first = entry.fields.get("start_paragraph_id")
    last = entry.fields.get("end_paragraph_id", first)
    if not isinstance(first, int) or not isinstance(last, int) or not first <= last < first + MAX_PARAGRAPHS:
        return []
    return [(_doc_id(entry), ordinal) for ordinal in range(first, last + 1)]


def _ignore(_: str) -> None:
    """Do nothing."""
