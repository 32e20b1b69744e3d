"""Documents at hand, written where a corpus can be read from."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kbengine.errors import CorpusError


@contextmanager
def corpus_paths(corpus: Iterable[str | Path | Mapping[str, Any]]) -> Iterator[list[Path]]:
    """Give the paths of a corpus; its documents that are mappings stand in a file that is gone afterwards.

    Raises:
        CorpusError: it is one path instead of a list, or has something that is neither path nor mapping, or no JSON.
    """
    if isinstance(corpus, str | Path):
        raise CorpusError(f"the corpus is one path, {str(corpus)!r}, wanted a list of paths or documents")
    with tempfile.TemporaryDirectory(prefix="kbengine-") as folder:
        written = Path(folder) / "documents.jsonl"
        paths: list[Path] = []
        with written.open("w", encoding="utf-8") as file:
            for i, part in enumerate(corpus):
                if isinstance(part, Mapping):
                    file.write(_line(i, part))
                elif isinstance(part, str | Path):
                    paths.append(Path(part))
                else:
                    raise CorpusError(f"part {i} of the corpus is {type(part).__name__}, wanted a path or a mapping")
        if written.stat().st_size:
            paths.append(written)
        yield paths


def _line(i: int, document: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(document), ensure_ascii=False) + "\n"
    except (TypeError, ValueError) as e:
        raise CorpusError(f"document {i} of the corpus cannot be written as JSON ({e}); give texts and numbers") from e
