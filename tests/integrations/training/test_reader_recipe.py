"""What the bundled reader's recipe learns from: wordings of slots, agreed answers, passages that do not answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adapters.tasks.relations import RelationTable
from kbengine.corpus.document import CorpusDocument, CorpusPassage
from kbengine.inputs import Mention, Question, Slot
from kbengine.learning.data.examples import TrainingExample
from kbengine.span import Span
from recipes.reader_examples import agreed_examples, worded
from recipes.reader_negatives import other_passages
from recipes.shortened_mentions import ShortenedOptions, shortened_mentions

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
    assert list(other_passages(example, HITS, {}, n=5, exclude=frozenset("2")).values()) == ["Three"]


@pytest.mark.parametrize("doc_id", ["1", "2"])
def test_first_passages_of_documents_that_are_not_meant_are_a_mentions_negatives(doc_id) -> None:
    """What linking reads of a document."""
    mention = Mention.from_parts("In ", "Lincoln", ".")
    example = TrainingExample("a", mention, "Lincoln", "A city.", (), doc_id=doc_id)
    leads = {"1": "First lead.", "2": "Second lead.", "3": ""}
    other = {"1": ("Second lead.", "Two"), "2": ("First lead.", "One")}[doc_id]
    assert other_passages(example, HITS, leads, n=5) == dict([other])


def page(title: str, *passages: str) -> CorpusDocument:
    """A page whose id is its title."""
    return CorpusDocument(title, title, passages=tuple(CorpusPassage(n, text) for n, text in enumerate(passages)))


PAGES = [
    page("Freddie Mercury", "A singer."),
    page("Mercury (planet)", "A planet."),
    page("Paris", "A city."),
    page("Paris, Texas", "A town."),
    page("Queen", "In it sang Freddie Mercury. Without Freddie Mercury there is no band.", "A bridge crosses it."),
    page("Dallas", "East of it lies Paris, Texas, which is not Paris. Old Freddie Mercury Junior lives there."),
]


def mentions_of(pages: list[CorpusDocument], **options: object) -> set[tuple[str, str, str]]:
    """The part of the text up to the end of each mention, the mention, and the page that it means."""
    made = shortened_mentions(pages, options=ShortenedOptions(**options))  # type: ignore[arg-type]  # names are its
    found = set()
    for each in made:
        assert isinstance(each.query, Mention)
        found.add(((each.query.left + each.query.name)[-20:], each.query.name, each.title))
    return found


def test_full_names_are_cut_to_what_other_pages_share() -> None:
    """A surname, a place without its state; what is part of a longer name is left alone, and each page comes once."""
    mercury = {each for each in mentions_of(PAGES, whole_share=0) if each[1] == "Mercury"}
    assert len(mercury) == 1 and mercury <= {
        ("In it sang Mercury", "Mercury", "Freddie Mercury"),
        ("In it sang Mercury. Without Mercury"[-20:], "Mercury", "Freddie Mercury"),
    }
    assert ("East of it lies Paris", "Paris", "Paris, Texas") not in mentions_of(PAGES, whole_share=0)
    assert ("ast of it lies Paris", "Paris", "Paris, Texas") in mentions_of(PAGES, whole_share=0)


def test_a_page_called_by_the_shared_name_alone_keeps_it() -> None:
    """As often as is asked for."""
    assert {each[2] for each in mentions_of(PAGES, whole_share=0)} == {"Freddie Mercury", "Paris, Texas"}
    assert {each[2] for each in mentions_of(PAGES, whole_share=1)} == {"Freddie Mercury", "Paris, Texas", "Paris"}


def test_the_rest_of_the_text_does_not_say_the_full_name() -> None:
    """It would give the answer away."""
    (queen,) = [each for each in shortened_mentions(PAGES) if each.title == "Freddie Mercury"]
    assert isinstance(queen.query, Mention)
    assert queen.query.text == "In it sang Mercury. Without Mercury there is no band."
    assert (queen.passage, queen.doc_id) == ("A singer.", "Freddie Mercury")


def test_words_that_are_written_small_are_no_names() -> None:
    """A bridge may be any bridge."""
    bridges = [page("Tower Bridge", "One."), page("Sydney Harbour Bridge", "Another.")]
    told = page("London", "It has Tower Bridge.", *(f"The {n}th bridge." for n in range(10)))
    assert mentions_of([*bridges, told]) == set()
    assert len(mentions_of([*bridges, page("London", "It has Tower Bridge.")])) == 1


def test_pages_that_may_not_be_trained_on_give_neither_text_nor_meaning() -> None:
    """They still make names ambiguous."""
    assert not any(each.title == "Freddie Mercury" for each in shortened_mentions(PAGES, exclude=frozenset(["Queen"])))
    left = shortened_mentions(PAGES, exclude=frozenset(["Freddie Mercury", "Paris"]))
    assert {each.title for each in left} == {"Paris, Texas"}
