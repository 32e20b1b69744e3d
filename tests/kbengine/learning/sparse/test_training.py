"""Sparse heads are trained on a phrase encoder: negatives, noise, bonus, development score, exact resumption."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kbengine.encoders.checkpoint import read_checkpoint
from kbengine.encoders.encoder import Encoder
from kbengine.encoders.sparse.checkpoint import has_sparse, read_sparse, sparse_fingerprint, write_sparse
from kbengine.encoders.sparse.config import SparseConfig
from kbengine.encoders.sparse.grams import content_ids
from kbengine.encoders.sparse.model import SparseHeads
from kbengine.encoders.tokenization import TextTokenizer
from kbengine.errors import EncoderError, InvalidOptionError, TrainingError
from kbengine.inputs import Question, Slot
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.data.report import DataReport
from kbengine.learning.loop.options import LoopOptions, OptimizerOptions
from kbengine.learning.runs.examples import Examples
from kbengine.learning.runs.run import TrainedModel, train_model
from kbengine.learning.runs.sparse import SparseModelOptions, SparseRecipe
from kbengine.learning.sparse.batches import NO_ANSWER, NOT_HERE, Featurizer, make_batch
from kbengine.learning.sparse.negatives import TfIdf, disturbed, similar_questions
from kbengine.learning.sparse.options import SparseOptions
from kbengine.span import Span
from tests.kbengine.learning.sparse.examples import keyed_examples
from tests.tiny_encoder import tiny_config, tiny_tokenizer_json, write_tiny_encoder

FAST = LoopOptions(epochs=3, batch_size=16, device="cpu", optimizer=OptimizerOptions(learning_rate=5e-3))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny encoder's directory."""
    return write_tiny_encoder(tmp_path_factory.mktemp("encoders") / "tiny")


@pytest.fixture(scope="module")
def featurizer() -> Featurizer:
    """Of the tiny encoder."""
    config = tiny_config()
    V = config.backbone.vocab_size
    tokenizer = TextTokenizer(tiny_tokenizer_json(), uncased=True, vocab_size=V, source="test")
    return Featurizer(tokenizer, config, content_ids(tiny_tokenizer_json(), V), (1, 2))


def train(
    encoder: Path,
    examples: list[TrainingExample],
    out: Path,
    *,
    loop: LoopOptions = FAST,
    options: SparseOptions | None = None,
    development: tuple[TrainingExample, ...] = (),
    **run: Any,
) -> TrainedModel:
    """Train heads on these examples."""
    model = SparseModelOptions(init=str(encoder))
    recipe = SparseRecipe(loop=loop, model=model, losses=options or SparseOptions())
    return train_model(recipe, out, examples=Examples(tuple(examples), tuple(development), DataReport()), **run)


def test_training_finds_what_the_query_names(encoder: Path, tmp_path: Path) -> None:
    """The loss falls far and the development score rises above dense alone; the encoder's files stay what they were."""
    out = tmp_path / "sparse"
    loop = dataclasses.replace(FAST, epochs=8, optimizer=OptimizerOptions(learning_rate=1e-2))
    options = SparseOptions(negatives=False, dense_weight=0.0)
    development = tuple(keyed_examples(60, seed=2))
    report = train(
        encoder, keyed_examples(240, seed=1), out, loop=loop, options=options, development=development
    ).report

    assert report.last_loss is not None and report.first_loss is not None
    assert report.last_loss < 0.75 * report.first_loss
    assert report.best["combined_exact"] > report.best["dense_exact"]
    assert has_sparse(out)
    assert Encoder.load(out, device="cpu").fingerprint == Encoder.load(encoder, device="cpu").fingerprint
    assert (out / "model.safetensors").read_bytes() == (encoder / "model.safetensors").read_bytes()


def test_an_interrupted_training_ends_where_an_uninterrupted_one_does(encoder: Path, tmp_path: Path) -> None:
    """Bit for bit, negatives and noise included."""
    examples = keyed_examples(40, seed=3)
    whole = tmp_path / "whole"
    options = SparseOptions(negatives=True)
    train(encoder, examples, whole, options=options)
    steps = itertools.count(1)
    with pytest.raises(KeyboardInterrupt):
        train(encoder, examples, tmp_path / "again", options=options, stop=lambda: next(steps) == 4)
    with pytest.raises(TrainingError, match="resume"):
        train(encoder, examples, tmp_path / "again", options=options)

    train(encoder, examples, tmp_path / "again", options=options, resume=True)

    for name in ("sparse.safetensors", "sparse.json"):
        assert (tmp_path / "again" / name).read_bytes() == (whole / name).read_bytes()


