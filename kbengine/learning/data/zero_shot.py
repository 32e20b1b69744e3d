"""Zero-shot relation extraction (Levy et al. 2017): the raw files, relation, question, subject and sentence by tabs."""

from __future__ import annotations

from kbengine.inputs import Question, Slot, TaskInput
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.data.places import occurrences
from kbengine.learning.data.report import FileReport, UnusableRowError

_PLACEHOLDER = "XXX"
MIN_FIELDS = 4


def zero_shot_example(line: str, report: FileReport, source: str, *, as_questions: bool = False) -> TrainingExample:
    """Return the example of one line `relation⇥question⇥subject⇥sentence[⇥answer…]`; no answer: not answerable.

    Args:
        line: without its newline.
        report: where the row is counted.
        source: the data set's name.
        as_questions: ask the question with the subject put in for XXX, instead of subject and relation.
    """
    row_id = f"{source}-{report.rows}"
    fields = [field.strip() for field in line.split("\t")]
    if len(fields) < MIN_FIELDS or not all(fields[:MIN_FIELDS]):
        raise UnusableRowError("fewer than four fields", row_id)
    relation, question, subject, sentence = fields[:MIN_FIELDS]
    query: TaskInput = Slot(subject, relation)
    if as_questions:
        query = Question(question.replace(_PLACEHOLDER, subject))
    answers = [answer for answer in fields[MIN_FIELDS:] if answer]
    if not answers:
        return TrainingExample(row_id, query, subject, sentence, (), answerable=False, source=source)
    spans = dict.fromkeys(span for answer in answers for span in occurrences(sentence, answer))
    if not spans:
        raise UnusableRowError("answer not in its sentence", row_id)
    return TrainingExample(row_id, query, subject, sentence, tuple(spans), source=source)
