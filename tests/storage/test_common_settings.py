"""Shards made with common settings: the same codes and scores as one knowledge base, ids that do not overlap."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from storage.common_settings import CommonSettings, common_settings_of, create_with
from storage.creation import FirstIds
from storage.errors import InvalidOptionError
from storage.reader import KBReader
from storage.records import NewDocument
from storage.reindexing import ReindexRequest
from storage.verify import verify
from storage.writer import KBWriter
from tests.storage.small_world import make_document, make_passage, make_settings

N = 60
TEXTS = [" ".join(f"w{(7 * i + j * j) % 40}" for j in range(14)) for i in range(N)]
QUERIES = np.random.default_rng(2).normal(size=(4, 8)).astype(np.float32)


def whole(number: int) -> NewDocument:
    """A document of one passage with every token of it."""
    text = TEXTS[number]
    passage = make_passage(text, kept=np.arange(len(text.split())))
    return dataclasses.replace(make_document(f"d{number}", text), passages=(passage,))


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """Sixty documents, all tokens stored in 4 bits, half of them indexed by product codes."""
    settings = make_settings(
        store={"tokens": "all", "bits": 4},
        filter={"threshold": None, "keep_fraction": 0.5},
        build={"state": "building", "position": {}},
        ann={"kind": "opq-fastscan", "exact_below_rows": 0, "nlist": 4},
        token_scale=None,
        passage_scale=None,
    )
    path = tmp_path / "built"
    with KBWriter.create(path, settings) as writer:
        writer.add([whole(number) for number in range(N)])
        writer.choose_indexed()
        writer.merge_all()
        writer.reindex(ReindexRequest(ann={}))
        writer.finish_build()
    return path


def found(path: Path, k: int) -> list[tuple[int, float]]:
    """Token ids and scores of the best tokens, best first."""
    with KBReader.open(path) as reader:
        snapshot = reader.snapshot()
        scores, rows = snapshot.search_tokens(QUERIES, k)
        ids = snapshot.token_ids_of_rows(rows[rows >= 0])
    return [(int(token), float(score)) for token, score in zip(ids, scores[rows >= 0], strict=True)]


def test_shards_hold_what_one_knowledge_base_holds(built: Path, tmp_path: Path) -> None:
    """The same code, lists, scales and threshold: together the shards find the very tokens with the same scores."""
    common = common_settings_of(built).comparable()
    whole_one = tmp_path / "one"
    with create_with(whole_one, common) as writer:
        writer.add([whole(number) for number in range(N)])
    shards = []
    for number, part in enumerate((range(25), range(25, N))):
        first = FirstIds(document=part[0] + 1, passage=part[0] + 1, token=14 * part[0] + 1)
        path = tmp_path / f"shard{number}"
        with create_with(path, common, first=first) as writer:
            writer.add([whole(each) for each in part])
        assert verify(path).ok
        with KBReader.open(path) as reader:
            assert reader.snapshot().passage_ids.tolist() == [each + 1 for each in part]
        shards.append(path)
    wanted = found(whole_one, 10)
    everything = [found(path, len(part) * 14) for path, part in zip(shards, (TEXTS[:25], TEXTS[25:]), strict=True)]
    assert set(wanted) <= {pair for each in everything for pair in each}
    best = [found(path, 10)[0] for path in shards]
    assert max(best, key=lambda pair: pair[1]) == wanted[0]


def test_what_is_not_fixed_yet_is_refused(tmp_path: Path) -> None:
    """Scales that the first documents would choose, a code and lists that are not there: each is named."""
    with pytest.raises(InvalidOptionError, match=r"lack token_scale, passage_scale, wanted"):
        CommonSettings(make_settings(token_scale=None, passage_scale=None))
    with pytest.raises(InvalidOptionError, match="lack code, quantiser"):
        CommonSettings(make_settings(store={"tokens": "all", "bits": 4}, ann={"kind": "opq16"}))
    KBWriter.create(tmp_path / "empty", make_settings(token_scale=None)).close()
    with pytest.raises(InvalidOptionError, match="lack token_scale"):
        common_settings_of(tmp_path / "empty")


def test_lists_of_a_segments_own_become_a_scan(tmp_path: Path) -> None:
    """Only a common quantiser is the same in every shard."""
    KBWriter.create(tmp_path / "kb", make_settings()).close()
    comparable = common_settings_of(tmp_path / "kb").comparable()
    options = comparable.settings.ann_options
    assert (options.kind, options.exact_passages) == ("exact", True)
    assert options.exact_below_rows == 0, "small segments would be decoded to int8, larger ones not"
    with pytest.raises(InvalidOptionError, match="wanted numbers from 1 on"):
        FirstIds(document=0)
