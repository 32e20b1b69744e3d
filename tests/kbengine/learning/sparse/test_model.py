"""Sparse encoders against the definition: explicit one-hot n-gram matrices, loops, hand-computed values."""

from __future__ import annotations

import functools
import json
import math

import numpy as np
import pytest
import torch

from kbengine.encoders.sparse.config import SparseConfig
from kbengine.encoders.sparse.grams import NO_GRAM, content_ids, gram_numbers, stored_grams
from kbengine.encoders.sparse.model import SparseHeads, gram_match
from kbengine.errors import EncoderError
from kbengine.learning.sparse.loss import SideLogits, in_batch_loss, sparse_loss
from tests.tiny_encoder import tiny_tokenizer_json

V, H = 12, 8
IS_CONTENT = np.array([False, False, False, *[True] * (V - 3)])
"""Ids 0 to 2 stand for [PAD], [CLS] and [SEP]."""


def heads(**changed) -> SparseHeads:
    """Return seeded heads with weights of a size that matters."""
    torch.manual_seed(0)
    found = SparseHeads(SparseConfig(H, **changed))
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.normal_(std=0.7)
    return found.double()


def explicit_features(ids: torch.Tensor, order: int) -> torch.Tensor:
    """Return F of one text, (T, |F|): one row a position, a one at the number of its n-gram."""
    T = len(ids)
    F = torch.zeros(T, V**order, dtype=torch.float64)
    for n in range(T):
        gram = ids[n : n + order].tolist()
        if len(gram) == order and all(IS_CONTENT[each] for each in gram):
            F[n, functools.reduce(lambda number, each: number * V + each, gram)] = 1
    return F


def explicit_scores(model: SparseHeads, states, ids, query_states, query_ids) -> torch.Tensor:
    """Return (2, B, T): Eq. 1 with F made dense, and the inner product of the vectors over the whole vocabulary."""
    B, T = ids.shape
    found = torch.zeros(2, B, T, dtype=torch.float64)
    for b in range(B):
        for s, side in enumerate(("start", "end")):
            for order in model.config.orders:
                head, of_query = model.passage_head(side, order), model.query_head(side, order)
                Q, K = head.query(states[b]), head.key(states[b])
                S = torch.relu(Q @ K.T / math.sqrt(model.config.head_size))
                S = S - torch.diag(torch.diag(S))
                cls = of_query.query(query_states[s][b, 0])
                s_q = torch.relu(of_query.key(query_states[s][b]) @ cls / math.sqrt(model.config.head_size))
                s_q[0] = 0
                vector_q = s_q @ explicit_features(query_ids[b], order)  # (|F|,)
                vectors = S @ explicit_features(ids[b], order)  # (T, |F|)
                found[s, b] += vectors @ vector_q
    return found


@pytest.mark.parametrize("orders", [(1,), (2,), (1, 2), (1, 2, 3)])
@pytest.mark.parametrize("shared", [True, False])
def test_the_kernel_gives_what_explicit_vocabulary_vectors_give(orders, shared) -> None:
    """Eq. 2 equals Eq. 1 multiplied out, for n-grams of every length, start and end."""
    model = heads(orders=orders, shared_heads=shared)
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(2, 6, (3, 14), generator=generator)
    query_ids = torch.randint(2, 6, (3, 9), generator=generator)
    states = torch.randn(3, 14, H, generator=generator, dtype=torch.float64)
    query_states = tuple(torch.randn(3, 9, H, generator=generator, dtype=torch.float64) for _ in range(2))
    grams, query_grams = (
        torch.from_numpy(gram_numbers(each.numpy(), IS_CONTENT, orders)).transpose(0, 1) for each in (ids, query_ids)
    )

    start, end = model.scores(states, grams, query_states, query_grams)

    expected = explicit_scores(model, states, ids, query_states, query_ids)
    assert expected.abs().max() > 1
    torch.testing.assert_close(torch.stack([start, end]).double(), expected, rtol=1e-4, atol=1e-4)


def test_all_queries_at_once_get_what_each_gets_alone() -> None:
    """Of every passage and query, also of queries that share no n-gram with anything or have none."""
    model = heads()
    generator = torch.Generator().manual_seed(4)
    ids = torch.randint(0, V, (3, 9), generator=generator)
    query_ids = torch.cat([torch.randint(0, V, (3, 6), generator=generator), torch.zeros(1, 6, dtype=torch.long)])
    states = torch.randn(3, 9, H, generator=generator, dtype=torch.float64)
    query_states = tuple(torch.randn(4, 6, H, generator=generator, dtype=torch.float64) for _ in range(2))
    grams, query_grams = (
        torch.from_numpy(gram_numbers(each.numpy(), IS_CONTENT, (1, 2))).transpose(0, 1) for each in (ids, query_ids)
    )

    together = model.scores(states, grams, query_states, query_grams, every_query=True)

    for q in range(4):
        of_query = tuple(each[q : q + 1].expand(3, -1, -1) for each in query_states)
        alone = model.scores(states, grams, of_query, query_grams[q : q + 1].expand(3, -1, -1))
        for all_of, own in zip(together, alone, strict=True):
            torch.testing.assert_close(all_of[:, :, q], own)
    nothing = model.scores(states, grams, query_states, torch.full_like(query_grams, NO_GRAM), every_query=True)
    assert not nothing[0].any() and not nothing[1].any()


