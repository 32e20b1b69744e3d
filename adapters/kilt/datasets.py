"""The eleven data sets of KILT: names, tasks, file names and leaderboard metrics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from adapters.kilt.answer_forms import AnswerForm
from kbengine.inputs import Task

Metric = Literal["accuracy", "em", "f1", "rougel"]

_SUFFIXES = ("-test_without_answers-kilt", "-dev-kilt", "-train-kilt")


@dataclass(frozen=True)
class Dataset:
    """One KILT data set: file prefix, printed name, task, leaderboard metric and the fewest useful pages.

    `answer` is what a submission writes as the answer, `steps` how many searches find its pages. FEVER's claims are
    asked as questions and get their pages: its answers SUPPORTS and REFUTES are no phrases of a text.
    """

    prefix: str
    name: str
    task: Task
    metric: Metric
    min_pages: int = 1
    answer: AnswerForm = "phrase"
    steps: int = 1


DATASETS: tuple[Dataset, ...] = (
    Dataset("fever", "FEVER", "question", "accuracy", min_pages=2, answer="pages"),
    Dataset("aidayago2", "AY2", "entity-linking", "accuracy"),
    Dataset("wned", "WnWi", "entity-linking", "accuracy"),
    Dataset("cweb", "WnCw", "entity-linking", "accuracy"),
    Dataset("trex", "T-REx", "slot-filling", "accuracy"),
    Dataset("structured_zeroshot", "zsRE", "slot-filling", "accuracy"),
    Dataset("nq", "NQ", "question", "em"),
    Dataset("hotpotqa", "HoPo", "question", "em", min_pages=2, steps=2),
    Dataset("triviaqa", "TQA", "question", "em"),
    Dataset("eli5", "ELI5", "question", "rougel", answer="sentences"),
    Dataset("wow", "WoW", "dialogue", "f1"),
)


def submission_name(inputs: str | Path) -> str:
    """Return the file name a submission for `inputs` must have: the basename of the input file, without `.gz`."""
    return Path(inputs).name.removesuffix(".gz")


def dataset_of(file: str | Path) -> Dataset | None:
    """Return the data set that a file belongs to by its conventional name, or None.

    `trex-test_without_answers-kilt.jsonl` and `trex-dev-kilt.jsonl.gz` are both T-REx; `my-questions.jsonl` is none.
    """
    stem = submission_name(file).removesuffix(".jsonl")
    for dataset in DATASETS:
        if stem.startswith(dataset.prefix) and stem[len(dataset.prefix) :] in _SUFFIXES:
            return dataset
    return None
