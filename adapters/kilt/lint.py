"""Checks of a submission before it is uploaded: everything the KILT evaluator would reject or score zero."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from adapters.kilt.datasets import Dataset, dataset_of, submission_name
from adapters.kilt.lines import JSON, Line, json_type, read_lines
from adapters.kilt.records import read_ids

Severity = Literal["rejected", "scores zero", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)

WANTED_PAGES = 5  # the leaderboard shows recall@5
_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing wrong with a submission: how bad, where, what, and what to do.

    `rejected` stops the official evaluator, so the whole submission fails; `scores zero` costs this record's answer
    or KILT score; `warning` costs something else; `info` costs nothing.
    """

    severity: Severity
    problem: str
    file: str
    line: int | None
    id: str | None
    seen: str
    remedy: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        who = "" if self.id is None else f" id {self.id!r}:"
        return f"{place}: {self.severity}:{who} {self.seen}; {self.remedy}"

    def to_json(self) -> dict[str, JSON]:
        """Return the finding as one flat JSON object."""
        return asdict(self)


@dataclass(frozen=True)
class LintReport:
    """All findings of one submission, in file order, those about the whole file last."""

    file: str
    n_records: int
    n_inputs: int | None
    findings: tuple[Finding, ...]

    def counts(self) -> dict[Severity, int]:
        """Return number of findings of each severity, the worst first."""
        counts = Counter(finding.severity for finding in self.findings)
        return {severity: counts[severity] for severity in SEVERITIES}

    @property
    def accepted(self) -> bool:
        """Whether the official evaluator would run to its end."""
        return not any(finding.severity == "rejected" for finding in self.findings)

    @property
    def clean(self) -> bool:
        """Whether nothing would be rejected or score zero."""
        return not any(finding.severity in ("rejected", "scores zero") for finding in self.findings)


def lint(submission: str | Path, inputs: str | Path | None = None) -> LintReport:
    """Findings about a submission, checked against the inputs it answers.

    Args:
        submission: the JSONL file to upload.
        inputs: the task file it was predicted from; without it ids cannot be checked.

    Raises:
        RecordError: the inputs file itself is broken, or the submission cannot be opened.
    """
    expected = None if inputs is None else read_ids(inputs)
    linter = _Linter(str(submission), dataset_of(inputs if inputs is not None else submission))
    for line in read_lines(submission):
        linter.check_line(line)
    linter.check_ids(expected)
    linter.check_name(Path(submission), inputs)
    return LintReport(
        file=str(submission),
        n_records=linter.n_records,
        n_inputs=None if expected is None else len(expected),
        findings=tuple(linter.findings),
    )


