"""The model of what is a mention of what, which annotating believes: fitted on texts of our own with all names marked.

Run: python -m recipes.mention_model --kb DIR [--regularisation C]

The texts (`recipes/written/annotated.jsonl.bz2`; its README says how they were written) are annotated over a knowledge
base of Wikipedia pages. A document that may be meant by a span is right where the text says so. Names of pages that are
not there count as names of nothing; spans that are marked with a title that only looks like one of a page are left out.
Prints the two models of `adapters/annotating/evidence.py`. Needs the extra `calibration`.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapters.annotating.annotator import AnnotateOptions, Annotator, annotator_for
from adapters.annotating.evidence import FEATURES, MentionModel
from adapters.tasks.answerer import Answerer
from kbengine.knowledge_base import KnowledgeBase
from kbengine.learning.data.reading import json_lines
from storage.folding import case_key
from storage.reader import KBReader

TEXTS = Path(__file__).parent / "written" / "annotated.jsonl.bz2"
TOGETHER_ONLY = ("said", "alike", "linked", "again")
"""What is known of a document only beside the other mentions of a text."""
UNUSED = ("answerable", "name", "best", "lead", "known")
"""What the linker's probability says already; with weights of their own they are fitted to correct it, and the second
best overtakes the best where nothing else speaks for it, or stays behind it where the other mentions do."""
REGULARISATION = 0.3
"""sklearn's C, chosen on the first halves of Reuters-128, Derczynski and Spotlight."""
_QUALIFIER = re.compile(r"\s*\([^)]*\)$|, .*$")


@dataclass(frozen=True)
class Marked:
    """A text with its names.

    Attributes:
        text: Without marks.
        names: By half-open characters, the Wikipedia title of what is named; None: it has no page.
    """

    text: str
    names: Mapping[tuple[int, int], str | None]


def marked_texts(path: Path = TEXTS) -> Iterator[Marked]:
    """Yield the texts of a file."""
    for row in json_lines(path):
        yield Marked(row["text"], {(begin, end): title for begin, end, title in row["names"]})


class Titles:
    """Documents by their titles."""

    def __init__(self, reader: KBReader) -> None:
        """Read all titles."""
        self._documents: defaultdict[str, set[str]] = defaultdict(set)
        self._bare: set[str] = set()
        for record in reader.iterate_records():
            self._documents[case_key(record.title)].add(record.doc_id)
            self._bare.add(case_key(_QUALIFIER.sub("", record.title)))

    def document(self, title: str | None) -> str | None:
        """Return the id of the one document with a title, or None."""
        found = self._documents.get(case_key(title or ""), set())
        return next(iter(found)) if len(found) == 1 else None

    def is_doubtful(self, title: str | None) -> bool:
        """Return whether no document has the title and one has one that differs in its qualifier alone."""
        bare = case_key(_QUALIFIER.sub("", title or ""))
        return title is not None and self.document(title) is None and bare in self._bare


def labelled(
    annotator: Annotator, titles: Titles, texts: Iterable[Marked]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return what speaks for each document that a span may mean, float64 (N, 17), and whether it does, bool (N,)."""
    features: list[tuple[float, ...]] = []
    is_right: list[bool] = []
    for each in texts:
        for window, weighed in annotator.weigh(each.text, AnnotateOptions()):
            for one in weighed:
                span = (window.start + one.spotted.span.start, window.start + one.spotted.span.end)
                title = each.names.get(span)
                if titles.is_doubtful(title):
                    continue
                meant = titles.document(title)
                for document, _, _, numbers in one.options:
                    features.append(numbers)
                    is_right.append(document.doc_id == meant)
    return np.array(features), np.array(is_right)


def fitted(features: NDArray[np.float64], is_right: NDArray[np.bool_], *, regularisation: float) -> MentionModel:
    """Return the logistic regression.

    Args:
        features: float64 (N, 17), named in `FEATURES`; a column of zeros gets the coefficient 0.
        is_right: bool (N,).
        regularisation: sklearn's C.
    """
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped, unused-ignore]

    model: Any = LogisticRegression(C=regularisation, max_iter=3000).fit(features, is_right)
    return MentionModel(tuple(round(float(each), 3) for each in model.coef_[0]), round(float(model.intercept_[0]), 3))


def main() -> None:
    """Annotate the texts and fit both models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kb", type=Path, required=True)
    parser.add_argument("--regularisation", type=float, default=REGULARISATION, metavar="C")
    given = parser.parse_args()
    with KnowledgeBase.open(given.kb) as knowledge_base:
        annotator = annotator_for(Answerer(knowledge_base), knowledge_base)
        features, is_right = labelled(annotator, Titles(knowledge_base.reader), marked_texts())
    print(f"{len(is_right):,} documents that spans may mean, {is_right.sum():,} of them right")
    for name, unused in {"ALONE": (*UNUSED, *TOGETHER_ONLY), "TOGETHER": UNUSED}.items():
        used = features.copy()
        used[:, [FEATURES.index(each) for each in unused]] = 0.0
        print(name, fitted(used, is_right, regularisation=given.regularisation))


if __name__ == "__main__":
    main()
