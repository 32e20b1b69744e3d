"""Tokens per second of a whole build against the bare forward pass on the same batches.

Run: python -m benchmarks.build_throughput CORPUS… --scratch DIR
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.measurement import write_result
from kbengine.corpus.reader import read_corpus
from kbengine.encoders.encoder import Encoder, PassageText


def bare_forward(encoder: Encoder, paths: list[Path], n_passages: int) -> tuple[float, int]:
    """Return (seconds, tokens) of the forward pass alone over passages spread evenly over the corpus."""
    texts = [
        PassageText(document.title, passage.text) for document, _ in read_corpus(paths) for passage in document.passages
    ]
    step = max(1, len(texts) // n_passages)
    batches = list(encoder.prepare_batches(texts[::step]))
    encoder.forward(batches[0])
    began = time.perf_counter()
    for batch in batches:
        encoder.forward(batch)
    return time.perf_counter() - began, sum(batch.n_tokens for batch in batches)


def measure(paths: list[Path], scratch: Path, n_passages: int, runs: int) -> dict[str, Any]:
    """Return the figures of both, interleaved so that the machine's drift hits both alike."""
    encoder = Encoder.load("minilm-phrase")
    bare, whole, report = [], [], ""
    for run in range(runs):
        seconds, tokens = bare_forward(encoder, paths, n_passages)
        bare.append(tokens / seconds)
        kb = scratch / f"kb-{run}"
        command = [sys.executable, "-m", "kbengine.cli", "build", *map(str, paths), "--kb", str(kb), "--json"]
        began = time.perf_counter()
        report = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        whole.append(time.perf_counter() - began)
    import json

    facts = json.loads(report)
    encoded = facts["encoded_tokens_per_s"] * facts["elapsed_s"]
    rates = [encoded / seconds for seconds in whole]
    return {
        "bare_forward_tokens_per_s": [round(rate) for rate in bare],
        "whole_process_tokens_per_s": [round(rate) for rate in rates],
        "share": [round(a / b, 3) for a, b in zip(rates, bare, strict=True)],
        "build": facts,
    }


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", nargs="+", type=Path)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--passages", type=int, default=1500)
    parser.add_argument("--runs", type=int, default=2)
    arguments = parser.parse_args()
    write_result(
        "build_throughput",
        "whole process >= 80 % of the tokens/s of the bare encoder forward pass on the same batches",
        measure(arguments.corpus, arguments.scratch, arguments.passages, arguments.runs),
    )


if __name__ == "__main__":
    main()
