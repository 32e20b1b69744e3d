"""Knowledge bases made of another one's pages and vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.stored_pages import Config, store
from kbengine.encoders.encoder import Encoder
from storage.reader import KBReader
from tests.kbengine.small_kb import build_small_kb
from tests.tiny_encoder import write_tiny_encoder


def test_each_page_is_there_as_often_as_wanted_with_the_vectors_it_had(tmp_path: Path) -> None:
    """Copies have ids of their own; text, tokens and vectors are those of the page."""
    encoder = write_tiny_encoder(tmp_path / "encoder")
    build_small_kb(tmp_path / "kb", Encoder.load(encoder, device="cpu"))
    told = store(Config(tmp_path / "kb", tmp_path / "twice", copies=2, encoder=str(encoder)))
    with KBReader.open(tmp_path / "kb") as source, KBReader.open(tmp_path / "twice") as target:
        pages, copies = list(source.iterate_documents()), list(target.iterate_documents())
        assert told["documents"] == len(copies) == 2 * len(pages)
        assert len({document.doc_id for document, _ in copies}) == len(copies)
        texts = [passage.text for _, own in pages for passage in own]
        assert [passage.text for _, own in copies for passage in own] == 2 * texts
        rows = np.arange(source.info().tokens_stored)
        stored, was = target.snapshot().vectors(rows), source.snapshot().vectors(rows)
        # Coded again, by a code measured on these vectors: bundled encoders bring one with them, this one does not.
        assert np.linalg.norm(stored - was) < 0.1 * np.linalg.norm(was)
        np.testing.assert_array_equal(stored, target.snapshot().vectors(rows + len(rows)))


def test_some_pages_are_drawn_and_the_same_each_time(tmp_path: Path) -> None:
    """So that knowledge bases of several makings can be compared."""
    encoder = write_tiny_encoder(tmp_path / "encoder")
    build_small_kb(tmp_path / "kb", Encoder.load(encoder, device="cpu"))
    ids = []
    for name in ("first", "second"):
        store(Config(tmp_path / "kb", tmp_path / name, pages=4, indexed_only=True, encoder=str(encoder)))
        with KBReader.open(tmp_path / name) as reader:
            ids.append([document.doc_id for document, _ in reader.iterate_documents()])
    assert ids[0] == ids[1] and len(ids[0]) == 4