def test_joint_training_moves_the_encoder_but_not_its_word_embeddings(encoder: Path, tmp_path: Path) -> None:
    """And writes a whole model directory."""
    out = tmp_path / "joint"
    options = SparseOptions(train_encoder=True, negatives=False)
    loop = dataclasses.replace(FAST, max_steps=2)
    train(encoder, keyed_examples(32, seed=4), out, loop=loop, options=options)

    before, after = read_checkpoint(encoder).weights, read_checkpoint(out).weights
    moved = {name for name in before if not torch.allclose(before[name].half().float(), after[name], atol=1e-6)}
    assert any(name.startswith("phrase_encoder") for name in moved)
    assert any(name.startswith("query_encoder") for name in moved)
    assert "embeddings.word_embeddings.weight" not in moved
    assert read_sparse(out, hidden_size=32).config == SparseConfig(32)


def test_wrong_requests_are_refused(encoder: Path, tmp_path: Path) -> None:
    """Nothing to learn from, a directory that is there, options out of range."""
    bare = [dataclasses.replace(example, answers=()) for example in keyed_examples(3, seed=5)]
    with pytest.raises(TrainingError, match="none of 3"):
        train(encoder, bare, tmp_path / "out")
    (tmp_path / "there").mkdir()
    with pytest.raises(EncoderError, match="already exists"):
        train(encoder, keyed_examples(3, seed=5), tmp_path / "there")
    for wrong in (
        {"noise_share": 2.0},
        {"in_batch": 1.5},
        {"page_rows": 0},
        {"bonus": -1.0},
        {"mining_pool": 1},
        {"dense_weight": math.inf},
    ):
        with pytest.raises(InvalidOptionError, match="wanted"):
            SparseOptions(**wrong)  # type: ignore[arg-type]


def test_a_batch_has_gold_positions_and_leaves_out_what_it_must(featurizer: Featurizer) -> None:
    """The answer's tokens, further answers as no negatives, unanswerable rows, answers beyond the input."""
    first, second = keyed_examples(2, seed=6)
    text = "paris is the capital and paris is a city"
    twice = TrainingExample("t", Question("which city?"), "France", text, (Span(25, 30), Span(0, 5)))
    unanswerable = dataclasses.replace(first, answers=(), answerable=False)
    window = tiny_config().max_passage_tokens
    long_text = "river " * (3 * window) + "tokyo"
    far = TrainingExample(
        "f", Question("which?"), "", long_text, (Span(0, 5), Span(len(long_text) - 5, len(long_text)))
    )
    no_token = dataclasses.replace(second, passage="   ", answers=(Span(0, 1),))
    examples = [first, twice, unanswerable, far, no_token]

    batch = make_batch(featurizer, examples, [None] * 5, [0.0] * 5, [0, 1, 0, 1, 0])

    tokens = featurizer.tokenizer
    assert batch.negatives is None
    assert tokens.ids([first.answer_texts[0]])[0] == [int(batch.passages.ids[0, batch.gold_start[0]])]
    paris = tokens.ids(["paris"])[0][0]
    places = torch.nonzero(batch.passages.ids[1] == paris).flatten().tolist()
    assert batch.gold_start[1] == places[0] and batch.other_starts[1].nonzero().flatten().tolist() == [places[1]]
    assert batch.gold_start[2] == batch.gold_end[2] == NO_ANSWER
    assert batch.gold_start[3] >= 0 and batch.passages.ids.shape[1] <= window
    assert batch.gold_start[4] == NOT_HERE
    assert not batch.passages.is_text[1, : 2 + len(tokens.ids(["France"])[0])].any()


