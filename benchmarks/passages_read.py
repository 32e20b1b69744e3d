"""Passages for a reader: top-k accuracy by answer string, and exact match over the number of passages read.

Run: python -m benchmarks.passages_read --kb DIR [--data DIR] [--sets nqopen squad] [--limit 40] [--read 1 2 5 10]
What is measured (EMNLP 2021, Tables 1 and 2): all signals as they answer, phrases alone, passage vectors and BM25, each
ranking the passages of the same questions; then the bundled reader reads the best k of each and its answer is scored.
The papers' reader is a T5 over up to 100 passages: `kbengine export passages` writes its input. Rows are of the half of
the pages that nothing was chosen on; standard errors are clustered by page.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from adapters.kilt.standard_error import clustered_standard_error
from adapters.open_domain.evaluating import OpenOptions, OpenRecord, evaluate_open
from adapters.open_domain.questions import OpenQuestions, read_open_questions
from adapters.open_domain.retrieving import RETRIEVERS, WEIGHTS, RetrievingOptions
from adapters.tasks.answerer import Answerer
from adapters.tasks.defaults import TASK_WEIGHTS
from benchmarks.kilt_sets import data_folder, half_rows, page_of, set_files
from benchmarks.measurement import write_result
from kbengine.knowledge_base import KnowledgeBase
from kbengine.progress import ProgressSink, progress_for_terminal
from kbengine.search.query import Weights

SETS = ("nqopen", "squad", "newwiki")
READ = (1, 2, 5, 10)
N_PASSAGES = 20
"""Passages ranked: enough for the measures of Table 1 but top-100."""


def weights_with_reader(weights: Weights | None) -> Weights | None:
    """Return what ranks answers when the reader reads: the retriever's weights, and the reader's own."""
    return None if weights is None else replace(weights, reader=TASK_WEIGHTS["question"].reader)


class ReadingOptions(RetrievingOptions):
    """Answers are ranked by the retriever and by what the reader says of so many of its passages."""

    def search_options(self) -> Any:
        """Return the options of the search, the reader among the signals."""
        return replace(super().search_options(), weights=weights_with_reader(WEIGHTS[self.retriever]), read=self.read)


def figures_of(records: Sequence[OpenRecord], pages: dict[str, str]) -> dict[str, float | None]:
    """Return the means in percent, and the standard error of the first answer or passage by clusters of pages."""
    rows = [record.measures() for record in records]
    found: dict[str, float | None] = {
        name: round(100 * sum(row[name] for row in rows) / len(rows), 1) for name in rows[0]
    }
    first = "EM@1" if "EM@1" in rows[0] else "top-1"
    error = clustered_standard_error([100 * row[first] for row in rows], [pages[each.question.id] for each in records])
    return {**found, f"{first} error": None if error is None else round(error, 1)}


def measure(
    answerer: Answerer,
    asked: OpenQuestions,
    pages: dict[str, str],
    read: Sequence[int],
    progress: ProgressSink | None = None,
) -> dict[str, Any]:
    """Return the figures of one set for each retriever: of its passages, and of answers over passages read."""
    found: dict[str, Any] = {}
    for retriever in RETRIEVERS:
        ranked = OpenOptions(RetrievingOptions(k=N_PASSAGES, retriever=retriever), has_answers=False)
        passages = evaluate_open(answerer, asked, options=ranked, progress=progress)
        of_passages = {k: v for k, v in figures_of(passages.records, pages).items() if k != "top-100"}
        answers = {}
        for n in read:
            options = OpenOptions(ReadingOptions(retriever=retriever, read=n), has_passages=False)
            report = evaluate_open(answerer, asked, options=options, progress=progress)
            answers[str(n)] = figures_of(report.records, pages)
        found[retriever] = {"passages": of_passages, "answers by passages read": answers}
    return found


def pages_of(path: Path) -> dict[str, str]:
    """Return the page of each row, by which errors are clustered."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    return {str(row["id"]): page_of(row) for row in rows}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kb", type=Path, required=True)
    parser.add_argument("--data", type=Path, help="the folder of KILT sets (KBENGINE_KILT_DATA)")
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--limit", type=int, default=40, help="rows of each set")
    parser.add_argument("--read", type=int, nargs="+", default=READ, help="numbers of passages read")
    given = parser.parse_args(arguments)
    figures: dict[str, Any] = {"rows": {}, "sets": {}}
    with (
        tempfile.TemporaryDirectory() as scratch,
        KnowledgeBase.open(given.kb) as knowledge_base,
        progress_for_terminal() as progress,
    ):
        info = knowledge_base.info()
        figures["knowledge_base"] = {"documents": info.documents, "passages": info.passages}
        answerer = Answerer(knowledge_base)
        for name, path in set_files(data_folder(given.data), "dev", tuple(given.sets)).items():
            rows = half_rows(path, "score", given.limit, Path(scratch))
            asked = read_open_questions(rows)
            figures["rows"][name] = len(asked.questions)
            figures["sets"][name] = measure(answerer, asked, pages_of(rows), given.read, progress)
            print(name, json.dumps(figures["sets"][name]), flush=True)
    write_result("passages_read", "top-k by answer string, and EM over passages read, by what ranks passages", figures)


if __name__ == "__main__":
    main()