class _Linter:
    """The findings so far and what the checks of later lines need to know."""

    def __init__(self, file: str, dataset: Dataset | None) -> None:
        self.file = file
        self.dataset = dataset
        self.findings: list[Finding] = []
        self.n_records = 0
        self._lines: dict[str, int] = {}
        self._line = 0
        self._id: str | None = None

    def check_line(self, line: Line) -> None:
        self._line, self._id = line.number, None
        if line.error is not None:
            self._add("rejected", line.error.problem, line.error.seen, line.error.remedy)
            return
        value = line.value or {}
        self.n_records += 1
        self._check_id(value)
        if line.has_nan:
            self._add("warning", "nan", "NaN or Infinity is not JSON", "write null or leave the field out")
        elements = value.get("output")
        if not isinstance(elements, list):
            seen = f"`output` is {json_type(elements)}" if "output" in value else "no `output`"
            self._add("rejected", "no_output", seen, "write a list of one object")
            return
        if len(elements) != 1:
            self._add(
                "rejected",
                "not_one_output",
                f"{len(elements)} output elements, exactly one is wanted",
                "keep the best answer, with all pages in its `provenance`",
            )
        for element in elements:
            if isinstance(element, dict):
                self._check_answer(element)
                self._check_provenance(element)
            else:
                self._add(
                    "rejected", "output_not_object", f"an output element is {json_type(element)}", "write an object"
                )

    def check_ids(self, expected: dict[str, int] | None) -> None:
        if expected is None:
            self._add_file("info", "ids_unchecked", "ids were not checked", "name the task file with --inputs")
            if not self.n_records:
                self._add_file("rejected", "empty", "the file has no record", "predict first")
            return
        for record_id, line in expected.items():
            if record_id not in self._lines:
                seen = f"no prediction for line {line} of the inputs"
                self._add_file("rejected", "missing_id", seen, "predict every record", record_id)
        for record_id, line in self._lines.items():
            if record_id not in expected:
                self._line, self._id = line, record_id
                self._add("warning", "unknown_id", "the inputs have no such id: ignored", "remove the record")
        known = [record_id for record_id in self._lines if record_id in expected]
        if known != [record_id for record_id in expected if record_id in self._lines]:
            self._add_file("info", "order", "the order differs from the inputs'", "nothing: records are matched by id")

    def check_name(self, submission: Path, inputs: str | Path | None) -> None:
        if str(submission) == "-":
            return
        with submission.open("rb") as stream:
            if stream.read(2) == _GZIP_MAGIC:
                self._add_file("rejected", "gzipped", "the file is gzipped", "upload the plain .jsonl (gunzip)")
        if inputs is not None and str(inputs) != "-":
            wanted = submission_name(inputs)
            if submission.name != wanted:
                seen = f"the file name is {submission.name!r}, the inputs' is {wanted!r}"
                self._add_file("warning", "file_name", seen, f"rename it to {wanted}")
        elif self.dataset is None:
            seen = f"the file name {submission.name!r} is none of the leaderboard's"
            self._add_file("warning", "file_name", seen, "give it the name of the input file")

    def _check_id(self, value: dict[str, JSON]) -> None:
        raw = value.get("id")
        if isinstance(raw, bool) or not isinstance(raw, str | int) or not str(raw).strip():
            seen = f"the id is {json_type(raw)}, blank or missing" if "id" in value else "no `id`"
            self._add("rejected", "no_id", seen, "copy the id of the input record")
            return
        self._id = str(raw).strip()
        first = self._lines.setdefault(self._id, self._line)
        if first != self._line:
            self._add("rejected", "duplicate_id", f"the id was already used on line {first}", "keep one record per id")

    def _check_answer(self, element: dict[str, JSON]) -> None:
        if "answer" not in element:
            self._add("rejected", "no_answer_key", "the output has no `answer`", 'write an answer, "" if none')
            return
        answer = element["answer"]
        if isinstance(answer, str):
            if not answer.strip():
                self._add("scores zero", "empty_answer", "the answer is blank", "answer with the best guess")
        elif isinstance(answer, int | float) and not isinstance(answer, bool):
            seen = f"the answer is the number {answer}, compared as the text {str(answer)!r}"
            self._add("warning", "answer_not_text", seen, "write it as a string")
        else:
            seen = f"the answer is {json_type(answer)}, compared as the text {str(answer)!r}"
            self._add("scores zero", "answer_not_text", seen, "write the answer as a string")

    def _check_provenance(self, element: dict[str, JSON]) -> None:
        if "provenance" not in element:
            self._add(
                "scores zero", "no_provenance", "no `provenance`: KILT and retrieval scores are 0", "list the pages"
            )
            return
        entries = element["provenance"]
        if not isinstance(entries, list):
            self._add(
                "rejected", "provenance_not_list", f"`provenance` is {json_type(entries)}", "write a list of objects"
            )
            return
        pages: list[str] = []
        for position, entry in enumerate(entries, start=1):
            if not isinstance(entry, dict):
                seen = f"provenance entry {position} is {json_type(entry)}"
                self._add("rejected", "provenance_not_object", seen, 'write {"wikipedia_id": "…"}')
                continue
            if position <= WANTED_PAGES and "text" in entry and not isinstance(entry["text"], str):
                seen = f"`text` of provenance entry {position} is {json_type(entry['text'])}"
                self._add("rejected", "text_not_text", seen, "write a string or leave `text` out")
            pages.extend(self._page(position, entry))
        self._check_pages(pages)

    def _page(self, position: int, entry: dict[str, JSON]) -> Iterator[str]:
        if "wikipedia_id" not in entry:
            self._add(
                "warning",
                "no_wikipedia_id",
                f"provenance entry {position} has no `wikipedia_id` and is dropped",
                "name the page by its id",
            )
            return
        page = entry["wikipedia_id"]
        if isinstance(page, str):
            if not page.strip():
                seen = f"the `wikipedia_id` of provenance entry {position} is blank"
                self._add("scores zero", "blank_wikipedia_id", seen, "name the page by its id")
        else:
            whole = isinstance(page, int) and not isinstance(page, bool)
            not_a_number = isinstance(page, float) and not math.isfinite(page)
            kind = "not a number" if not_a_number else json_type(page)
            self._add(
                "warning" if whole else "scores zero",
                "wikipedia_id_not_text",
                f"the `wikipedia_id` of provenance entry {position} is {kind}, compared as the text {str(page)!r}",
                "write it as a string",
            )
        yield str(page).strip()

    def _check_pages(self, pages: list[str]) -> None:
        distinct = len(set(pages))
        if distinct == 0:
            self._add("scores zero", "no_pages", "no page: KILT and retrieval scores are 0", "list the pages")
            return
        if distinct < len(pages):
            seen = f"{len(pages) - distinct} of {len(pages)} pages are repeated; repeats are dropped"
            self._add("warning", "duplicate_pages", seen, "list each page once, best first")
        least = 1 if self.dataset is None else self.dataset.min_pages
        if self.dataset is not None and distinct < least:
            # Every HotpotQA claim rests on two pages; of FEVER only some, so one page can still score.
            severity: Severity = "scores zero" if self.dataset.prefix == "hotpotqa" else "warning"
            seen = f"1 distinct page, {self.dataset.name} evidence needs {least}"
            self._add(severity, "too_few_pages", seen, f"list at least {WANTED_PAGES} distinct pages")
        elif distinct < WANTED_PAGES:
            seen = f"{distinct} distinct page{'s' if distinct > 1 else ''}, recall@5 can use {WANTED_PAGES}"
            self._add("warning", "few_pages", seen, f"list at least {WANTED_PAGES} distinct pages")

    def _add(self, severity: Severity, problem: str, seen: str, remedy: str) -> None:
        self.findings.append(Finding(severity, problem, self.file, self._line, self._id, seen, remedy))

    def _add_file(self, severity: Severity, problem: str, seen: str, remedy: str, record_id: str | None = None) -> None:
        self.findings.append(Finding(severity, problem, self.file, None, record_id, seen, remedy))
