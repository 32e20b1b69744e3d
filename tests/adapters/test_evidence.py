"""The answer string and the characters it stands on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adapters.tasks.evidence import answer_of, provenance_of
from kbengine.search.results import DocumentRef, PassageRef
from kbengine.span import Span
from tests.adapters.fake_knowledge_base import PASSAGE, hit


def test_each_task_has_its_own_answer() -> None:
    """Phrase for questions and slots, title for links, sentence for dialogues; nothing found is a blank."""
    hits = [hit(1, '("in 1879")'), hit(2, doc_id="6")]
    assert answer_of("question", hits) == "in 1879"
    assert answer_of("slot-filling", hits) == "in 1879"
    assert answer_of("entity-linking", hits) == "Ulm"
    assert answer_of("dialogue", hits) == 'Albert Einstein was born there ("in 1879").'
    assert [answer_of(task, []) for task in ("question", "entity-linking", "dialogue")] == ["", "", ""]


def test_sentences_follow_the_language_of_the_document() -> None:
    """As its field says; without one they are split as English."""
    text = "Es war kalt. Er kam am 3. Mai an."
    passage = PassageRef(1, 3, text)
    phrase = Span(text.index("Mai"), text.index("Mai") + 3)
    german = DocumentRef("5", "Ulm", None, {"language": "de"})
    found = [
        answer_of("dialogue", [replace(hit(), passage=passage, document=document, phrase=phrase)])
        for document in (german, replace(german, meta={}))
    ]
    assert found[0] == "Er kam am 3. Mai an." and found[0].endswith(found[1]) and found[0] != found[1]


def test_a_phrase_of_punctuation_gives_way_to_the_next_page() -> None:
    """A lone quotation mark is no answer."""
    assert answer_of("question", [hit(1, '"'), hit(2, "Danube", doc_id="6")]) == "Danube"


@pytest.mark.parametrize("task", ["question", "slot-filling", "dialogue"])
def test_the_characters_of_the_first_page_are_the_answer(task: str) -> None:
    """Offsets are half-open, into the paragraph as stored."""
    hits = [hit(1, '("in 1879")')]
    (page,) = provenance_of(task, hits)
    assert PASSAGE[page.start_character : page.end_character] == answer_of(task, hits)
    assert (page.wikipedia_id, page.title, page.start_paragraph_id, page.end_paragraph_id) == ("5", "Ulm", 3, 3)


def test_characters_are_counted_from_the_start_of_the_whole_paragraph() -> None:
    """A long paragraph is stored in several passages; the user's file has one."""
    passage = PassageRef(1, 3, PASSAGE, "History: Early life", 1000)
    (page,) = provenance_of("question", [hit(1, "Danube", passage=passage)])
    assert (page.start_character, page.end_character) == (
        1000 + PASSAGE.index("Danube"),
        1000 + PASSAGE.index("Danube") + 6,
    )
    assert (page.section, page.start_paragraph_id) == ("History: Early life", 3)
