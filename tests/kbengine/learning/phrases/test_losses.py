"""Every loss against a value worked out by hand (small logits, so that each number can be checked on paper)."""

from __future__ import annotations

import math

import pytest
import torch
from torch import tensor

from kbengine.learning.phrases.losses import (
    contrastive_loss,
    distillation_loss,
    filter_loss,
    negative_loss,
    passage_loss,
    single_passage_loss,
)
from kbengine.learning.phrases.pre_batches import GoldPhrases, PreBatchQueue

LOG2, LOG3 = math.log(2), math.log(3)
NONE = torch.zeros(2, 3, dtype=torch.bool)


def approx(value):
    """Return the value to compare a float32 scalar with."""
    return pytest.approx(value, rel=1e-5, abs=1e-6)


def test_contrastive_loss_is_minus_log_of_the_gold_share():
    """Shares 3/4 and 1/4 of two columns; a row without gold does not count."""
    logits = tensor([[LOG3, 0.0], [LOG3, 0.0], [9.0, 9.0]])

    assert contrastive_loss(logits, tensor([0, 1, -1])).item() == approx((math.log(4 / 3) + math.log(4)) / 2)


def test_excluded_columns_leave_the_softmax_but_never_the_gold_one():
    """1/3 becomes 1/2 without one column; excluding the gold one changes nothing."""
    logits = torch.zeros(1, 3)
    gold = tensor([1])

    assert contrastive_loss(logits, gold, tensor([[True, False, False]])).item() == approx(LOG2)
    assert contrastive_loss(logits, gold, tensor([[True, True, False]])).item() == approx(LOG2)


def test_a_batch_without_any_gold_costs_nothing_and_has_no_gradient():
    """Not a number would spoil every parameter."""
    logits = torch.zeros(2, 3, requires_grad=True)
    loss = contrastive_loss(logits, tensor([-1, -1]), NONE)
    loss.backward()

    assert loss.item() == 0 and torch.equal(logits.grad, torch.zeros(2, 3))


def test_single_passage_loss_is_the_mean_of_start_and_end():
    """Eq. 5-6: −log(2/4) for the start, −log(1/4) for the end."""
    start, end = tensor([[LOG2, 0.0, 0.0]]), tensor([[0.0, LOG2, 0.0]])
    loss = single_passage_loss(start, end, tensor([0]), tensor([2]), (NONE[:1], NONE[:1]))

    assert loss.item() == approx((math.log(2) + math.log(4)) / 2)


def test_single_passage_loss_equals_the_papers_form_up_to_its_constant():
    """As coded there: D[i,j] = s_i + e_j, mean over j, cross-entropy with the gold start; the same for ends."""
    torch.manual_seed(0)
    start, end = torch.randn(2, 5), torch.randn(2, 5)
    gold_start, gold_end = tensor([1, 3]), tensor([2, 4])
    both = start[:, :, None] + end[:, None, :]
    expected = (
        torch.nn.functional.cross_entropy(both.mean(2), gold_start)
        + torch.nn.functional.cross_entropy(both.mean(1), gold_end)
    ) / 2
    none = torch.zeros(2, 5, dtype=torch.bool)

    assert single_passage_loss(start, end, gold_start, gold_end, (none, none)).item() == approx(expected.item())


def test_in_batch_negatives_are_the_other_golds():
    """Eq. 8 with orthogonal vectors: e / (e + 1) on the diagonal."""
    golds = torch.eye(2)
    loss = negative_loss(torch.eye(2) @ golds.T, torch.zeros(2, 2), torch.arange(2))

    assert loss.item() == approx((math.log(1 + math.exp(-1)) + LOG2) / 2)


def test_first_and_last_tokens_may_stand_in_different_columns():
    """Negatives over all tokens: the gold start is column 0, the gold end column 2."""
    start, end = tensor([[LOG2, 0.0, 0.0]]), tensor([[0.0, 0.0, LOG2]])
    loss = negative_loss(start, end, tensor([[0], [2]]))

    assert loss.item() == approx(LOG2)


