"""`kbengine train` reads what `kbengine questions` writes: every row, of every kind, at its exact place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kbengine.build.builder import CorpusOptions
from kbengine.learning.data.reading import DataOptions, read_training_files
from kbengine.learning.questions.answers import AnswerOptions
from kbengine.learning.questions.cloze import ClozeOptions, cloze_questions
from kbengine.learning.questions.generation import QuestionsOptions, generate_questions
from kbengine.learning.questions.name_index import NameIndex
from kbengine.learning.runs.data_section import DataSection
from kbengine.learning.runs.examples import adapt_examples
from tests.kbengine.learning.questions.pages import HARROW, SELLA, write_pages


def test_every_row_becomes_the_example_it_was_made_from(tmp_path: Path) -> None:
    """Questions, slots, relations, mentions and links in one file, with gold passage and the answer's characters."""
    pages = write_pages(tmp_path / "pages.jsonl", HARROW, SELLA)
    mix = {"question": 1.0, "slot": 2.0, "relation": 1.0, "mention": 50.0, "link": 50.0}
    kinds = {"title": 50.0, "name": 1.0, "date": 1.0, "number": 1.0}
    cloze = ClozeOptions(AnswerOptions(per_document=60, per_passage=60, kinds=kinds), mix=mix)
    out = tmp_path / "cloze.jsonl.gz"
    written = generate_questions(CorpusOptions((pages,)), out, QuestionsOptions(cloze=cloze))
    assert set(written.report.kinds) == {"question", "slot", "relation", "mention", "link"}

    data = read_training_files([out], DataOptions(pages=(pages,)))

    assert data.report.unusable.total() == 0
    names = NameIndex([HARROW, SELLA])
    expected = {each.id: each for each in cloze_questions([HARROW, SELLA], cloze, names=names)}
    assert {each.id for each in data.examples} == set(expected)
    for example in data.examples:
        made = expected[example.id]
        assert example.query == made.query and example.passage == made.passage and example.doc_id == made.doc_id
        assert set(made.answers) <= set(example.answers)


def test_training_on_a_corpus_takes_links_where_they_are_wanted(tmp_path: Path) -> None:
    """Harrow's text names Port Sella: with links some question made of it is answered on the other page."""
    pages = write_pages(tmp_path / "pages.jsonl", HARROW, SELLA)
    data = DataSection(adapt=(pages,), questions_per_document=200, link_questions=True)

    def from_harrow(section: DataSection) -> set[str | None]:
        made = adapt_examples(section, seed=0)
        return {each.doc_id for each in made if each.id.startswith("cloze:harrow:")}

    assert from_harrow(data) == {"harrow", "sella"}
    assert from_harrow(replace(data, link_questions=False)) == {"harrow"}
