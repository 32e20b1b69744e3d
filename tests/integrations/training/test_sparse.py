"""The recipe of sparse heads from end to end on a made-up data folder, and halves of development rows by page."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from benchmarks.kilt_sets import half_rows
from benchmarks.strategies import combinations
from kbengine.encoders.sparse.checkpoint import has_sparse
from kbengine.learning.loop.interruption import never
from kbengine.progress import NoProgress
from recipes.sparse import NAME, Plan, run, sparse_recipe
from tests.kbengine.learning.phrases.small_training import FACTS
from tests.tiny_encoder import write_tiny_encoder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with the pages and rows of one slot-filling set."""
    folder = tmp_path / "data"
    folder.mkdir()
    rows, pages = [], []
    for i, (title, text, relation, answer) in enumerate(FACTS):
        start = text.index(answer)
        place = {"wikipedia_id": str(i), "title": title, "start_paragraph_id": 1, "end_paragraph_id": 1}
        place |= {"start_character": start, "end_character": start + len(answer)}
        output = [{"answer": answer, "provenance": [place]}]
        rows.append({"id": f"r{i}", "input": f"{title} [SEP] {relation}", "output": output})
        pages.append({"wikipedia_id": str(i), "wikipedia_title": title, "text": [title, text]})
    files = {"knet.pages": pages, "knet.train": rows, "knet.dev": rows}
    for name, lines in files.items():
        packed = gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode())
        (folder / f"{name}.jsonl.gz").write_bytes(packed)
    (folder / "unseen_pages.txt").write_text("7\n")
    return folder


def test_halves_share_no_page_and_are_drawn_with_the_seed(data: Path, tmp_path: Path) -> None:
    """Together they are all rows; a smaller limit draws some of them."""
    path = data / "knet.dev.jsonl.gz"
    choose, score = (half_rows(path, half, 100, tmp_path).read_text().splitlines() for half in ("choose", "score"))

    ids = [json.loads(line)["id"] for line in (*choose, *score)]
    assert sorted(ids) == [f"r{i}" for i in range(len(FACTS))] and choose and score
    few = half_rows(path, "score", 2, tmp_path)
    assert few.read_text() == half_rows(path, "score", 2, tmp_path).read_text()
    assert len(few.read_text().splitlines()) == 2


def test_weights_are_chosen_on_one_half_and_nothing_unseen_is_trained_on(data: Path, tmp_path: Path) -> None:
    """The heads' development rows are of the half that the table does not score."""
    recipe = sparse_recipe(Plan(data, tmp_path / "work", steps=8))

    assert [path.name for path in recipe.data.train] == ["knet.train.jsonl.gz"]
    assert all(".choose-" in path.name for path in recipe.data.dev)
    assert recipe.data.exclude_pages == data / "unseen_pages.txt"
    assert (recipe.loop.max_steps, recipe.loop.evaluate_every_steps) == (8, 2)


@pytest.mark.slow
def test_the_recipe_makes_heads_a_knowledge_base_and_the_table(data: Path, tmp_path: Path) -> None:
    """Every combination has its row; a second run makes nothing again."""
    encoder = write_tiny_encoder(tmp_path / "tiny")
    plan = Plan(data, tmp_path / "work", init=str(encoder), steps=2, rows=3)

    first = run(plan, progress=NoProgress(), stop=never)

    heads = tmp_path / "work" / NAME
    made = (heads / "sparse.safetensors").stat().st_mtime_ns
    assert has_sparse(heads)
    assert set(first["tasks"]["slot-filling"]["combinations"]) == {each.name for each in combinations()}
    assert "| hybrid + SPARC + BM25 |" in (tmp_path / "work" / "strategies.md").read_text()
    assert run(plan, progress=NoProgress(), stop=never) == first
    assert (heads / "sparse.safetensors").stat().st_mtime_ns == made
