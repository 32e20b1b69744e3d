"""An encoder with sparse heads gives the rows and vectors that the definition gives, whole passages and windows."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from kbengine.encoders.agreement import agreeing_encoder
from kbengine.encoders.checkpoint import read_checkpoint
from kbengine.encoders.encoder import Encoder, PassageText
from kbengine.encoders.sparse.checkpoint import read_sparse, write_sparse
from kbengine.encoders.sparse.config import SIDES, SparseConfig
from kbengine.encoders.sparse.encoding import SparseEncoder, WindowRows
from kbengine.encoders.sparse.grams import content_ids
from kbengine.encoders.sparse.model import SparseHeads
from kbengine.errors import EncoderMismatchError
from kbengine.inputs import Question, Slot
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.sparse.batches import Featurizer
from storage.sparse_rows import MAX_GRAMS, SparsePassage, SparseSide
from storage.sparse_scores import SparseQuery
from tests.tiny_encoder import SENTENCES, tiny_config, write_tiny_encoder

TOP = 255


def write_sparse_encoder(directory: Path, *, top: int = TOP, seed: int = 0) -> Path:
    """Return a tiny encoder's directory with seeded sparse heads of weights that matter."""
    write_tiny_encoder(directory)
    torch.manual_seed(seed)
    heads = SparseHeads(SparseConfig(32, top=top))
    with torch.no_grad():
        for parameter in heads.parameters():
            parameter.normal_(std=0.3)
    write_sparse(directory, heads)
    return directory


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny encoder with sparse heads."""
    return write_sparse_encoder(tmp_path_factory.mktemp("encoders") / "sparse")


@pytest.fixture(scope="module")
def encoder(directory: Path) -> Encoder:
    """The same, loaded."""
    return Encoder.load(directory, device="cpu", dtype="float32")


def product(passage: SparsePassage, query: SparseQuery) -> np.ndarray:
    """Return the inner products of all tokens with a query, float64 (2, t), by dictionaries."""
    found = np.zeros((2, passage.n_tokens))
    for s, side in enumerate((passage.start, passage.end)):
        weights = dict(zip(query.grams.tolist(), (query.start, query.end)[s].tolist(), strict=True))
        owners = np.repeat(np.arange(passage.n_tokens), side.counts)
        for owner, column, weight in zip(owners, side.columns, side.weights, strict=True):
            found[s, owner] += weight * weights.get(int(passage.grams[column]), 0.0)
    return found


def test_stored_rows_and_query_vectors_multiply_to_what_is_trained(directory: Path, encoder: Encoder) -> None:
    """With all n-grams kept, the inner products of rows and queries are the scores of the kernel of Eq. 2."""
    checkpoint = read_checkpoint(directory)
    heads = read_sparse(directory, hidden_size=32)
    V = checkpoint.config.backbone.vocab_size
    is_content = content_ids(checkpoint.tokenizer_json, V)
    featurizer = Featurizer(encoder.tokenizer, checkpoint.config, is_content, (1, 2))
    model = checkpoint.model()
    queries = [Question("Where was the first woman born in France?"), Slot("Marie Curie", "Nobel Prize")]
    for query, title, text in zip(queries, ("Paris", "Marie Curie"), SENTENCES[2:4], strict=True):
        (found,) = encoder.encode_passages([PassageText(title, text)])
        (asked,) = encoder.encode_queries([query]).sparse or ()
        example = TrainingExample("x", query, title, text, ())
        passage, question = featurizer.passage(example), featurizer.query(example)
        passages, questions = featurizer.padded([passage]), featurizer.padded([question])
        with torch.no_grad():
            states = model.passage_states(passages.ids, passages.is_token)
            query_states = model.query_states(questions.ids, questions.is_token)
            expected = torch.stack(heads.scores(states, passages.grams, query_states, questions.grams))[:, 0]

        assert found.sparse is not None and found.sparse.n_tokens == len(found.starts)
        assert expected.max() > 0.1
        own = expected[:, passage.first_text : -1].numpy()
        np.testing.assert_allclose(product(found.sparse, asked), own, rtol=1e-3, atol=1e-4)


def test_a_passage_alone_has_the_rows_it_has_among_others(encoder: Encoder) -> None:
    """Whatever is encoded beside it; long passages get the rows of their windows, every token once."""
    texts = [PassageText("Title", text) for text in (*SENTENCES[:3], " ".join(SENTENCES))]
    together = encoder.encode_passages(texts)

    for text, expected in zip(texts, together, strict=True):
        (alone,) = encoder.encode_passages([text])
        assert alone.sparse is not None and expected.sparse is not None
        assert alone.sparse.n_tokens == len(alone.starts)
        for side in SIDES:
            one, other = getattr(alone.sparse, side), getattr(expected.sparse, side)
            assert abs(one.counts.astype(int) - other.counts.astype(int)).max() <= 1  # a weight of almost 0
            if len(one.weights) == len(other.weights):
                np.testing.assert_allclose(one.weights, other.weights, atol=1e-4)


def test_of_each_token_the_heaviest_n_grams_are_kept(tmp_path: Path, encoder: Encoder) -> None:
    """As many as the configuration says; what is kept is what weighs most."""
    few = Encoder.load(write_sparse_encoder(tmp_path / "few", top=3), device="cpu", dtype="float32")
    text = PassageText("", SENTENCES[0])
    (all_kept,), (three_kept,) = encoder.encode_passages([text]), few.encode_passages([text])
    assert all_kept.sparse is not None and three_kept.sparse is not None

    for side in SIDES:
        whole, part = getattr(all_kept.sparse, side), getattr(three_kept.sparse, side)
        ends, part_ends = np.cumsum(whole.counts), np.cumsum(part.counts)
        assert part.counts.max() == 3
        for token in range(len(whole.counts)):
            weights = np.sort(whole.weights[ends[token] - whole.counts[token] : ends[token]])[::-1][:3]
            kept = np.sort(part.weights[part_ends[token] - part.counts[token] : part_ends[token]])[::-1]
            np.testing.assert_allclose(kept, weights, atol=1e-4)
    assert len(three_kept.sparse.grams) < len(all_kept.sparse.grams)


def test_more_n_grams_than_a_passage_may_have_lose_the_lightest(encoder: Encoder) -> None:
    """Two bytes name an n-gram; beyond that what weighs least in the whole passage goes."""
    n = MAX_GRAMS + 12
    weights = np.linspace(1, 2, n).astype(np.float32)
    half = n // 2
    windows = []
    for part in range(2):
        grams = np.arange(part * half, part * half + half, dtype=np.uint32)
        side = SparseSide(
            np.full(half // 2, 2, np.uint8), np.arange(half, dtype=np.uint16), weights[part * half : part * half + half]
        )
        windows.append(WindowRows(grams, side, side))
    sparse = encoder.sparse
    assert isinstance(sparse, SparseEncoder)

    joined = sparse.joined(windows)

    assert len(joined.grams) == MAX_GRAMS and joined.grams[0] == 12
    assert joined.start.counts[:7].tolist() == [0, 0, 0, 0, 0, 0, 2] and len(joined.start.weights) == MAX_GRAMS


def test_an_encoder_agrees_with_the_rows_that_are_stored_or_is_refused(encoder: Encoder, tmp_path: Path) -> None:
    """Heads go unused where no rows are; other heads are an error; no heads search by dense vectors alone."""
    assert encoder.sparse is not None
    assert agreeing_encoder(encoder, encoder.sparse.fingerprint, tmp_path) is encoder
    plain = agreeing_encoder(encoder, None, tmp_path)
    assert plain.sparse is None and plain.fingerprint == encoder.fingerprint
    assert plain.encode_queries([Question("who?")]).sparse is None
    assert plain.encode_passages([PassageText("", "river")])[0].sparse is None
    assert agreeing_encoder(plain, encoder.sparse.fingerprint, tmp_path) is plain
    with pytest.raises(EncoderMismatchError, match="heads it was built with"):
        agreeing_encoder(encoder, "0" * 64, tmp_path)


def test_a_passage_without_words_has_empty_rows(encoder: Encoder) -> None:
    """Punctuation has no n-gram; a query of it has an empty vector."""
    (found,) = encoder.encode_passages([PassageText("", "?! ... ,")])
    (asked,) = encoder.encode_queries([Question("?!")]).sparse or ()

    assert found.sparse is not None and len(found.sparse.grams) == 0 and found.sparse.start.counts.sum() == 0
    assert len(asked.grams) == 0
    assert dataclasses.asdict(tiny_config())["max_phrase_tokens"] == 20
