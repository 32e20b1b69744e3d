"""The baseline a user would build instead: BM25's best passages, read by a cross-encoder; scored as KILT does.

BM25 is the knowledge base's own lexical index with the phrase and passage weights at 0. The reader reads the `top_k`
best passages; the answer with the largest margin over "no answer" wins, and its page is named first, the others as BM25
ranked them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters.errors import RecordError, UnknownRelationError
from adapters.kilt.lines import read_text_lines
from adapters.kilt.predicting import output_path, task_of_file
from adapters.kilt.records import TaskRecord, read_gold
from adapters.kilt.scoring import Scores, score_files
from adapters.kilt.submission import Prediction, SubmissionWriter
from adapters.tasks.defaults import PHRASE_TASKS
from adapters.tasks.provenance import PageProvenance
from adapters.tasks.queries import task_query
from kbengine.errors import InvalidOptionError, TaskInputError
from kbengine.inputs import Task
from kbengine.progress import NoProgress, ProgressSink
from kbengine.search.boundaries import trimmed_span
from kbengine.search.in_halves import in_halves
from kbengine.search.query import MAX_K, Query, Weights

if TYPE_CHECKING:
    from kbengine.knowledge_base import KnowledgeBase
    from kbengine.reading.reader import Reader, Reading
    from kbengine.search.results import Hit

BM25 = Weights(phrase=0.0, passage=0.0, lexical=1.0)
"""The lexical index alone."""
BATCH = 64
"""Records searched, and whose passages are read, together."""
FIGURES = ("em", "f1", "Rprec", "recall@5", "KILT-em", "KILT-f1")
"""Those of the scores that are reported."""


@dataclass(frozen=True)
class PipelineOptions:
    """How many passages are read, how many are named as evidence, and how sure an answer has to be.

    Attributes:
        top_k: Passages that the reader reads for each record.
        passages: Passages that BM25 finds for each record; their pages are the evidence.
        min_margin: An answer whose margin over "no answer" is smaller is left blank; None answers always.
        limit: Records of the file that are used, the first ones; None: all.
    """

    top_k: int = 5
    passages: int = 20
    min_margin: float | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.top_k <= MAX_K:
            raise InvalidOptionError(f"top_k is {self.top_k}, wanted 1 to {MAX_K}")
        if not self.top_k <= self.passages <= MAX_K:
            raise InvalidOptionError(
                f"passages is {self.passages}, wanted {self.top_k} (what is read) to {MAX_K}; raise it or lower top_k"
            )
        if self.limit is not None and self.limit < 1:
            raise InvalidOptionError(f"the limit is {self.limit}, wanted 1 or more, or none for all records")


@dataclass
class PipelineReport:
    """What the pipeline did with one file, and its scores."""

    task: Task
    gold: Path
    submission: Path
    answered: int = 0
    abstained: int = 0
    refused: int = 0
    passages_read: int = 0
    search_s: float = 0.0
    read_s: float = 0.0
    scores: Scores | None = field(default=None, repr=False)

    def facts(self) -> dict[str, Any]:
        """Return the figures in percent with what they were made from, for people and for JSON."""
        n = self.answered + self.abstained
        facts: dict[str, Any] = {
            "file": self.gold.name,
            "task": self.task,
            "records": n + self.refused,
            "answered": self.answered,
            "refused": self.refused,
        }
        if self.scores is not None:
            figures = {**self.scores.downstream, **self.scores.retrieval, **self.scores.kilt}
            facts |= {name: round(100 * figures[name], 2) for name in FIGURES}
        return facts | {
            "passages_read": self.passages_read,
            "search_ms_a_record": round(1e3 * self.search_s / max(1, n), 2),
            "read_ms_a_record": round(1e3 * self.read_s / max(1, n), 2),
        }


def run_pipeline(
    knowledge_base: KnowledgeBase,
    reader: Reader,
    gold: Path,
    out: Path,
    *,
    task: Task | None = None,
    options: PipelineOptions | None = None,
    progress: ProgressSink | None = None,
) -> PipelineReport:
    """Return the report of answering a KILT file by BM25 and a reader, its scores included.

    The submission is written to `out` and stays there, so that `kbengine score` can look at it record by record.

    Args:
        knowledge_base: whose lexical index is searched; its document ids are the pages' ids.
        reader: reads the passages.
        gold: KILT JSONL with outputs, plain or gzipped.
        out: the submission's file, or a directory in which it gets its conventional name; replaced if it is there.
        task: by default known by the file's name.
        options: see `PipelineOptions`.
        progress: shows how far it is.

    Raises:
        InvalidOptionError: the task's answers are no phrases, or is not known.
        RecordError: the file holds a record that cannot be scored.
    """
    options, progress = options or PipelineOptions(), progress or NoProgress()
    task = task or task_of_file(gold)
    if task not in PHRASE_TASKS:
        raise InvalidOptionError(
            f"{gold.name} is {task}, whose answers no reader finds in passages; give {' or '.join(PHRASE_TASKS)} "
            "files (kbengine score --retrieval compares pages of the others)"
        )
    records = list(read_gold(gold))[: options.limit]
    report = PipelineReport(task, gold, output_path(gold, out))
    progress.begin(f"BM25 and reader: {gold.name}", len(records), "")
    with SubmissionWriter(report.submission, overwrite=True) as writer:
        for begin in range(0, len(records), BATCH):
            some = records[begin : begin + BATCH]
            writer.write(_predictions(some, knowledge_base, reader, options, report))
            progress.advance(len(some))
        writer.finish()
    report.scores = _scores(gold, report.submission, records, options)
    return report


def _scores(gold: Path, guess: Path, records: Sequence[TaskRecord], options: PipelineOptions) -> Scores:
    """Return the scores of the records that were used."""
    if options.limit is None:
        return score_files(gold, guess)
    with tempfile.TemporaryDirectory(prefix="kbengine-") as folder:
        part = Path(folder) / gold.name.removesuffix(".gz")
        lines = [text for _, text, error in read_text_lines(gold) if error is None][: len(records)]
        part.write_text("".join(f"{line.rstrip()}\n" for line in lines), encoding="utf-8")
        return score_files(part, guess)


def _predictions(
    records: Sequence[TaskRecord],
    knowledge_base: KnowledgeBase,
    reader: Reader,
    options: PipelineOptions,
    report: PipelineReport,
) -> list[Prediction]:
    """Return one prediction a record; a record that cannot be asked gets a blank one."""
    queries = [_query(record, report.task) for record in records]
    began = time.perf_counter()
    found = _search(knowledge_base, [query for query in queries if query is not None], options)
    report.search_s += time.perf_counter() - began
    hits = iter(found)
    hits_of = [() if query is None else next(hits) for query in queries]
    began = time.perf_counter()
    readings = _read(reader, queries, hits_of, options, report)
    report.read_s += time.perf_counter() - began
    predictions = []
    for record, query, own, read in zip(records, queries, hits_of, readings, strict=True):
        prediction = _prediction(record, own, read, options)
        if query is None:
            report.refused += 1
        elif prediction.answer:
            report.answered += 1
        else:
            report.abstained += 1
        predictions.append(prediction)
    return predictions


def _query(record: TaskRecord, task: Task) -> Query | None:
    try:
        return task_query(task, record.input)
    except (TaskInputError, UnknownRelationError, RecordError):
        return None


def _search(knowledge_base: KnowledgeBase, queries: Sequence[Query], options: PipelineOptions) -> list[tuple[Hit, ...]]:
    """Return BM25's passages for each query, best first; none for one that has nothing to match."""

    def search(some: Sequence[Query]) -> list[tuple[Hit, ...]]:
        results = knowledge_base.search(some, unit="passage", weights=BM25, k=options.passages, truncate=True)
        return [result.hits for result in results]

    return in_halves(search, queries, lambda _: ())


