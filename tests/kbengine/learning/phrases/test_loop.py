"""The training loop on a small regression: it learns, resumes exactly, stops early, keeps the best."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from itertools import chain, groupby

import numpy as np
import pytest
import torch
from torch import nn

from kbengine.errors import CorruptError, InvalidOptionError, TrainingError
from kbengine.learning.loop.interruption import stop_on_interrupt
from kbengine.learning.loop.journal import read_log
from kbengine.learning.loop.loop import train
from kbengine.learning.loop.optimizer import NamedAdamW
from kbengine.learning.loop.options import LoopOptions, OptimizerOptions
from kbengine.learning.loop.order import epoch_batches, epoch_order, grouped_order
from kbengine.learning.loop.recipe import from_mapping
from kbengine.learning.loop.task import Evaluation, LossTerms, TrainingTask

OPTIONS = LoopOptions(
    epochs=3,
    batch_size=8,
    seed=5,
    device="cpu",
    log_every_steps=1,
    optimizer=OptimizerOptions(learning_rate=0.05),
)


class Regression(TrainingTask):
    """Learns a linear map through dropout; keeps the last batch's mean as extra state, and adds it to the loss."""

    def __init__(self, *, n=40, scores=None):
        torch.manual_seed(1)
        super().__init__(nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.2), nn.Linear(8, 1)), n)
        generator = torch.Generator().manual_seed(2)
        self.inputs = torch.randn(n, 3, generator=generator)
        self.targets = self.inputs @ torch.tensor([1.0, -2.0, 0.5])
        self.scores = scores
        self.n_evaluations = 0
        self.memory = torch.zeros(1)

    def collate(self, indices, *, epoch):
        return self.inputs[indices], self.targets[indices]

    def losses(self, batch, position, processes):
        inputs, targets = batch
        loss = (self.model(inputs).squeeze(-1) - targets).square().mean()
        total = loss + 0.01 * self.memory.abs().sum() * self.model[0].weight.square().sum()
        self.memory = inputs.mean().reshape(1)
        return LossTerms(total, {"square": loss})

    def evaluate(self, processes):
        self.n_evaluations += 1
        error = (self.model(self.inputs).squeeze(-1) - self.targets).square().mean().item()
        score = -error if self.scores is None else self.scores[self.n_evaluations - 1]
        return Evaluation(score, {"error": error})

    def extra_state(self):
        return {"memory": self.memory}

    def load_extra_state(self, state):
        self.memory = state["memory"]


class StopAfter:
    """Asks to stop after a number of steps."""

    def __init__(self, n):
        self.n = n

    def __call__(self):
        self.n -= 1
        return self.n == 0


def final_state(directory):
    """Return the parameters of a fresh task trained in the directory."""
    task = Regression()
    train(task, OPTIONS, directory)
    return {name: tensor.clone() for name, tensor in task.model.state_dict().items()}


def without_times(records):
    """Return the records of a log but for their clock."""
    return [{k: v for k, v in record.items() if k != "elapsed_s"} for record in records]


def test_the_loss_falls_and_the_report_says_so(tmp_path):
    """Three epochs of a small regression."""
    task = Regression()
    report = train(task, OPTIONS, tmp_path / "run")

    assert report.n_steps == 15 and report.best["error"] < 0.5 * report.first["error"] and not report.stopped_early
    assert report.last_loss < report.first_loss
    written = json.loads((tmp_path / "run" / "report.json").read_text())
    assert written["best_score"] == report.best_score and written["begun_with"]["examples"] == 40
    assert not task.model.training


@pytest.mark.parametrize("n_steps", [1, 5, 7, 14])
def test_a_run_resumed_after_an_interruption_is_the_same_bit_for_bit(tmp_path, n_steps):
    """Model, optimiser, schedule, order of data, dropout and cached batches all go on where they were."""
    expected = final_state(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(Regression(), OPTIONS, tmp_path / "cut", stop=StopAfter(n_steps))
    task = Regression()
    report = train(task, OPTIONS, tmp_path / "cut", resume=True)

    assert all(torch.equal(tensor, expected[name]) for name, tensor in task.model.state_dict().items())
    assert without_times(read_log(tmp_path / "cut")) == without_times(read_log(tmp_path / "whole"))
    assert report.n_steps == 15


def test_two_runs_with_one_seed_are_equal_and_with_another_differ(tmp_path):
    """Seeds reproduce."""
    first, second = final_state(tmp_path / "a"), final_state(tmp_path / "b")
    task = Regression()
    train(task, replace(OPTIONS, seed=6), tmp_path / "c")

    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], tensor) for name, tensor in task.model.state_dict().items())


