"""The training loop: any task, one process or several, resumable at every step exactly.

A run lives in a directory: `log.jsonl`, `checkpoints/step-N/`, `best.safetensors`, at its end `report.json` and
`curves.png`. What is trained there, and how it is saved for use, is the task's and the caller's business.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from safetensors.torch import load, save
from torch import Tensor

from kbengine.encoders.device import choose_dtype
from kbengine.errors import TrainingError
from kbengine.learning.loop.interruption import Stop, never
from kbengine.learning.loop.journal import Journal, read_log
from kbengine.learning.loop.optimizer import NamedAdamW
from kbengine.learning.loop.options import LoopOptions
from kbengine.learning.loop.order import epoch_batches, prefetched
from kbengine.learning.loop.processes import Processes, join_processes
from kbengine.learning.loop.report import TrainingReport, machine_facts, write_report
from kbengine.learning.loop.run_state import (
    RunFacts,
    RunState,
    random_state,
    read_last_state,
    set_random_state,
    write_state,
)
from kbengine.learning.loop.task import Position, TrainingTask
from kbengine.progress import NoProgress, ProgressSink
from storage.durable import write_durably

B = TypeVar("B")
CHECKPOINTS_FOLDER = "checkpoints"
BEST_FILE = "best.safetensors"


def train(
    task: TrainingTask[B],
    options: LoopOptions,
    directory: Path,
    *,
    resume: bool = False,
    processes: Processes | None = None,
    progress: ProgressSink | None = None,
    stop: Stop = never,
) -> TrainingReport:
    """Return the report of a finished run; the task's model then holds the best weights, in evaluation mode.

    Args:
        task: what to train.
        options: how.
        directory: the run's own; made if it is not there.
        resume: go on from the directory's last checkpoint, or begin when it has none; the result is the same, bit
            for bit on the same processor with the same number of threads, as without the interruption.
        processes: those this one belongs to, by default what the launcher's environment says.
        progress: where to report.
        stop: asked after every step; once it says yes, a checkpoint is written and KeyboardInterrupt raised.

    Raises:
        TrainingError: the directory has a run and `resume` is not set, or that run is another one; there is nothing to
            train on; a gradient is not finite.
        StorageFullError: no space for a checkpoint; the one before is untouched.
        KeyboardInterrupt: as asked for by `stop`.
    """
    processes = processes or join_processes(options.device)
    return _Run(task, options, directory, processes, progress or NoProgress(), stop).run(resume=resume)


class _Run(Generic[B]):
    """One sitting of a run."""

    def __init__(
        self,
        task: TrainingTask[B],
        options: LoopOptions,
        directory: Path,
        processes: Processes,
        progress: ProgressSink,
        stop: Stop,
    ) -> None:
        self.task = task
        self.options = options
        self.directory = directory
        self.processes = processes
        self.progress = progress
        self.stop = stop
        self.facts = RunFacts()
        self.begun_with = {
            "options": asdict(options),
            "data": task.fingerprint(),
            "examples": task.n_examples,
            "processes": processes.world,
        }
        self.batches_per_epoch = len(self._batches(0))
        if not self.batches_per_epoch:
            raise TrainingError(
                f"there are {task.n_examples} training examples for {processes.world} processes; give more data"
            )
        steps_per_epoch = -(-self.batches_per_epoch // options.accumulate)
        n_steps = steps_per_epoch * options.epochs
        self.n_steps = n_steps if options.max_steps is None else min(n_steps, options.max_steps)

    def run(self, *, resume: bool) -> TrainingReport:
        before = self._last_state(resume)
        torch.manual_seed(self.options.seed + self.processes.rank)  # dropout differs between processes
        self.task.model.to(self.processes.device)
        self.optimizer = NamedAdamW(self.task.model, self.options.optimizer, n_steps=self.n_steps)
        if before is not None:
            self._restore(before)
        self._began_s = time.monotonic() - self.facts.elapsed_s
        with self._journal() as self.journal:
            if not self.facts.finished:
                self._train()
        report = self._report()
        self._load_best()
        self.task.model.eval()
        if self.processes.is_main:
            write_report(self.directory, report)
        self.processes.wait()
        return report

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    def _journal(self) -> Journal:
        directory = self.directory if self.processes.is_main else None
        return Journal(directory, after_step=self.facts.position.step, tensorboard=self.options.tensorboard)

    def _last_state(self, resume: bool) -> RunState | None:
        """Return the checkpoint to go on from, or None to begin."""
        state = read_last_state(self.directory / CHECKPOINTS_FOLDER)
        if state is not None and not resume:
            raise TrainingError(
                f"{self.directory} holds a run that has come to step {state.facts.position.step}; resume it, or choose "
                "another directory"
            )
        if state is not None and (differing := _differences(state.begun_with, _as_json(self.begun_with))):
            raise TrainingError(
                f"{self.directory} holds a run that began with other options or data ({', '.join(differing)}); resume "
                "with the same, or choose another directory"
            )
        self.directory.mkdir(parents=True, exist_ok=True)
        self.processes.wait()
        return state

    def _restore(self, state: RunState) -> None:
        self.facts = state.facts
        self.task.model.load_state_dict(dict(state.tensors["model"]), strict=True)
        self.optimizer.load_state(state.tensors["optimizer"])
        self.task.load_extra_state(state.tensors["task"])
        set_random_state(state.tensors["random"][str(self.processes.rank)])

    def _train(self) -> None:
        self.progress.begin("training", self.n_steps, "steps")
        self.progress.advance(self.facts.position.step)
        window = _Window()
        if self.facts.position.step == 0:
            self._evaluate()  # what training has to beat: its beginning is kept if nothing is better
        while not self.facts.finished:
            position = self.facts.position
            self.task.begin_epoch(position.epoch, self.options.epochs)
            self.task.model.train()
            batches = self._batches(position.epoch)[position.batch :]
            collate = partial(self.task.collate, epoch=position.epoch)
            stream = prefetched(collate, batches, ahead=self.options.prefetch_batches)
            while group := list(islice(stream, self.options.accumulate)):
                self._step(group, window)
                self._after_step(window)
                if self.facts.finished:
                    break

    def _batches(self, epoch: int) -> list[list[int]]:
        return epoch_batches(
            self.task.order(seed=self.options.seed, epoch=epoch),
            batch_size=self.options.batch_size,
            rank=self.processes.rank,
            world=self.processes.world,
        )

    def _step(self, group: Sequence[B], window: _Window) -> None:
        """Move the parameters once, by the mean gradient of the batches."""
        position = self.facts.position
        for offset, batch in enumerate(group):
            with self._autocast():
                terms = self.task.losses(batch, replace(position, batch=position.batch + offset), self.processes)
            (terms.total / len(group)).backward()  # type: ignore[no-untyped-call]  # torch
            window.add(terms.total.detach(), {name: part.detach() for name, part in terms.parts.items()})
        self.processes.average_gradients(self.optimizer.parameters)
        window.norms.append(self.optimizer.step(position.step))
        batch_number, epoch = position.batch + len(group), position.epoch
        if batch_number >= self.batches_per_epoch:
            batch_number, epoch = 0, epoch + 1
        after = Position(position.step + 1, epoch, batch_number)
        self.facts = replace(self.facts, position=after, finished=after.step >= self.n_steps)

    def _autocast(self) -> AbstractContextManager[Any]:
        device = self.processes.device.type
        wanted = choose_dtype(self.options.dtype, self.processes.device)
        return torch.autocast(device, dtype=torch.bfloat16, enabled=wanted == torch.bfloat16)

    def _after_step(self, window: _Window) -> None:
        """Log, evaluate and keep what is due; stop when asked to."""
        position, options = self.facts.position, self.options
        ends_epoch = position.batch == 0
        if position.step % options.log_every_steps == 0 or self.facts.finished:
            self._log(window)
        if _is_due(position.step, options.evaluate_every_steps, ends_epoch) or self.facts.finished:
            self._evaluate()
        asked = self.processes.any(self.stop())
        if asked or self.facts.finished or _is_due(position.step, options.checkpoint_every_steps, ends_epoch):
            self._log(window)
            self._write_state()
        self.progress.advance(1)
        if asked and not self.facts.finished:
            raise KeyboardInterrupt

    def _log(self, window: _Window) -> None:
        values = window.means(self.processes)
        if values is None:
            return
        step = self.facts.position.step
        values |= {"epoch": self.facts.position.epoch, "rate": self.optimizer.rate(step - 1)}
        self.journal.write("step", step, values | {"elapsed_s": round(self._elapsed_s(), 3)})

    def _evaluate(self) -> None:
        self.task.model.eval()
        with torch.no_grad():
            found = self.task.evaluate(self.processes)
        self.task.model.train()
        if found is None:
            return
        # Processes on several devices may differ in a last bit, and must not in what they decide.
        score = float(
            self.processes.mean(torch.tensor([found.score], dtype=torch.float64, device=self.processes.device)).item()
        )
        found = replace(found, score=score)
        step = self.facts.position.step
        is_better = self.facts.best_score is None or found.score > self.facts.best_score
        if is_better:
            self.facts = replace(self.facts, best_score=found.score, best_step=step, n_worse=0)
            if self.processes.is_main:
                state = self.task.model.state_dict()
                weights = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
                write_durably(self.directory / BEST_FILE, [save(weights)], replace=True)
        else:
            self.facts = replace(self.facts, n_worse=self.facts.n_worse + 1)
            if self.options.patience is not None and self.facts.n_worse >= self.options.patience:
                self.facts = replace(self.facts, finished=True)
        self.journal.write("evaluation", step, {"score": found.score, "measures": dict(found.measures)})

    def _write_state(self) -> None:
        """Write a checkpoint; every process takes part, the main one writes."""
        mine = random_state()
        states = self.processes.gather(mine.to(self.processes.device)[None]).cpu()
        if self.processes.is_main:
            self.facts = replace(self.facts, elapsed_s=self._elapsed_s())
            tensors = {
                "model": self.task.model.state_dict(),
                "optimizer": self.optimizer.state(),
                "task": self.task.extra_state(),
                "random": {str(rank): states[rank] for rank in range(self.processes.world)},
            }
            write_state(self.directory / CHECKPOINTS_FOLDER, RunState(self.facts, self.begun_with, tensors))
        self.processes.wait()

    def _load_best(self) -> None:
        if self.facts.best_step is not None:
            weights = load((self.directory / BEST_FILE).read_bytes())
            self.task.model.load_state_dict(weights, strict=True)

    def _report(self) -> TrainingReport:
        self.processes.wait()
        records = read_log(self.directory)
        steps = [record for record in records if record["kind"] == "step"]
        evaluations = [record for record in records if record["kind"] == "evaluation"]
        best = [record for record in evaluations if record["step"] == self.facts.best_step]
        return TrainingReport(
            n_steps=self.facts.position.step,
            n_examples=self.task.n_examples,
            stopped_early=self.facts.position.step < self.n_steps,
            best_score=self.facts.best_score,
            best_step=self.facts.best_step,
            first_score=evaluations[0]["score"] if evaluations else None,
            first=evaluations[0]["measures"] if evaluations else {},
            best=best[0]["measures"] if best else {},
            first_loss=steps[0]["loss"] if steps else None,
            last_loss=steps[-1]["loss"] if steps else None,
            elapsed_s=round(self._elapsed_s(), 1),
            begun_with=self.begun_with,
            machine=machine_facts(self.processes.device, self.processes.world),
        )


class _Window:
    """The losses since the last line of the log; they stay on the device until the line is written."""

    def __init__(self) -> None:
        self.norms: list[float] = []
        self._totals: list[Tensor] = []
        self._parts: dict[str, list[Tensor]] = {}

    def add(self, total: Tensor, parts: Mapping[str, Tensor]) -> None:
        self._totals.append(total)
        for name, part in parts.items():
            self._parts.setdefault(name, []).append(part)

    def means(self, processes: Processes) -> dict[str, Any] | None:
        """Return the means over batches and processes, and begin anew; None when nothing was added."""
        if not self._totals:
            return None
        names = sorted(self._parts)
        means = [torch.stack(values).float().mean() for values in (self._totals, *(self._parts[n] for n in names))]
        total, *parts = processes.mean(torch.stack(means)).tolist()
        norm = sum(self.norms) / len(self.norms)
        self._totals, self._parts, self.norms = [], {}, []
        return {"loss": total, "parts": dict(zip(names, parts, strict=True)), "gradient_norm": norm}


def _is_due(step: int, every: int | None, ends_epoch: bool) -> bool:
    return ends_epoch if every is None else step % every == 0


def _differences(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return the names of what differs between two runs' beginnings."""
    found: list[str] = []
    for name in sorted(before.keys() | now.keys()):
        old, new = before.get(name), now.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += _differences(old, new, f"{prefix}{name}.")
        elif old != new:
            found.append(f"{prefix}{name} was {old!r}, is {new!r}")
    return found


def _as_json(value: Mapping[str, Any]) -> Any:
    """Return what comes back when the value has been written as JSON: tuples as lists."""
    return json.loads(json.dumps(value))
