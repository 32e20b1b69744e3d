"""A cross-encoder's logits for every training example, computed once and kept on disk for all epochs and resumes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from kbengine.encoders.encoder import PassageText
from kbengine.encoders.tokenization import TextTokenizer
from kbengine.errors import TrainingError
from kbengine.inputs import TaskInput
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.loop.processes import Processes
from kbengine.learning.phrases.batches import Teacher
from kbengine.progress import NoProgress, ProgressSink
from storage.durable import write_durably

SHARD_EXAMPLES = 2048
_LARGEST = 6e4
"""Logits are kept as float16; a cross-encoder's are within ±30."""


class PassageReader(Protocol):
    """What a teacher must do; `kbengine.reading.reader.Reader` does."""

    @property
    def fingerprint(self) -> str:
        """A text that differs between readers."""

    def passage_logits(
        self, queries: Sequence[TaskInput], passages: Sequence[PassageText]
    ) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        """Return start and end logits of each passage's tokens; its title is read too and has none."""


def teacher_logits(
    reader: PassageReader,
    examples: Sequence[TrainingExample],
    tokenizer: TextTokenizer,
    folder: Path,
    *,
    processes: Processes | None = None,
    progress: ProgressSink | None = None,
) -> list[Teacher | None]:
    """Return the logits of each example's passage tokens, float16; None for examples without an answer phrase.

    They are kept in shards of 2,048 examples; shards that are there already for the same reader and examples are used,
    so an interrupted computation goes on where it was. Several processes share the shards among them.

    Raises:
        TrainingError: the reader cuts passages into other tokens than the encoder.
        StorageFullError: no space for a shard.
    """
    progress = progress or NoProgress()
    folder.mkdir(parents=True, exist_ok=True)
    progress.begin("asking the teacher", len(examples), "examples")
    rank, world = (processes.rank, processes.world) if processes is not None else (0, 1)
    shards = [examples[begin : begin + SHARD_EXAMPLES] for begin in range(0, len(examples), SHARD_EXAMPLES)]
    paths = [folder / f"{number:05d}.safetensors" for number in range(len(shards))]
    for path, some in list(zip(paths, shards, strict=True))[rank::world]:
        key = _key(reader, some)
        if _read_shard(path, key) is None:
            _write_shard(path, key, _ask(reader, some, tokenizer))
        progress.advance(len(some) * world)
    if processes is not None:
        processes.wait()
    found: list[Teacher | None] = []
    for path, some in zip(paths, shards, strict=True):
        shard = _read_shard(path, _key(reader, some))
        if shard is None:
            raise TrainingError(f"{path} was written a moment ago and cannot be read; check the disk")
        found += shard
    return found


def _ask(reader: PassageReader, examples: Sequence[TrainingExample], tokenizer: TextTokenizer) -> list[Teacher | None]:
    asked = [i for i, example in enumerate(examples) if example.answers and example.answerable]
    passages = [examples[i].passage for i in asked]
    titled = [PassageText(examples[i].title, examples[i].passage) for i in asked]
    logits = reader.passage_logits([examples[i].query for i in asked], titled)
    lengths = [len(ids) for ids in tokenizer.ids(passages)]
    answers: list[Teacher | None] = [None] * len(examples)
    for i, length, (start, end) in zip(asked, lengths, logits, strict=True):
        if len(start) != length:
            raise TrainingError(
                f"the reader sees {len(start)} tokens in the passage of example {examples[i].id!r}, the encoder "
                f"{length}; a teacher must have the encoder's tokenizer: train one from the same backbone"
            )
        answers[i] = _half(start), _half(end)
    return answers


def _half(logits: NDArray[np.float32]) -> NDArray[np.float16]:
    return np.clip(logits, -_LARGEST, _LARGEST).astype(np.float16)


def _key(reader: PassageReader, examples: Sequence[TrainingExample]) -> str:
    digest = hashlib.sha256(reader.fingerprint.encode())
    for example in examples:
        seen = example.id, example.query, example.title, example.passage, example.answers
        digest.update(repr(seen).encode("utf-8", "replace"))
    return digest.hexdigest()


def _write_shard(path: Path, key: str, shard: Sequence[Teacher | None]) -> None:
    empty = np.zeros(0, dtype=np.float16)
    lengths = np.array([-1 if each is None else len(each[0]) for each in shard], dtype=np.int64)
    sides = [np.concatenate([empty, *(each[side] for each in shard if each is not None)]) for side in (0, 1)]
    arrays = {"lengths": lengths, "start": sides[0], "end": sides[1]}
    write_durably(path, [save(arrays, metadata={"key": key})], replace=True)


def _read_shard(path: Path, key: str) -> list[Teacher | None] | None:
    """Return what a shard holds, None when it is not there, damaged, or of another reader or other examples."""
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            if (file.metadata() or {}).get("key") != key:
                return None
            lengths, start, end = (file.get_tensor(name) for name in ("lengths", "start", "end"))
    except (SafetensorError, OSError):
        return None
    shard: list[Teacher | None] = []
    at = 0
    for length in lengths.tolist():
        if length < 0:
            shard.append(None)
            continue
        shard.append((start[at : at + length], end[at : at + length]))
        at += length
    return shard
