"""Tokens per second of a whole build against the bare forward pass on the same batches.

Run: python -m benchmarks.build_throughput CORPUS… --scratch DIR

The bare forward pass computes the batches side by side, as a build does (`kbengine.encoders.batch_threads`). Tokens per
second of processor time are given as well: on a machine that others use they are what can be compared.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.measurement import write_result
from kbengine.build.document_encoder import chunks
from kbengine.corpus.reader import read_corpus
from kbengine.encoders.batch_threads import side_by_side
from kbengine.encoders.encoder import Encoder, PassageText


@dataclass(frozen=True)
class Spent:
    """What something took: seconds on the clock, and of the processor."""

    wall_s: float
    cpu_s: float


def recorded_batches(encoder: Encoder, paths: list[Path]) -> tuple[list[tuple[Any, Any]], int]:
    """Return the (ids, is_token) batches that a build of the corpus puts through the encoder, and their tokens.

    The model is replaced by one that notes its input and answers with zeros, so this costs no forward pass.
    """
    model = encoder._model  # a benchmark may look inside: it must see the very batches of a build
    batches: list[tuple[Any, Any]] = []
    real = model.passage_states

    def note(ids: torch.Tensor, is_token: torch.Tensor | None) -> torch.Tensor:
        batches.append((ids, is_token))
        return torch.ones((*ids.shape, encoder.d))

    model.passage_states = note  # type: ignore[method-assign]
    n_tokens = 0
    try:
        for documents, _ in chunks(read_corpus(paths)):
            texts = [PassageText(document.title, p.text) for document in documents for p in document.passages]
            n_tokens += sum(each.n_encoded_tokens for each in encoder.encode_passages(texts))
    finally:
        model.passage_states = real  # type: ignore[method-assign]
    return batches, n_tokens


def bare_forward(encoder: Encoder, batches: list[tuple[Any, Any]]) -> Spent:
    """Return what nothing but the forward passes of the batches takes."""

    def forward(batch: tuple[Any, Any]) -> None:
        with torch.inference_mode():
            encoder._model.passage_states(*batch)

    forward(batches[0])
    began, cpu = time.perf_counter(), time.process_time()
    for _ in side_by_side(forward, batches):
        pass
    return Spent(time.perf_counter() - began, time.process_time() - cpu)


def whole_build(command: list[str]) -> tuple[Spent, dict[str, Any]]:
    """Return what a build as a process of its own takes, from its start to its end, and what it printed."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    wall_s, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Spent(wall_s, cpu_s), json.loads(done.stdout)


def measure(paths: list[Path], scratch: Path, runs: int) -> dict[str, Any]:
    """Return the figures of both, interleaved so that the machine's drift hits both alike."""
    encoder = Encoder.load("minilm-phrase")
    batches, n_tokens = recorded_batches(encoder, paths)
    bare: list[Spent] = []
    whole: list[Spent] = []
    facts: dict[str, Any] = {}
    for run in range(runs):
        bare.append(bare_forward(encoder, batches))
        kb = scratch / f"kb-{run}"
        command = [sys.executable, "-m", "kbengine.cli", "build", *map(str, paths), "--kb", str(kb), "--json"]
        spent, facts = whole_build(command)
        whole.append(spent)
        shutil.rmtree(kb)
    pairs = list(zip(bare, whole, strict=True))
    return {
        "encoded_tokens": n_tokens,
        "bare_forward_tokens_per_s": [round(n_tokens / each.wall_s) for each in bare],
        "whole_process_tokens_per_s": [round(n_tokens / each.wall_s) for each in whole],
        "share": [round(a.wall_s / b.wall_s, 3) for a, b in pairs],
        "bare_forward_tokens_per_cpu_s": [round(n_tokens / each.cpu_s) for each in bare],
        "whole_process_tokens_per_cpu_s": [round(n_tokens / each.cpu_s) for each in whole],
        "share_of_processor_time": [round(a.cpu_s / b.cpu_s, 3) for a, b in pairs],
        "peak_mib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10,
        "build": {name: value for name, value in facts.items() if name != "corpus"},
        "corpus": [path.name for path in paths],
    }


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", nargs="+", type=Path)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=2)
    arguments = parser.parse_args()
    write_result(
        "build_throughput",
        "whole process >= 90 % of the tokens/s of the bare encoder forward pass on the same batches",
        measure(arguments.corpus, arguments.scratch, arguments.runs),
    )


if __name__ == "__main__":
    main()
