"""Reading files of training rows: formats told by content, offsets checked, what is unusable counted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

from kbengine.corpus.compression import CorpusFile
from kbengine.corpus.reader import read_corpus
from kbengine.errors import TrainingDataError
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.data.kilt import gold_places, kilt_examples, kind_of_row, kind_of_rows
from kbengine.learning.data.natural_questions import dpr_example, simplified_examples
from kbengine.learning.data.open_questions import EvidenceCorpus
from kbengine.learning.data.pages import PageStore
from kbengine.learning.data.report import DataReport, FileReport, UnusableRowError
from kbengine.learning.data.squad import squad_example, squad_rows
from kbengine.learning.data.zero_shot import MIN_FIELDS, zero_shot_example
from kbengine.learning.loop.options import require
from kbengine.progress import NoProgress, ProgressSink

DataFormat = Literal["squad", "natural-questions", "open", "dpr", "kilt", "zero-shot"]
DATA_FORMATS: tuple[DataFormat, ...] = get_args(DataFormat)

_HEAD_ROWS = 200


@dataclass(frozen=True)
class DataOptions:
    """How training files are read.

    Attributes:
        pages: Files or folders of the corpus that KILT rows point into, of any format kbengine reads.
        exclude: Ids of documents that must not be trained on.
        max_passages: Gold passages of one row of KILT or Natural Questions that become examples of their own.
        as_questions: Ask zero-shot RE rows as questions instead of subject and relation.
    """

    pages: tuple[Path, ...] = ()
    exclude: frozenset[str] = frozenset()
    max_passages: int = 1
    as_questions: bool = False

    def __post_init__(self) -> None:
        require(self.max_passages >= 1, "max_passages", self.max_passages, "1 or more")


@dataclass(frozen=True)
class TrainingData:
    """Examples in the order of the files, and what came of every row."""

    examples: tuple[TrainingExample, ...]
    report: DataReport


def read_training_files(
    paths: Sequence[Path], options: DataOptions | None = None, *, progress: ProgressSink | None = None
) -> TrainingData:
    """Return the examples of training files, plain or packed by gzip or zstd.

    Args:
        paths: SQuAD JSON, Natural Questions (simplified JSON lines, or DPR's JSON), open questions with answers, for
            which evidence is looked for in the pages, KILT JSON lines, or the tab-separated lines of zero-shot RE.
        options: how to read them.
        progress: shown the pages read.

    Raises:
        TrainingDataError: a file is of no known format, or no row of all files can be used.
        CorpusError: a file or the pages cannot be read.
    """
    options = options or DataOptions()
    formats = [(path, detect_data_format(path)) for path in paths]
    report = DataReport()
    examples: list[TrainingExample] = []
    with PageStore() as pages:
        if wanted := _wanted_pages(formats, options):
            if not options.pages:
                named = ", ".join(str(path) for path, kind in formats if kind == "kilt")
                raise TrainingDataError(f"{named}: KILT rows point to pages; give the corpus with --pages")
            pages.fill(options.pages, wanted, progress=progress or NoProgress())
        corpus = _evidence(formats, options)
        for path, kind in formats:
            of_file = FileReport(str(path), kind)
            report.files.append(of_file)
            if kind == "open" and corpus is not None:
                examples += corpus.examples(json_lines(path), of_file, source_of(path))
            else:
                examples += _examples(path, kind, of_file, options, pages)
    if not examples:
        raise TrainingDataError(f"none of {report.rows} rows can be used ({_reasons(report)}); check the files")
    return TrainingData(tuple(examples), report)


def detect_data_format(path: Path) -> DataFormat:
    """Return the format of a file of training rows, told by its beginning.

    Raises:
        TrainingDataError: it is none of the known formats.
        CorpusError: it cannot be read.
    """
    with CorpusFile(path) as file:
        head = file.read(1 << 16)
    line = head.lstrip().partition(b"\n")[0]
    if head.lstrip().startswith(b"["):
        return "dpr"
    if line.startswith(b"{"):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if isinstance(row, dict):
            if "output" in row or ("input" in row and "id" in row):
                return "kilt"
            if "question_text" in row:
                return "natural-questions"
            if "question" in row and ("answer" in row or "answers" in row):
                return "open"
        if b'"paragraphs"' in head or b'"data"' in head[:4096]:
            return "squad"
    elif line.count(b"\t") >= MIN_FIELDS - 1:
        return "zero-shot"
    raise TrainingDataError(
        f"{path}: is no file of training rows; wanted SQuAD JSON, Natural Questions (simplified lines or DPR's JSON), "
        "open questions, KILT JSON lines, or zero-shot RE's tab-separated lines"
    )


def _examples(
    path: Path, kind: DataFormat, report: FileReport, options: DataOptions, pages: PageStore
) -> Iterator[TrainingExample]:
    """Give the examples of one file, each row counted."""
    source = source_of(path)
    rows: Iterable[Any]
    make: Callable[[Any], Iterable[TrainingExample]]
    if kind == "squad":
        rows, make = squad_rows(_whole_json(path), str(path)), lambda row: [squad_example(row, report, source)]
    elif kind == "zero-shot":
        rows = (line.decode("utf-8", errors="replace").rstrip("\r\n") for line in _lines(path))
        make = lambda line: [zero_shot_example(line, report, source, as_questions=options.as_questions)]  # noqa: E731
    elif kind == "kilt":
        task, n, exclude = kind_of_rows(islice(json_lines(path), _HEAD_ROWS)), options.max_passages, options.exclude
        rows = json_lines(path)
        make = lambda row: kilt_examples(  # noqa: E731
            row, kind_of_row(row, task), pages, report, source, exclude=exclude, max_passages=n
        )
    elif kind == "natural-questions":
        n = options.max_passages
        rows = json_lines(path)
        make = lambda row: simplified_examples(row, report, source, max_passages=n)  # noqa: E731
    else:
        rows, make = _json_list(path), lambda row: [dpr_example(row, report, source)]
    for row in rows:
        report.rows += 1
        try:
            for example in make(row):
                report.examples += 1
                yield example
        except UnusableRowError as e:
            report.refuse(e)


def _evidence(formats: Sequence[tuple[Path, DataFormat]], options: DataOptions) -> EvidenceCorpus | None:
    """Return the corpus in which evidence for open questions is looked for, where there are any."""
    named = [str(path) for path, kind in formats if kind == "open"]
    if not named:
        return None
    if not options.pages:
        raise TrainingDataError(f"{', '.join(named)}: questions without passages; give the corpus with --pages")
    return EvidenceCorpus((document for document, _ in read_corpus(options.pages)), options.exclude)


def source_of(path: Path) -> str:
    """Return the name that examples of a file have: what stands before its first full stop."""
    return path.name.partition(".")[0]


def _wanted_pages(formats: Sequence[tuple[Path, DataFormat]], options: DataOptions) -> set[str]:
    """Return the ids of all pages that KILT rows point to and that may be used."""
    wanted: set[str] = set()
    for path, kind in formats:
        if kind == "kilt":
            for row in json_lines(path):
                wanted.update(place.page_id for place in gold_places(row))
    return wanted - options.exclude


def json_lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """Give the objects of a file of JSON lines.

    Raises:
        TrainingDataError: a line is no JSON object.
    """
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as e:
            raise TrainingDataError(f"{path}:{number}: is not JSON ({e}); correct or remove the line") from e
        if not isinstance(value, Mapping):
            raise TrainingDataError(f"{path}:{number}: holds {type(value).__name__}, wanted an object a line")
        yield value


def _lines(path: Path) -> Iterator[bytes]:
    with CorpusFile(path) as file:
        while line := file.readline():
            yield line


def _json_list(path: Path) -> list[Mapping[str, Any]]:
    value = _whole_json(path)
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        raise TrainingDataError(f"{path}: wanted a list of objects with question, answers and positive_ctxs")
    return value


def _whole_json(path: Path) -> object:
    with CorpusFile(path) as file:
        parts = []
        while part := file.read(1 << 24):
            parts.append(part)
    try:
        return json.loads(b"".join(parts))
    except ValueError as e:
        raise TrainingDataError(f"{path}: is not JSON ({e}); copy the file again") from e


def _reasons(report: DataReport) -> str:
    return ", ".join(f"{reason}: {n}" for reason, n in report.unusable.most_common()) or "the files are empty"
