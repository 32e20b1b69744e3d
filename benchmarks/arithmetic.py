"""What the arithmetic that passages are encoded in changes: first answers and scores against float32's.

Run: python -m benchmarks.arithmetic --data DIR --scratch DIR [--arithmetics bfloat16] [--rows 1000] [--pages 2000]

One knowledge base for each arithmetic, of the gold pages of the rows and random others; the same questions to each.
Knowledge bases that stand in the scratch folder from an earlier run are made anew.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapters.kilt.records import read_gold
from adapters.kilt.task_files import task_of_file
from benchmarks.kilt_sets import data_folder, limited, macro, page_files, read_pages, set_files
from benchmarks.measurement import write_result
from benchmarks.quality import predict, score
from kbengine.build.builder import CorpusOptions, build
from kbengine.build.filtering import DEFAULT_FILTER
from kbengine.encoders.encoder import Encoder
from kbengine.encoders.location import DEFAULT_ENCODER
from kbengine.knowledge_base import KnowledgeBase

REFERENCE = "float32"
MAX_DIFFERENT_PERCENT = 1.0
MAX_POINTS = 0.3
MEASURES = ("Rprec", "KILT-em")
SEED = 13


@dataclass(frozen=True)
class Measured:
    """One arithmetic: how fast it encodes, each row's first answer by set and place, each set's scores in percent."""

    tokens_per_s: float
    answers: dict[tuple[str, int], Any]
    scores: dict[str, dict[str, float]]


def corpus_of(files: dict[str, Path], data: Path, n_pages: int, scratch: Path) -> Path:
    """Return a file of the rows' gold pages and of random others, `n_pages` together at least."""
    gold = {
        entry.partial_key(("wikipedia_id",))
        for path in files.values()
        for record in read_gold(path)
        for output in record.outputs
        for entry in output.provenance
    }
    pages = {page_id: (title, texts) for page_id, title, texts in read_pages(page_files(data))}
    others = sorted(set(pages) - gold)
    drawn = random.Random(SEED).sample(others, min(len(others), max(0, n_pages - len(gold))))
    path = scratch / "arithmetic.pages.jsonl"
    with path.open("w", encoding="utf-8") as out:
        for page_id in sorted(gold & set(pages)) + sorted(drawn):
            title, texts = pages[page_id]
            out.write(json.dumps({"wikipedia_id": page_id, "wikipedia_title": title, "text": texts}) + "\n")
    return path


def measure(encoder: Encoder, corpus: Path, files: dict[str, Path], folder: Path) -> Measured:
    """Return what comes out when the encoder makes the knowledge base and asks it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began = time.process_time()
    report = build(CorpusOptions((corpus,)), folder / "kb", encoder=encoder, filter_options=DEFAULT_FILTER)
    elapsed = time.process_time() - began
    answers: dict[tuple[str, int], Any] = {}
    scores: dict[str, dict[str, float]] = {}
    with KnowledgeBase.open(folder / "kb", encoder) as knowledge_base:
        for name, path in files.items():
            guess = predict(knowledge_base, path, folder / f"{name}.jsonl", task_of_file(f"{name}.jsonl")).path
            for i, line in enumerate(guess.read_text(encoding="utf-8").splitlines()):
                outputs = json.loads(line)["output"]
                answers[name, i] = outputs[0].get("answer") if outputs else None
            scores[name] = score(path, guess, name)
    return Measured(report.encoded_tokens / elapsed, answers, scores)


def compared(one: Measured, reference: Measured) -> dict[str, Any]:
    """Return how the answers and scores of one arithmetic differ from the reference's."""
    different = sum(answer != reference.answers[key] for key, answer in one.answers.items())
    percent = 100 * different / len(one.answers)
    macros = {name: (macro_of(one, name), macro_of(reference, name)) for name in MEASURES}
    points = {name: round(own - other, 3) for name, (own, other) in macros.items()}
    return {
        "first_answers_different": different,
        "first_answers_different_percent": round(percent, 2),
        "macro": {name: round(own, 2) for name, (own, _) in macros.items()},
        "macro_difference": points,
        "tokens_per_cpu_second": round(one.tokens_per_s),
        "holds": percent <= MAX_DIFFERENT_PERCENT and all(abs(each) <= MAX_POINTS for each in points.values()),
    }


def macro_of(measured: Measured, name: str) -> float:
    """Return the mean of a measure over the sets that have it, in percent."""
    return macro([scores.get(name) for scores in measured.scores.values()]) or 0.0


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--arithmetics", default="bfloat16", help="names of --dtype, with commas")
    parser.add_argument("--rows", type=int, default=1000, help="seeded rows, equally many of each set")
    parser.add_argument("--pages", type=int, default=2000)
    given = parser.parse_args()
    data = data_folder(given.data)
    given.scratch.mkdir(parents=True, exist_ok=True)
    sets = set_files(data, "dev")
    per_set = -(-given.rows // len(sets))
    files = {name: limited(path, per_set, given.scratch, seed=SEED) for name, path in sets.items()}
    corpus = corpus_of(files, data, given.pages, given.scratch)
    measured = {}
    for name in (REFERENCE, *given.arithmetics.split(",")):
        encoder = Encoder.load(DEFAULT_ENCODER, device="cpu", dtype=name)
        measured[name] = measure(encoder, corpus, files, given.scratch / name)
    reference = measured[REFERENCE]
    figures = {
        "rows": len(reference.answers),
        "pages": sum(1 for _ in corpus.open(encoding="utf-8")),
        "wanted": {"first_answers_different_percent": MAX_DIFFERENT_PERCENT, "macro_difference": MAX_POINTS},
        "arithmetics": {name: compared(each, reference) for name, each in measured.items()},
    }
    write_result("arithmetic", "each arithmetic gives the answers that float32 gives", figures)


if __name__ == "__main__":
    main()
