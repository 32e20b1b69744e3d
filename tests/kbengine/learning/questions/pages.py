"""Invented pages for the tests of question generation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbengine.corpus.document import CorpusDocument, CorpusPassage

HARROW = CorpusDocument(
    "harrow",
    "Harrow Light",
    passages=(
        CorpusPassage(
            1,
            "Harrow Light is a granite lighthouse designed by Emil Sand and finished on 4 May 1851. Its lamp burned "
            "seal oil for 62 years before Orla Venn replaced it with a gas burner.",
            "Abstract",
        ),
        CorpusPassage(
            3,
            'The keeper of Harrow Light kept a diary called "Nine Winters" until the storm of 1889 took the lower '
            "gallery. The diary is shown in the museum of Port Sella, together with the first lens.",
            "Keepers",
        ),
    ),
)
SELLA = CorpusDocument(
    "sella",
    "Port Sella",
    passages=(
        CorpusPassage(
            1,
            "Port Sella is a harbour town on the river Tarn, founded by fishermen from Quillmere in 1204. It had "
            "11,300 inhabitants in 2011 and lives from salt, rope and summer visitors.",
        ),
    ),
)
EMPTY = CorpusDocument("stub", "Nothing here")


def kilt_page(document: CorpusDocument) -> Mapping[str, Any]:
    """Return the document as a page of a KILT knowledge source."""
    last = max((passage.ordinal for passage in document.passages), default=0)
    text = [document.title, *("" for _ in range(last))]
    for passage in document.passages:
        text[passage.ordinal] = passage.text
    for passage in document.passages:
        if passage.ordinal > 1 and passage.section:
            text[passage.ordinal - 1] = f"Section::::{passage.section}."
    return {"wikipedia_id": document.doc_id, "wikipedia_title": document.title, "text": text, "anchors": []}


def write_pages(path: Path, *documents: CorpusDocument) -> Path:
    """Return the path, which then holds the documents as a KILT knowledge source."""
    path.write_text("".join(json.dumps(kilt_page(each)) + "\n" for each in documents), "utf-8")
    return path
