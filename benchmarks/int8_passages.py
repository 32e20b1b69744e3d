"""Passages in int8 (ONNX Runtime, per channel, a scale for each token) beside bfloat16 and float32: speed and answers.

Run: python -m benchmarks.int8_passages --data DIR [--questions 400] [--passages 70]

Questions of squad's development rows are asked of the paragraphs that answer them, each as one input, with vectors as
the encoder gives them: what arithmetic does to answers before vectors are stored in four bits.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.kilt_sets import data_folder
from benchmarks.measurement import write_result
from kbengine.encoders.checkpoint import read_checkpoint
from kbengine.encoders.encoder import Encoder
from kbengine.encoders.location import DEFAULT_ENCODER, locate_encoder
from kbengine.encoders.onnx_layers import OnnxLayers
from kbengine.encoders.onnx_model import OnnxModel
from kbengine.encoders.onnx_session import adds_int8_exactly, open_session
from kbengine.inputs import Question

Float32 = NDArray[np.float32]
Encode = Callable[[Sequence[list[int]]], list[Float32]]

SEED, MAX_TOKENS, PHRASE_TOKENS, RUNS = 5, 500, 10, 3


def int8_encoder() -> Encode:
    """Return the bundled phrase encoder in int8: token ids in, states float32 (T, d) out, one input a run."""
    _, directory = locate_encoder(DEFAULT_ENCODER)
    checkpoint = read_checkpoint(directory)
    weights, backbone = checkpoint.model().state_dict(), checkpoint.config.backbone
    model = OnnxModel()
    layers = OnnxLayers(model, weights, backbone, signed=adds_int8_exactly())
    states, shape = layers.stack(layers.embedded(), "phrase_encoder.encoder."), (1, "T", backbone.hidden_size)
    session = open_session(model.to_bytes({"embedded": shape}, {states: shape}))
    words, places, types = (weights[f"embeddings.{kind}_embeddings.weight"] for kind in _TABLES)
    kind = types[checkpoint.config.passage_token_type]

    def encode(inputs: Sequence[list[int]]) -> list[Float32]:
        embedded = [(words[torch.tensor(ids)] + places[: len(ids)] + kind).numpy()[None] for ids in inputs]
        return [session.run(None, {"embedded": each})[0][0] for each in embedded]

    return encode


_TABLES = ("word", "position", "token_type")


def torch_encoder(encoder: Encoder) -> Encode:
    """Return the same in torch, in the encoder's arithmetic."""

    def encode(inputs: Sequence[list[int]]) -> list[Float32]:
        with torch.inference_mode():
            return [encoder._model.passage_states(torch.tensor([ids]), None).float()[0].numpy() for ids in inputs]

    return encode


def questions_and_passages(data: Path, n_questions: int, n_passages: int) -> tuple[list[str], list[tuple[str, str]]]:
    """Return seeded questions, and title and text of the paragraphs that answer them."""
    with gzip.open(data / "squad.pages.jsonl.gz", "rt", encoding="utf-8") as file:
        pages = {page["wikipedia_id"]: page for page in map(json.loads, file)}
    with gzip.open(data / "squad.dev.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    random.Random(SEED).shuffle(rows)
    passages: dict[tuple[str, int], tuple[str, str]] = {}
    questions: list[str] = []
    for row in rows:
        for place in (each for output in row["output"] for each in output.get("provenance", [])):
            key = place["wikipedia_id"], place["start_paragraph_id"]
            if key[0] not in pages or not 0 < key[1] < len(pages[key[0]]["text"]):
                continue
            if key in passages or len(passages) < n_passages:
                passages[key] = pages[key[0]]["wikipedia_title"], pages[key[0]]["text"][key[1]]
                questions.append(row["input"])
                break
    return questions[:n_questions], list(passages.values())


def best_phrases(starts: Float32, ends: Float32, vectors: Sequence[Float32]) -> list[tuple[int, int, int]]:
    """Return for each query, float32 (m, d) each, the best phrase of all: passage, first token and tokens after it."""
    found = []
    for start, end in zip(starts, ends, strict=True):
        best, top = (0, 0, 0), -np.inf
        for number, states in enumerate(vectors):
            of_start, of_end = states @ start, states @ end
            for after in range(min(PHRASE_TOKENS, len(states))):
                scores = of_start[: len(states) - after] + of_end[after:]
                at = int(scores.argmax())
                if scores[at] > top:
                    best, top = (number, at, after), float(scores[at])
        found.append(best)
    return found


def timed(encode: Encode, inputs: Sequence[list[int]]) -> tuple[list[Float32], float]:
    """Return the states and the tokens per second of processor time of the fastest run, in one thread."""
    states, least = encode(inputs), np.inf
    for _ in range(RUNS):
        began = time.thread_time()
        states = encode(inputs)
        least = min(least, time.thread_time() - began)
    return states, sum(map(len, inputs)) / least


def measure(data: Path, n_questions: int, n_passages: int) -> dict[str, Any]:
    """Return the figures of each arithmetic."""
    torch.set_num_threads(1)
    encoder = Encoder.load(DEFAULT_ENCODER, device="cpu", dtype="float32")
    questions, passages = questions_and_passages(data, n_questions, n_passages)
    tokenizer = encoder.tokenizer
    titles, texts = (tokenizer.ids([each[i] for each in passages]) for i in (0, 1))
    cls_id, sep_id = tokenizer.cls_id, tokenizer.sep_id
    inputs = [[cls_id, *t[:20], sep_id, *ids, sep_id][:MAX_TOKENS] for t, ids in zip(titles, texts, strict=True)]
    queries = encoder.encode_queries([Question(each) for each in questions], truncate=True)
    ways = {
        "float32": torch_encoder(encoder),
        "bfloat16": torch_encoder(Encoder.load(DEFAULT_ENCODER, device="cpu", dtype="bfloat16")),
        "int8": int8_encoder(),
    }
    reference: list[Float32] = []
    wanted: list[tuple[int, int, int]] = []
    figures: dict[str, Any] = {"questions": len(questions), "passages": len(passages)}
    for name, encode in ways.items():
        states, rate = timed(encode, inputs)
        own = [each[min(len(t), 20) + 2 : -1] for each, t in zip(states, titles, strict=True)]
        phrases = best_phrases(queries.start, queries.end, own)
        reference, wanted = reference or states, wanted or phrases
        a, b = np.concatenate(states), np.concatenate(reference)
        pairs = list(zip(phrases, wanted, strict=True))
        figures[name] = {
            "tokens_per_cpu_second": round(rate),
            "distance_percent": round(
                100 * float(np.mean(np.linalg.norm(a - b, axis=1) / np.linalg.norm(b, axis=1))), 2
            ),
            "other_first_phrase_percent": round(100 * float(np.mean([x != y for x, y in pairs])), 2),
            "other_passage_percent": round(100 * float(np.mean([x[0] != y[0] for x, y in pairs])), 2),
        }
    return figures


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--questions", type=int, default=400)
    parser.add_argument("--passages", type=int, default=70)
    given = parser.parse_args()
    figures = measure(data_folder(given.data), given.questions, given.passages)
    write_result("int8_passages", "passages in int8 change at most 1 % of first answers", figures)


if __name__ == "__main__":
    main()
