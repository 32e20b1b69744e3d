"""Keeping fewer of the stored tokens: which, under which ids, and what a crash leaves."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from storage.errors import InvalidOptionError
from storage.reader import KBReader
from storage.records import NewDocument, pack_offsets, unpack_offsets
from storage.reindexing import FilterRequest, ReindexRequest
from storage.repair import repair
from storage.token_filter import LogitCounts
from storage.verify import verify
from storage.writer import KBWriter
from tests.storage.small_world import make_settings, random_document, reencode

ROOT = Path(__file__).parents[2]


def documents(n: int, *, seed: int) -> list[NewDocument]:
    """Documents of one to three passages of random words."""
    rng = np.random.default_rng(seed)
    return [random_document(f"doc{seed}-{i}", rng, passages=1 + i % 3) for i in range(n)]


def filtering(*, stored_threshold: float | None = None, **options: float) -> ReindexRequest:
    """The request to filter."""
    return ReindexRequest(FilterRequest(**options), stored_threshold=stored_threshold)


@pytest.fixture
def kb(tmp_path: Path) -> Path:
    """A knowledge base of two segments with a deleted document."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        writer.add(documents(30, seed=1))
        writer.add(documents(20, seed=2))
        writer.delete(["doc1-4"])
    return tmp_path / "kb"


Token = tuple[int, int, tuple[int, ...], float]


def tokens(path: Path) -> dict[int, Token]:
    """By token id: passage, position among all tokens, codes, larger logit of every stored token."""
    with KBReader.open(path) as reader:
        snapshot = reader.snapshot()
        rows = np.arange(snapshot.n_rows)
        ids = snapshot.token_ids_of_rows(rows)
        assert (np.diff(ids) > 0).all()
        passages = snapshot.passage_ids[snapshot.passages_of_rows(rows)].tolist()
        ordinals = snapshot.token_ordinals(rows).tolist()
        logits = snapshot.best_logits(rows).tolist()
        codes = snapshot.gather(rows)[0].tolist()
        found = {token: (passages[i], ordinals[i], tuple(codes[i]), logits[i]) for i, token in enumerate(ids.tolist())}
        for passage in reader.passages(sorted(set(passages))).values():
            mine = [token for token in found if found[token][0] == passage.passage_id]
            assert [found[token][1] for token in mine] == passage.offsets.ordinals.tolist()
            assert [token - passage.first_token_id for token in mine] == passage.offsets.numbers.tolist()
        return found


def expected(before: dict[int, Token], threshold: float) -> dict[int, Token]:
    """The definition: tokens that reach the threshold, and the first best of passages that have none."""
    kept = {token: value for token, value in before.items() if value[3] >= threshold}
    for passage in {value[0] for value in before.values()} - {value[0] for value in kept.values()}:
        mine = [token for token in before if before[token][0] == passage]
        best = max(mine, key=lambda token: (before[token][3], -token))
        kept[best] = before[best]
    return dict(sorted(kept.items()))


def test_kept_tokens_keep_their_ids_vectors_and_places(kb: Path) -> None:
    """Those that reach the threshold, the best of each other passage, and nothing else, before and after merging."""
    before = tokens(kb)
    with KBWriter.open(kb) as writer:
        done = writer.reindex(filtering(threshold=0.7))
    wanted = expected(before, 0.7)
    assert done.rows == len(wanted) < done.rows_before == len(before)
    assert tokens(kb) == wanted
    report = verify(kb, deep=True, reencode=reencode)
    assert report.clean, report.findings
    with KBWriter.open(kb) as writer:
        writer.add(documents(3, seed=3))
        writer.merge_all()
    after = tokens(kb)
    live = {value[0] for value in after.values()}  # merging forgot the deleted document
    wanted = {token: value for token, value in wanted.items() if value[0] in live}
    assert {token: value for token, value in after.items() if token in wanted} == wanted
    assert min(set(after) - set(wanted)) > max(before)
    assert verify(kb, deep=True, reencode=reencode).clean


def test_a_fraction_is_of_all_tokens_and_is_reached_closely(kb: Path) -> None:
    """Of every second token stored, 30 % of all tokens can be kept but not 60 %."""
    with KBReader.open(kb) as reader:
        info = reader.info()
    with KBWriter.open(kb) as writer:
        with pytest.raises(InvalidOptionError, match=r"only 0\.5.* are stored.*build anew"):
            writer.reindex(filtering(keep_fraction=0.6))
        done = writer.reindex(filtering(keep_fraction=0.35))
        assert writer.settings.filter == {"threshold": None, "keep_fraction": 0.35}
        position = writer.settings.build_position
        assert position["threshold_sum"] == pytest.approx(done.threshold * position["threshold_tokens"])
        with pytest.raises(InvalidOptionError, match=r"tokens below .* are not stored"):
            writer.reindex(filtering(threshold=done.threshold - 1, stored_threshold=done.threshold))
    with KBReader.open(kb) as reader:
        after = reader.info()
    assert after.tokens_total == info.tokens_total
    # The best token of a passage without any other is kept, too.
    assert 0.35 - 0.01 <= after.kept_fraction <= 0.35 + after.passages / after.tokens_total


def test_keeping_what_is_stored_changes_no_token(kb: Path) -> None:
    """The fraction that is stored can be asked for; every token stays."""
    before = tokens(kb)
    with KBReader.open(kb) as reader:
        fraction = reader.info().kept_fraction
    with KBWriter.open(kb) as writer:
        writer.reindex(filtering(keep_fraction=fraction))
    assert tokens(kb) == before