def _read(
    reader: Reader,
    queries: Sequence[Query | None],
    hits: Sequence[tuple[Hit, ...]],
    options: PipelineOptions,
    report: PipelineReport,
) -> list[list[Reading]]:
    """Return the readings of each record's best passages."""
    from kbengine.encoders.encoder import PassageText

    pairs = [
        (query.input, hit)
        for query, own in zip(queries, hits, strict=True)
        if query is not None
        for hit in own[: options.top_k]
    ]
    passages = [PassageText(hit.document.title, hit.passage.text) for _, hit in pairs]
    readings = iter(reader.read([asked for asked, _ in pairs], passages, truncate=True))
    report.passages_read += len(pairs)
    return [[next(readings) for _ in own[: options.top_k]] for own in hits]


def _prediction(
    record: TaskRecord, hits: tuple[Hit, ...], readings: Sequence[Reading], options: PipelineOptions
) -> Prediction:
    """Return the surest answer of the passages read, its page first."""
    order = list(range(len(hits)))
    answer = ""
    spans = {i: trimmed_span(hits[i].passage.text, reading.span) for i, reading in enumerate(readings)}
    candidates = [i for i, span in spans.items() if span.start < span.end]
    if candidates:
        best = max(candidates, key=lambda i: (readings[i].margin, -i))
        order = [best, *(i for i in order if i != best)]
        if options.min_margin is None or readings[best].margin >= options.min_margin:
            answer = hits[best].passage.text[spans[best].start : spans[best].end]
    return Prediction(record.raw_id, answer, tuple(PageProvenance.of_hit(hits[i], spans.get(i)) for i in order))
