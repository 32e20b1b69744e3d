"""What the bundled reader learns from: cloze questions, rows in people's wordings, questions with agreed answers."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from adapters.tasks.relations import RelationTable
from kbengine.corpus.normalise import norm
from kbengine.corpus.page_list import read_page_list
from kbengine.corpus.reader import read_corpus
from kbengine.inputs import Question, Slot, TaskInput
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.data.report import FileReport
from kbengine.learning.data.squad import squad_example, squad_rows
from kbengine.learning.questions.answers import KIND_WEIGHTS, AnswerOptions
from kbengine.learning.questions.cloze import ClozeOptions, cloze_questions
from kbengine.learning.runs.data_section import DataSection
from kbengine.learning.runs.examples import Examples, read_examples
from kbengine.progress import ProgressSink
from recipes.plan import NOT_TRAINED

WRITTEN = Path(__file__).parent / "written"
"""Rows of our own on pages that may be trained on; its README says how they were written."""
DEVELOPMENT = ("squad", "newwiki", "nqopen", "docred", "fewrel_unseen", "knet")


def cloze_examples(data: Path, n: int, *, seed: int = 0) -> list[TrainingExample]:
    """Return cloze questions of the pages that may be trained on; nouns and verbs are asked for as names are."""
    answers = AnswerOptions(
        per_document=4,
        kinds={**KIND_WEIGHTS, "chunk": 1.0, "title": 0.5},
        seed=seed,
        exclude=read_page_list(data / "unseen_pages.txt"),
    )
    mix = {"question": 5.0, "slot": 2.0, "relation": 2.0}
    documents = (document for document, _ in read_corpus(sorted(data.glob("*.pages.jsonl*"))))
    made = list(cloze_questions(documents, ClozeOptions(answers, mix=mix)))
    return random.Random(seed).sample(made, min(n, len(made)))


def row_examples(data: Path, progress: ProgressSink, *, written: Sequence[str] = ()) -> Examples:
    """Return training rows of all sets that may be trained on, and development rows of those that have phrases.

    Args:
        data: the data folder.
        progress: is told of the rows read.
        written: names of the files of our own whose rows are among them.
    """
    train = [path for path in sorted(data.glob("*.train.jsonl*")) if path.name.partition(".")[0] not in NOT_TRAINED]
    train += [WRITTEN / f"{name}.train.jsonl.bz2" for name in written]
    dev = [data / f"{name}.dev.jsonl.gz" for name in DEVELOPMENT]
    section = DataSection(
        train=tuple(train),
        dev=tuple(dev),
        pages=tuple(sorted(data.glob("*.pages.jsonl*"))),
        exclude_pages=data / "unseen_pages.txt",
    )
    return read_examples(section, progress=progress)


def in_words(example: TrainingExample, table: RelationTable, rng: random.Random) -> TrainingExample:
    """Return a slot in one of the wordings that a relation may be asked in: name, description, question."""
    if not isinstance(example.query, Slot):
        return example
    return replace(example, query=worded(example.query, table, rng.random()))


def worded(slot: Slot, table: RelationTable, chance: float) -> TaskInput:
    """Return the slot as it is, with its description or as a question, by a number from 0 to 1."""
    subject, relation = slot.subject, slot.relation
    known = table.find(relation)
    if chance < 0.25:
        return slot
    if chance < 0.45 and known is not None:
        return Slot(subject, f"{relation}: {known.description}")
    if chance < 0.8:
        return Question(table.question_of(relation, subject))
    forms = (f"What is the {relation} of {subject}?", f"Which {relation} does {subject} have?", f"{subject} {relation}")
    return Question(forms[int(chance * 100) % len(forms)])


def agreed_examples(paths: Sequence[Path]) -> list[TrainingExample]:
    """Return the questions of files in SQuAD's form on whose answer two annotators agree, articles and case aside.

    Their titles are left out: those of such files may name a collection instead of a page.
    """
    found = []
    for path in paths:
        report = FileReport(path.name, "squad")
        for row in squad_rows(json.loads(path.read_text(encoding="utf-8")), path.name):
            answers = [each for each in row.question.get("answers", ()) if norm(each["text"])]
            counts = Counter(norm(each["text"]) for each in answers)
            text, n = counts.most_common(1)[0] if counts else ("", 0)
            if n >= 2:
                agreed = [each for each in answers if norm(each["text"]) == text]
                one = row._replace(title="", question={**row.question, "answers": agreed})
                found.append(squad_example(one, report, path.name))
    return found
