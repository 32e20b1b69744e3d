"""A list of document ids in a file: the pages to leave out of training."""

from __future__ import annotations

from pathlib import Path

from kbengine.corpus.compression import CorpusFile
from kbengine.errors import CorpusError


def read_page_list(path: str | Path) -> frozenset[str]:
    """Return the document ids in a file, one a line; blank lines count for nothing.

    Raises:
        CorpusError: the file cannot be read, is not UTF-8 text, or names no id.
    """
    ids: set[str] = set()
    with CorpusFile(Path(path)) as file:
        for number, line in file.lines():
            try:
                ids.add(line.decode().strip())
            except UnicodeDecodeError as e:
                raise CorpusError(f"{path}, line {number}: is not UTF-8 text, wanted one document id a line") from e
    ids.discard("")
    if not ids:
        raise CorpusError(f"{path}: names no document, wanted one document id a line")
    return frozenset(ids)
