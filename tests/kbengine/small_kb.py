"""A knowledge base of the tiny encoder's sentences, a document each."""

from __future__ import annotations

import json
from pathlib import Path

from kbengine.build.builder import CorpusOptions, build
from kbengine.build.filtering import FilterOptions
from kbengine.build.storing import StoreOptions
from kbengine.encoders.encoder import Encoder
from tests.tiny_encoder import SENTENCES


def build_small_kb(path: Path, encoder: Encoder) -> Path:
    """Build it in the directory `path`: document "i" holds sentence i."""
    corpus = path.with_name(f"{path.name}-corpus.jsonl")
    lines = [json.dumps({"_id": str(i), "title": f"Page {i}", "text": text}) for i, text in enumerate(SENTENCES)]
    corpus.write_text("\n".join(lines) + "\n", encoding="utf-8")
    # A few sentences say little about the code of an encoder that comes without one: these vectors stay exact.
    store = StoreOptions(code_bits=8)
    build(CorpusOptions((corpus,)), path, encoder=encoder, filter_options=FilterOptions(), store=store)
    return path
