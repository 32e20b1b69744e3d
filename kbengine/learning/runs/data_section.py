"""The files of a training and what is made of them, as a recipe's section `data` says it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from kbengine.learning.loop.options import require, require_count

HardNegatives = Literal["none", "bm25", "same-phrase"]
HARD_NEGATIVES: tuple[HardNegatives, ...] = get_args(HardNegatives)


@dataclass(frozen=True)
class DataSection:
    """What is trained on.

    Attributes:
        train: Files of training rows.
        dev: Files of development rows; none: no development score, the last weights are kept.
        pages: The corpus that KILT rows point into.
        exclude_pages: A file of document ids, one a line, whose text must not be trained on.
        max_passages: Gold passages of one row of KILT or Natural Questions that become examples.
        as_questions: Zero-shot RE rows as questions.
        hard_negatives: Passages to mine for each example: "bm25" (near the query, without its answer), "same-phrase"
            (with the answer, of another document), "none".
        n_hard_negatives: How many for each.
        adapt: A corpus whose cloze questions are trained on too.
        questions_per_document: Cloze questions of one document at most.
        link_questions: Whether mentions of other documents are among them; the corpus is then read twice.
        reader: Directory of the cross-encoder to distil from.
        similar_to: The model whose passage vectors' similarities are kept (`losses.similarity`), named as `model.init`
            is; None: the initial one.
        limit: Use at most so many training examples, drawn with the loop's seed; None: all.
    """

    train: tuple[Path, ...] = ()
    dev: tuple[Path, ...] = ()
    pages: tuple[Path, ...] = ()
    exclude_pages: Path | None = None
    max_passages: int = 1
    as_questions: bool = False
    hard_negatives: HardNegatives = "none"
    n_hard_negatives: int = 1
    adapt: tuple[Path, ...] = ()
    questions_per_document: int = 4
    link_questions: bool = False
    reader: Path | None = None
    similar_to: str | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        for name in ("train", "dev", "pages", "adapt"):
            object.__setattr__(self, name, tuple(Path(each) for each in getattr(self, name)))
        for name in ("exclude_pages", "reader"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, Path(getattr(self, name)))
        for name in ("max_passages", "n_hard_negatives", "questions_per_document"):
            require_count(name, getattr(self, name))
        if self.limit is not None:
            require_count("limit", self.limit)
        wanted = f"one of {', '.join(HARD_NEGATIVES)}"
        require(self.hard_negatives in HARD_NEGATIVES, "hard_negatives", self.hard_negatives, wanted)
