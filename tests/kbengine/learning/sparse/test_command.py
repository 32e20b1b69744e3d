"""From files to a searched knowledge base: `kbengine train sparse`, build, query with the parts of the score."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kbengine.build.builder import CorpusOptions, add_corpus, build
from kbengine.build.filtering import FilterOptions
from kbengine.encoders.encoder import Encoder
from kbengine.errors import EncoderMismatchError
from kbengine.knowledge_base import KnowledgeBase
from kbengine.learning.loop.recipe import read_recipe
from kbengine.learning.runs.sparse import SparseRecipe
from kbengine.search.query import Weights
from tests.kbengine.learning.questions.pages import HARROW, SELLA, write_pages
from tests.kbengine.learning.sparse.test_encoding import write_sparse_encoder
from tests.test_cli import kbengine
from tests.tiny_encoder import write_tiny_encoder


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """A knowledge source of two pages."""
    return write_pages(tmp_path / "pages.jsonl", HARROW, SELLA)


@pytest.mark.parametrize("words", [("sparse",), ("--sparse",)])
def test_the_command_trains_heads_on_an_encoder(tmp_path: Path, pages: Path, words: tuple[str, ...]) -> None:
    """On cloze questions of a corpus; as a command of its own and as an option of `train`."""
    encoder, out = write_tiny_encoder(tmp_path / "encoder"), tmp_path / "with-sparse"
    done = kbengine(
        "train", *words, "--adapt", pages, "--init", encoder, "--out", out, "--epochs", 1, "--device", "cpu", "--json"
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["steps"] >= 1
    loaded = Encoder.load(out, device="cpu")
    assert loaded.sparse is not None and loaded.sparse.config.top == 24


def test_options_of_another_training_are_refused(tmp_path: Path, pages: Path) -> None:
    """Pre-batches are the phrase encoder's; nothing is written."""
    out = tmp_path / "out"
    done = kbengine("train", "--sparse", "--adapt", pages, "--pre-batches", 2, "--out", out)

    assert done.returncode == 2 and "pre_batches" in done.stderr and not out.exists()


def test_a_knowledge_base_built_with_sparse_heads_is_searched_with_them(tmp_path: Path, pages: Path) -> None:
    """The parts of a score have a sparse one that follows its weight; additions, repair and info know the rows."""
    encoder = Encoder.load(write_sparse_encoder(tmp_path / "encoder"), device="cpu", dtype="float32")
    kb = tmp_path / "kb"
    everything = FilterOptions(keep_fraction=1.0)
    build(CorpusOptions((pages,)), kb, encoder=encoder, filter_options=everything)
    question = "Where was the lighthouse in France born?"
    with KnowledgeBase.open(kb, encoder) as knowledge_base:
        assert knowledge_base.info().bytes_by_use["sparse"] > 0
        knowledge_base.add(
            [{"id": "new", "title": "New", "text": "A lighthouse was born in France for the first time."}]
        )
        seen = {}
        for weight in (0.0, 1.0, 3.0):
            weights = Weights(sparse=weight)
            hits = knowledge_base.search(question, k=50, weights=weights, explain=True).hits
            for hit in hits:
                assert hit.parts is not None
                seen.setdefault((hit.first_token_id, hit.last_token_id), {})[weight] = hit.parts.sparse
        both = [parts for parts in seen.values() if {0.0, 1.0, 3.0} <= set(parts)]
        assert both and any(parts[1.0] > 0 for parts in both)
        for parts in both:
            assert parts[0.0] == 0 and parts[3.0] == pytest.approx(3 * parts[1.0], rel=1e-4)
    assert kbengine("verify", "--deep", "--kb", kb).returncode == 0
    done = kbengine("query", question, "--kb", kb, "--strategy", "sfs", "--explain", "--json")
    assert done.returncode == 0, done.stderr
    assert "sparse" in done.stdout
    assert kbengine("query", question, "--kb", kb, "--strategy", "words").returncode == 2


