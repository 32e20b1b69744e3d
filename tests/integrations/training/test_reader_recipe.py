"""What the bundled reader's recipe learns from: wordings of slots, agreed answers, passages that do not answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adapters.tasks.relations import RelationTable
from kbengine.inputs import Mention, Question, Slot
from kbengine.learning.data.examples import TrainingExample
from kbengine.span import Span
from recipes.reader_examples import agreed_examples, worded
from recipes.reader_negatives import other_passages

SLOT = Slot("Marie Curie", "place of birth")


def test_a_slot_is_asked_as_it_is_with_its_description_and_as_a_question() -> None:
    """Which one a number from 0 to 1 says; each names the subject."""
    table = RelationTable.load()
    assert worded(SLOT, table, 0.1) == SLOT
    described = worded(SLOT, table, 0.3)
    assert isinstance(described, Slot) and described.subject == "Marie Curie"
    assert described.relation.startswith("place of birth: ")
    questions = [worded(SLOT, table, chance) for chance in (0.5, 0.82, 0.85, 0.9)]
    assert all(isinstance(each, Question) and "Marie Curie" in each.text for each in questions)
    assert len(set(questions)) > 2


def test_an_unknown_relation_has_no_description() -> None:
    """Then it is asked as a question."""
    assert isinstance(worded(Slot("Bach", "favourite cake"), RelationTable.load(), 0.3), Question)


def squad_file(path: Path, answers: list[tuple[str, int]]) -> Path:
    """A file of one question in SQuAD's form."""
    given = [{"text": text, "answer_start": start} for text, start in answers]
    question = {"id": "1", "question": "Who came?", "answers": given}
    paragraph = {"context": "The old man came. An old man left.", "qas": [question]}
    path.write_text(json.dumps({"data": [{"title": "Comments_42", "paragraphs": [paragraph]}]}), encoding="utf-8")
    return path


def test_answers_that_two_annotators_gave_are_kept_without_the_collections_title(tmp_path) -> None:
    """Articles and case do not make another answer; what one annotator alone gave goes."""
    path = squad_file(tmp_path / "a.json", [("The old man", 0), ("old man", 4), ("man came", 8)])
    (found,) = agreed_examples([path])
    assert found.title == ""
    assert found.answer_texts == ("The old man", "old man")


def test_questions_without_agreement_are_left_out(tmp_path) -> None:
    """One answer each is none."""
    assert agreed_examples([squad_file(tmp_path / "a.json", [("The old man", 0), ("man came", 8)])]) == []


HITS = [("1", "One", "The answer is Paris."), ("2", "Two", "It is not said."), ("3", "Three", "Nor here.")]


def test_passages_that_hold_the_answer_are_no_negatives() -> None:
    """Of a question the answer's text decides, whatever its case."""
    example = TrainingExample("a", Question("Where?"), "Zero", "In PARIS.", (Span(3, 8),))
    assert other_passages(example, HITS, {}, n=1) == {"It is not said.": "Two"}
    assert list(other_passages(example, HITS, {}, n=5).values()) == ["Two", "Three"]


@pytest.mark.parametrize("doc_id", ["1", "2"])
def test_first_passages_of_documents_that_are_not_meant_are_a_mentions_negatives(doc_id) -> None:
    """What linking reads of a document."""
    mention = Mention.from_parts("In ", "Lincoln", ".")
    example = TrainingExample("a", mention, "Lincoln", "A city.", (), doc_id=doc_id)
    leads = {"1": "First lead.", "2": "Second lead.", "3": ""}
    other = {"1": ("Second lead.", "Two"), "2": ("First lead.", "One")}[doc_id]
    assert other_passages(example, HITS, leads, n=5) == dict([other])
