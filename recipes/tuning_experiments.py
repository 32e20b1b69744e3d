"""What is tuned and compared: one line of the table each, with the options that it was run with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adapters.task_files import task_of_file
from adapters.tuning_files import TaskFile
from adapters.tuning_scores import Measure
from kbengine.tuning.losses import Loss


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

COMMON: tuple[tuple[str, Any], ...] = (
    ("mixing", "root"),
    ("loop.dtype", "bfloat16"),
    ("effort", "low"),
    ("loop.batch_size", 16),
    ("loop.epochs", 2),
    ("loop.optimizer.learning_rate", 7e-5),
    ("loop.log_every_steps", 10),
)
EXPERIMENTS = (
    Experiment("linking", "doc", LINKS, LINKS_DEV, "rprec"),
    Experiment("linking-by-phrase", "phrase", LINKS, LINKS_DEV, "rprec"),
    Experiment("dialogue", "doc", ("topicalchat",), DIALOGUES_DEV, "rprec", (("kl", 0.1), ("loop.epochs", 2))),
    Experiment("questions", "phrase", QUESTIONS, QUESTIONS, "em", (("loop.epochs", 1), ("rows_per_epoch", 6000))),
    Experiment("slots", "phrase", SLOTS, SLOTS, "kilt_em", (("loop.epochs", 1), ("rows_per_epoch", 6000))),
    Experiment("slots-by-doc", "doc", SLOTS, SLOTS, "kilt_em", (("loop.epochs", 1), ("rows_per_epoch", 6000))),
    Experiment(
        "general",
        "task",
        (*QUESTIONS, *SLOTS, *LINKS, *EASY_LINKS, "topicalchat"),
        (*QUESTIONS, *SLOTS, *LINKS_DEV, *EASY_LINKS, *DIALOGUES_DEV),
        "mean",
        (("loop.epochs", 1), ("rows_per_epoch", 9000)),
    ),
)