def test_filtering_twice_is_filtering_once_by_the_higher_threshold(kb: Path, tmp_path: Path) -> None:
    """Each step looks at the stored logits only."""
    twice = tmp_path / "twice"
    shutil.copytree(kb, twice)
    for path, thresholds in ((kb, [0.9]), (twice, [0.2, 0.9])):
        with KBWriter.open(path) as writer:
            for threshold in thresholds:
                writer.reindex(filtering(threshold=threshold))
    assert tokens(twice) == tokens(kb)


def test_a_reader_goes_on_with_its_snapshot_and_sees_the_new_one(kb: Path) -> None:
    """The old snapshot keeps its rows; the next one has fewer, and answers never name a token that is gone."""
    with KBReader.open(kb) as reader:
        old = reader.snapshot()
        n_rows = old.n_rows
        with KBWriter.open(kb) as writer:
            done = writer.reindex(filtering(threshold=0.9))
        assert len(old.gather(np.arange(n_rows))[0]) == n_rows
        new = reader.snapshot()
        assert new.n_rows == done.rows < n_rows
        gone = np.setdiff1d(old.token_ids_of_rows(np.arange(n_rows)), new.token_ids_of_rows(np.arange(new.n_rows)))
        kept = int(new.token_ids_of_rows(np.array([3]))[0])
        passage_id = int(new.passage_ids[new.passages_of_rows(np.array([3]))[0]])
        passage = reader.passages([passage_id])[passage_id]
        assert passage.characters(kept, kept) is not None
        assert passage.characters(kept, int(gone[0])) is None


def test_damaged_filtered_segments_are_encoded_again_with_the_same_tokens(kb: Path) -> None:
    """Repair restores which tokens are stored, and under which ids."""
    with KBWriter.open(kb) as writer:
        writer.reindex(filtering(threshold=0.5))
        writer.compact()
    before = tokens(kb)
    for path in (kb / "segments").iterdir():
        path.write_bytes(path.read_bytes()[:-9])
    assert repair(kb, reencode)
    assert tokens(kb).keys() == before.keys()
    assert verify(kb, deep=True, reencode=reencode).clean


def test_offsets_with_gaps_are_packed_and_unpacked() -> None:
    """Any rising numbers come back; without gaps the bytes are what they always were."""
    rng = np.random.default_rng(0)
    for t, width in ((0, 10), (1, 1), (5, 5), (7, 100), (200, 90_000)):
        numbers = np.sort(rng.choice(width, size=t, replace=False)).astype(np.uint32)
        starts = (numbers * 3).astype(np.int32)
        packed = pack_offsets(numbers * 2, starts, starts + 1, numbers)
        back = unpack_offsets(packed, passage_id=1)
        np.testing.assert_array_equal(back.numbers, numbers)
        np.testing.assert_array_equal(back.ordinals, numbers * 2)
        np.testing.assert_array_equal(back.ends, starts + 1)
        plain = np.arange(t, dtype=np.uint32)
        assert pack_offsets(plain, starts, starts, plain) == pack_offsets(plain, starts, starts)


def test_quantiles_of_float16_logits_are_exact() -> None:
    """Negative, positive and zero logits in the right order; ties go where the count is nearest."""
    counts = LogitCounts()
    for value, n in ((-2.5, 4), (-0.5, 3), (0.0, 2), (0.25, 1), (8.0, 5)):
        counts.counts[np.float16(value).view(np.uint16)] = n
    assert counts.total == 15
    thresholds = [counts.threshold_for(n) for n in (1, 5, 6, 8, 11, 14.9, 15, 99)]
    assert thresholds == [8.0, 8.0, 0.25, 0.0, -0.5, -2.5, -np.inf, -np.inf]


def test_requests_that_make_no_sense_are_refused() -> None:
    """One of the two, within its range."""
    for wrong in ({}, {"keep_fraction": 0.5, "threshold": 1.0}, {"keep_fraction": 0.0}, {"threshold": np.inf}):
        with pytest.raises(InvalidOptionError):
            FilterRequest(**wrong)


def test_killed_while_filtering_leaves_the_old_or_the_new(kb: Path, tmp_path: Path) -> None:
    """Killed at a moment (power cuts: at all), or when done: what is stored is one of the two, nothing is left over."""
    code = (
        "import sys; from storage.writer import KBWriter\n"
        "from storage.reindexing import FilterRequest, ReindexRequest\n"
        "w = KBWriter.open(sys.argv[1]); print('ready', flush=True)\n"
        "w.reindex(ReindexRequest(FilterRequest(threshold=0.6))); print('done', flush=True); sys.stdin.read()"
    )
    before = tokens(kb)
    wanted = expected(before, 0.6)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    seen: set[bool] = set()
    for number in (1, 3):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(kb, copy)
        with subprocess.Popen(
            [sys.executable, "-c", code, str(copy)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            if number == 3:
                assert child.stdout.readline() == "done\n"
            else:
                time.sleep(0.012 * number)
            child.send_signal(signal.SIGKILL)
        KBWriter.open(copy).close()
        found = tokens(copy)
        assert found in (before, wanted)
        assert number != 3 or found == wanted
        seen.add(found == wanted)
        assert verify(copy).clean
        with KBWriter.open(copy) as writer:
            writer.reindex(filtering(threshold=0.6))
        assert tokens(copy) == wanted
    assert True in seen
