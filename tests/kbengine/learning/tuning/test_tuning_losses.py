"""The losses against values computed by hand."""

from __future__ import annotations

import math

import pytest
import torch

from kbengine.learning.tuning.losses import closeness_loss, marginal_loss, phrase_loss, reader_loss

YES = torch.ones(1, 3, dtype=torch.bool)


def logs(*values: float) -> torch.Tensor:
    """Scores whose softmax is in proportion to the values."""
    return torch.tensor([[math.log(value) for value in values]])


def test_phrase_loss_sums_the_probabilities_of_all_answers() -> None:
    """Eq. 11: of scores 1 : 2 : 5 the first two are answers, so −log 3/8."""
    right = torch.tensor([[True, True, False]])

    loss = phrase_loss(logs(1, 2, 1), logs(1, 1, 5), right, YES)

    assert loss.item() == pytest.approx(-math.log(3 / 8))


def test_start_and_end_terms_are_added_on_demand() -> None:
    """Starts 1 : 2 : 1 and ends 1 : 1 : 5, the first two right: −log 3/8 − log 3/4 − log 2/7."""
    right = torch.tensor([[True, True, False]])

    loss = phrase_loss(logs(1, 2, 1), logs(1, 1, 5), right, YES, separate_ends=True)

    assert loss.item() == pytest.approx(-math.log(3 / 8) - math.log(3 / 4) - math.log(2 / 7))


def test_padding_is_no_candidate() -> None:
    """A padded column with a huge score changes nothing, marked right or not."""
    scores = torch.tensor([[math.log(1), math.log(3), 99.0]])
    right = torch.tensor([[True, False, True]])
    candidates = torch.tensor([[True, True, False]])

    assert marginal_loss(scores, right, candidates).item() == pytest.approx(-math.log(1 / 4))


def test_rows_without_a_right_candidate_cost_nothing() -> None:
    """The mean is over the others; alone they cost 0, with a gradient of 0."""
    scores = torch.cat([logs(1, 1, 2), logs(5, 1, 1)]).requires_grad_()
    right = torch.tensor([[False, False, True], [False, False, False]])

    assert marginal_loss(scores, right, YES.expand(2, 3)).item() == pytest.approx(-math.log(2 / 4))
    loss = marginal_loss(scores, torch.zeros(2, 3, dtype=torch.bool), YES.expand(2, 3))
    loss.backward()
    assert loss.item() == 0
    assert scores.grad is not None and not scores.grad.any()


def test_no_candidates_at_all_are_no_nan() -> None:
    """An empty knowledge base gives rows of padding."""
    scores = torch.zeros(1, 3, requires_grad=True)
    nothing = torch.zeros(1, 3, dtype=torch.bool)

    (marginal_loss(scores, nothing, nothing) + closeness_loss(scores, scores.detach(), nothing)).backward()

    assert scores.grad is not None and torch.isfinite(scores.grad).all()


def test_closeness_is_the_divergence_from_the_start() -> None:
    """KL of (1/2, 1/4, 1/4) from (1/4, 1/4, 1/2) is 1/2·log 2 + 1/4·log 1/2."""
    loss = closeness_loss(logs(1, 1, 2), logs(2, 1, 1), YES)

    assert loss.item() == pytest.approx(0.5 * math.log(2) + 0.25 * math.log(0.5))
    assert closeness_loss(logs(1, 2, 3), logs(1, 2, 3), YES).item() == pytest.approx(0, abs=1e-6)


def test_the_reader_is_followed_over_what_it_read() -> None:
    """Scores 1 : 1 of a student against 3 : 1 of the reader, a third phrase unread: 3/4·log 3/2 + 1/4·log 1/2."""
    is_read = torch.tensor([[True, True, False]])

    loss = reader_loss(logs(1, 1, 7), logs(3, 1, 99), is_read)

    assert loss.item() == pytest.approx(0.75 * math.log(1.5) + 0.25 * math.log(0.5))
    assert reader_loss(logs(3, 1, 7), logs(3, 1, 99), is_read).item() == pytest.approx(0, abs=1e-6)


def test_queries_that_nothing_was_read_for_cost_nothing() -> None:
    """The mean is over the others; the gradient is the difference of the distributions."""
    scores = torch.cat([logs(1, 1), logs(1, 9)]).requires_grad_()
    reader = torch.cat([logs(3, 1), logs(5, 1)]).requires_grad_()
    is_read = torch.tensor([[True, True], [False, False]])

    reader_loss(scores, reader, is_read).backward()

    assert scores.grad is not None and reader.grad is None
    assert scores.grad.tolist() == [pytest.approx([0.5 - 0.75, 0.5 - 0.25]), [0, 0]]
