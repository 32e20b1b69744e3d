"""Fewer vectors a passage: how accuracy falls with them, and what they take (Figure 4 of the second paper).

Run: python -m benchmarks.vectors_per_passage --kb DIR --scratch DIR [--data DIR] [--minutes 10]

The knowledge base keeps every token; it is read only. For each share of tokens and each kind of index a copy is made
in the scratch directory, measured and removed. Points that were measured are kept there: run it again to go on.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapters.kilt.plot import new_figure, write_figure
from benchmarks.kilt_sets import data_folder, set_files
from benchmarks.measurement import write_result
from benchmarks.ranking_scores import RankedSet, rank_sets, with_macro
from kbengine.build.filtering import FilterOptions
from kbengine.build.reindexing import ReindexOptions, reindex
from kbengine.knowledge_base import KnowledgeBase
from storage.durable import write_durably

FRACTIONS = (1.0, 0.5, 0.3, 0.2, 0.1, 0.05)
KINDS = ("ivf-sq8", "opq48")
SETS = ("squad", "nqopen", "docred", "knet", "el_wikilinks", "el_news")
IMAGES = Path(__file__).parent.parent / "docs" / "images"
LABELS = {"ivf-sq8": "int8 vectors", "opq48": "OPQ48, int8 dropped"}
FIGURES = {"recall@5": "passage recall@5, %", "rprec": "page R-precision, %"}


@dataclass(frozen=True)
class Config:
    """What is measured.

    Attributes:
        kb: Keeps every token.
        scratch: Holds copies while they are measured, and the points.
        data: The folder of KILT sets.
        rows: At most so many random rows of each set.
        fractions: Shares of tokens, falling.
        kinds: Of index.
        sets: Asked.
        made: Knowledge bases that are the `ivf-sq8` copy of a share already.
        keep: Shares whose copies stay.
        skip: Names of points that are left out, such as "opq48-1".
        seconds: No point is begun after them.
    """

    kb: Path
    scratch: Path
    data: Path
    rows: int
    fractions: tuple[float, ...]
    kinds: tuple[str, ...]
    sets: tuple[str, ...]
    made: dict[float, Path]
    keep: tuple[float, ...]
    skip: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Point:
    """One knowledge base of the curve."""

    fraction: float
    kind: str

    @property
    def name(self) -> str:
        """The copy's directory, and its key among the points."""
        return f"{self.kind}-{self.fraction:g}"


def copy_options(point: Point) -> ReindexOptions:
    """Return what is to change to make the point's copy; stored vectors are dropped where they were quantised."""
    drops = point.kind != "ivf-sq8"
    if point.fraction == 1:
        return ReindexOptions(ann={"kind": point.kind}, drop_vectors=drops)
    kept = FilterOptions(keep_fraction=point.fraction)
    return ReindexOptions(kept, {"kind": point.kind}, drop_vectors=drops, store="indexed")


def int8_copy(config: Config, fraction: float) -> Path:
    """Return where the knowledge base with int8 vectors of a share is, or would be."""
    if fraction == 1:
        return config.kb
    return config.made.get(fraction, config.scratch / Point(fraction, "ivf-sq8").name)


def make_copy(config: Config, point: Point) -> Path:
    """Return the point's knowledge base, made of the nearest larger one that is there."""
    target = config.scratch / point.name
    if point.kind == "ivf-sq8":
        target = int8_copy(config, point.fraction)
    if not target.exists():
        shares = sorted({*config.fractions, *config.made})
        larger = [int8_copy(config, each) for each in shares if each >= point.fraction]
        reindex(next((path for path in larger if path.exists()), config.kb), copy_options(point), out=target)
    return target


def measure(path: Path, sets: Sequence[RankedSet]) -> dict[str, Any]:
    """Return sizes and accuracy of one knowledge base."""
    with KnowledgeBase.open(path) as knowledge_base:
        info = knowledge_base.info()
        began = time.perf_counter()
        scores = rank_sets(knowledge_base.searcher(), sets)
        searches = 2 * sum(len(each.rows) for each in sets)
        vectors_bytes = info.bytes_by_use["vectors"] + info.bytes_by_use["index"]
        return {
            "stored_vectors": info.segment_rows,
            "passages": info.passages,
            "vectors_per_passage": round(info.segment_rows / info.passages, 2),
            "bytes_by_use": info.bytes_by_use,
            "bytes_without_text": vectors_bytes,
            "bytes_per_vector_without_text": round(vectors_bytes / info.segment_rows, 1),
            "kind": info.settings.ann_options.kind,
            "ms_per_search": round((time.perf_counter() - began) / searches * 1e3, 2),
            "scores": scores,
        }


def measure_all(config: Config) -> dict[str, Any] | None:
    """Return the figures of every point; None when time was up before the last."""
    began = time.monotonic()
    config.scratch.mkdir(parents=True, exist_ok=True)
    sets = [RankedSet.read(path, limit=config.rows) for path in set_files(config.data, "dev", config.sets).values()]
    store = config.scratch / "points.json"
    points: dict[str, Any] = json.loads(store.read_text(encoding="utf-8")) if store.exists() else {}
    wanted = [Point(fraction, kind) for fraction in config.fractions for kind in config.kinds]
    wanted = [point for point in wanted if point.name not in config.skip]
    for point in wanted:
        if point.name in points:
            continue
        if time.monotonic() - began > config.seconds:
            return None
        made = time.perf_counter()
        path = make_copy(config, point)
        made_s = round(time.perf_counter() - made, 1)
        points[point.name] = {"kept": point.fraction, "made_s": made_s, **measure(path, sets)}
        write_durably(store, [json.dumps(points, indent=2).encode()], replace=True)
        print(point.name, summary(points[point.name]), flush=True)
        remove_copies(config, point.fraction)
    remove_copies(config, 0.0)
    return {
        "sets": {each.name: len(each.rows) for each in sets},
        "points": [
            {"index": point.kind, **points[point.name], "scores": of_sets(points[point.name]["scores"], config.sets)}
            for point in sorted(wanted, key=lambda point: (config.kinds.index(point.kind), point.fraction))
        ],
    }


