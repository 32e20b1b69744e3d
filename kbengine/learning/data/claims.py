"""Claims with their verdicts and evidence, read from FEVER's rows as KILT writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbengine.corpus.document import CorpusDocument, CorpusPassage
from kbengine.encoders.encoder import PassageText
from kbengine.errors import TrainingDataError
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.data.kilt import GoldPlace, gold_places, query_of
from kbengine.learning.data.pages import PageStore
from kbengine.learning.data.reading import DataOptions, detect_data_format, json_lines, source_of
from kbengine.learning.data.report import DataReport, FileReport, UnusableRowError
from kbengine.progress import NoProgress, ProgressSink
from kbengine.verdicts.verdict import VERDICTS, Verdict

WHOLE_PAGE = "no paragraph: the page's first passage"


@dataclass(frozen=True, slots=True)
class ClaimExample(TrainingExample):
    """A claim as a question, with its evidence; it has no answer spans.

    Attributes:
        verdict: What the evidence says.
        further: Evidence beside `passage`.
    """

    verdict: Verdict = "SUPPORTS"
    further: tuple[PassageText, ...] = ()

    @property
    def evidence(self) -> tuple[PassageText, ...]:
        """Return all of it, in the row's order."""
        return (PassageText(self.title, self.passage), *self.further)


def read_claims(
    paths: Sequence[Path], options: DataOptions, *, progress: ProgressSink | None = None
) -> tuple[tuple[ClaimExample, ...], DataReport]:
    """Return the claims of KILT files in order, one a row, and what came of every row.

    Args:
        paths: KILT JSON lines, plain or packed by gzip or zstd, whose answers are SUPPORTS and REFUTES.
        options: the corpus that the rows point into, pages to leave out, and how much evidence a claim has at most.
        progress: shown the pages read.

    Raises:
        TrainingDataError: a file is none of KILT, no corpus is given, or no row of all files can be used.
        CorpusError: a file or the pages cannot be read.
    """
    for path in paths:
        if (seen := detect_data_format(path)) != "kilt":
            raise TrainingDataError(f"{path} holds {seen} rows; claims are read from KILT rows, as FEVER's are")
    if not options.pages:
        named = ", ".join(str(path) for path in paths)
        raise TrainingDataError(f"{named}: claims point to pages; give the corpus with --pages")
    report = DataReport()
    examples: list[ClaimExample] = []
    with PageStore() as pages:
        wanted = {place.page_id for path in paths for row in json_lines(path) for place in gold_places(row)}
        pages.fill(options.pages, wanted - options.exclude, progress=progress or NoProgress())
        for path in paths:
            of_file = FileReport(str(path), "kilt")
            report.files.append(of_file)
            examples += _of_file(path, of_file, options, pages)
    if not examples:
        reasons = ", ".join(f"{reason}: {n}" for reason, n in report.unusable.most_common()) or "the files are empty"
        raise TrainingDataError(
            f"none of {report.rows} rows can be used ({reasons}); give rows whose answers are SUPPORTS or REFUTES, "
            "with provenance in the pages"
        )
    return tuple(examples), report


def _of_file(path: Path, report: FileReport, options: DataOptions, pages: PageStore) -> Iterator[ClaimExample]:
    for row in json_lines(path):
        report.rows += 1
        try:
            example = _example(row, report, source_of(path), options, pages)
        except UnusableRowError as e:
            report.refuse(e)
        else:
            report.examples += 1
            yield example


def _example(
    row: Mapping[str, Any], report: FileReport, source: str, options: DataOptions, pages: PageStore
) -> ClaimExample:
    row_id = str(row.get("id", f"{source}-{report.rows}"))
    claim = query_of(str(row.get("input", "")), "question")
    if claim is None:
        raise UnusableRowError("no claim", row_id)
    verdict = _verdict(row, row_id)
    places = gold_places(row)
    if not places:
        raise UnusableRowError("no provenance", row_id)
    allowed = [place for place in places if place.page_id not in options.exclude]
    if not allowed:
        raise UnusableRowError("excluded page", row_id)
    evidence: dict[tuple[str, int, int], tuple[CorpusDocument, CorpusPassage]] = {}
    problem = "page not in the pages files"
    for place in allowed:
        document = pages.get(place.page_id)
        if document is None:
            continue
        found = _passages(document, place)
        if not found:
            problem = "paragraph not on its page" if document.passages else "page without text"
        elif place.paragraph is None:
            report.note(WHOLE_PAGE, row_id)
        for each in found:
            evidence.setdefault((document.doc_id, each.ordinal, each.char_offset), (document, each))
    if not evidence:
        raise UnusableRowError(problem, row_id)
    (first, passage), *others = list(evidence.values())[: options.max_passages]
    return ClaimExample(
        row_id,
        claim,
        first.title,
        passage.text,
        (),
        source=source,
        doc_id=first.doc_id,
        verdict=verdict,
        further=tuple(PassageText(document.title, each.text) for document, each in others),
    )


def _verdict(row: Mapping[str, Any], row_id: str) -> Verdict:
    outputs = row.get("output")
    said = {
        output["answer"].strip().upper()
        for output in (outputs if isinstance(outputs, list) else [])
        if isinstance(output, Mapping) and isinstance(output.get("answer"), str)
    }
    found = [verdict for verdict in VERDICTS if verdict in said]
    if not found:
        raise UnusableRowError("answer is neither SUPPORTS nor REFUTES", row_id)
    if len(said) > 1:
        raise UnusableRowError("several answers", row_id)
    return found[0]


def _passages(document: CorpusDocument, place: GoldPlace) -> list[CorpusPassage]:
    """Return the passages of the paragraphs that the row names; the page's first where it names none."""
    if place.paragraph is None:
        return list(document.passages[:1])
    last = place.paragraph if place.last_paragraph is None else max(place.paragraph, place.last_paragraph)
    return [each for each in document.passages if place.paragraph <= each.ordinal <= last]
