"""Checkpoints of a run: everything that exact resuming needs, in safetensors and JSON, there wholly or not at all."""

from __future__ import annotations

import contextlib
import json
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from kbengine.errors import CorruptError, TrainingError
from kbengine.learning.loop.task import Position
from storage.durable import check_file, fsync_directory, write_durably, write_error

FORMAT = 1
FACTS_FILE = "state.json"
_PREFIX = "step-"
_KINDS = ("model", "optimizer", "task", "random")


@dataclass(frozen=True)
class RunFacts:
    """Where a run is and what it has seen.

    Attributes:
        position: The next batch.
        best_score: The best development score so far.
        best_step: The optimiser step it was reached at.
        n_worse: Development scores since that were no better.
        finished: Whether nothing is left to do.
        elapsed_s: Seconds of training so far, over all sittings.
    """

    position: Position = field(default_factory=Position)
    best_score: float | None = None
    best_step: int | None = None
    n_worse: int = 0
    finished: bool = False
    elapsed_s: float = 0.0


@dataclass(frozen=True)
class RunState:
    """One checkpoint: facts, and tensors by kind (`model`, `optimizer`, `task`, `random`)."""

    facts: RunFacts
    begun_with: Mapping[str, Any]
    tensors: Mapping[str, Mapping[str, Tensor]]


def write_state(folder: Path, state: RunState) -> Path:
    """Return the checkpoint's directory, durable; older ones in the folder are gone then.

    Raises:
        StorageFullError: no space; the checkpoint before is untouched.
    """
    directory = folder / f"{_PREFIX}{state.facts.position.step:08d}"
    temporary = folder / f".{uuid.uuid4().hex}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        files = {}
        for kind in _KINDS:
            tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.tensors[kind].items()}
            size, sha256 = write_durably(temporary / f"{kind}.safetensors", [save(tensors)])
            files[kind] = {"bytes": size, "sha256": sha256}
        facts = {"format": FORMAT, "facts": asdict(state.facts), "begun_with": state.begun_with, "files": files}
        write_durably(temporary / FACTS_FILE, [json.dumps(facts, indent=2).encode()])
        fsync_directory(temporary)
        # A second one of the same step: an interrupt straight after a checkpoint that was due.
        if directory.exists():
            shutil.rmtree(directory)
        temporary.rename(directory)
        fsync_directory(folder)
        for old in _directories(folder):
            if old != directory:
                shutil.rmtree(old)
    except OSError as e:
        raise write_error(e, directory) from e
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(temporary)  # gone already when all went well
    return directory


def read_last_state(folder: Path) -> RunState | None:
    """Return the newest checkpoint of the folder, or None where there is none.

    Raises:
        CorruptError: a file of it is not what was written.
        TrainingError: another version of kbengine wrote it.
    """
    directories = _directories(folder)
    if not directories:
        return None
    directory = directories[-1]
    try:
        value = json.loads((directory / FACTS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        raise CorruptError(f"cannot read {directory / FACTS_FILE}: {e}; remove {directory} to start anew") from e
    if value.get("format") != FORMAT:
        raise TrainingError(f"{directory} has checkpoint format {value.get('format')!r}, wanted {FORMAT}; start anew")
    tensors: dict[str, dict[str, Tensor]] = {}
    for kind in _KINDS:
        path = directory / f"{kind}.safetensors"
        check_file(path, n_bytes=value["files"][kind]["bytes"], sha256=value["files"][kind]["sha256"])
        try:
            tensors[kind] = load(path.read_bytes())
        except (OSError, SafetensorError) as e:
            raise CorruptError(f"cannot read {path}: {e}; remove {directory} to start anew") from e
    facts = dict(value["facts"])
    facts["position"] = Position(**facts["position"])
    return RunState(RunFacts(**facts), value["begun_with"], tensors)


def _directories(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{_PREFIX}*")) if folder.is_dir() else []


def random_state() -> Tensor:
    """Return the state of torch's global generators, CPU first, then the CUDA device in use: uint8 (n,)."""
    states = [torch.get_rng_state()]
    if torch.cuda.is_available():
        states.append(torch.cuda.get_rng_state())
    return torch.cat(states)


def set_random_state(state: Tensor) -> None:
    """Make torch's global generators go on where they were.

    Raises:
        TrainingError: the state is of a machine with other devices.
    """
    state = state.cpu()
    n_cpu = torch.get_rng_state().numel()
    has_cuda = torch.cuda.is_available()
    if (state.numel() > n_cpu) != has_cuda:
        raise TrainingError("the checkpoint's random state is of another kind of device; resume where it was written")
    torch.set_rng_state(state[:n_cpu])
    if has_cuda:
        torch.cuda.set_rng_state(state[n_cpu:])
