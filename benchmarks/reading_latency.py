"""Reading in ONNX Runtime's int8 beside torch's float32 and bfloat16: milliseconds a query, and what it changes.

Run: python -m benchmarks.reading_latency --reader DIR [--data DIR] [--passages 300] [--repetitions 15]

Questions of SQuAD's development rows, each with its own passage, of 80 to 115 words (about 130 tokens), and with those
of other questions. Times are taken in turns, so that what else the machine does meets all alike; the reader is stored
as int8 first. Agreement is with float32 and the weights as they were given.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from adapters.kilt.records import read_gold
from benchmarks.kilt_sets import data_folder, page_files, read_pages, set_files
from benchmarks.measurement import quantiles_ms, write_result
from kbengine.encoders.encoder import PassageText
from kbengine.inputs import Question, TaskInput
from kbengine.reading.reader import Reader

NS = (1, 2, 3, 5, 10)
WANTED_MS = {2: 25, 5: 60}
WORDS = range(80, 116)
SEED = 13
Pairs = tuple[list[TaskInput], list[PassageText]]


def pairs_of(data: Path, n: int) -> Pairs:
    """Return questions with the paragraphs that answer them, and the same questions with the next one's."""
    found: list[tuple[str, str, int]] = []
    for record in read_gold(set_files(data, "dev", ("squad",))["squad"]):
        place = next((entry for output in record.outputs for entry in output.provenance), None)
        if place is not None:
            page, paragraph = (str(place.fields[name]) for name in ("wikipedia_id", "start_paragraph_id"))
            found.append((record.input, page, int(paragraph)))
    wanted = {page for _, page, _ in found}
    pages = {page: (title, texts) for page, title, texts in read_pages(page_files(data)) if page in wanted}
    usual = [each for each in found if len(pages[each[1]][1][each[2]].split()) in WORDS]
    drawn = random.Random(SEED).sample(usual, min(n // 2, len(usual)))
    passages = [PassageText(pages[page][0], pages[page][1][paragraph]) for _, page, paragraph in drawn]
    questions: list[TaskInput] = [Question(text) for text, _, _ in drawn]
    return questions * 2, passages + passages[1:] + passages[:1]


def readers_of(directory: Path) -> dict[str, Reader]:
    """Return the reader, stored as int8, in each arithmetic."""
    return {
        "onnx_int8": Reader.load(directory, device="cpu", runtime="onnx"),
        "torch_float32": Reader.load(directory, device="cpu", dtype="float32"),
        "torch_bfloat16": Reader.load(directory, device="cpu", dtype="bfloat16"),
    }


def times(readers: dict[str, Reader], pairs: Pairs, n_cores: int, repetitions: int) -> dict[str, Any]:
    """Return the milliseconds of one call with n passages of one question, by reader and n."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:n_cores])
    torch.set_num_threads(n_cores)
    seconds: dict[tuple[str, int], list[float]] = {(name, n): [] for name in readers for n in NS}
    asked = itertools.cycle(range(len(pairs[0]) // 2 - max(NS)))
    for _ in range(repetitions):
        for n in NS:
            at = next(asked)
            queries, passages = [pairs[0][at]] * n, pairs[1][at : at + n]
            for name, reader in readers.items():
                began = time.perf_counter()
                reader.read(queries, passages, truncate=True)
                seconds[name, n].append(time.perf_counter() - began)
    return {
        name: {
            str(n): {
                **quantiles_ms(seconds[name, n]),
                "least_ms": round(min(seconds[name, n]) * 1e3, 2),
                "of_float32": round(float(np.median(np.divide(seconds[name, n], seconds["torch_float32", n]))), 3),
            }
            for n in NS
        }
        for name in readers
    }


def agreement(reader: Reader, reference: Reader, pairs: Pairs) -> dict[str, float]:
    """Return how often the best span is the same, and how far margins and relevances are apart."""
    longest = reader.config.max_answer_tokens
    same, margins, relevances = [], [], []
    for one, other in zip(*(each.logits(*pairs, truncate=True) for each in (reader, reference)), strict=True):
        ours, theirs = (next(iter(each.best(max_tokens=longest, n=1)), None) for each in (one, other))
        same.append((ours and ours[:2]) == (theirs and theirs[:2]))
        if ours is not None and theirs is not None:
            margins.append((ours.score - one.no_answer, theirs.score - other.no_answer))
        relevances.append((one.relevance, other.relevance))
    n_own = len(same) // 2
    of_margins, of_relevances = np.array(margins), np.array(relevances)
    return {
        "same_best_span_percent": round(100 * float(np.mean(same)), 2),
        "same_best_span_in_own_passages_percent": round(100 * float(np.mean(same[:n_own])), 2),
        "margin_sign_differs_percent": round(100 * float(np.mean((of_margins > 0)[:, 0] != (of_margins > 0)[:, 1])), 2),
        "margin_mean_absolute_difference": round(float(np.abs(of_margins[:, 0] - of_margins[:, 1]).mean()), 3),
        "margin_spread": round(float(of_margins[:, 1].std()), 2),
        "relevance_mean_absolute_difference": round(float(np.abs(of_relevances[:, 0] - of_relevances[:, 1]).mean()), 3),
        "relevance_spread": round(float(of_relevances[:, 1].std()), 2),
    }


def measure(directory: Path, pairs: Pairs, repetitions: int) -> dict[str, Any]:
    """Return all figures."""
    reference = Reader.load(directory, device="cpu", dtype="float32", runtime="torch")
    with tempfile.TemporaryDirectory() as scratch:
        reference.save(Path(scratch) / "int8", dtype="int8")
        began = time.perf_counter()
        Reader.load(Path(scratch) / "int8", device="cpu", runtime="onnx")
        loaded_s = time.perf_counter() - began
        readers = readers_of(Path(scratch) / "int8")
    all_cores = os.sched_getaffinity(0)
    warmed = ([pairs[0][0]] * max(NS), pairs[1][: max(NS)])
    for reader in readers.values():
        reader.read(*warmed, truncate=True)
    by_cores: dict[str, Any] = {}
    for n_cores in sorted({1, min(2, len(all_cores))}, reverse=True):
        by_cores[str(n_cores)] = times(readers, pairs, n_cores, repetitions)
    os.sched_setaffinity(0, all_cores)
    lengths = [len(ids) for ids in reference.tokenizer.ids([passage.text for passage in pairs[1]])]
    return {
        "loading_onnx_s": round(loaded_s, 2),
        "tokens_a_passage": round(float(np.mean(lengths)), 1),
        "wanted_ms_on_two_cores": WANTED_MS,
        "ms_by_cores_reader_and_passages": by_cores,
        "agreement_with_float32": {name: agreement(each, reference, pairs) for name, each in readers.items()},
        "load_average": os.getloadavg()[0],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reader", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--passages", type=int, default=300)
    parser.add_argument("--repetitions", type=int, default=15)
    given = parser.parse_args(arguments)
    pairs = pairs_of(data_folder(given.data), given.passages)
    figures = measure(given.reader, pairs, given.repetitions)
    write_result("reading_latency", "reading five passages takes 60 ms on two cores at most, two 25", figures)


if __name__ == "__main__":
    main()
