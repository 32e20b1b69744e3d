"""What is tuned and compared: one line of the table each, with the options that it was run with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adapters.kilt.task_files import task_of_file
from adapters.tuning.tuning_files import TaskFile
from adapters.tuning.tuning_scores import Measure
from kbengine.learning.tuning.losses import Loss


@dataclass(frozen=True)
class Experiment:
    """One tuning.

    Attributes:
        name: Of the tuned encoder too.
        loss: What is right.
        train: Sets learned from.
        dev: Sets scored on; those not in `train` tell what transfer loses.
        measure: The figure that decides.
        options: What differs from `COMMON`, by dotted names.
    """

    name: str
    loss: Loss
    train: tuple[str, ...]
    dev: tuple[str, ...]
    measure: Measure
    options: tuple[tuple[str, Any], ...] = ()

    def files(self, folder: Any, split: str) -> tuple[TaskFile, ...]:
        """Return the files of a split, "train" or "dev"."""
        names = self.train if split == "train" else self.dev
        paths = [folder / f"{name}.{split}.jsonl.gz" for name in names]
        return tuple(TaskFile(path, task_of_file(path)) for path in paths)


LINKS = ("el_wikilinks", "el_human", "el_conel")
LINKS_DEV = ("el_wikilinks", "el_conel", "el_human", "el_news")
DIALOGUES_DEV = ("topicalchat", "cmudog", "inscit")
SLOTS = ("docred", "fewrel", "knet")
QUESTIONS = ("squad", "newwiki", "qed", "nqopen")
EASY_LINKS = ("el_wikilinks_easy",)
WEAK_LINKS = ("el_weak",)
"""Labelled by a surname on the page of a namesake; never scored."""

COMMON: tuple[tuple[str, Any], ...] = (
    ("effort", "low"),
    ("scores", "both"),
    ("mixing", "root"),
    ("loop.batch_size", 16),
    ("loop.epochs", 1),
    ("loop.optimizer.learning_rate", 5e-5),
)
_LINKING = (("mixing", "proportional"), ("loop.epochs", 2), ("loop.evaluate_every_steps", 196))
_DIALOGUE = (
    ("scores", "phrase"),
    ("kl", 0.1),
    ("loop.epochs", 2),
    ("loop.optimizer.learning_rate", 7e-5),
    ("loop.evaluate_every_steps", 112),
)
_QUESTIONS = (("rows_per_epoch", 2400), ("loop.evaluate_every_steps", 75))
_QUESTIONS_JOINT = (
    ("kl", 1.0),
    ("rows_per_epoch", 1600),
    ("loop.optimizer.learning_rate", 2e-5),
    ("loop.evaluate_every_steps", 50),
)
_SLOTS = (("rows_per_epoch", 1200), ("loop.optimizer.learning_rate", 3e-5))
EXPERIMENTS = (
    Experiment("linking", "doc", LINKS, LINKS_DEV, "rprec", _LINKING),
    Experiment("linking-by-phrase", "phrase", LINKS, LINKS_DEV, "rprec", _LINKING),
    Experiment("linking-close", "doc", LINKS, LINKS_DEV, "rprec", (*_LINKING, ("kl", 0.3))),
    Experiment("linking-weak", "doc", (*LINKS, *WEAK_LINKS), LINKS_DEV, "rprec", (*_LINKING, ("loop.epochs", 1))),
    Experiment("dialogue", "doc", ("topicalchat",), DIALOGUES_DEV, "rprec", _DIALOGUE),
    Experiment("dialogue-by-phrase", "phrase", ("topicalchat",), DIALOGUES_DEV, "rprec", _DIALOGUE),
    Experiment("questions", "phrase", QUESTIONS, QUESTIONS, "em", _QUESTIONS),
    Experiment("questions-joint", "joint", QUESTIONS, QUESTIONS, "em", _QUESTIONS_JOINT),
    Experiment("slots", "phrase", SLOTS, SLOTS, "kilt_em", _SLOTS),
    Experiment("slots-by-doc", "doc", SLOTS, SLOTS, "kilt_em", _SLOTS),
    Experiment(
        "general",
        "task",
        (*QUESTIONS, *SLOTS, *LINKS, *EASY_LINKS, "topicalchat"),
        (*QUESTIONS, *SLOTS, *LINKS_DEV, *EASY_LINKS, *DIALOGUES_DEV),
        "mean",
        (("rows_per_epoch", 6000), ("loop.evaluate_every_steps", 188)),
    ),
)