def test_accumulated_batches_move_as_one_large_batch(tmp_path):
    """Mean of the gradients of two batches = the gradient of both; without dropout and memory."""
    results = []
    for batch_size, accumulate in ((16, 1), (8, 2)):
        task = Regression(n=32)
        task.model[1].p = 0.0
        task.load_extra_state = task.extra_state = lambda *_: {}
        task.losses = lambda batch, position, processes, task=task: LossTerms(
            (task.model(batch[0]).squeeze(-1) - batch[1]).square().mean()
        )
        options = replace(OPTIONS, dtype="float32", batch_size=batch_size, accumulate=accumulate)
        report = train(task, options, tmp_path / str(batch_size))
        results.append((report.n_steps, torch.cat([p.flatten() for p in task.model.parameters()])))

    assert results[0][0] == results[1][0] == 6
    torch.testing.assert_close(results[0][1], results[1][1], rtol=1e-4, atol=1e-5)


def test_patience_stops_the_run_and_the_best_weights_are_kept(tmp_path):
    """The score rises once and then falls: two worse ones end the run."""
    task = Regression(scores=[0.0, 0.1, 0.9, 0.5, 0.4, 0.3])
    report = train(task, replace(OPTIONS, epochs=5, patience=2), tmp_path / "run")
    shorter = Regression()
    # The schedule is that of five epochs, so the weights after two of them are those kept as best.
    with pytest.raises(KeyboardInterrupt):
        train(shorter, replace(OPTIONS, epochs=5), tmp_path / "two", stop=StopAfter(10))

    assert report.stopped_early and report.n_steps == 20 and report.best_step == 10 and report.best_score == 0.9
    kept = task.model.state_dict()
    assert all(torch.equal(kept[name], tensor) for name, tensor in shorter.model.state_dict().items())


def test_a_finished_run_resumes_to_its_report_without_training(tmp_path):
    """Nothing is left to do, and the best weights come back."""
    expected = final_state(tmp_path / "run")
    task = Regression()
    report = train(task, OPTIONS, tmp_path / "run", resume=True)

    assert report.n_steps == 15 and task.n_evaluations == 0
    assert all(torch.equal(tensor, expected[name]) for name, tensor in task.model.state_dict().items())


def test_a_directory_with_a_run_is_refused_unless_resumed_with_the_same_options(tmp_path):
    """No run is overwritten, none continued as another."""
    train(Regression(), OPTIONS, tmp_path / "run")

    with pytest.raises(TrainingError, match="resume it"):
        train(Regression(), OPTIONS, tmp_path / "run")
    with pytest.raises(TrainingError, match=r"options.batch_size was 8, is 4"):
        train(Regression(), replace(OPTIONS, batch_size=4), tmp_path / "run", resume=True)
    with pytest.raises(TrainingError, match="examples was 40, is 24"):
        train(Regression(n=24), OPTIONS, tmp_path / "run", resume=True)


def test_a_damaged_checkpoint_is_named(tmp_path):
    """A flipped byte is found by its checksum."""
    with pytest.raises(KeyboardInterrupt):
        train(Regression(), OPTIONS, tmp_path / "run", stop=StopAfter(3))
    path = next((tmp_path / "run" / "checkpoints").glob("*/optimizer.safetensors"))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)

    with pytest.raises(CorruptError, match=r"optimizer\.safetensors"):
        train(Regression(), OPTIONS, tmp_path / "run", resume=True)


def test_an_unfinished_write_is_no_checkpoint(tmp_path):
    """What a kill left under a temporary name is not resumed from."""
    (tmp_path / "run" / "checkpoints" / ".abc.tmp").mkdir(parents=True)
    report = train(Regression(), OPTIONS, tmp_path / "run", resume=True)

    assert report.n_steps == 15


def test_a_loss_that_is_not_finite_is_an_error_before_anything_moves(tmp_path):
    """The message says at which step and what to try."""
    task = Regression()
    task.targets[:] = float("nan")

    with pytest.raises(TrainingError, match="gradient of step 1 is not finite"):
        train(task, OPTIONS, tmp_path / "run")
    assert all(bool(torch.isfinite(p).all()) for p in task.model.parameters())


def test_no_examples_is_an_error(tmp_path):
    """There is nothing to train on."""
    with pytest.raises(TrainingError, match="there are 0 training examples"):
        train(Regression(n=0), OPTIONS, tmp_path / "run")


