"""Searching only what passes a filter: against numpy, over every kind of index, whatever share passes."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from storage.reader import KBReader
from storage.settings import KBSettings
from storage.snapshot import Snapshot
from storage.writer import KBWriter
from tests.storage import clustered_world as world
from tests.storage.small_world import make_document, make_settings

N_DOCUMENTS = 1_250  # 50,000 rows: half of them are too many to look at each


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two segments with lists, ranks 0 to 1,249 as a field, every second document of the source "even"."""
    path = tmp_path_factory.mktemp("large") / "kb"
    settings = KBSettings("clustered", "c" * 64, world.D, ann={"exact_below_rows": 500, "sample_per_list": 20})
    documents = [
        dataclasses.replace(
            world.make_document(seed), meta={"rank": seed, "source": "odd" if seed % 2 else "even", "tags": ["a", "b"]}
        )
        for seed in range(N_DOCUMENTS)
    ]
    with KBWriter.create(path, settings) as writer:
        writer.add(documents[:800])
        writer.add(documents[800:])
    return path


@pytest.fixture(scope="module")
def reader(large: Path) -> Iterator[KBReader]:
    """Open for all tests, so that segments are loaded once."""
    with KBReader.open(large) as reader:
        yield reader


def best_rows(snapshot: Snapshot, queries: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """The k best rows of what the snapshot shows, by numpy over all vectors; −1 where there are fewer."""
    products = queries.astype(np.float64) @ snapshot.vectors(np.arange(snapshot.n_rows)).T.astype(np.float64)
    live = np.repeat(snapshot.live_passages, snapshot.token_counts)
    products[:, ~live] = -np.inf
    order = np.argsort(-products, axis=1, kind="stable")[:, :k]
    return np.where(np.take_along_axis(products, order, axis=1) > -np.inf, order, -1)


@pytest.mark.parametrize(
    ("where", "n_documents"),
    [
        ("rank = 3", 1),
        ("rank between 790 and 810", 21),
        ("rank >= 600 and source = 'even'", 325),
        ("rank < 0 or tags = 'b' and rank = 900", 1),
        ("rank < 0", 0),
    ],
)
@pytest.mark.parametrize("exact", [True, False])
def test_few_passing_documents_are_searched_as_numpy_does(
    reader: KBReader, where: str, n_documents: int, exact: bool
) -> None:
    """Every row that passes is compared, so that k come back whenever there are k, at any effort."""
    snapshot = reader.snapshot(where)
    assert snapshot.n_live_passages == n_documents
    queries = world.queries(20)
    for m in (3, 20):  # few queries are scanned, many multiplied
        _, rows = snapshot.search_tokens(queries[:m], 60, exact=exact)
        np.testing.assert_array_equal(rows, best_rows(snapshot, queries[:m], 60))
    _, passages = snapshot.search_passages(queries, 30, exact=exact)
    assert ((passages >= 0).sum(axis=1) == min(30, n_documents)).all()
    assert snapshot.live_passages[passages[passages >= 0]].all()


@pytest.mark.parametrize("where", ["source = 'even'", "rank > 100", "rank is not null"])
def test_many_passing_documents_are_found_by_the_index(reader: KBReader, where: str) -> None:
    """Half of the rows, nearly all and all: only what passes comes back, and nearly all of the best of it."""
    snapshot, queries = reader.snapshot(where), world.queries(30)
    wanted = best_rows(snapshot, queries, 50)
    np.testing.assert_array_equal(snapshot.search_tokens(queries, 50, exact=True)[1], wanted)
    _, rows = snapshot.search_tokens(queries, 50)
    assert snapshot.live_passages[snapshot.passages_of_rows(rows)].all()
    found = np.mean([len(set(a) & set(b)) / 50 for a, b in zip(rows.tolist(), wanted.tolist(), strict=True)])
    assert found > 0.9


def test_one_document_of_ten_thousand_fills_k(tmp_path: Path) -> None:
    """Its rows come back, all of them the best there are, though nothing near the query passes."""
    path = tmp_path / "kb"
    with KBWriter.create(path, make_settings(ann={"exact_below_rows": 500})) as writer:
        common = make_document("common", "amber basalt cedar")
        documents = [dataclasses.replace(common, doc_id=f"d{i}") for i in range(10_000)]
        documents[4_200] = make_document("d4200", " ".join(f"word{i}" for i in range(24)))
        writer.add(documents)
    with KBReader.open(path) as reader:
        snapshot = reader.snapshot("id = 'd4200'")
        query = -snapshot.vectors(np.flatnonzero(np.repeat(snapshot.live_passages, snapshot.token_counts)))[:1]
        _, rows = snapshot.search_tokens(query, 10)
        assert (snapshot.live_passages[snapshot.passages_of_rows(rows)]).all() and len(set(rows[0].tolist())) == 10
        np.testing.assert_array_equal(rows, best_rows(snapshot, query, 10))


@pytest.mark.parametrize(("kind", "drop"), [("ivf-sq8", False), ("exact", False), ("ivf-pq", False), ("ivf-pq", True)])
def test_every_kind_of_index_can_be_restricted(tmp_path: Path, kind: str, drop: bool) -> None:
    """Also where only quantised vectors are stored: the best of those that pass, exactly."""
    path = tmp_path / "kb"
    world.create(path)
    world.change(path, kind, drop=drop)
    with KBReader.open(path) as reader:
        snapshot = reader.snapshot("id in ('doc3', 'doc17')")
        _, rows = snapshot.search_tokens(world.queries(5), 100)
        np.testing.assert_array_equal(rows, best_rows(snapshot, world.queries(5), 100))


def test_words_count_in_what_passes_with_the_frequencies_of_the_whole(reader: KBReader) -> None:
    """BM25 of a passage is the same with and without the filter, and 0 for what does not pass."""
    whole, snapshot = reader.snapshot(), reader.snapshot("rank = 7 or rank = 1000")
    for name in ("lexical_scores", "document_lexical_scores"):
        scores, unfiltered = getattr(snapshot, name)("Title w7x3"), getattr(whole, name)("Title w7x3")
        np.testing.assert_array_equal(scores, np.where(snapshot.live_passages, unfiltered, 0))
        assert (scores > 0).sum() == 2 and (unfiltered > 0).sum() > 1_000
    passing = np.flatnonzero(snapshot.live_passages)
    assert len(snapshot.passages_of_document(int(snapshot.document_ids[passing[0]]))) == 1
    assert not snapshot.passages_of_document(int(snapshot.document_ids[passing[0] + 1]))


def test_restricted_snapshot_is_made_once_for_a_commit(tmp_path: Path) -> None:
    """The same filter gives the same snapshot until something is written."""
    path = tmp_path / "kb"
    with KBWriter.create(path, make_settings()) as writer, KBReader.open(path) as reader:
        writer.add([make_document(f"d{i}", *["amber basalt cedar"] * i) for i in range(12)])
        first = reader.snapshot("n > 4")
        assert first is reader.snapshot("n > 4") and first is not reader.snapshot("n > 5")
        for i in range(20):
            reader.snapshot(f"n = {i}")
        assert first is not reader.snapshot("n > 4")  # only the last few are kept
        writer.delete(["d11"])
        assert reader.snapshot("n > 4").n_live_passages == first.n_live_passages - 11
        assert reader.snapshot().n_live_passages == sum(range(11))


def test_filter_and_snapshot_are_of_one_commit(tmp_path: Path) -> None:
    """While a document is replaced again and again, exactly one version of it passes at any time."""
    path = tmp_path / "kb"
    versions = [dataclasses.replace(make_document("d", "amber basalt"), meta={"version": i}) for i in range(30)]
    with KBWriter.create(path, make_settings()) as writer, KBReader.open(path) as reader:
        writer.add(versions[:1])
        seen: list[int] = []
        stop = threading.Event()

        def look() -> None:
            while not stop.is_set():
                seen.append(reader.snapshot("version >= 0").n_live_passages)

        threads = [threading.Thread(target=look) for _ in range(2)]
        for thread in threads:
            thread.start()
        for version in versions[1:]:
            writer.add([version])
        stop.set()
        for thread in threads:
            thread.join()
    assert seen and set(seen) == {1}
