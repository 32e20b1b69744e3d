"""The file of a coded index: opened without being read, checked where it is read, mended where it is damaged."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import numpy as np
import pytest

from storage.container import ArraySpec, open_container, write_container
from storage.durable import DurableFile
from storage.index_kind import LARGE_KIND
from storage.reader import KBReader
from storage.verify import verify
from tests.storage.clustered_world import change, create, queries


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A knowledge base of one segment that a quantiser codes."""
    path = tmp_path_factory.mktemp("coded") / "kb"
    create(path)
    change(path, LARGE_KIND)
    return path


@pytest.fixture
def path(original, tmp_path):
    """A copy to be changed."""
    shutil.copytree(original, tmp_path / "kb")
    return tmp_path / "kb"


def index_file(path):
    """The file with the codes."""
    (file,) = (path / "index").glob("*.tokens.*.ann")
    return file


def answers(path):
    """What thirty queries find, asked one after the other, and how many lists were filled after the first."""
    with KBReader.open(path) as reader:
        snapshot = reader.snapshot()
        filling = snapshot.segments[0].token_ann._index.filling
        found, n_filled = [], 0
        for query in queries(30):
            found.append(snapshot.search_tokens(query[None], 10))
            n_filled = n_filled or int(np.count_nonzero(filling._is_filled))
        return np.concatenate([rows for _, rows in found]), n_filled, len(filling._is_filled)


def test_lists_are_filled_when_a_query_looks_into_them(path):
    """Nothing is read at opening, and a query fills no more than its own lists."""
    with KBReader.open(path) as reader:
        ann = reader.snapshot().segments[0].token_ann
        assert not ann._index.filling._is_filled.all()
        rows = np.arange(ann.n_rows)
        before = ann.served_vectors(rows)

        reader.snapshot().search_tokens(queries(3), 5, exact=True)
        reader.snapshot().search_tokens(queries(3), 5)

        np.testing.assert_array_equal(ann.served_vectors(rows), before)


@pytest.mark.parametrize("place", [0.3, 0.6, 0.9])
def test_a_damaged_part_is_made_anew_when_it_is_read(path, place, caplog):
    """Queries have the same answers, verify tells of the damage before, and the file is whole afterwards."""
    wanted, _, _ = answers(path)
    file = index_file(path)
    data = bytearray(file.read_bytes())
    data[int(place * len(data))] ^= 255
    file.write_bytes(data)
    assert [finding.severity for finding in verify(path).findings] == ["derived"]

    with caplog.at_level(logging.WARNING):
        found, _, _ = answers(path)

    np.testing.assert_array_equal(found, wanted)
    assert "rebuilding" in caplog.text
    assert not verify(path).findings


def test_what_an_earlier_version_wrote_is_read_and_written_anew(path):
    """It had the codes in the order of rows, and one checksum."""
    wanted, _, _ = answers(path)
    file = index_file(path)
    container = open_container(file)
    order = container.arrays["order"]
    codes = np.empty_like(container.arrays["codes"])
    codes[order] = container.arrays["codes"]
    lists = np.array(container.arrays["list_numbers"])
    metadata = {**container.metadata, "version": "1"}
    specs = [
        ArraySpec("list_numbers", lists.dtype, lists.shape),
        ArraySpec("codes", codes.dtype, codes.shape),
        ArraySpec("sha256", np.dtype(np.uint8), (32,)),
    ]
    with DurableFile(file) as earlier:
        digest = (np.frombuffer(earlier.sha256_bytes, dtype=np.uint8) for _ in range(1))
        write_container(earlier, specs, {"list_numbers": lists, "codes": codes, "sha256": digest}, metadata=metadata)
        earlier.commit(replace=True)
    assert not verify(path).findings

    found, _, _ = answers(path)

    np.testing.assert_array_equal(found, wanted)
    assert open_container(file).metadata["version"] == "2"