def test_padding_changes_no_score() -> None:
    """Neither of the passage nor of the query."""
    model = heads()
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(0, V, (1, 7), generator=generator)
    states = torch.randn(1, 7, H, generator=generator, dtype=torch.float64)
    wide = torch.cat([ids, torch.zeros(1, 4, dtype=torch.long)], dim=1)
    wide_states = torch.cat([states, torch.randn(1, 4, H, generator=generator, dtype=torch.float64)], dim=1)
    grams, wide_grams = (
        torch.from_numpy(gram_numbers(each.numpy(), IS_CONTENT, (1, 2))).transpose(0, 1) for each in (ids, wide)
    )

    alone = model.scores(states, grams, (states, states), grams)
    padded = model.scores(wide_states, wide_grams, (wide_states, wide_states), wide_grams)

    for one, other in zip(alone, padded, strict=True):
        torch.testing.assert_close(one, other[:, :7])


def test_gradients_reach_every_head() -> None:
    """Through the kernel, passage and query heads of both sides and lengths learn."""
    model = heads().float()
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(3, 6, (2, 10), generator=generator)
    states = torch.randn(2, 10, H, generator=generator)
    grams = torch.from_numpy(gram_numbers(ids.numpy(), IS_CONTENT, (1, 2))).transpose(0, 1)

    start, end = model.scores(states, grams, (states, states), grams)
    (start.sum() + end.sum()).backward()

    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


def test_n_grams_are_exact_and_masked() -> None:
    """A bigram needs two tokens that count, side by side; each n-gram has a number of its own."""
    ids = np.array([[1, 5, 6, 2, 6, 5, 0]])

    unigrams, bigrams = gram_numbers(ids, IS_CONTENT, (1, 2))

    assert unigrams.tolist() == [[NO_GRAM, 5, 6, NO_GRAM, 6, 5, NO_GRAM]]
    no = NO_GRAM
    assert bigrams.tolist() == [[no, V + V * 5 + 6, no, no, V + V * 6 + 5, no, no]]
    match = gram_match(torch.from_numpy(unigrams), torch.tensor([[NO_GRAM, 6]]))
    assert match[0].sum(dim=0).tolist() == [0, 2]


def test_trigrams_are_told_from_shorter_n_grams() -> None:
    """Three tokens that count, in a row; stored, they are hashed away from the exact numbers of the others."""
    ids = np.array([[5, 6, 5, 2, 6, 5], [5, 6, 5, 6, 5, 0]])

    _, pairs, triples = gram_numbers(ids, IS_CONTENT, (1, 2, 3))

    first, second = V + V * V + V * V * 5 + V * 6 + 5, V + V * V + V * V * 6 + V * 5 + 6
    no = NO_GRAM
    assert triples.tolist() == [[first, no, no, no, no, no], [first, second, first, no, no, no]]
    assert gram_numbers(ids[:, :2], IS_CONTENT, (3,)).tolist() == [[[no, no], [no, no]]]
    words = 30_522
    shorter = np.array([words - 1, words + words * 5 + 6])
    stored = stored_grams(np.concatenate([shorter, words + words**2 + np.arange(1_000)]), words)
    assert stored[:2].tolist() == shorter.tolist() and stored[2:].min() >= words + words**2
    assert len(np.unique(stored)) == 1_002
    assert set(pairs[pairs >= 0]).isdisjoint(triples[triples >= 0])


def test_stored_numbers_are_exact_for_usual_vocabularies_and_hashed_beyond() -> None:
    """Up to 65,535 tokens of vocabulary nothing collides; beyond, unigrams keep their numbers and bigrams theirs."""
    largest = 65_535
    exact = stored_grams(np.array([0, largest - 1, largest + largest * (largest - 1) + largest - 1]), largest)
    assert exact.tolist() == [0, largest - 1, largest * (largest + 1) - 1]

    large = 250_000
    pairs = np.arange(large, large + 5_000_000, 97, dtype=np.int64)
    hashed = stored_grams(np.concatenate([np.array([7, large - 1]), pairs]), large)
    assert hashed[:2].tolist() == [7, large - 1]
    assert hashed[2:].min() >= large
    assert len(np.unique(hashed)) > 0.9999 * (len(pairs) + 2)


