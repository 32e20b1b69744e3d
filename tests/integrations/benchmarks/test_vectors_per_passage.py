"""The curve of vectors a passage: its points are copies of the right share and kind, and time is kept to."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

from benchmarks.vectors_per_passage import Config, Point, copy_options, measure_all, plot, remove_copies
from kbengine.build.filtering import FilterOptions
from tests.kbengine.learning.tuning.tuning_world import PLANTED, open_world


def test_a_point_says_what_its_copy_is() -> None:
    """All tokens need no filter; vectors are dropped where codes stand for them."""
    assert copy_options(Point(1.0, "opq48")).filter == FilterOptions()
    assert copy_options(Point(0.3, "opq48")).filter == FilterOptions(keep_fraction=0.3)
    assert [copy_options(Point(0.3, kind)).drop_vectors for kind in ("ivf-sq8", "opq48")] == [False, True]
    assert Point(0.05, "opq48").name == "opq48-0.05"


def test_points_are_measured_once_and_copies_removed(tmp_path) -> None:
    """Without time nothing is begun; with it every share is measured, fewer vectors for a smaller one."""
    rows = [
        {"id": str(i), "input": text, "output": [{"answer": answer, "provenance": [{"wikipedia_id": page}]}]}
        for i, (text, answer, page) in enumerate(PLANTED)
    ]
    (tmp_path / "squad.dev.jsonl.gz").write_bytes(compressed(rows))
    with open_world(tmp_path):
        pass
    scratch = tmp_path / "scratch"
    config = Config(tmp_path / "kb", scratch, tmp_path, 3, (1.0, 0.5, 0.3), ("ivf-sq8",), ("squad",), {}, (), (), 600.0)

    assert measure_all(replace(config, seconds=-1)) is None
    figures = measure_all(config)

    assert figures is not None and figures["sets"] == {"squad": 3}
    vectors = [point["stored_vectors"] for point in figures["points"]]
    assert vectors == sorted(vectors) and vectors[0] < vectors[-1]
    assert [path.name for path in scratch.iterdir()] == ["points.json"]
    assert measure_all(replace(config, seconds=-1)) == figures
    left_out = measure_all(replace(config, skip=("ivf-sq8-0.5",)))
    assert left_out is not None and [point["kept"] for point in left_out["points"]] == [0.3, 1.0]
    plot(figures, [tmp_path / "curve.svg"])
    assert (tmp_path / "curve.svg").stat().st_size > 1000


def compressed(rows: list[dict[str, object]]) -> bytes:
    """The rows as a gzipped JSONL file."""
    return gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())


def test_scratch_keeps_what_smaller_shares_are_made_of(tmp_path) -> None:
    """The last int8 copy stays until the next one is there, named shares stay for good."""
    config = Config(tmp_path, tmp_path, Path(), 1, (1.0, 0.5, 0.3), (), (), {}, (0.3,), (), 0.0)
    for name in ("ivf-sq8-0.5", "opq48-0.5", "ivf-sq8-0.3", "opq48-0.3"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kb.sqlite").touch()

    remove_copies(config, 0.3)

    assert {path.name for path in tmp_path.iterdir()} == {"ivf-sq8-0.3", "opq48-0.3"}
