"""A repaired knowledge base answers as it did before it was damaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from storage.errors import CorruptError
from storage.filter_request import FilterRequest
from storage.loss import accept_loss
from storage.reader import KBReader
from storage.records import NewDocument
from storage.reindexing import ReindexRequest
from storage.repair import repair
from storage.verify import verify
from storage.writer import KBWriter
from tests.storage.small_world import (
    WORDS,
    content,
    make_document,
    make_passage,
    make_settings,
    random_document,
    reencode,
)


def damage(kb: Path, number: int) -> None:
    """Flip a bit in the middle of a segment, the largest first."""
    file = sorted((kb / "segments").glob("*.seg"), key=lambda path: -path.stat().st_size)[number]
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def lexical_lists(kb: Path) -> list[tuple[list[float], list[int]]]:
    """For each word the scores of the passages that have it, and their ids."""
    lists = []
    with KBReader.open(kb) as reader:
        snapshot = reader.snapshot()
        for word in WORDS:
            scores = snapshot.lexical_scores(word)
            found = np.flatnonzero(scores)
            lists.append((scores[found].tolist(), snapshot.passage_ids[found].tolist()))
    return lists


def test_segments_of_several_widths_are_read_together(tmp_path: Path) -> None:
    """Repair stores token numbers in four bytes, reindexing in two where that is enough."""
    kb = tmp_path / "kb"
    rng = np.random.default_rng(0)
    with KBWriter.create(kb, make_settings()) as writer:
        writer.add([random_document(f"d{number}", rng, passages=3) for number in range(9)])
        writer.add([make_document("last", "amber basalt cedar delta", "ember fjord")])
        writer.reindex(ReindexRequest(filter=FilterRequest(keep_fraction=0.3)))
    for number in (0, 1):
        copy = Path(shutil.copytree(kb, tmp_path / f"copy-{number}"))
        damage(copy, number)
        assert repair(copy, reencode)
        assert verify(copy, deep=True, reencode=reencode).clean
        with KBReader.open(copy) as reader, KBReader.open(kb) as sound:
            repaired, before = reader.snapshot(), sound.snapshot()
            rows = np.arange(before.n_rows)
            for order in (rows, rows[::-1]):
                assert repaired.token_ordinals(order).tolist() == before.token_ordinals(order).tolist()
                assert repaired.token_ids_of_rows(order).tolist() == before.token_ids_of_rows(order).tolist()


def test_a_segment_that_needs_wider_numbers_is_read_beside_others(tmp_path: Path) -> None:
    """A token far inside a long passage has a number that two bytes do not hold, whichever segment is the first."""
    far = 70_000
    long = make_passage(" ".join(["amber"] * (far + 1)), kept=[0, far])
    documents = [make_document("narrow", "amber basalt cedar"), NewDocument("wide", "Wide", None, {}, (long,))]
    for number, order in enumerate((documents, documents[::-1])):
        with KBWriter.create(tmp_path / f"kb-{number}", make_settings()) as writer:
            for document in order:
                writer.add([document])
        with KBReader.open(tmp_path / f"kb-{number}") as reader:
            snapshot = reader.snapshot()
            assert len({loaded.segment.arrays.token_ordinals.dtype for loaded in snapshot.segments}) == 2
            expected = {"narrow": [0, 2], "wide": [0, far]}
            wanted = [ordinal for document in order for ordinal in expected[document.doc_id]]
            assert snapshot.token_ordinals(np.arange(4)).tolist() == wanted
            assert snapshot.token_ordinals(np.arange(4)[::-1]).tolist() == wanted[::-1]


@pytest.mark.parametrize("number", [0, 1])
def test_lexical_scores_are_what_they_were(tmp_path: Path, number: int) -> None:
    """The dead count in BM25 until they are compacted away, in a repaired segment as in another."""
    kb = tmp_path / "kb"
    rng = np.random.default_rng(1)
    with KBWriter.create(kb, make_settings()) as writer:
        writer.add([random_document(f"a{number}", rng, passages=3) for number in range(6)])
        writer.delete(["a0", "a1"])
        writer.add([random_document(f"b{number}", rng, passages=2) for number in range(6)])
        writer.merge_all()  # a0 and a1 are in no segment any more, but not forgotten
        writer.delete(["a2", "b3"])
        writer.add([random_document(f"c{number}", rng, passages=1) for number in range(4)])
        writer.delete(["c0"])
    before = lexical_lists(kb)
    damage(kb, number)
    assert repair(kb, reencode)
    assert lexical_lists(kb) == before
    damage(kb, number)
    assert repair(kb, reencode)
    assert lexical_lists(kb) == before
    assert verify(kb, deep=True, reencode=reencode).clean


def test_going_on_without_lost_commits_has_to_be_asked_for(tmp_path: Path) -> None:
    """The damaged log is kept, the rest is as it was, and writing goes on."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        for name in ("a", "b", "c"):
            writer.add([make_document(name, f"amber {name}")])
        kb = Path(shutil.copytree(tmp_path / "kb", tmp_path / "crashed"))
    log = kb / "kb.sqlite-wal"
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    with pytest.raises(CorruptError, match="commit 4 was acknowledged"):
        repair(kb, reencode)
    (told,) = accept_loss(kb)
    assert "commit 3" in told and (kb / "kb.sqlite-wal.damaged-4").read_bytes() == data
    assert accept_loss(kb) == []
    repair(kb, reencode)
    assert verify(kb, deep=True).clean
    assert set(content(kb)) == {"a", "b"}
    with KBWriter.open(kb) as writer:
        writer.add([make_document("d", "delta")])
    assert set(content(kb)) == {"a", "b", "d"}