def of_sets(scores: dict[str, Any], sets: Sequence[str]) -> dict[str, Any]:
    """Return the scores of these sets alone with their means: a point may have been measured with more."""
    return {way: with_macro({name: figures[name] for name in sets}) for way, figures in scores.items()}


def remove_copies(config: Config, fraction: float) -> None:
    """Remove the copies that are needed no more after this share: smaller ones are made of its int8 copy."""
    for path in config.scratch.glob("*-*/kb.sqlite"):
        kind, _, own = path.parent.name.rpartition("-")
        is_source = kind == "ivf-sq8" and float(own) <= fraction
        if not is_source and float(own) not in config.keep:
            shutil.rmtree(path.parent)


def summary(point: dict[str, Any]) -> str:
    """Return one line about a point: its size, and the macro figures of both ways."""
    macros = {way: scores["macro"] for way, scores in point["scores"].items()}
    cells = [f"{way} {figure} {macro[figure]}" for way, macro in macros.items() for figure in FIGURES]
    return f"{point['vectors_per_passage']} vectors a passage, {point['bytes_per_vector_without_text']} B: {cells}"


def plot(figures: dict[str, Any], paths: Sequence[Path]) -> None:
    """Draw the macro figures over vectors a passage and over bytes a passage, a row of panels for each figure."""
    drawn = new_figure(width_inches=9.5, height_inches=6.5)
    panels = drawn.subplots(2, 2, sharey="row", sharex="col")
    colours = dict(zip(KINDS, ("#1f5f8b", "#c4622d"), strict=True))
    for row, (figure, label) in enumerate(FIGURES.items()):
        for column, x_of in enumerate((_vectors, _bytes)):
            axes = panels[row][column]
            for kind in KINDS:
                of_kind = [point for point in figures["points"] if point["index"] == kind]
                for way, style in (("fused", "-"), ("phrase", "--")):
                    ways = {"fused": "all signals", "phrase": "phrases alone"}
                    axes.plot(
                        [x_of(point) for point in of_kind],
                        [point["scores"][way]["macro"][figure] for point in of_kind],
                        linestyle=style,
                        marker="o",
                        markersize=4,
                        color=colours[kind],
                        label=f"{LABELS[kind]}, {ways[way]}",
                    )
            axes.set_xscale("log")
            axes.grid(visible=True, which="both", alpha=0.25)
        panels[row][0].set_ylabel(label)
    of_int8 = [point for point in figures["points"] if point["index"] == KINDS[0]]
    ticks = [_vectors(point) for point in of_int8]
    panels[1][0].set_xticks(ticks, labels=[f"{tick:.3g}" for tick in ticks])
    panels[1][0].set_xticks([], minor=True)
    sizes = [300, 1000, 3000, 10_000, 30_000]
    panels[1][1].set_xticks(sizes, labels=[f"{size:,}" for size in sizes])
    panels[1][1].set_xticks([], minor=True)
    panels[1][0].set_xlabel("vectors a passage")
    panels[1][1].set_xlabel("bytes a passage, text excluded")
    drawn.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize="small")
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_figure(drawn, path)


def _vectors(point: dict[str, Any]) -> float:
    return float(point["vectors_per_passage"])


def _bytes(point: dict[str, Any]) -> float:
    return float(point["bytes_without_text"] / point["passages"])


def main() -> None:
    """Measure, write the figures and draw them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kb", type=Path, required=True, help="keeps every token; read only")
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rows", type=int, default=150, help="random rows of each set")
    parser.add_argument("--fractions", default=",".join(f"{each:g}" for each in FRACTIONS))
    parser.add_argument("--made", action="append", default=[], help="F=DIR: a knowledge base that keeps F already")
    parser.add_argument("--keep", default="", help="shares whose copies stay, separated by commas")
    parser.add_argument("--skip", default="", help="points to leave out, separated by commas: opq48-1")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no point after them")
    parser.add_argument("--images", type=Path, default=IMAGES)
    given = parser.parse_args()
    made = [each.partition("=") for each in given.made]
    config = Config(
        given.kb,
        given.scratch,
        data_folder(given.data),
        given.rows,
        tuple(sorted(map(float, given.fractions.split(",")), reverse=True)),
        KINDS,
        SETS,
        {float(fraction): Path(path) for fraction, _, path in made},
        tuple(map(float, filter(None, given.keep.split(",")))),
        tuple(given.skip.split(",")),
        60 * given.minutes,
    )
    figures = measure_all(config)
    if figures is None:
        print("time is up; run it again to go on")
        return
    claim = "passage recall and R-precision over vectors a passage and bytes, with int8 vectors and with OPQ48 alone"
    write_result("vectors_per_passage", claim, figures)
    plot(figures, [given.images / f"vectors-per-passage.{kind}" for kind in ("png", "svg")])


if __name__ == "__main__":
    main()