def test_the_negative_is_the_passage_of_the_most_similar_other_question() -> None:
    """Not one that is the same passage or holds the answer; none where every other one does."""

    def example(name: str, passage: str, answer: str) -> TrainingExample:
        at = passage.index(answer)
        return TrainingExample(name, Question(name), "", passage, (Span(at, at + len(answer)),))

    examples = [
        example("a", "the tower of ulm", "ulm"),
        example("b", "the bridge of ulm", "bridge"),
        example("c", "the river", "river"),
        example("d", "the tower of ulm", "tower"),
    ]
    vectors = np.array([[1.0, 0.0], [0.99, 0.1], [0.5, 0.8], [0.98, 0.2]], dtype=np.float32)
    rng = np.random.default_rng(0)

    assert similar_questions(vectors, examples, pool=100, rng=rng).tolist() == [2, 3, 3, 1]
    assert similar_questions(vectors[:2], examples[:2], pool=100, rng=rng).tolist() == [-1, 0]


def test_the_bonus_is_a_tf_idf_cosine() -> None:
    """By hand over three passages: log(1 + tf) · log((N − n + ½) / (n + ½)), not below 0."""
    tf_idf = TfIdf(["tower ulm", "tower river", "bridge"])
    idf_one, idf_unseen = math.log(2.5 / 1.5), math.log(3.5 / 0.5)

    left = {"ulm": math.log(2) * idf_one, "zzz": math.log(2) * idf_unseen}
    right = {"ulm": math.log(3) * idf_one}
    norm = math.sqrt(sum(w * w for w in left.values())) * right["ulm"]
    assert tf_idf.cosine("Ulm zzz tower", "ulm ulm") == pytest.approx(left["ulm"] * right["ulm"] / norm)
    assert tf_idf.cosine("the of", "ulm") == tf_idf.cosine("tower", "tower") == 0.0


def test_noise_cuts_replaces_or_shuffles_a_tenth() -> None:
    """All three happen; never more tokens than asked for change."""
    ids, others = np.arange(100, 200), np.array([7, 8])
    kinds = set()
    for seed in range(30):
        noisy = disturbed(ids, others, rate=0.1, rng=np.random.default_rng(seed))
        if len(noisy) == 90:
            kinds.add("cut")
            assert (noisy == ids[:90]).all()
        elif set(noisy) == set(ids):
            kinds.add("shuffled")
            assert (noisy != ids).sum() <= 10
        else:
            kinds.add("replaced")
            assert (noisy != ids).sum() == 10 and set(noisy) - set(ids) <= {7, 8}
    assert kinds == {"cut", "shuffled", "replaced"}
    assert disturbed(ids, others, rate=0.0, rng=np.random.default_rng(0)) is ids


def test_heads_come_back_from_their_files_and_damage_is_named(encoder: Path, tmp_path: Path) -> None:
    """As float16; another hidden size, missing tensors, broken files are refused."""
    directory = write_tiny_encoder(tmp_path / "model")
    torch.manual_seed(0)
    heads = SparseHeads(SparseConfig(32, orders=(1,)))
    write_sparse(directory, heads)

    found = read_sparse(directory, hidden_size=32)

    assert len(sparse_fingerprint(found)) == 64
    for name, tensor in heads.state_dict().items():
        torch.testing.assert_close(found.state_dict()[name], tensor.half().float())
    with pytest.raises(EncoderError, match="already"):
        write_sparse(directory, heads)
    with pytest.raises(EncoderError, match="32 dimensions"):
        read_sparse(directory, hidden_size=64)
    (directory / "sparse.json").write_text((directory / "sparse.json").read_text().replace("false", "true"))
    with pytest.raises(EncoderError, match="does not hold the tensors"):
        read_sparse(directory, hidden_size=32)
    (directory / "sparse.safetensors").write_bytes(b"no")
    with pytest.raises(EncoderError, match="cannot be read"):
        read_sparse(directory, hidden_size=32)


def test_slots_are_queries_too(featurizer: Featurizer) -> None:
    """Subject and relation have n-grams; none crosses the [SEP] between them."""
    example = TrainingExample("s", Slot("Marie Curie", "place of birth"), "", "river", (Span(0, 5),))

    inputs = featurizer.padded([featurizer.query(example)])

    n_tokens = [len(ids) for ids in featurizer.tokenizer.ids(["Marie Curie", "place of birth"])]
    assert int((inputs.grams[0, 0] >= 0).sum()) == sum(n_tokens)
    assert int((inputs.grams[0, 1] >= 0).sum()) == sum(n_tokens) - 2