@pytest.mark.parametrize(
    ("direction", "expected"),
    [
        ("teacher-student", 0.75 * math.log(1.5) + 0.25 * math.log(0.5)),
        ("student-teacher", 0.5 * math.log(2 / 3) + 0.5 * math.log(2)),
        ("both", (0.75 * math.log(1.5) + 0.25 * math.log(0.5) + 0.5 * math.log(2 / 3) + 0.5 * math.log(2)) / 2),
    ],
)
def test_distillation_is_the_divergence_in_the_direction_asked_for(direction, expected):
    """Eq. 7: teacher (3/4, 1/4), student (1/2, 1/2); a third token is padding, a second row has no teacher."""
    teacher, student = tensor([[LOG3, 0.0, 9.0], [7.0, 0.0, 0.0]]), torch.zeros(2, 3)
    is_candidate = tensor([[True, True, False], [True, True, True]])
    loss = distillation_loss(student, teacher, is_candidate, tensor([True, False]), direction=direction)

    assert loss.item() == approx(expected)


def test_distillation_temperature_softens_both_and_keeps_the_scale():
    """At temperature 2, logits 2·log 3 are log 3; the divergence counts four times."""
    teacher, student = tensor([[2 * LOG3, 0.0]]), torch.zeros(1, 2)
    loss = distillation_loss(student, teacher, torch.ones(1, 2, dtype=torch.bool), tensor([True]), temperature=2.0)

    assert loss.item() == approx(4 * (0.75 * math.log(1.5) + 0.25 * math.log(0.5)))


def test_distillation_of_a_row_without_tokens_has_a_finite_gradient():
    """A row that is only a title."""
    student = torch.zeros(2, 2, requires_grad=True)
    is_candidate = tensor([[True, True], [False, False]])
    loss = distillation_loss(student, tensor([[1.0, 0.0], [0.0, 0.0]]), is_candidate, tensor([True, True]))
    loss.backward()

    assert math.isfinite(loss.item()) and bool(torch.isfinite(student.grad).all())
    assert torch.equal(student.grad[1], torch.zeros(2))


def test_filter_loss_weighs_the_one_positive_like_all_tokens():
    """Logits 0: each token costs log 2, the positive one three times that; mean over three tokens; padding is free."""
    logits = torch.zeros(2, 4, 2)
    is_text = tensor([[True, True, True, False], [True, True, True, True]])
    loss = filter_loss(logits, tensor([0, -1]), tensor([1, -1]), is_text)

    assert loss.item() == approx((3 + 2) / 3 * LOG2)


def test_filter_loss_looks_at_starts_and_ends_apart():
    """A start logit of log 3 at the gold start: 2·log(4/3) + log 2 over two tokens; ends at 0: 3 log 2 over two."""
    logits = tensor([[[LOG3, 0.0], [0.0, 0.0]]])
    loss = filter_loss(logits, tensor([0]), tensor([1]), torch.ones(1, 2, dtype=torch.bool))

    assert loss.item() == approx(((2 * math.log(4 / 3) + LOG2) / 2 + 3 * LOG2 / 2) / 2)


def test_passage_loss_compares_cosines_at_a_temperature():
    """Lengths do not matter; cosine 1 against 0 at temperature 1/log 3 has a share of 3/4."""
    queries, passages = tensor([[5.0, 0.0]]), tensor([[0.1, 0.0], [0.0, 8.0]])

    assert passage_loss(queries, passages, tensor([0]), temperature=1 / LOG3).item() == approx(math.log(4 / 3))


def test_the_queue_keeps_the_last_batches_without_gradient_and_survives_a_checkpoint():
    """Three batches pushed into a queue of two; the state gives the same columns."""
    queue = PreBatchQueue(2)
    assert queue.columns() is None
    for number in range(3):
        vectors = torch.full((2, 1), float(number), requires_grad=True)
        keys = torch.full((2,), number)
        queue.push(GoldPhrases(vectors, vectors + 10, keys))
    again = PreBatchQueue(2)
    again.load_state(queue.state(), torch.device("cpu"))
    for columns in (queue.columns(), again.columns()):
        assert columns.start.flatten().tolist() == [1, 1, 2, 2] and not columns.start.requires_grad
        assert columns.end.flatten().tolist() == [11, 11, 12, 12]
        assert columns.answer_keys.tolist() == [1, 1, 2, 2]
