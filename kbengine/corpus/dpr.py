"""The passages of DPR (psgs_w100.tsv): `id`, `text`, `title` in tab-separated columns under a header."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kbengine.corpus.compression import CorpusFile
from kbengine.corpus.document import CorpusDocument, Record, paragraph_passages
from kbengine.corpus.fields import decoded
from kbengine.errors import CorpusError
from storage.records import JSON

COLUMNS = ("id", "text", "title")

# A run of rows of one title is one document; this bounds it where a title column says nothing.
MAX_ROWS = 1000

# How far the closing quote of a quoted field is looked for.
_MAX_ROW_LINES = 200

# A quoted field up to the tab or the end of the row; a quote inside is doubled.
_QUOTED = re.compile(r'"([^"]*+(?:""[^"]*+)*+)"(?:\t|\Z)')
_OPEN_QUOTED = re.compile(r'"[^"]*+(?:""[^"]*+)*+\Z')


@dataclass(frozen=True, slots=True)
class _Row:
    last_line: int
    bytes_read: int
    dpr_id: str
    text: str
    title: str


def dpr_records(file: CorpusFile) -> Iterator[Record]:
    """Yield one document a run of rows with the same title: its `doc_id` is the id of the first row.

    Passages are numbered from 1; `meta["dpr_ids"]` holds the rows' ids in that order. A run ends at another
    title, at a bad row and after 1,000 rows; a row without a title is a document of its own.
    """
    run: list[_Row] = []
    for row in _rows(file):
        if run and (isinstance(row, Record) or row.title != run[0].title or not row.title or len(run) == MAX_ROWS):
            yield _record(run)
            run = []
        if isinstance(row, Record):
            yield row
        else:
            run.append(row)
    if run:
        yield _record(run)


def split_row(text: str) -> list[str] | None:
    """Return the fields of one row without its line end, quotes removed; None if a quoted field is still open."""
    if '"' not in text:
        return text.split("\t")
    fields: list[str] = []
    start = 0
    while True:
        if text.startswith('"', start):
            quoted = _QUOTED.match(text, start)
            if quoted is None:
                if _OPEN_QUOTED.match(text, start):
                    return None
                raise CorpusError(
                    f"column {len(fields) + 1} begins with a quote and has another inside that is not doubled"
                )
            fields.append(quoted[1].replace('""', '"'))
            if not quoted[0].endswith("\t"):
                return fields
            start = quoted.end()
        else:
            end = text.find("\t", start)
            if end < 0:
                return [*fields, text[start:]]
            fields.append(text[start:end])
            start = end + 1


def _record(run: list[_Row]) -> Record:
    passages = tuple(part for ordinal, row in enumerate(run, 1) for part in paragraph_passages(ordinal, row.text))
    number, bytes_read = run[-1].last_line, run[-1].bytes_read
    try:
        meta: dict[str, JSON] = {"dpr_ids": [row.dpr_id for row in run]}
        document = CorpusDocument(run[0].dpr_id, run[0].title, meta=meta, passages=passages)
    except CorpusError as e:
        return Record(number, bytes_read, problem=e.message)
    return Record(number, bytes_read, document)


def _rows(file: CorpusFile) -> Iterator[_Row | Record]:
    lines = _Lines(file)
    order = _column_order(file, lines)
    while (numbered := lines.next()) is not None:
        number, line = numbered
        if line.isspace():
            continue
        try:
            fields = _whole_row(line, lines)
            if len(fields) != len(order):
                raise CorpusError(f"the row has {len(fields)} columns, wanted {len(order)} as in the header")
            by_name = dict(zip(order, fields, strict=True))
            if not by_name["id"].strip():
                raise CorpusError("the id is blank, wanted an id")
            for name in COLUMNS:
                if "\x00" in by_name[name]:
                    raise CorpusError(f"the {name} holds a NUL character, wanted text")
        except CorpusError as e:
            yield Record(number, file.bytes_read, problem=e.message)
        else:
            yield _Row(lines.number, file.bytes_read, by_name["id"], by_name["text"], by_name["title"])


def _column_order(file: CorpusFile, lines: _Lines) -> list[str]:
    first = lines.next()
    if first is None:
        return []
    try:
        header = _whole_row(first[1].removeprefix(b"\xef\xbb\xbf"), lines)
    except CorpusError as e:
        raise CorpusError(f"{file.name}, line 1: {e.message}") from e
    if not set(COLUMNS) <= set(header) or len(set(header)) < len(header):
        raise CorpusError(
            f"{file.name}, line 1: the columns are {header[:5]!r}, wanted a header with id, text and title, "
            "tab-separated; add it"
        )
    return header


def _whole_row(line: bytes, lines: _Lines) -> list[str]:
    """Return the fields of the row that begins on this line; a quoted field may go on over the next lines."""
    more: list[bytes] = []
    try:
        while (fields := split_row(decoded(b"".join([line, *more])).rstrip("\r\n"))) is None:
            # The row can only end on a line that has a quote.
            while (following := lines.next()) is not None:
                more.append(following[1])
                if b'"' in following[1] or len(more) >= _MAX_ROW_LINES:
                    break
            if following is None or len(more) >= _MAX_ROW_LINES:
                raise CorpusError("a quoted field is never closed; wanted a closing quote before the next tab")
    except CorpusError:
        lines.put_back(more)  # only the first line is at fault for certain
        raise
    return fields


class _Lines:
    """The lines of a file with their numbers, and the means to give some back."""

    def __init__(self, file: CorpusFile) -> None:
        self._file = file
        self._returned: list[bytes] = []
        self.number = 0

    def next(self) -> tuple[int, bytes] | None:
        line = self._returned.pop() if self._returned else self._file.readline()
        if not line:
            return None
        self.number += 1
        return self.number, line

    def put_back(self, lines: list[bytes]) -> None:
        self._returned.extend(reversed(lines))
        self.number -= len(lines)
