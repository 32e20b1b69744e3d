"""Reading KILT files, the broken ones too."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path

import pytest

from adapters.errors import RecordError
from adapters.kilt.datasets import dataset_of, submission_name
from adapters.kilt.records import read_gold, read_guess, read_ids, read_inputs

GOOD = b'{"id": 1, "input": "where is Ulm"}\n'


def write(path: Path, data: bytes) -> Path:
    """The path of a file with these bytes."""
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("compress", [False, True])
def test_records_are_read_plain_or_gzipped(tmp_path: Path, compress: bool) -> None:
    """Compression is told by the first bytes, not by the name."""
    data = GOOD + b'{"id": "b", "input": "x", "meta": {"k": 1}, "output": [{"answer": "secret"}]}'
    path = write(tmp_path / "any.name", gzip.compress(data) if compress else data)
    first, second = read_inputs(path)
    assert (first.id, first.raw_id, first.input, first.line) == ("1", 1, "where is Ulm", 1)
    assert (second.id, second.raw_id, second.meta, second.line) == ("b", "b", {"k": 1}, 2)


def test_inputs_never_show_gold_answers(tmp_path: Path) -> None:
    """A prediction made from a development file cannot see its outputs."""
    path = write(tmp_path / "dev.jsonl", b'{"id": 1, "input": "x", "output": [{"answer": "secret"}]}\n')
    assert [record.outputs for record in read_inputs(path)] == [()]


def test_newlines_are_universal_and_nothing_else_ends_a_line(tmp_path: Path) -> None:
    r"""CR, LF and CRLF end lines; raw U+2028, U+0085 and U+000B inside strings do not."""
    texts = ["a\u2028b", "c\u0085d", "e"]
    lines = [json.dumps({"id": number, "input": text}, ensure_ascii=False) for number, text in enumerate(texts)]
    path = write(tmp_path / "mixed.jsonl", f"{lines[0]}\r\n{lines[1]}\r{lines[2]}\n".encode())
    assert [record.input for record in read_inputs(path)] == texts
    assert [record.line for record in read_inputs(path)] == [1, 2, 3]


def test_standard_input_is_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` reads the process's standard input and leaves it open."""
    stream = io.TextIOWrapper(io.BytesIO(GOOD))
    monkeypatch.setattr(sys, "stdin", stream)
    assert [record.id for record in read_inputs("-")] == ["1"]
    assert not stream.buffer.closed


@pytest.mark.parametrize(
    ("line", "problem", "seen", "remedy"),
    [
        (b"\n", "blank_line", "blank line", "delete it"),
        (b'{"id": 2, "input": "x"\n', "broken_json", "broken JSON: .* at character", "one complete JSON object"),
        (b"[" * 100_000 + b"\n", "broken_json", "broken JSON", "jq -c"),
        (b'[{"id": 2}]\n', "not_an_object", "an array where an object", "jq -c"),
        (b"7\n", "not_an_object", "a number where an object", "one JSON object a line"),
        (b'{"id": 2, "input": "M\xfcnchen"}\n', "wrong_encoding", "byte 0xfc at character 22 is not UTF-8", "iconv"),
        (GOOD.decode().replace("1", "2").encode("utf-16-le"), "wrong_encoding", "NUL byte", "UTF-16"),
        (b'{"input": "x"}\n', "no_id", "no `id`", "unique id"),
        (b'{"id": null, "input": "x"}\n', "bad_id", "the id is null", "a string or a whole number"),
        (b'{"id": 1.5, "input": "x"}\n', "bad_id", "the id is a number", "a string or a whole number"),
        (b'{"id": " ", "input": "x"}\n', "bad_id", "the id is blank", "unique id"),
        (b'{"id": 2}\n', "no_input", "no `input` \\(id '2'\\)", "the text to answer"),
        (b'{"id": 2, "input": ["x"]}\n', "input_not_text", "`input` is an array", "as a string"),
        (b'{"id": 2, "input": " \\t"}\n', "blank_input", "the input is blank", "the text to answer"),
        (b'{"id": " 1", "input": "x"}\n', "duplicate_id", "already used on line 1 \\(id '1'\\)", "one record per id"),
        (b'{"id": ' + b"9" * 5000 + b', "input": "x"}\n', "broken_json", "broken JSON: Exceeds the limit", "JSON"),
    ],
)
def test_a_bad_line_is_named_with_file_line_and_remedy(
    tmp_path: Path, line: bytes, problem: str, seen: str, remedy: str
) -> None:
    """The second line is bad; the error says so and what to do."""
    path = write(tmp_path / "in.jsonl", GOOD + line)
    with pytest.raises(RecordError, match=rf"in\.jsonl:2: .*{seen}.*; .*{remedy}") as caught:
        list(read_inputs(path))
    assert (caught.value.problem, caught.value.line, caught.value.exit_code) == (problem, 2, 1)


def test_a_byte_order_mark_is_named(tmp_path: Path) -> None:
    """The official reader dies on it, so it is no record."""
    path = write(tmp_path / "in.jsonl", b"\xef\xbb\xbf" + GOOD)
    with pytest.raises(RecordError, match=r"in\.jsonl:1: starts with a byte order mark; .*without BOM"):
        list(read_inputs(path))


