"""Checks of a submission before it is uploaded."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from adapters.errors import RecordError
from adapters.kilt.lint import LintReport, lint
from adapters.kilt.report import lint_text
from adapters.kilt.submission import Prediction, SubmissionWriter
from adapters.tasks.provenance import PageProvenance

JsonRecord = dict[str, object]
WriteJsonl = Callable[[str, Iterable[JsonRecord]], Path]

INPUTS = "trex-test_without_answers-kilt.jsonl"
FIVE = [{"wikipedia_id": str(page)} for page in range(5)]


def prediction(answer: object = "Ulm", provenance: object = FIVE, id: object = 1) -> JsonRecord:
    """A record that is fine unless told otherwise."""
    return {"id": id, "output": [{"answer": answer, "provenance": provenance}]}


@pytest.fixture
def run(write_jsonl: WriteJsonl, tmp_path: Path) -> Callable[..., LintReport]:
    """A function that lints records against inputs with ids 1 … n."""

    def lint_records(*records: JsonRecord, inputs: str = INPUTS, n: int = 1) -> LintReport:
        (tmp_path / "out").mkdir(exist_ok=True)
        task = write_jsonl(inputs, ({"id": number, "input": "x"} for number in range(1, n + 1)))
        return lint(write_jsonl(f"out/{inputs}", records), task)

    return lint_records


def found(report: LintReport) -> list[tuple[str, str]]:
    """Severity and problem of each finding."""
    return [(finding.severity, finding.problem) for finding in report.findings]


def test_a_good_submission_has_no_findings(run: Callable[..., LintReport]) -> None:
    """Every id once, one answer, five pages, the right name."""
    report = run(prediction())
    assert found(report) == []
    assert report.accepted and report.clean
    assert (report.n_records, report.n_inputs) == (1, 1)


@pytest.mark.parametrize(
    ("record", "findings"),
    [
        ({"output": [{"answer": "x", "provenance": FIVE}]}, [("rejected", "no_id"), ("rejected", "missing_id")]),
        ({"id": 1}, [("rejected", "no_output")]),
        ({"id": 1, "output": None}, [("rejected", "no_output")]),
        ({"id": 1, "output": []}, [("rejected", "not_one_output")]),
        ({"id": 1, "output": [{"answer": "x", "provenance": FIVE}] * 2}, [("rejected", "not_one_output")]),
        ({"id": 1, "output": ["x"]}, [("rejected", "output_not_object")]),
        ({"id": 1, "output": [{"provenance": FIVE}]}, [("rejected", "no_answer_key")]),
        ({"id": 1, "output": [{"answer": "x"}]}, [("scores zero", "no_provenance")]),
        (prediction(answer=" "), [("scores zero", "empty_answer")]),
        (prediction(answer=None), [("scores zero", "answer_not_text")]),
        (prediction(answer=["Ulm"]), [("scores zero", "answer_not_text")]),
        (prediction(answer=5), [("warning", "answer_not_text")]),
        (prediction(provenance=None), [("rejected", "provenance_not_list")]),
        (prediction(provenance={"wikipedia_id": "5"}), [("rejected", "provenance_not_list")]),
        (prediction(provenance=["5", *FIVE]), [("rejected", "provenance_not_object")]),
        (prediction(provenance=[]), [("scores zero", "no_pages")]),
        (prediction(provenance=[{"title": "Ulm"}]), [("warning", "no_wikipedia_id"), ("scores zero", "no_pages")]),
        (prediction(provenance=FIVE[:4]), [("warning", "few_pages")]),
        (prediction(provenance=FIVE[:1]), [("warning", "few_pages")]),
        (prediction(provenance=[*FIVE, FIVE[0]]), [("warning", "duplicate_pages")]),
        (prediction(provenance=[{"wikipedia_id": 9}, *FIVE]), [("warning", "wikipedia_id_not_text")]),
        (prediction(provenance=[{"wikipedia_id": 9.0}, *FIVE]), [("scores zero", "wikipedia_id_not_text")]),
        (prediction(provenance=[{"wikipedia_id": None}, *FIVE]), [("scores zero", "wikipedia_id_not_text")]),
        (prediction(provenance=[{"wikipedia_id": " "}, *FIVE]), [("scores zero", "blank_wikipedia_id")]),
        (prediction(provenance=[{"wikipedia_id": "9", "text": None}, *FIVE]), [("rejected", "text_not_text")]),
        (prediction(provenance=[*FIVE, {"wikipedia_id": "9", "text": None}]), []),
        (prediction(provenance=[{"wikipedia_id": "9", "score": float("nan")}, *FIVE]), [("warning", "nan")]),
        (
            prediction(provenance=[{"wikipedia_id": float("nan")}, *FIVE]),
            [("warning", "nan"), ("scores zero", "wikipedia_id_not_text")],
        ),
    ],
)
def test_each_problem_is_found_with_its_severity(
    run: Callable[..., LintReport], record: JsonRecord, findings: list[tuple[str, str]]
) -> None:
    """One spoiled record, exactly these findings, at line 1."""
    report = run(record)
    assert found(report) == findings
    for finding in report.findings:
        assert finding.line == (None if finding.problem == "missing_id" else 1)
        assert finding.remedy


@pytest.mark.parametrize(
    ("inputs", "severity"), [("hotpotqa-dev-kilt.jsonl", "scores zero"), ("fever-dev-kilt.jsonl", "warning")]
)
def test_one_page_is_too_few_where_evidence_has_two(run: Callable[..., LintReport], inputs: str, severity: str) -> None:
    """HotpotQA always needs two pages, FEVER sometimes."""
    assert found(run(prediction(provenance=FIVE[:1]), inputs=inputs)) == [(severity, "too_few_pages")]


def test_ids_are_checked_against_the_inputs(run: Callable[..., LintReport]) -> None:
    """Missing, repeated and unknown ids; a different order is only mentioned."""
    report = run(prediction(id=" 3 "), prediction(id="1"), prediction(id=1), prediction(id=9), n=3)
    assert found(report) == [
        ("rejected", "duplicate_id"),
        ("rejected", "missing_id"),
        ("warning", "unknown_id"),
        ("info", "order"),
    ]
    assert [(finding.id, finding.line) for finding in report.findings] == [
        ("1", 3),
        ("2", None),
        ("9", 4),
        (None, None),
    ]
    assert not report.accepted


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"\n", "blank_line"),
        (b"{\n", "broken_json"),
        (b"[]\n", "not_an_object"),
        (b'{"id": "\xff"}\n', "wrong_encoding"),
    ],
)
def test_a_broken_line_is_a_finding_and_the_others_are_still_checked(tmp_path: Path, line: bytes, problem: str) -> None:
    """The linter reports all, it does not stop at the first."""
    good, bad = (json.dumps(prediction(answer=answer, id=answer)).encode() + b"\n" for answer in ("x", " "))
    path = tmp_path / "guess.jsonl"
    path.write_bytes(good + line + bad)
    report = lint(path)
    assert [(finding.problem, finding.line) for finding in report.findings[:2]] == [(problem, 2), ("no_id", 3)]
    assert report.findings[0].severity == "rejected"


def test_a_submission_with_another_name_or_gzipped_is_found(write_jsonl: WriteJsonl, tmp_path: Path) -> None:
    """The leaderboard goes by the basename of the inputs and takes no archives."""
    task = write_jsonl(INPUTS, [{"id": 1, "input": "x"}])
    packed = tmp_path / "out.jsonl.gz"
    packed.write_bytes(gzip.compress(json.dumps(prediction()).encode() + b"\n"))
    report = lint(packed, task)
    assert found(report) == [("rejected", "gzipped"), ("warning", "file_name")]
    assert report.findings[1].remedy == f"rename it to {INPUTS}"


def test_without_inputs_ids_are_left_unchecked_and_said_so(write_jsonl: WriteJsonl) -> None:
    """The report does not look cleaner than it is."""
    assert found(lint(write_jsonl(INPUTS, [prediction()]))) == [("info", "ids_unchecked")]
    assert found(lint(write_jsonl("empty.jsonl", []))) == [
        ("info", "ids_unchecked"),
        ("rejected", "empty"),
        ("warning", "file_name"),
    ]


def test_broken_inputs_are_an_error_not_a_finding(write_jsonl: WriteJsonl) -> None:
    """What is checked against must itself be whole."""
    task = write_jsonl(INPUTS, [{"id": 1}, {"id": 1}])
    with pytest.raises(RecordError, match="already used on line 1"):
        lint(write_jsonl("guess.jsonl", [prediction()]), task)


def test_the_report_groups_findings_and_gives_a_verdict(run: Callable[..., LintReport]) -> None:
    """The worst first, a few examples of each, a one-line summary."""
    report = run(*(prediction(provenance=FIVE[:2], id=number) for number in range(1, 6)), n=6)
    text = lint_text(report)
    assert text.index("rejected: missing_id (1)") < text.index("warning: few_pages (5)")
    assert "… and 2 more" in text
    assert text.endswith("5 records for 6 inputs: would be rejected (1 rejected, 5 warning)")
    assert "id '1': 2 distinct pages, recall@5 can use 5; list at least 5 distinct pages" in text
    assert lint_text(report, examples=None).count("few_pages") == 1


def test_what_the_writer_writes_is_clean(write_jsonl: WriteJsonl, tmp_path: Path) -> None:
    """Writer and linter agree on what a submission is."""
    task = write_jsonl(INPUTS, ({"id": number, "input": "x"} for number in range(20)))
    (tmp_path / "out").mkdir()
    pages = tuple(PageProvenance(str(page), title=f"T{page}") for page in (3, 3, 1, 4, 5, 9))
    with SubmissionWriter(tmp_path / "out" / INPUTS) as writer:
        writer.write(Prediction(number, "Ulm", pages) for number in range(20))
        path = writer.finish()
    assert found(lint(path, task)) == []
