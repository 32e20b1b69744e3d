"""Telling the format of a corpus from what is in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from kbengine.corpus.compression import STDIN_NAME, CorpusFile
from kbengine.corpus.dpr import COLUMNS
from kbengine.corpus.folder import DOCUMENT_KINDS, is_book_name, is_text_name
from kbengine.corpus.jsonl import parse_object
from kbengine.errors import CorpusError, EmptyCorpusError

CorpusFormat: TypeAlias = Literal["kilt", "densephrases", "dpr", "beir", "kbengine", "plain", "folder"]
FORMATS: Final[tuple[CorpusFormat, ...]] = get_args(CorpusFormat)

_HEAD_BYTES: Final = 1 << 22
_LINES_TRIED: Final = 20
_DATA_KEY: Final = re.compile(rb'"data"\s*:\s*\[')
_KEY: Final = re.compile(rb'[{,]\s*"([\w ]{1,40})"\s*:')

_WANTED: Final = (
    "wanted 'wikipedia_title' (kilt), 'data' (densephrases), '_id' and 'text' (beir), 'doc_id' and 'passages' "
    "(kbengine), 'id', 'title' and 'text' (plain), a header of id, text, title (dpr), or a "
    f"{DOCUMENT_KINDS}; if it is one of these, name it with --format"
)


def detect_format(path: Path) -> CorpusFormat:
    """Return the format of a file or folder, by its content; CorpusError that lists the formats if it is none.

    Only the beginning is read, so a pipe cannot be examined: its format has to be named.
    """
    if path.is_dir():
        return "folder"
    if str(path) == STDIN_NAME or not path.is_file():
        what = "standard input" if str(path) == STDIN_NAME else f"{path}: not a regular file, so it"
        raise CorpusError(f"{what} cannot be examined twice; name its format with --format {'|'.join(FORMATS)}")
    if is_book_name(path):
        return "folder"
    with CorpusFile(path) as file:
        head = file.read(_HEAD_BYTES).removeprefix(b"\xef\xbb\xbf")
    if not head.strip() and not is_text_name(path):
        raise EmptyCorpusError(f"{path}: the file is empty, wanted documents")
    found = _json_format(head) if head.lstrip().startswith(b"{") else _table_format(head)
    if found is not None:
        return found
    if is_text_name(path):
        return "folder"
    raise CorpusError(f"{path}: {_seen(head)}; {_WANTED}")


def _json_format(head: bytes) -> CorpusFormat | None:
    lines = [line for line in head.split(b"\n") if line.strip()]
    for line in lines[:_LINES_TRIED]:
        try:
            found = _record_format(parse_object(line))
        except CorpusError:
            continue
        if found is not None:
            return found
    if _DATA_KEY.search(head[: 1 << 16]):
        return "densephrases"
    # A first line longer than the head: the names of its first keys have to do.
    return _record_format({key.decode(): None for key in _KEY.findall(lines[0])})


def _record_format(record: Mapping[str, object]) -> CorpusFormat | None:
    if "doc_id" in record and "passages" in record:
        return "kbengine"
    if "wikipedia_title" in record or ("wikipedia_id" in record and "text" in record):
        return "kilt"
    if "_id" in record and "text" in record:
        return "beir"
    if "id" in record and "title" in record and "text" in record:
        return "plain"
    return "densephrases" if "data" in record else None


def _table_format(head: bytes) -> CorpusFormat | None:
    header = head.partition(b"\n")[0].decode("utf-8", "replace").strip("\r").split("\t")
    return "dpr" if set(COLUMNS) <= {name.strip('"') for name in header} else None


def _seen(head: bytes) -> str:
    line = head.lstrip().partition(b"\n")[0]
    try:
        return f"the first record has the keys {', '.join(map(repr, list(parse_object(line))[:8]))}"
    except CorpusError:
        return f"the file begins with {line[:40].decode('utf-8', 'replace')!r}"