def test_a_utf_16_file_is_named_as_such(tmp_path: Path) -> None:
    """The remedy names the encoding's converter."""
    path = write(tmp_path / "in.jsonl", GOOD.decode().encode("utf-16"))
    with pytest.raises(RecordError, match=r"in\.jsonl:1: wrong encoding: byte 0xff at character 1 .*UTF-16"):
        list(read_inputs(path))


@pytest.mark.parametrize("cut", [15, 40])
def test_a_damaged_gzip_stream_is_named(tmp_path: Path, cut: int) -> None:
    """A download cut off in the middle is not a short file."""
    packed = gzip.compress(b"".join(b'{"id": %d, "input": "x"}\n' % number for number in range(9)))
    path = write(tmp_path / "in.jsonl.gz", packed[:cut])
    with pytest.raises(RecordError, match=r"gzip stream is damaged or cut off.*; check it with `gzip -t`"):
        list(read_inputs(path))


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    """No traceback for a wrong path."""
    for path in (tmp_path / "absent.jsonl", tmp_path):
        with pytest.raises(RecordError, match="cannot be read"):
            list(read_inputs(path))


def test_refused_records_are_reported_and_the_others_read(tmp_path: Path) -> None:
    """With `refuse`, bad lines go to the caller and reading goes on."""
    path = write(
        tmp_path / "in.jsonl",
        GOOD + b"{\n" + b'{"id": 3}\n' + b'{"id": 1, "input": "again"}\n' + b'{"id": 4, "input": "y"}',
    )
    refused: list[RecordError] = []
    assert [record.id for record in read_inputs(path, refuse=refused.append)] == ["1", "4"]
    assert [(error.line, error.problem) for error in refused] == [
        (2, "broken_json"),
        (3, "no_input"),
        (4, "duplicate_id"),
    ]
    assert refused[1].record_id == "3"


def test_a_record_refused_for_its_input_does_not_use_up_its_id(tmp_path: Path) -> None:
    """Only records that were read count as earlier uses of an id."""
    path = write(tmp_path / "in.jsonl", b'{"id": 1}\n' + GOOD)
    assert [record.line for record in read_inputs(path, refuse=lambda _: None)] == [2]


def test_a_megabyte_of_input_is_read(tmp_path: Path) -> None:
    """There is no limit on a line."""
    text = "word " * 200_000
    path = write(tmp_path / "in.jsonl", json.dumps({"id": 1, "input": text}).encode())
    assert next(iter(read_inputs(path))).input == text


def test_ids_of_a_file_are_read_without_its_inputs(tmp_path: Path) -> None:
    """Only `id` is looked at, and its line kept."""
    assert read_ids(write(tmp_path / "ids", b'{"id": "a"}\n{"id": 2}\n')) == {"a": 1, "2": 2}


def test_gold_keeps_what_the_evaluator_needs(tmp_path: Path) -> None:
    """Answers and titles are stripped and distinct, falsy ones skipped; key presence is kept."""
    record = {
        "id": 1,
        "output": [
            {"answer": " Ulm ", "provenance": [{"wikipedia_id": 5, "title": " Ulm "}, {"title": None}]},
            {"answer": "Ulm"},
            {"answer": ""},
            {"answer": None, "provenance": []},
        ],
    }
    (gold,) = read_gold(write(tmp_path / "gold", json.dumps(record).encode()))
    assert (gold.answers(), gold.titles(), gold.input) == ({"Ulm"}, {"Ulm"}, "")
    assert [output.has_provenance for output in gold.outputs] == [True, False, False, True]


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("x", "output_not_list"),
        (["x"], "output_not_object"),
        ([{"provenance": {}}], "provenance_not_list"),
        ([{"provenance": ["5"]}], "provenance_not_object"),
    ],
)
def test_a_guess_of_the_wrong_shape_is_named(tmp_path: Path, output: object, problem: str) -> None:
    """Each level says what it is and what is wanted."""
    path = write(tmp_path / "guess", json.dumps({"id": 1, "output": output}).encode())
    with pytest.raises(RecordError, match=r"guess:1: .*\(id '1'\); write") as caught:
        list(read_guess(path))
    assert caught.value.problem == problem


def test_a_gold_title_that_is_no_text_is_named(tmp_path: Path) -> None:
    """The official evaluator dies on it."""
    record = {"id": 1, "output": [{"provenance": [{"title": 7}]}]}
    with pytest.raises(RecordError, match="the gold title 7 is a number"):
        list(read_gold(write(tmp_path / "gold", json.dumps(record).encode())))


@pytest.mark.parametrize(
    ("name", "prefix", "metric"),
    [
        ("trex-test_without_answers-kilt.jsonl", "trex", "accuracy"),
        ("/data/wow-dev-kilt.jsonl.gz", "wow", "f1"),
        ("structured_zeroshot-train-kilt.jsonl", "structured_zeroshot", "accuracy"),
        ("nq-dev.jsonl", None, None),
        ("my-questions.jsonl", None, None),
    ],
)
def test_a_data_set_is_known_by_its_file_name(name: str, prefix: str | None, metric: str | None) -> None:
    """Conventional names of test, development and training files."""
    dataset = dataset_of(name)
    assert (dataset and dataset.prefix, dataset and dataset.metric) == (prefix, metric)


def test_a_submission_is_named_like_its_inputs() -> None:
    """The basename, without .gz: submissions are plain."""
    assert submission_name("/data/trex-test_without_answers-kilt.jsonl.gz") == "trex-test_without_answers-kilt.jsonl"
