"""The working tree against a commit: queries, batches, memory, opening and building, run by turns on one machine.

Run: python -m benchmarks.against_commit COMMIT --scratch DIR [--data DIR] [--pages 3000,20000] [--rounds 10]
Or, for knowledge bases that stand already (each side reads its own format; neither is written to):
     python -m benchmarks.against_commit COMMIT --scratch DIR --kb-then DIR --kb-now DIR

The commit is checked out beside the scratch folder's knowledge bases, and runs in the environment of this interpreter:
its dependencies must be there. Both processes stay open and are asked the same questions by turns, a few at a time, so
that what else the machine does falls on both alike. Nothing is read by a reader: plain searches.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from benchmarks.kilt_sets import data_folder, page_files, read_pages, set_files
from benchmarks.measurement import write_result
from kbengine.inputs import SEPARATOR

ROOT = Path(__file__).resolve().parent.parent
SEED = 13
BATCH = 64
DISTINCT = 1000
SIDES = ("then", "now")
# What `kbengine` sets for itself, and an import path without the folder of the script.
ENVIRONMENT = {"GOMP_SPINCOUNT": "3000", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Config:
    """What is measured.

    Attributes:
        commit: what the working tree is compared with.
        scratch: a folder for its files and for knowledge bases.
        rounds: turns of questions.
        per_round: questions in a turn.
        opens: times each side is started.
        builds: times each side builds.
    """

    commit: str
    scratch: Path
    rounds: int = 10
    per_round: int = 20
    opens: int = 3
    builds: int = 1


class Side:
    """One side's process, by its packages."""

    def __init__(self, packages: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(ROOT / "benchmarks" / "query_process.py")],
            env=environment(packages),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Closes both pipes, which ends the process, and waits for it.
        self._process.__exit__(None, None, None)

    def __call__(self, do: str, **given: Any) -> Any:
        """Return what the process answers."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **given}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the process that was to {do} ended; its error stands above")
        return json.loads(line)


def environment(packages: Path) -> dict[str, str]:
    """Return the environment in which a side's packages come first."""
    return {**os.environ, **ENVIRONMENT, "PYTHONPATH": str(packages)}