def test_only_words_count() -> None:
    """Special tokens and punctuation have no n-gram; letters, digits, word pieces and Han characters have."""
    text = tiny_tokenizer_json()
    vocabulary = json.loads(text)["model"]["vocab"]
    is_content = content_ids(text, len(vocabulary))

    for token in ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "?", ",", "["):
        assert not is_content[vocabulary[token]], token
    for token in ("paris", "##a", "7", "日"):
        assert is_content[vocabulary[token]], token
    with pytest.raises(EncoderError, match="no vocabulary"):
        content_ids("{}", 5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"hidden_size": 0},
        {"head_size": 0},
        {"head_size": True},
        {"orders": (4,)},
        {"orders": ()},
        {"orders": (2, 1)},
        {"top": 0},
        {"top": 256},
        {"shared_heads": 1},
    ],
)
def test_a_configuration_out_of_range_is_refused(wrong) -> None:
    """With the value seen and the value wanted."""
    with pytest.raises(EncoderError, match="wanted"):
        SparseConfig(**{"hidden_size": H, **wrong})
    assert SparseConfig.from_json(SparseConfig(H).to_json(), "sparse.json") == SparseConfig(H)
    with pytest.raises(EncoderError, match="wanted"):
        SparseConfig.from_json({"hidden_size": H}, "sparse.json")


def ce(logits: list[float], at: int) -> float:
    """Return −log softmax at one place."""
    return math.log(sum(math.exp(each) for each in logits)) - logits[at]


def test_the_loss_is_the_mean_of_the_cross_entropies_and_the_auxiliary_one() -> None:
    """By hand: two columns and "no answer"; the bonus counts in the combined loss alone; rows of −2 cost nothing."""
    dense = SideLogits(
        torch.tensor([[1.0, 0.0], [0.5, 2.0], [3.0, 3.0]]), torch.tensor([[0.0, 1.0], [0.0, 0.0], [3.0, 3.0]])
    )
    sparse = SideLogits(
        torch.tensor([[2.0, 0.0], [0.0, 0.0], [9.0, 9.0]]), torch.tensor([[0.0, 0.5], [1.0, 0.0], [9.0, 9.0]])
    )
    bonus = torch.tensor([[0.0, 0.25], [0.0, 0.0], [0.0, 0.0]])
    none = torch.zeros(3, 2, dtype=torch.bool)
    hidden = none.clone()
    hidden[1, 0] = True
    gold = (torch.tensor([0, -1, -2]), torch.tensor([1, -1, -2]))
    no_answer = torch.tensor([0.1, 0.2])

    found = sparse_loss(dense, sparse, gold, (none, hidden), no_answer=no_answer, bonus=bonus, dense_weight=0.5)

    starts = (ce([0.1, 3.0, 0.25], 1) + ce([0.1, 0.5, 2.0], 0)) / 2
    ends = (ce([0.2, 0.0, 1.75], 2) + ce([0.2, 0.0], 0)) / 2
    combined = (starts + ends) / 2
    dense_starts = (ce([0.1, 1.0, 0.0], 1) + ce([0.1, 0.5, 2.0], 0)) / 2
    dense_ends = (ce([0.2, 0.0, 1.0], 2) + ce([0.2, 0.0], 0)) / 2
    of_dense = (dense_starts + dense_ends) / 2
    assert float(found.combined) == pytest.approx(combined, rel=1e-6)
    assert float(found.dense) == pytest.approx(of_dense, rel=1e-6)
    assert float(found.total) == pytest.approx(combined + 0.5 * of_dense, rel=1e-6)


def test_dense_scores_can_count_less_beside_sparse_ones() -> None:
    """Half of them in the combined loss, all of them in the auxiliary one."""
    dense, sparse = (SideLogits(torch.tensor([[a, 0.0]]), torch.tensor([[a, 0.0]])) for a in (2.0, 0.5))
    none, gold = torch.zeros(1, 2, dtype=torch.bool), (torch.tensor([0]), torch.tensor([0]))

    found = sparse_loss(dense, sparse, gold, (none, none), no_answer=torch.zeros(2), dense_scale=0.5)

    assert float(found.combined) == pytest.approx(ce([0.0, 1.5, 0.0], 1), rel=1e-6)
    assert float(found.dense) == pytest.approx(ce([0.0, 2.0, 0.0], 1), rel=1e-6)


def test_the_loss_over_the_batch_compares_with_all_its_tokens() -> None:
    """By hand, two passages of two tokens: not with what is no text, other answers, passages that answer it too."""
    scores = torch.tensor([[[1.0, 0.5], [2.0, 0.0]], [[0.0, 3.0], [1.5, 4.0]]])  # passage, token, query
    both = SideLogits(scores, scores)
    outside = torch.tensor([[False, False], [False, True]])
    other_answer = outside | torch.tensor([[True, False], [False, False]])
    gold = (torch.tensor([1, 0]), torch.tensor([1, -2]))
    never = torch.tensor([[True, False], [False, True]])  # each query's own passage is named here as well

    found = in_batch_loss(both, gold, (outside, other_answer), outside, never)

    starts = (ce([1.0, 2.0, 0.0], 1) + ce([0.5, 0.0, 3.0], 2)) / 2
    assert float(found) == pytest.approx((starts + ce([2.0, 0.0], 0)) / 2, rel=1e-6)
    never[1, 0] = True
    found = in_batch_loss(both, gold, (outside, other_answer), outside, never)
    starts = (ce([1.0, 2.0], 1) + ce([0.5, 0.0, 3.0], 2)) / 2
    assert float(found) == pytest.approx((starts + 0.0) / 2, rel=1e-6)
