"""Questions from a sequence-to-sequence model: its inputs, batches, limits; the filter by a reader."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from kbengine.corpus.document import CorpusDocument, CorpusPassage
from kbengine.encoders.encoder import PassageText
from kbengine.errors import EncoderError, InvalidOptionError
from kbengine.inputs import Question
from kbengine.learning.questions.answers import Answer, AnswerOptions
from kbengine.learning.questions.cloze import ClozeOptions, ClozeSource
from kbengine.learning.questions.generate import GenerateOptions, Seq2SeqSource, generator_input
from kbengine.learning.questions.round_trip import RoundTripOptions, passes_round_trip
from kbengine.reading.reader import Reader
from kbengine.span import Span
from tests.kbengine.learning.questions.pages import EMPTY, HARROW, SELLA
from tests.tiny_reader import write_tiny_reader
from tests.tiny_t5 import write_tiny_t5

ANSWER = Answer(CorpusPassage(1, "The tower was built by Emil Sand in ten years."), Span(0, 46), Span(23, 32), "name")


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny T5 in a folder."""
    return write_tiny_t5(tmp_path_factory.mktemp("generators") / "tiny-t5")


def options(**changed) -> GenerateOptions:
    """Return options for few short questions."""
    return GenerateOptions(AnswerOptions(per_document=3), max_question_tokens=6, beams=1, device="cpu", **changed)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "generate question: The tower was built by <hl> Emil Sand <hl> in ten years."),
        ({"prefix": "ask: ", "mark": "[A]"}, "ask: The tower was built by [A] Emil Sand [A] in ten years."),
        ({"format": "prepend"}, "answer: Emil Sand context: The tower was built by Emil Sand in ten years."),
    ],
)
def test_the_model_reads_the_format_it_was_trained_with(changed: dict[str, str], expected: str) -> None:
    """Highlighted in its place or put before its context, with the prefix and the mark of the model's card."""
    assert generator_input(ANSWER, GenerateOptions(**changed), context_chars=100) == expected


def test_a_long_context_is_cut_around_the_answer_at_words() -> None:
    """Never through the answer."""
    assert (
        generator_input(ANSWER, GenerateOptions(), context_chars=9)
        == "generate question: built by <hl> Emil Sand <hl> in ten"
    )
    assert generator_input(ANSWER, GenerateOptions(), context_chars=0) == "generate question: <hl> Emil Sand <hl>"


def test_each_answer_gets_the_question_it_gets_alone(t5: Path) -> None:
    """Whatever the batch and the document beside it; the ids are those of the answers' places."""
    one = Seq2SeqSource.load(str(t5), options(batch_size=1))
    many = Seq2SeqSource.load(str(t5), options(batch_size=8))
    together = many.questions([HARROW, EMPTY, SELLA])

    assert together == one.questions([HARROW, EMPTY, SELLA])
    assert together[0] == one.questions([HARROW])[0] and together[1] == []
    assert 0 < len(together[0]) <= 3
    for question in together[0]:
        assert isinstance(question.query, Question) and question.query.text
        assert question.id.startswith("tiny-t5:harrow:") and question.answer_text in question.passage.text


def test_an_answer_deep_in_a_long_passage_reaches_the_model(t5: Path) -> None:
    """The context shrinks until the whole input fits: a cut at the end could take the answer away."""
    text = "river " * 300 + "The diary is kept by Orla Venn in the tower and nobody may read it. " + "light " * 300
    document = CorpusDocument("long", "Long", passages=(CorpusPassage(1, text),))
    source = Seq2SeqSource.load(str(t5), options(max_input_tokens=32))
    (answer,) = [answer for answer in source._answers(document) if answer.text == "Orla Venn"]

    text = source._input(answer)

    assert "<hl> Orla Venn <hl>" in text
    assert len(source._tokenizer(text)["input_ids"]) <= 32


def test_excluded_documents_are_not_asked_about(t5: Path) -> None:
    """As with the cloze generator."""
    excluding = GenerateOptions(AnswerOptions(exclude=frozenset({"harrow"})), max_question_tokens=4, beams=1)

    assert Seq2SeqSource.load(str(t5), excluding).questions([HARROW]) == [[]]


def test_a_generator_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With the way that needs no model."""
    with pytest.raises(EncoderError, match=r"nowhere.*cloze"):
        Seq2SeqSource.load(str(tmp_path / "nowhere"))


def test_a_question_stays_when_the_reader_gives_its_answer_back(tmp_path: Path) -> None:
    """By exact match after normalisation, by enough words in common, and by the reader's own probability."""
    reader = Reader.load(write_tiny_reader(tmp_path / "reader"), device="cpu", dtype="float32")
    made = ClozeSource(ClozeOptions(AnswerOptions(per_document=30, per_passage=30))).questions([HARROW])[0]
    question = made[0]
    found = reader.read([question.query], [_passage(question)], truncate=True)[0]
    asked_right = _with_answer(question, found.span)
    partly = _with_answer(question, Span(0, len(question.passage.text)))

    assert passes_round_trip([], reader) == []
    assert passes_round_trip([asked_right, partly], reader) == [True, False]
    assert passes_round_trip([asked_right, partly], reader, RoundTripOptions(min_f1=0.0)) == [True, True]
    certain = RoundTripOptions(min_probability=min(1.0, found.probability + 1e-3))
    assert passes_round_trip([asked_right], reader, certain) == [False]


def _passage(question):
    return PassageText(question.document.title, question.passage.text)


def _with_answer(question, span: Span):
    return dataclasses.replace(question, answer=span)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: GenerateOptions(format="plain"),  # type: ignore[arg-type]
        lambda: GenerateOptions(batch_size=0),
        lambda: GenerateOptions(max_input_tokens=8),
        lambda: GenerateOptions(mark=" "),
        lambda: RoundTripOptions(min_f1=2.0),
    ],
)
def test_options_out_of_range_are_refused(wrong) -> None:
    """With the value seen and the value wanted."""
    with pytest.raises(InvalidOptionError, match="wanted"):
        wrong()
