"""What a run learns from: the rows of its files, cloze questions of a corpus, mined negatives."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kbengine.corpus.document import CorpusDocument
from kbengine.corpus.page_list import read_page_list
from kbengine.corpus.reader import read_corpus
from kbengine.errors import TrainingDataError
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.data.mining import mine_negatives
from kbengine.learning.data.passage_index import indexed_passages
from kbengine.learning.data.reading import DataOptions, TrainingData, read_training_files
from kbengine.learning.data.report import DataReport
from kbengine.learning.questions.answers import AnswerOptions
from kbengine.learning.questions.cloze import ClozeOptions, cloze_questions, with_links
from kbengine.learning.questions.name_index import NameIndex
from kbengine.learning.runs.data_section import DataSection
from kbengine.progress import ProgressSink

_ADAPT_DEV_SHARE = 0.05
_ADAPT_DEV_MOST = 500


@dataclass(frozen=True)
class Examples:
    """Training and development examples, and what came of the rows."""

    train: tuple[TrainingExample, ...]
    dev: tuple[TrainingExample, ...]
    report: DataReport


def read_examples(data: DataSection, *, seed: int = 0, progress: ProgressSink | None = None) -> Examples:
    """Return the examples of a recipe's files, with cloze questions of `adapt` and mined negatives where asked for.

    Without development files, `adapt` alone keeps a twentieth of its own questions (500 at most) for the score.

    Raises:
        TrainingDataError: nothing can be trained on.
        CorpusError: a file cannot be read.
    """
    if not data.train and not data.adapt:
        raise TrainingDataError("there is nothing to train on; give --train FILE, or --adapt CORPUS")
    options = DataOptions(data.pages, _excluded(data), data.max_passages, data.as_questions)
    nothing = TrainingData((), DataReport())
    train = read_training_files(data.train, options, progress=progress) if data.train else nothing
    dev_options = replace(options, exclude=frozenset())  # scoring on excluded pages is what they are kept for
    dev = read_training_files(data.dev, dev_options, progress=progress) if data.dev else nothing
    examples, held_out = list(train.examples), list(dev.examples)
    if data.adapt:
        made = list(adapt_examples(data, seed=seed))
        if not held_out:
            n_dev = min(_ADAPT_DEV_MOST, int(len(made) * _ADAPT_DEV_SHARE))
            random.Random(seed).shuffle(made)
            held_out, made = made[:n_dev], made[n_dev:]
        examples += made
    if data.limit is not None and len(examples) > data.limit:
        examples = random.Random(seed).sample(examples, data.limit)
    if not examples:
        raise TrainingDataError("the corpus gave no cloze question; give a corpus with longer texts, or --train FILE")
    if data.hard_negatives != "none":
        passages = indexed_passages(_documents(data.pages or data.adapt), _excluded(data))
        examples = mine_negatives(examples, passages, data.hard_negatives, n=data.n_hard_negatives, progress=progress)
    return Examples(tuple(examples), tuple(held_out), train.report)


def adapt_examples(data: DataSection, *, seed: int) -> Iterator[TrainingExample]:
    """Give the cloze questions of the corpus to adapt to."""
    exclude = _excluded(data)
    answers = AnswerOptions(per_document=data.questions_per_document, seed=seed, exclude=exclude)
    options, names = ClozeOptions(answers), None
    if data.link_questions:
        options, names = with_links(options), NameIndex(_documents(data.adapt), exclude=exclude)
    return cloze_questions(_documents(data.adapt), options, names=names)


def _documents(paths: Sequence[Path]) -> Iterator[CorpusDocument]:
    return (document for document, _ in read_corpus(paths))


def _excluded(data: DataSection) -> frozenset[str]:
    return frozenset() if data.exclude_pages is None else read_page_list(data.exclude_pages)