def test_sparse_rows_can_be_left_out_of_a_build(tmp_path: Path, pages: Path) -> None:
    """`--no-sparse` stores dense vectors only."""
    encoder = write_sparse_encoder(tmp_path / "encoder")
    sizes = {}
    for name, options in (("with", ()), ("without", ("--no-sparse",))):
        kb = tmp_path / name
        done = kbengine("build", pages, "--encoder", encoder, "--kb", kb, *options, "--json")
        assert done.returncode == 0, done.stderr
        sizes[name] = json.loads(kbengine("info", "--kb", kb, "--json").stdout)["bytes_by_use"]["sparse"]

    assert sizes["with"] > 0 and sizes["without"] == 0


def test_sparse_rows_can_be_dropped_while_others_search(tmp_path: Path, pages: Path) -> None:
    """`reindex --drop-sparse` asks first; who had it open goes on with dense vectors, and adds without the rows."""
    encoder = Encoder.load(write_sparse_encoder(tmp_path / "encoder"), device="cpu", dtype="float32")
    kb = tmp_path / "kb"
    build(CorpusOptions((pages,)), kb, encoder=encoder, filter_options=FilterOptions(keep_fraction=1.0))
    assert kbengine("reindex", "--kb", kb, "--drop-sparse").returncode == 2
    copied = kbengine("reindex", "--kb", kb, "--drop-sparse", "--out", tmp_path / "copy", "--json")
    assert copied.returncode == 0, copied.stderr
    with KnowledgeBase.open(kb, encoder) as knowledge_base:
        assert knowledge_base.search("lighthouse", k=1).hits
        assert knowledge_base.has_sparse()
        done = kbengine("reindex", "--kb", kb, "--drop-sparse", "--yes", "--json")
        assert done.returncode == 0, done.stderr
        (hit,) = knowledge_base.search("lighthouse", k=1, explain=True).hits
        assert hit.parts is not None and hit.parts.sparse == 0
        knowledge_base.add([{"id": "new", "title": "New", "text": "A lighthouse in the far north."}])
        assert knowledge_base.info().bytes_by_use["sparse"] == 0
        assert not knowledge_base.has_sparse()
    assert kbengine("verify", "--deep", "--kb", kb).returncode == 0
    assert json.loads(kbengine("info", "--kb", tmp_path / "copy", "--json").stdout)["bytes_by_use"]["sparse"] == 0


def test_encoders_without_or_with_other_heads(tmp_path: Path, pages: Path) -> None:
    """Without heads the rows are left alone; other heads are refused; where no rows are, heads go unused."""
    first = Encoder.load(write_sparse_encoder(tmp_path / "first"), device="cpu", dtype="float32")
    other = Encoder.load(write_sparse_encoder(tmp_path / "other", seed=9), device="cpu", dtype="float32")
    assert first.fingerprint == other.fingerprint
    build(CorpusOptions((pages,)), tmp_path / "kb", encoder=first, filter_options=FilterOptions())
    build(CorpusOptions((pages,)), tmp_path / "plain", encoder=first.without_sparse(), filter_options=FilterOptions())

    with pytest.raises(EncoderMismatchError, match="sparse rows"):
        KnowledgeBase.open(tmp_path / "kb", other)
    with pytest.raises(EncoderMismatchError, match="sparse rows"):
        add_corpus(CorpusOptions((pages,)), tmp_path / "kb", encoder=other)
    with KnowledgeBase.open(tmp_path / "kb", first.without_sparse()) as knowledge_base:
        (hit,) = knowledge_base.search("lighthouse", k=1, explain=True).hits
        assert hit.parts is not None and hit.parts.sparse == 0
    with KnowledgeBase.open(tmp_path / "plain", other) as knowledge_base:
        knowledge_base.add([{"id": "new", "title": "New", "text": "Nothing sparse here."}])
        assert knowledge_base.info().bytes_by_use["sparse"] == 0


def test_single_options_leave_the_others_as_heads_want_them() -> None:
    """The loop's own defaults are those of heads, also where one of them is set."""
    recipe = read_recipe(SparseRecipe, None, [("loop.max_steps", 5), ("loop.optimizer.weight_decay", 0.1)])

    assert (recipe.loop.max_steps, recipe.loop.batch_size, recipe.loop.epochs) == (5, 24, 1)
    assert recipe.loop.optimizer.learning_rate == 1e-3 and recipe.loop.optimizer.weight_decay == 0.1
    assert recipe.loop.optimizer.rate_factors == (("encoder.", 0.03),)
