"""Typed reading of KILT task records, gold records and submissions.

Three readers for three needs: `read_inputs` (what is predicted from; never shows gold answers), `read_gold` and
`read_guess` (what is scored). Each yields `TaskRecord`s and names a bad line by file, line and remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from adapters.errors import RecordError
from adapters.kilt.lines import JSON, json_type, read_lines


@dataclass(frozen=True, slots=True)
class Provenance:
    """One evidence entry, with exactly the fields the file has: the evaluator cares which keys exist."""

    fields: Mapping[str, JSON]

    def key(self, rank_keys: Sequence[str]) -> str | None:
        """Return the values of all rank keys joined by `+`, or None when one is missing."""
        for name in rank_keys:
            if name not in self.fields:
                return None
        return self.partial_key(rank_keys)

    def partial_key(self, rank_keys: Sequence[str]) -> str:
        """Return the values of those rank keys that exist, joined by `+`; compared as text, so 1 equals `"1"`."""
        return "+".join([str(self.fields[name]).strip() for name in rank_keys if name in self.fields])


@dataclass(frozen=True, slots=True)
class Output:
    """One output element; an absent key and an empty value are different things to the evaluator."""

    answer: JSON = None
    provenance: tuple[Provenance, ...] = ()
    has_answer: bool = False
    has_provenance: bool = False


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """One record; `id` is what the evaluator compares, `raw_id` what the file holds and a submission echoes."""

    id: str
    raw_id: str | int
    input: str
    outputs: tuple[Output, ...]
    file: str
    line: int
    meta: Mapping[str, JSON] = field(default_factory=dict)

    def answers(self) -> frozenset[str]:
        """Return the distinct gold answers, stripped, blank ones left out."""
        texts = (output.answer for output in self.outputs)
        return frozenset(text.strip() for text in texts if isinstance(text, str) and text.strip())

    def titles(self) -> frozenset[str]:
        """Return the distinct gold page titles, stripped, blank ones left out."""
        titles = (entry.fields.get("title") for output in self.outputs for entry in output.provenance)
        return frozenset(title.strip() for title in titles if isinstance(title, str) and title.strip())

    def error(self, seen: str, problem: str, remedy: str) -> RecordError:
        """Return an error about this record, with its file, line and id filled in."""
        return RecordError(seen, problem, remedy, file=self.file, line=self.line, record_id=self.id)


def read_inputs(path: str | Path, *, refuse: Callable[[RecordError], None] | None = None) -> Iterator[TaskRecord]:
    """Records to predict from, in file order; outputs are dropped, so gold answers cannot leak into predictions.

    Args:
        path: JSONL, plain or gzipped; `-` is standard input.
        refuse: called with the error of a bad record, which is then skipped; without it the error is raised.
    """
    return _read(path, _input_record, refuse)


def read_gold(path: str | Path, *, refuse: Callable[[RecordError], None] | None = None) -> Iterator[TaskRecord]:
    """Gold records in file order; an absent `input` is the empty text."""
    return _read(path, _gold_record, refuse)


def read_guess(path: str | Path, *, refuse: Callable[[RecordError], None] | None = None) -> Iterator[TaskRecord]:
    """Records of a submission in file order; only `id` and `output` are looked at."""
    return _read(path, _guess_record, refuse)


def read_ids(path: str | Path) -> dict[str, int]:
    """Return the id of every record of a file, in order, with its line; nothing but `id` is looked at."""
    return {record.id: record.line for record in _read(path, lambda fields: fields.record("", ()), None)}


def _read(
    path: str | Path,
    parse: Callable[[_Fields], TaskRecord],
    refuse: Callable[[RecordError], None] | None,
) -> Iterator[TaskRecord]:
    file = str(path)
    first_lines: dict[str, int] = {}
    for line in read_lines(path):
        try:
            if line.error is not None:
                raise line.error
            record = parse(_Fields(line.value or {}, file, line.number))
            first = first_lines.setdefault(record.id, line.number)
            if first != line.number:
                raise record.error(f"the id was already used on line {first}", "duplicate_id", "keep one record per id")
        except RecordError as error:
            if refuse is None:
                raise
            refuse(error)
        else:
            yield record


def _input_record(fields: _Fields) -> TaskRecord:
    text = fields.input(default=None)
    if not text.strip():
        raise fields.error("the input is blank", "blank_input", "give the text to answer")
    meta = fields.value.get("meta")
    return fields.record(text, (), meta if isinstance(meta, dict) else {})


def _gold_record(fields: _Fields) -> TaskRecord:
    record = fields.record(fields.input(default=""), fields.outputs())
    if not record.outputs:
        raise fields.error("`output` is empty", "no_gold", "score against a file that holds the gold outputs")
    for output in record.outputs:
        # Falsy answers and titles of any type are skipped by the official evaluator, others must be texts.
        if output.answer and not isinstance(output.answer, str):
            raise fields.error(
                f"the gold answer {output.answer!r} is {json_type(output.answer)}",
                "answer_not_text",
                "write it as a string",
            )
        for entry in output.provenance:
            title = entry.fields.get("title")
            if title and not isinstance(title, str):
                raise fields.error(
                    f"the gold title {title!r} is {json_type(title)}", "title_not_text", "write it as a string"
                )
    return record


def _guess_record(fields: _Fields) -> TaskRecord:
    return fields.record("", fields.outputs())


class _Fields:
    """One parsed line on its way to a TaskRecord; its methods raise errors that name the place."""

    def __init__(self, value: dict[str, JSON], file: str, line: int) -> None:
        self.value = value
        self.file = file
        self.line = line

    def error(self, seen: str, problem: str, remedy: str) -> RecordError:
        raw = self.value.get("id")
        record_id = str(raw).strip() if isinstance(raw, str | int) else None
        return RecordError(seen, problem, remedy, file=self.file, line=self.line, record_id=record_id)

    def record(self, text: str, outputs: tuple[Output, ...], meta: Mapping[str, JSON] | None = None) -> TaskRecord:
        raw_id = self.raw_id()
        return TaskRecord(str(raw_id).strip(), raw_id, text, outputs, self.file, self.line, meta or {})

    def raw_id(self) -> str | int:
        if "id" not in self.value:
            raise self.error("no `id`", "no_id", "give every record a unique id")
        raw = self.value["id"]
        if isinstance(raw, bool) or not isinstance(raw, str | int):
            raise self.error(f"the id is {json_type(raw)}", "bad_id", "use a string or a whole number")
        if not str(raw).strip():
            raise self.error("the id is blank", "bad_id", "give every record a unique id")
        return raw

    def input(self, *, default: str | None) -> str:
        text = self.value.get("input", default)
        if "input" not in self.value and default is None:
            raise self.error("no `input`", "no_input", "give the text to answer as `input`")
        if not isinstance(text, str):
            raise self.error(f"`input` is {json_type(text)}", "input_not_text", "write it as a string")
        return text

    def outputs(self) -> tuple[Output, ...]:
        if "output" not in self.value:
            raise self.error("no `output`", "no_output", "scoring needs `output`; files of test inputs have none")
        elements = self.value["output"]
        if not isinstance(elements, list):
            raise self.error(f"`output` is {json_type(elements)}", "output_not_list", "write a list of objects")
        return tuple(self._output(element) for element in elements)

    def _output(self, element: JSON) -> Output:
        if not isinstance(element, dict):
            raise self.error(f"an output element is {json_type(element)}", "output_not_object", "write an object")
        if "provenance" not in element:
            return Output(element.get("answer"), (), "answer" in element, False)
        entries = element["provenance"]
        if not isinstance(entries, list):
            raise self.error(
                f"`provenance` is {json_type(entries)}",
                "provenance_not_list",
                "write a list, empty if there is no page",
            )
        provenance: list[Provenance] = []
        for entry in entries:
            if not isinstance(entry, dict):
                raise self.error(
                    f"a provenance entry is {json_type(entry)}", "provenance_not_object", 'write {"wikipedia_id": "…"}'
                )
            provenance.append(Provenance(entry))
        return Output(element.get("answer"), tuple(provenance), "answer" in element, True)
