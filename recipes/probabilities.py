"""Fitting the probabilities that ship with the default encoder: `adapters/tasks/calibrations.json` and its card.

Run: python -m recipes.probabilities --data DIR --scratch DIR [--kb DIR] [--task TASK]

Each task is answered by the encoder that is bundled for it, if one is. With --task only those tasks are fitted anew.
What is there for other encoders stays.

Questions are development rows of KILT sets, asked of knowledge bases of several sizes: the gold pages of some rows and
random other pages. Each set's rows are asked twice: as many whose pages are there as rows whose pages are left out.
The models are fitted on one half of the pages (the first bit of the hash of the first gold page's id) and reported on
the other. Sets that are kept for tests of transfer are reported on alone.

A knowledge base of all pages may be given: some gold pages are deleted from a copy of it. Answers that stand in the
scratch folder are used again.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import shutil
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from adapters.calibration.calibrating import judge_records
from adapters.calibration.confidence_fitting import ConfidenceFit, Judgement, ThresholdRule, fit_confidence, refused_at
from adapters.calibration.reliability import figures_of
from adapters.kilt.records import TaskRecord, read_gold
from adapters.kilt.task_files import task_of_file
from adapters.tasks import calibration as calibrations
from adapters.tasks.calibration import SHIPPED, TaskCalibration, with_task
from adapters.tasks.defaults import TASK_WEIGHTS
from benchmarks.kilt_sets import RETRIEVAL_ONLY, data_folder, page_files, set_files
from kbengine.build.builder import CorpusOptions, build
from kbengine.build.filtering import DEFAULT_FILTER
from kbengine.encoders.answering import AnsweringEncoders
from kbengine.encoders.encoder import Encoder
from kbengine.encoders.location import DEFAULT_ENCODER
from kbengine.inputs import TASKS, Task
from kbengine.knowledge_base import KnowledgeBase

SETS: tuple[str, ...] = (
    *("squad", "newwiki", "qed", "nqopen", "selqa"),
    *("docred", "fewrel", "fewrel_unseen", "knet"),
    *("el_wikilinks", "el_wikilinks_easy", "el_human", "el_conel", "el_news"),
    *("topicalchat", "cmudog", "inscit"),
)
SIZES = {133: 12, 1300: 2}
"""Pages of the knowledge bases, and how many there are of each size."""
ROWS = {133: 4, 1300: 16}
"""Rows of each set with, and as many without their pages, by the size of the knowledge base."""
ROWS_OF_ALL = 16
"""The same where there are all pages."""
MAX_LOST = {"question": 0.1, "slot-filling": 0.1, "entity-linking": 0.05, "dialogue": 0.05}
"""Answerable rows that may be refused, held out: of those with phrases as answers most have a wrong one anyway."""
TRANSFER = frozenset(("el_news", "cmudog", "inscit"))
"""Sets that nothing is fitted on."""
TARGET = Path(calibrations.__file__).with_name(SHIPPED)


@dataclass(frozen=True)
class Asked:
    """One row, asked of a knowledge base with or without its pages."""

    set_name: str
    record: TaskRecord
    is_answerable: bool

    @property
    def pages(self) -> frozenset[str]:
        """Return the ids of the gold pages."""
        return pages_of(self.record)

    @property
    def is_fitted_on(self) -> bool:
        """Return whether the row is of the half that is fitted on."""
        first = min(self.pages)
        return self.set_name not in TRANSFER and hashlib.sha256(first.encode()).digest()[0] < 128


@dataclass(frozen=True)
class Judged:
    """The answers to one row."""

    set_name: str
    kb: str
    is_fitted_on: bool
    judgement: Judgement

    def line(self) -> str:
        """Return the answers as a line of JSON."""
        found = self.judgement
        judgement = [found.features.tolist(), found.is_right.tolist(), found.share, found.has_gold]
        return json.dumps([self.set_name, self.kb, self.is_fitted_on, *judgement]) + "\n"

    @classmethod
    def of_line(cls, line: str) -> Judged:
        """Return what `line` wrote."""
        set_name, kb, is_fitted_on, features, is_right, share, has_gold = json.loads(line)
        judgement = Judgement(np.asarray(features), np.asarray(is_right, dtype=np.bool_), share, has_gold)
        return cls(set_name, kb, is_fitted_on, judgement)


def pages_of(record: TaskRecord) -> frozenset[str]:
    """Return the ids of all gold pages of a record."""
    entries = (entry for output in record.outputs for entry in output.provenance)
    return frozenset(filter(None, (entry.partial_key(("wikipedia_id",)) for entry in entries)))


def read_rows(data: Path, known: Set[str]) -> dict[str, list[TaskRecord]]:
    """Return the development rows of each set whose gold pages are all known."""
    files = set_files(data, "dev", SETS)
    return {
        name: [each for each in read_gold(files[name]) if pages_of(each) and pages_of(each) <= known] for name in SETS
    }


def draw(
    rows: Mapping[str, Sequence[TaskRecord]], per_set: int, pages: Iterable[str], n_pages: int, seed: str
) -> tuple[list[Asked], list[str]]:
    """Return rows to ask and the pages to ask: of half of the rows the gold ones, and random others."""
    generator = random.Random(seed)
    asked = []
    for name, records in rows.items():
        chosen = generator.sample(records, min(2 * per_set, len(records)))
        asked += [Asked(name, record, i < per_set) for i, record in enumerate(chosen)]
    # A row cannot be asked that needs a page which another must not find, or the other way round.
    there, left_out = _pages(asked, is_answerable=True), _pages(asked, is_answerable=False)
    asked = [each for each in asked if not each.pages & (left_out if each.is_answerable else there)]
    there, left_out = _pages(asked, is_answerable=True), _pages(asked, is_answerable=False)
    known = sorted(pages)
    drawn = generator.sample(known, min(len(known), n_pages + len(left_out) + len(there)))
    others = [page for page in drawn if page not in there and page not in left_out]
    return asked, sorted([*there, *others[: max(0, n_pages - len(there))]])


def _pages(asked: Sequence[Asked], *, is_answerable: bool) -> set[str]:
    return {page for each in asked if each.is_answerable == is_answerable for page in each.pages}


def judge(path: Path, encoder: Encoder, asked: Sequence[Asked], tasks: Sequence[Task]) -> list[Judged]:
    """Return the answers that the knowledge base gives to the rows of the tasks."""
    found = []
    asked = [
        each
        for each in asked
        if each.set_name not in RETRIEVAL_ONLY and task_of_file(f"{each.set_name}.jsonl") in tasks
    ]
    groups = sorted({(each.set_name, each.is_answerable, each.is_fitted_on) for each in asked})
    with KnowledgeBase.open(path, encoder) as knowledge_base:
        for name, is_answerable, is_fitted_on in groups:
            records = [
                each.record
                for each in asked
                if (each.set_name, each.is_answerable, each.is_fitted_on) == (name, is_answerable, is_fitted_on)
            ]
            judgements = judge_records(knowledge_base, records, task_of_file(f"{name}.jsonl"), notice=print)
            found += [
                Judged(name, path.name, is_fitted_on, replace(each, has_gold=is_answerable)) for each in judgements
            ]
    return found


def collect(data: Path, scratch: Path, kb: Path | None, tasks: Sequence[Task] = TASKS) -> list[Judged]:
    """Return the answers of all knowledge bases, which are made where they are not there yet."""
    encoder = Encoder.load(DEFAULT_ENCODER)
    pages: dict[str, str] = {}
    for file in page_files(data):
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            pages.update((str(json.loads(line)["wikipedia_id"]), line) for line in lines)
    rows = read_rows(data, set(pages))
    plans = [(f"{size}-{i}", size, ROWS[size]) for size in SIZES for i in range(SIZES[size])]
    found: list[Judged] = []
    for name, n_pages, per_set in [*plans, *([("all", len(pages), ROWS_OF_ALL)] if kb else [])]:
        kept = scratch / f"{name}.judged.jsonl"
        if not kept.exists():
            asked, chosen = draw(rows, per_set, pages, n_pages, name)
            folder = scratch / f"{name}.kb"
            if folder.exists():
                print(f"{folder} is asked as it is there", flush=True)
            elif kb and name == "all":
                shutil.copytree(kb, folder)
                with KnowledgeBase.open(folder, encoder) as knowledge_base:
                    knowledge_base.delete(sorted(_pages(asked, is_answerable=False)))
            else:
                text = scratch / f"{name}.pages.jsonl"
                text.write_text("".join(pages[page] for page in chosen), encoding="utf-8")
                build(CorpusOptions((text,)), folder, encoder=encoder, filter_options=DEFAULT_FILTER)
            kept.write_text("".join(each.line() for each in judge(folder, encoder, asked, tasks)), encoding="utf-8")
        found += [Judged.of_line(line) for line in kept.read_text(encoding="utf-8").splitlines()]
        print(f"{name}: {len(found):,} rows so far", flush=True)
    return found


def figures(fit: ConfidenceFit, judged: Sequence[Judged]) -> dict[str, Any]:
    """Return how good a fit is on rows: refused shares and reliability."""
    answered = [each.judgement for each in judged if len(each.judgement.features)]
    is_right = np.asarray([bool(each.is_right[0]) for each in answered])
    has_gold = np.asarray([each.has_gold for each in answered])
    given = np.asarray([fit.confidence.probabilities(each.features)[0] for each in answered])
    answerable = np.asarray([fit.confidence.answerable_probability(each.features) for each in answered])
    return {
        "rows": len(answered),
        **{name: value for name, value in figures_of(given, is_right).items() if name != "bins"},
        **refused_at(answerable, has_gold, is_right, fit.answerable_threshold or 0.0),
    }


def fit_task(task: Task, judged: Sequence[Judged], encoder: str) -> TaskCalibration:
    """Return the calibration of a task, with figures of the rows that it was not fitted on."""
    fit = fit_confidence(
        [each.judgement for each in judged if each.is_fitted_on], ThresholdRule("none"), max_lost=MAX_LOST[task]
    )
    others = [each for each in judged if not each.is_fitted_on]
    of_sizes = {
        size: [each for each in others if each.kb.partition(".")[0].partition("-")[0] == size]
        for size in _sizes(others)
    }
    of_sets = {
        name: [each for each in others if each.set_name == name] for name in sorted({o.set_name for o in others})
    }
    report = {
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "generation": None,
        "files": {name: sum(o.set_name == name for o in judged if o.is_fitted_on) for name in of_sets},
        "weights": None,
        "confidence": fit.report,
        "other_half": {
            "all": figures(fit, others),
            "by_pages": {size: figures(fit, each) for size, each in of_sizes.items()},
            "by_set": {name: figures(fit, each) for name, each in of_sets.items()},
        },
    }
    return TaskCalibration(
        task, encoder, TASK_WEIGHTS[task], False, fit.confidence, None, "none", fit.answerable_threshold, report
    )


def _sizes(judged: Sequence[Judged]) -> list[str]:
    return sorted({each.kb.partition(".")[0].partition("-")[0] for each in judged})


def main() -> None:
    """Fit, write the file, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--kb", type=Path, help="a knowledge base of all pages, made with the default encoder")
    parser.add_argument("--task", action="append", choices=TASKS, help="fit only this; may be repeated")
    given = parser.parse_args()
    given.scratch.mkdir(parents=True, exist_ok=True)
    tasks: Sequence[Task] = given.task or TASKS
    judged = collect(data_folder(given.data), given.scratch, given.kb, tasks)
    encoders = AnsweringEncoders(given.scratch, Encoder.load(DEFAULT_ENCODER))
    setting: Any = json.loads(TARGET.read_text(encoding="utf-8")) if TARGET.exists() else None
    for task in tasks:
        of_task = [each for each in judged if task_of_file(f"{each.set_name}.jsonl") == task]
        fitted = fit_task(task, of_task, encoders.get(encoders.name_for(None, task)).fingerprint)
        setting = with_task(setting, fitted)
        print(task, fitted.answerable_threshold, json.dumps(fitted.report["other_half"], indent=1))
    TARGET.write_text(json.dumps(setting, indent=1) + "\n", encoding="utf-8")
    print(f"written to {TARGET}")


if __name__ == "__main__":
    main()