def test_an_interrupt_is_noticed_once_and_the_second_one_stops_at_once():
    """The first SIGINT sets a flag, the second one raises as usual."""
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background ignores it
    try:
        with stop_on_interrupt() as stop:
            assert not stop()
            os.kill(os.getpid(), signal.SIGINT)
            assert stop()
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, usual)


def test_every_example_is_in_one_batch_of_one_process():
    """Shares of processes are equal and disjoint; with one process nothing is left out."""
    order = epoch_order(11, seed=1, epoch=2)
    alone = epoch_batches(order, batch_size=4, rank=0, world=1)
    shares = [epoch_batches(order, batch_size=4, rank=rank, world=2) for rank in range(2)]

    assert sorted(chain(*alone)) == list(range(11)) and [len(batch) for batch in alone] == [4, 4, 3]
    assert [[len(batch) for batch in share] for share in shares] == [[2, 2, 1]] * 2
    assert len(set(chain(*shares[0], *shares[1]))) == 10
    assert alone != epoch_batches(epoch_order(11, seed=1, epoch=3), batch_size=4, rank=0, world=1)


def test_examples_of_a_group_come_in_runs() -> None:
    """Every example once; a group's in runs of the size wanted, but for its last; runs and groups shuffled."""
    groups = np.array([0] * 5 + [1] * 3 + [2] * 4 + [3])

    order = grouped_order(groups, 2, seed=0, epoch=0)

    runs = [(group, len(list(run))) for group, run in groupby(groups[order].tolist())]
    assert sorted(order.tolist()) == list(range(13))
    assert sum(n == 1 for _, n in runs) <= 3 and len(order) == len(groups)
    assert grouped_order(groups, 2, seed=0, epoch=1).tolist() != order.tolist()
    assert grouped_order(groups[:0], 2, seed=0, epoch=0).tolist() == []


def test_the_rate_rises_then_falls_to_nothing():
    """Linear warm-up over a tenth of the steps, linear decay over the rest."""
    optimizer = NamedAdamW(nn.Linear(2, 2), OptimizerOptions(learning_rate=1.0, warmup_fraction=0.2), n_steps=10)

    assert [round(optimizer.rate(step), 3) for step in range(11)] == [
        0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125, 0.0
    ]  # fmt: skip


def test_gradients_are_clipped_to_the_norm_and_factors_multiply_the_rate():
    """A frozen part stays, a part of factor 2 moves twice as far; the norm given is the one before clipping."""
    torch.manual_seed(0)
    model = nn.ModuleDict({"a": nn.Linear(1, 1, bias=False), "b": nn.Linear(1, 1, bias=False), "c": nn.Linear(1, 1)})
    options = OptimizerOptions(learning_rate=0.1, warmup_fraction=0, clip_norm=1.0, rate_factors=[("b", 2), ("c", 0)])
    optimizer = NamedAdamW(model, options, n_steps=1000)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    (3 * model["a"].weight.sum() + 4 * model["b"].weight.sum() + model["c"].weight.detach().sum()).backward()

    assert optimizer.step(0) == pytest.approx(5.0)
    moved = {name: (before[name] - p).abs().sum().item() for name, p in model.named_parameters()}
    assert moved["a.weight"] == pytest.approx(0.1, rel=1e-3) and moved["b.weight"] == pytest.approx(0.2, rel=1e-3)
    assert moved["c.weight"] == moved["c.bias"] == 0


def test_options_name_what_is_wrong():
    """A value out of range, an unknown key of a recipe, a prefix that fits nothing."""
    with pytest.raises(InvalidOptionError, match="learning_rate is -1, wanted more than 0"):
        OptimizerOptions(learning_rate=-1)
    with pytest.raises(InvalidOptionError, match="batch_size is 0"):
        LoopOptions(batch_size=0)
    with pytest.raises(InvalidOptionError, match=r"loop has unknown options batchsize; known are .*batch_size"):
        from_mapping(LoopOptions, {"batchsize": 3}, "loop")
    with pytest.raises(InvalidOptionError, match="'x', which begins no parameter"):
        NamedAdamW(nn.Linear(1, 1), OptimizerOptions(rate_factors=(("x", 2.0),)), n_steps=1)

    made = from_mapping(LoopOptions, {"epochs": 2, "optimizer": {"rate_factors": {"a": 3}}}, "loop")
    assert made.epochs == 2 and made.optimizer.rate_factors == (("a", 3.0),)
