"""Tables of other names: one a line, the name, a tab, the document's id or title, and perhaps a tab and a prior."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kbengine.corpus.compression import CorpusFile
from kbengine.corpus.fields import decoded
from kbengine.errors import CorpusError, InvalidOptionError
from storage.alias_records import AliasSource, NewAlias


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
        for number, line in file.lines():
            if not line.strip():
                continue
            place = f"{path}, line {number}"
            try:
                yield _parsed(place, line.rstrip(b"\r\n"), source)
            except (CorpusError, InvalidOptionError) as e:
                yield AliasLine(place, None, problem=e.message)


def _parsed(place: str, line: bytes, source: AliasSource) -> AliasLine:
    columns = decoded(line).split("\t")
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
