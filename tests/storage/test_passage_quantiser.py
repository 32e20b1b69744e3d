"""Passage vectors that are sought with one quantiser for all shards: trained, kept, taken along, and missing."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from storage.ann_options import AnnOptions
from storage.backup import back_up, restore
from storage.common_settings import CommonSettings, common_settings_of, create_with
from storage.errors import InvalidOptionError
from storage.object_folder import ObjectFolder
from storage.passage_quantiser import PASSAGE_RECALL, train_passage_quantiser
from storage.quantiser_file import quantiser_path
from storage.reader import KBReader
from storage.reindexing import ReindexRequest
from storage.shard_files import put_common, read_common
from storage.verify import verify
from storage.writer import KBWriter
from tests.storage.small_world import D, make_document, make_settings

N = 120
NAME = "e" * 32
QUERIES = np.random.default_rng(2).normal(size=(5, D)).astype(np.float32)
OPTIONS = AnnOptions(kind="ivf-sq4", nlist=6)


def documents(begin: int, end: int):
    """Documents of one passage each."""
    return [make_document(f"d{number}", f"amber fjord {number} kelp {number % 7}") for number in range(begin, end)]


def sample(n: int, d: int = D) -> np.ndarray:
    """Vectors of length 1."""
    vectors = np.random.default_rng(3).normal(size=(n, d)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def common(tmp_path_factory: pytest.TempPathFactory) -> CommonSettings:
    """Settings with a quantiser for tokens and one for passages."""
    path = tmp_path_factory.mktemp("made") / "kb"
    with KBWriter.create(path, make_settings(ann={"kind": "ivf-sq4", "nlist": 6})) as writer:
        writer.add(documents(0, N))
        writer.reindex(ReindexRequest(ann={}))
    trained = train_passage_quantiser(sample(N), N, OPTIONS, name=NAME, stage=lambda *_: None)
    assert trained is not None
    return common_settings_of(path).comparable().with_passages(*trained)


@pytest.fixture
def kb(common: CommonSettings, tmp_path: Path) -> Path:
    """A knowledge base made with them, in three segments."""
    with create_with(tmp_path / "kb", common) as writer:
        for begin in range(0, N, 40):
            writer.add(documents(begin, begin + 40))
    return tmp_path / "kb"


def found(path: Path, **options) -> list[list[int]]:
    """The ids of the passages nearest to the queries."""
    with KBReader.open(path) as reader:
        snapshot = reader.snapshot()
        _, numbers = snapshot.search_passages(QUERIES, 9, **options)
        return snapshot.passage_ids[numbers].tolist()


def is_indexed(path: Path) -> bool:
    """Whether passages are sought with the quantiser."""
    with KBReader.open(path) as reader:
        return reader.snapshot().coded_nearest("passages", QUERIES, 5) is not None


def test_lists_and_how_many_are_read_follow_from_the_sample():
    """As many lists as the sample has vectors for; their number is measured on vectors that were not trained on."""
    quantiser, probing = train_passage_quantiser(sample(4_000), 10**6, AnnOptions(kind="ivf-sq4"), name=NAME, stage=_no)
    assert quantiser.name == NAME and quantiser.nlist == 3_000 // 16
    assert probing.recall >= PASSAGE_RECALL - 0.01 and 1 <= probing.nprobe <= quantiser.nlist
    given, _ = train_passage_quantiser(sample(4_000), 10**6, OPTIONS, name=NAME, stage=_no)
    assert given.nlist == 6
    assert train_passage_quantiser(sample(100), 10**6, AnnOptions(kind="opq2"), name=NAME, stage=_no) is None


def _no(_what: str, _done: int, _total: int) -> None:
    """Show nothing."""


def test_all_segments_are_sought_with_it(kb: Path) -> None:
    """Merged or not, the same is found; with all lists what a scan finds, with few of them less."""
    assert is_indexed(kb) and verify(kb, deep=True).ok
    few, every = found(kb, nprobe=1), found(kb, nprobe=6)
    assert every == found(kb, exact=True) and few != every
    with KBWriter.open(kb) as writer:
        writer.delete(["d5"])
        left = found(kb, nprobe=1)
        writer.compact()
        assert found(kb, nprobe=1) == left
    with KBWriter.open(kb) as writer:
        writer.reindex(ReindexRequest(ann={"kind": "opq2"}))
    assert is_indexed(kb) and found(kb, nprobe=1) == left and verify(kb).ok
    names = sorted(path.name.split(".")[1] for path in (kb / "index").iterdir())
    assert names == ["passages", "tokens"]


def test_a_backup_takes_it_along(kb: Path, tmp_path: Path) -> None:
    """What is restored finds the same."""
    back_up(kb, tmp_path / "copies")
    restore(tmp_path / "copies", tmp_path / "again")
    assert is_indexed(tmp_path / "again") and found(tmp_path / "again") == found(kb)


def test_without_its_file_it_is_an_error(kb: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Passages are found by lists of the segments' own, which other shards do not have."""
    quantiser_path(kb / "segments", NAME).unlink()
    assert len(found(kb)) == len(QUERIES) and "the index of passages" in caplog.text
    assert not is_indexed(kb)
    errors = [each.where for each in verify(kb).findings if each.severity == "error"]
    assert len(errors) == 1 and NAME in errors[0]
    with pytest.raises(InvalidOptionError, match="lack passage_quantiser"):
        CommonSettings(make_settings(passage_quantiser={"nprobe": 3, "recall": 1.0}))


def test_what_was_planned_before_there_was_one_is_scanned(common: CommonSettings, tmp_path: Path) -> None:
    """Common settings and knowledge bases that say nothing of it go on working, and new shards are like them."""
    scanned = dataclasses.replace(common.settings, passage_quantiser={})
    before = CommonSettings(scanned, common.quantiser).comparable()
    assert before.settings.ann_options.exact_passages and before.passages is None
    store = ObjectFolder(tmp_path / "objects")
    files = put_common(store, before)
    settings, *others = files
    record = json.loads(store.read(settings))
    del record["passage_quantiser"]
    old = store.put_bytes(json.dumps(record).encode(), settings.path)
    assert read_common(store, (old, *others)).settings == before.settings
    with create_with(tmp_path / "kb", read_common(store, (old, *others))) as writer:
        writer.add(documents(0, 20))
    connection = sqlite3.connect(tmp_path / "kb" / "kb.sqlite")
    connection.execute("DELETE FROM settings WHERE key = 'passage_quantiser'")
    connection.commit()
    connection.close()
    with KBReader.open(tmp_path / "kb") as reader:
        assert reader.snapshot().scans_all("passages")
    assert verify(tmp_path / "kb").ok
    assert read_common(store, put_common(store, common)).settings.passage_quantiser["name"] == NAME
