"""The reader answers each query from its own passage, whatever is read beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kbengine.encoders.encoder import PassageText
from kbengine.errors import EmptyQueryError, QueryTooLongError, UsageError
from kbengine.inputs import Dialogue, Mention, Question, Slot, TaskInput
from kbengine.reading.reader import Reader
from tests.tiny_encoder import SENTENCES
from tests.tiny_reader import write_tiny_reader

QUERIES: list[TaskInput] = [
    Question("Where was the author born?"),
    Slot("Marie Curie", "place of birth"),
    Mention.from_parts("The capital of", "France", "is Paris."),
    Dialogue(["Who wrote the novel?", "A woman from Poland.", "When did she die?"]),
]
PASSAGES = [
    SENTENCES[1],
    PassageText("Marie Curie", SENTENCES[2]),
    PassageText("France", " ".join(SENTENCES)),
    SENTENCES[5],
]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """The tiny reader, float32 on the CPU."""
    directory = write_tiny_reader(tmp_path_factory.mktemp("readers") / "tiny")
    return Reader.load(directory, device="cpu", dtype="float32")


def test_a_pair_alone_gives_what_it_gives_among_others(reader: Reader) -> None:
    """All four kinds of query, titled and untitled passages, one of them longer than a window."""
    together = reader.logits(QUERIES, PASSAGES)
    for query, passage, expected in zip(QUERIES, PASSAGES, together, strict=True):
        alone = reader.logits([query], [passage])[0]
        np.testing.assert_allclose(alone.start, expected.start, atol=1e-5)
        np.testing.assert_allclose(alone.end, expected.end, atol=1e-5)
        assert alone.no_answer == pytest.approx(expected.no_answer, abs=1e-5)


def test_the_answer_is_the_best_span_of_the_logits(reader: Reader) -> None:
    """By trying every span of at most 20 tokens; its probability by adding up all of them."""
    for logits, reading in zip(reader.logits(QUERIES, PASSAGES), reader.read(QUERIES, PASSAGES), strict=True):
        n = len(logits.start)
        assert logits.pairs.shape == (2, n, reader.config.pair_size)
        one = logits.start[1] + logits.end[n - 1] + logits.pairs[0, 1] @ logits.pairs[1, n - 1]
        assert logits.score(np.array([1]), np.array([n - 1])) == pytest.approx(one, abs=1e-5)
        spans = [(i, j) for i in range(n) for j in range(i, min(n, i + 20))]
        scores = logits.score(*np.array(spans).T).astype(np.float64)
        first, last = spans[int(scores.argmax())]
        assert (reading.span.start, reading.span.end) == (logits.starts[first], logits.ends[last])
        assert reading.score == pytest.approx(scores.max(), abs=1e-5)
        assert reading.no_answer_score == logits.no_answer
        assert reading.margin == pytest.approx(reading.score - logits.no_answer)
        expected = np.exp(scores.max()) / (np.exp(scores).sum() + np.exp(logits.no_answer))
        assert reading.probability == pytest.approx(expected, rel=1e-4)


def test_teacher_logits_are_those_of_the_passage_tokens_alone(reader: Reader) -> None:
    """One start and one end logit for each wordpiece of the passage, also where it takes several windows."""
    for (start, end), passage in zip(reader.passage_logits(QUERIES, PASSAGES), PASSAGES, strict=True):
        text = passage if isinstance(passage, str) else passage.text
        n_tokens = len(reader.tokenizer.ids([text])[0])
        assert start.shape == end.shape == (n_tokens,)
        assert start.dtype == end.dtype == np.float32


def test_teacher_logits_cut_a_long_question(reader: Reader) -> None:
    """Training data hold questions of any length; `read` refuses them unless it may cut."""
    long = Question("river " * 100)
    assert len(reader.passage_logits([long], ["Paris"])[0][0]) == 1
    with pytest.raises(QueryTooLongError):
        reader.read([long], ["Paris"])
    assert reader.read([long], ["Paris"], truncate=True)[0].span.end == 5


def test_every_token_of_a_long_passage_is_read_once(reader: Reader) -> None:
    """Windows overlap, their logits do not: each token comes from the window in which it is most central."""
    text = "river " * 300
    logits = reader.logits([Question("Which river?")], [text])[0]
    assert logits.starts.tolist() == list(range(0, 1800, 6))
    assert len(logits.start) == 300


def test_a_title_changes_what_is_read_but_is_no_answer(reader: Reader) -> None:
    """The title's tokens are in the input and not in the logits."""
    query = Question("Where was she born?")
    plain, titled = (reader.logits([query], [p])[0] for p in (SENTENCES[1], PassageText("Paris", SENTENCES[1])))
    assert len(plain.start) == len(titled.start)
    assert not np.allclose(plain.start, titled.start)


def test_an_empty_passage_has_no_answer(reader: Reader) -> None:
    """Nothing to point at: the span is empty, its probability 0, its margin 0."""
    reading = reader.read([Question("Who?")], [""])[0]
    assert (reading.span.start, reading.span.end, reading.probability, reading.margin) == (0, 0, 0.0, 0.0)


def test_what_cannot_be_asked_is_refused(reader: Reader) -> None:
    """An empty question; more questions than passages."""
    with pytest.raises(EmptyQueryError):
        reader.read([Question("  ")], ["Paris"])
    with pytest.raises(UsageError, match="2 queries came with 1 passages"):
        reader.read([Question("Who?")] * 2, ["Paris"])


def test_nothing_asked_nothing_answered(reader: Reader) -> None:
    """An empty list is an empty list."""
    assert reader.read([], []) == []


def test_a_saved_reader_reads_the_same(reader: Reader, tmp_path: Path) -> None:
    """As float32 to the bit; as float16 within its precision."""
    expected = reader.read(QUERIES, PASSAGES)
    reader.save(tmp_path / "same", dtype="float32")
    assert Reader.load(tmp_path / "same", device="cpu", dtype="float32").read(QUERIES, PASSAGES) == expected
    reader.save(tmp_path / "half")
    for seen, wanted in zip(
        Reader.load(tmp_path / "half", device="cpu", dtype="float32").read(QUERIES, PASSAGES), expected, strict=True
    ):
        assert seen.score == pytest.approx(wanted.score, abs=0.1)
