"""The development sets that quality is measured on, and the figures of the prototype that must be reached."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from adapters.kilt.predicting import task_of_file
from kbengine.inputs import SEPARATOR, Task

DATA_VARIABLE = "KBENGINE_KILT_DATA"

Half = Literal["choose", "score"]
HALVES: tuple[Half, ...] = get_args(Half)
PHRASE_SETS = ("squad", "newwiki", "qed", "nqopen", "docred", "fewrel", "knet")
"""Sets whose answers are phrases with a place in a passage: sparse heads are trained and measured on them."""
PHRASE_ROWS = 70
"""Development rows of each of them, of one half."""


@dataclass(frozen=True)
class Target:
    """The prototype's page R-precision and KILT-EM in percent with its best weights; None where it has none.

    Entity linking and dialogue have page R-precision only: a link's answer is its page, a dialogue's is free text.
    """

    rprec: float
    kilt_em: float | None = None


# The column "best weights" of the prototype's table of development results (first 250 rows of each set).
TARGETS: dict[str, Target] = {
    "squad": Target(79.2, 26.0),
    "newwiki": Target(76.4, 35.2),
    "qed": Target(73.7, 31.6),
    "nqopen": Target(73.9, 38.2),
    "selqa": Target(78.9),
    "docred": Target(43.2, 31.6),
    "fewrel": Target(98.4, 74.8),
    "knet": Target(86.4, 66.7),
    "el_wikilinks": Target(70.4),
    "el_wikilinks_easy": Target(98.4),
    "el_human": Target(81.8),
    "el_news": Target(73.1),
    "el_conel": Target(83.0),
    "topicalchat": Target(66.0),
    "cmudog": Target(36.0),
    "inscit": Target(60.5),
}
TOLERANCE = 1.0
"""Points that a task's macro may be under the prototype's."""

RETRIEVAL_ONLY = frozenset(("selqa",))
"""Sets whose answers are whole sentences: no phrase can equal one."""
BY_RELATION = frozenset(("fewrel", "fewrel_unseen"))
"""Sets of few relations, each with many pages: halved by relation, and their rows rise and fall by it."""
WEAK = frozenset(("el_weak",))
"""Sets with weak labels: for training at most, not measured."""


def data_folder(given: Path | None) -> Path:
    """Return the folder of the KILT sets: the one given, else the environment variable's."""
    folder = given or (Path(os.environ[DATA_VARIABLE]) if os.environ.get(DATA_VARIABLE) else None)
    if folder is None or not folder.is_dir():
        raise SystemExit(f"{folder} is no folder of KILT sets; pass --data DIR or set {DATA_VARIABLE}")
    return folder


def set_files(folder: Path, split: str, only: tuple[str, ...] = ()) -> dict[str, Path]:
    """Return the file of each measured set, the tasks in their usual order; `only` names some of them."""
    found = {path.name.partition(".")[0]: path for path in sorted(folder.glob(f"*.{split}.jsonl.gz"))}
    if missing := set(only) - set(found):
        raise SystemExit(f"{folder} has no {split} rows of {sorted(missing)}, it has {sorted(found)}")
    names = [name for name in (*TARGETS, *sorted(set(found) - set(TARGETS))) if name in found and name not in WEAK]
    return {name: found[name] for name in names if not only or name in only}


def page_files(folder: Path) -> tuple[Path, ...]:
    """Return the files of the knowledge source."""
    files = tuple(sorted(folder.glob("*.pages.jsonl.gz")))
    if not files:
        raise SystemExit(f"{folder} holds no *.pages.jsonl.gz")
    return files


def read_pages(files: tuple[Path, ...]) -> Iterator[tuple[str, str, list[str]]]:
    """Return id, title and paragraphs of every page in turn."""
    for path in files:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                page = json.loads(line)
                yield str(page["wikipedia_id"]), page["wikipedia_title"], page["text"]


def limited(path: Path, limit: int | None, scratch: Path, *, seed: int | None = None) -> Path:
    """Return the file itself, or a copy in `scratch` with `limit` of its rows: the first, or drawn with the seed."""
    if limit is None:
        return path
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = list(lines)
    if seed is not None:
        rows = random.Random(seed).sample(rows, min(limit, len(rows)))
    name = path.name.removesuffix(".jsonl.gz")
    copy = scratch / f"{name}.{'first' if seed is None else f'seed{seed}'}-{limit}.jsonl"
    copy.write_text("".join(rows[:limit]), encoding="utf-8")
    return copy


def half_rows(path: Path, half: Half, limit: int, scratch: Path, *, seed: int = 13) -> Path:
    """Return a file in `scratch` with up to `limit` rows of one half of a set, drawn with the seed.

    Halves are of pages, the same for all sets: what is chosen on one is not scored on the same pages.
    """
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = list(lines)
    rows = [row for row, of in zip(rows, halves_of(path, [json.loads(row) for row in rows]), strict=True) if of == half]
    chosen = random.Random(seed).sample(rows, min(limit, len(rows)))
    copy = scratch / f"{path.name.removesuffix('.jsonl.gz')}.{half}-{len(chosen)}.jsonl"
    copy.write_text("".join(chosen), encoding="utf-8")
    return copy


def halves_of(path: Path, rows: list[dict[str, Any]]) -> list[Half]:
    """Return the half that each row of a set belongs to: the first bit of the SHA-256 of the first gold page's id.

    A set of few relations is halved by these, which are dealt out in the order of their hashes.
    """
    if path.name.partition(".")[0] in BY_RELATION:
        relations = [row["input"].partition(SEPARATOR)[2].strip() for row in rows]
        order = sorted(set(relations), key=lambda relation: hashlib.sha256(relation.encode()).digest())
        return [HALVES[order.index(relation) % 2] for relation in relations]
    return [HALVES[hashlib.sha256(page_of(row).encode()).digest()[0] >> 7] for row in rows]


def page_of(row: dict[str, Any]) -> str:
    """Return the id of the first gold page of a row, by which errors are clustered; empty where there is none."""
    pages = (entry for output in row["output"] for entry in output.get("provenance", ()))
    return str(next((entry["wikipedia_id"] for entry in pages), ""))


def by_task(names: list[str] | tuple[str, ...]) -> dict[Task, list[str]]:
    """Return the sets of each task, in order."""
    tasks: dict[Task, list[str]] = {}
    for name in names:
        tasks.setdefault(task_of_file(f"{name}.dev.jsonl.gz"), []).append(name)
    return tasks


def macro(values: list[float | None]) -> float | None:
    """Return the mean of the values that exist."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