def checked_out(config: Config) -> Path:
    """Return a folder with the commit's files."""
    folder = config.scratch / f"commit-{config.commit}"
    if not folder.exists():
        folder.mkdir(parents=True)
        packed = subprocess.run(["git", "archive", config.commit], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", str(folder)], input=packed, check=True)
    return folder


def some_pages(data: Path, n: int, scratch: Path) -> Path:
    """Return a file of random pages, the same for every run."""
    path = scratch / f"{n}.pages.jsonl"
    pages = sorted(read_pages(page_files(data)))
    with path.open("w", encoding="utf-8") as out:
        for page_id, title, texts in random.Random(SEED).sample(pages, min(n, len(pages))):
            out.write(json.dumps({"wikipedia_id": page_id, "wikipedia_title": title, "text": texts}) + "\n")
    return path


def questions(data: Path, n: int) -> list[str]:
    """Return distinct questions of the development sets, and where they do not do of slots' texts, shuffled."""
    texts: dict[str, None] = {}
    for path in set_files(data, "dev").values():
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                text = json.loads(line)["input"].replace(SEPARATOR, " ")
                if "[START_ENT]" not in text and "\n" not in text:
                    texts[text] = None
    drawn = list(texts)
    random.Random(SEED).shuffle(drawn)
    return drawn[:n]


def built(config: Config, packages: dict[str, Path], corpus: Path) -> tuple[dict[str, Path], dict[str, Any]]:
    """Return each side's knowledge base of the corpus, and how fast it was built."""
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    processor: dict[str, list[float]] = {side: [] for side in SIDES}
    peak: dict[str, list[int]] = {side: [] for side in SIDES}
    paths: dict[str, Path] = {}
    n_tokens = 0
    for _ in range(config.builds):
        for side in SIDES:
            paths[side] = config.scratch / f"{corpus.name.partition('.')[0]}-{side}"
            shutil.rmtree(paths[side], ignore_errors=True)
            command = [sys.executable, "-P", "-m", "kbengine.cli", "build", str(corpus), "--kb", str(paths[side])]
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            done = subprocess.run(
                [*command, "--json"], env=environment(packages[side]), check=True, stdout=subprocess.PIPE, text=True
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds[side].append(time.perf_counter() - began)
            processor[side].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            peak[side].append(after.ru_maxrss * 1024)
            if side == "now":  # the same for both: what is encoded depends on the corpus and the encoder alone
                facts = json.loads(done.stdout.splitlines()[-1])
                n_tokens = round(facts["encoded_tokens_per_s"] * facts["elapsed_s"])
    figures = {
        side: {
            "tokens_per_s": round(n_tokens / float(np.median(seconds[side]))),
            "tokens_per_processor_s": round(n_tokens / float(np.median(processor[side]))),
            "largest_of_children_so_far_bytes": max(peak[side]),
        }
        for side in SIDES
    }
    ratio = float(np.median(seconds["then"])) / float(np.median(seconds["now"]))
    return paths, {**figures, "encoded_tokens": n_tokens, "times_as_fast": round(ratio, 2)}


def searched(config: Config, packages: dict[str, Path], paths: dict[str, Path], asked: Sequence[str]) -> dict[str, Any]:
    """Return opening, single questions, batches and memory of both sides."""
    opened: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for _ in range(config.opens - 1):
        for side in SIDES:
            with Side(packages[side]) as process:
                opened[side].append(process("open", path=str(paths[side])))
    singles: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    batches: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    drawn = random.Random(SEED)
    with Side(packages["then"]) as then, Side(packages["now"]) as now:
        sides = {"then": then, "now": now}
        for side, process in sides.items():
            opened[side].append(process("open", path=str(paths[side])))
        facts = {side: process("facts") for side, process in sides.items()}
        memory = {}
        for side, process in sides.items():  # these warm up what is measured below
            for begin in range(0, min(DISTINCT, len(asked)), BATCH):
                process("batch", texts=asked[begin : min(begin + BATCH, DISTINCT)])
            memory[side] = process("memory")
        for number in range(config.rounds):
            texts = drawn.sample(list(asked), min(config.per_round, len(asked)))
            batch = drawn.sample(list(asked), min(BATCH, len(asked)))
            order = SIDES if number % 2 else SIDES[::-1]
            for side in order:
                singles[side].append(sides[side]("single", texts=texts))
            for side in order:
                batches[side].append(sides[side]("batch", texts=batch))
    figures: dict[str, Any] = {
        side: {
            **facts[side],
            "single": of_singles(singles[side]),
            f"batch_of_{BATCH}": {
                name: round(float(np.median([each[name] for each in batches[side]])), 2)
                for name in ("wall_ms", "processor_ms")
            },
            "memory_bytes": memory[side],
            "open": {
                name: round(float(np.median([each[name] for each in opened[side]])), 3)
                for name in ("import_s", "open_s")
            },
        }
        for side in SIDES
    }
    return {**figures, "ratios": ratios(figures["then"], figures["now"])}


def of_singles(turns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return medians over all questions of one side, the 95th percentile of the clock, and the stages."""
    wall, processor, stages = ([each for turn in turns for each in turn[name]] for name in turns[0])
    names = stages[0]
    return {
        "p50_ms": round(float(np.median(wall)), 2),
        "p95_ms": round(float(np.quantile(wall, 0.95)), 2),
        "processor_p50_ms": round(float(np.median(processor)), 2),
        "stages_p50_ms": {name: round(float(np.median([stage[name] for stage in stages])), 2) for name in names},
        "n": len(wall),
    }


def ratios(then: dict[str, Any], now: dict[str, Any]) -> dict[str, float]:
    """Return how many times as fast the working tree is, and what share of the memory it takes."""
    batch = f"batch_of_{BATCH}"
    return {
        "single_times_as_fast": round(then["single"]["p50_ms"] / now["single"]["p50_ms"], 2),
        "single_processor_times_as_fast": round(
            then["single"]["processor_p50_ms"] / now["single"]["processor_p50_ms"], 2
        ),
        "batch_times_as_fast": round(then[batch]["wall_ms"] / now[batch]["wall_ms"], 2),
        "batch_processor_times_as_fast": round(then[batch]["processor_ms"] / now[batch]["processor_ms"], 2),
        "memory_share": round(now["memory_bytes"]["all"] / then["memory_bytes"]["all"], 3),
        "anonymous_memory_share": round(now["memory_bytes"]["anonymous"] / then["memory_bytes"]["anonymous"], 3),
        "open_times_as_fast": round(then["open"]["open_s"] / now["open"]["open_s"], 2),
    }


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--pages", default="3000", help="sizes of knowledge bases that are built, with commas")
    parser.add_argument("--kb-then", type=Path, help="a knowledge base of the commit's, instead of building")
    parser.add_argument("--kb-now", type=Path, help="the working tree's")
    parser.add_argument("--rounds", type=int, default=Config.rounds)
    parser.add_argument("--per-round", type=int, default=Config.per_round)
    parser.add_argument("--builds", type=int, default=Config.builds)
    parser.add_argument("--name", default="against_commit")
    given = parser.parse_args()
    config = Config(given.commit, given.scratch.resolve(), given.rounds, given.per_round, builds=given.builds)
    config.scratch.mkdir(parents=True, exist_ok=True)
    data = data_folder(given.data)
    packages = {"then": checked_out(config), "now": ROOT}
    asked = questions(data, DISTINCT)
    load_before = os.getloadavg()
    figures: dict[str, Any] = {"commit": given.commit, "questions": len(asked), "rounds": config.rounds}
    if given.kb_then is not None and given.kb_now is not None:
        paths = {"then": given.kb_then, "now": given.kb_now}
        figures["standing"] = searched(config, packages, paths, asked)
    elif given.kb_then is not None or given.kb_now is not None:
        raise SystemExit("give both --kb-then and --kb-now, or neither")
    else:
        for n in map(int, given.pages.split(",")):
            paths, building = built(config, packages, some_pages(data, n, config.scratch))
            figures[f"{n} pages"] = {"building": building, **searched(config, packages, paths, asked)}
    figures["load_average"] = {"before": load_before, "after": os.getloadavg()}
    write_result(
        given.name,
        "against the commit: single query >= 3 x, batch of 64 >= 5 x, memory <= 0.4, building >= 2 x",
        figures,
    )


if __name__ == "__main__":
    main()
