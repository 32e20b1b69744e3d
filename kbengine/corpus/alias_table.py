"""Tables of other names: one a line, the name, a tab, the document's id or title, and perhaps a tab and a prior."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kbengine.corpus.compression import CorpusFile
from kbengine.errors import CorpusError, InvalidOptionError
from storage.alias_records import AliasSource, NewAlias

_UTF8_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class AliasLine:
    """A line of a table: where it stands, the alias, and the id or title of its document, or what is wrong with it."""

    place: str
    alias: NewAlias | None
    target: str = ""
    problem: str = ""


def read_alias_table(path: Path, source: AliasSource) -> Iterator[AliasLine]:
    """Yield the lines of a table (plain, gzip or zstd; `-` is stdin) as aliases from `source`; blank ones pass.

    Raises:
        CorpusError: the file cannot be read.
    """
    with CorpusFile(path) as file:
        number = 0
        while line := file.readline():
            number += 1
            if number == 1:
                line = line.removeprefix(_UTF8_BOM)
            if not line.strip():
                continue
            place = f"{path}, line {number}"
            try:
                yield _parsed(place, line.rstrip(b"\r\n"), source)
            except (CorpusError, InvalidOptionError) as e:
                yield AliasLine(place, None, problem=e.message)


def _parsed(place: str, line: bytes, source: AliasSource) -> AliasLine:
    try:
        columns = line.decode("utf-8").split("\t")
    except UnicodeDecodeError as e:
        raise CorpusError(f"byte 0x{line[e.start]:02x} at {e.start} is not UTF-8, wanted UTF-8") from e
    if not 2 <= len(columns) <= 3:
        raise CorpusError(
            f"{len(columns)} columns, wanted 2 or 3 separated by tabs: the name, the document's id or title, its prior"
        )
    target = columns[1].strip()
    if not target:
        raise CorpusError("the second column is empty, wanted the document's id or title")
    prior = columns[2].strip() if len(columns) == 3 else ""
    try:
        number = float(prior) if prior else None
    except ValueError as e:
        raise CorpusError(f"the prior is {prior!r}, wanted a number above 0 up to 1") from e
    return AliasLine(place, NewAlias(columns[0], source, number), target)
