"""Reading evaluated: each setting gives what trying every phrase gives."""

from __future__ import annotations

import numpy as np
import pytest

from kbengine.build.filtering import FilterOptions
from kbengine.encoders.encoder import Encoder, PassageText, QueryVectors
from kbengine.errors import UsageError
from kbengine.inputs import Question
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.reading.evaluation import ReadingOptions, evaluate_reading
from kbengine.learning.reading.small_corpus import PhraseCorpus
from kbengine.reading.reader import Reader
from kbengine.span import Span
from tests.tiny_encoder import SENTENCES, write_tiny_encoder
from tests.tiny_reader import write_tiny_reader

L = 20


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """The tiny encoder, float32 on the CPU."""
    directory = tmp_path_factory.mktemp("encoders") / "tiny"
    return Encoder.load(write_tiny_encoder(directory), device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """The tiny reader, float32 on the CPU."""
    directory = tmp_path_factory.mktemp("readers") / "tiny"
    return Reader.load(write_tiny_reader(directory), device="cpu", dtype="float32")


def example(number: int, question: str, passage: str, answer: str | None, **changes: object) -> TrainingExample:
    """Return an example whose answer is the first place of `answer` in the passage; None: unanswerable."""
    at = -1 if answer is None else passage.index(answer)
    spans = () if answer is None else (Span(at, at + len(answer)),)
    values = {
        "id": f"e{number}",
        "query": Question(question),
        "title": f"Title {number % 3}",
        "passage": passage,
        "answers": spans,
        "answerable": answer is not None,
        "source": "toy",
    }
    return TrainingExample(**(values | changes))  # type: ignore[arg-type]


EXAMPLES = [
    example(0, "Where is the rainforest?", SENTENCES[0], "South America"),
    example(1, "Who conducted research?", SENTENCES[1], "Marie Curie"),
    example(2, "What did she win?", SENTENCES[2], "Nobel Prize"),
    example(3, "Which city?", SENTENCES[0], None),
    example(4, "What is the capital?", " ".join(SENTENCES), "Tokyo"),
    example(5, "When does water boil?", SENTENCES[9], None),
]


def all_phrases(encoder: Encoder, passage: PassageText, query: Question) -> dict[tuple[int, int], float]:
    """Return the score of every phrase of at most L tokens, by plain loops."""
    vectors = encoder.encode_passages([passage])[0]
    asked = encoder.encode_queries([query])
    start, end = vectors.vectors @ asked.start[0], vectors.vectors @ asked.end[0]
    n = len(start)
    return {
        (int(vectors.starts[i]), int(vectors.ends[j])): float(start[i] + end[j])
        for i in range(n)
        for j in range(i, min(n, i + L))
    }


def test_the_gold_passage_is_read_by_its_best_phrase(encoder: Encoder) -> None:
    """start·q_start + end·q_end over all phrases of at most 20 tokens (Eq. 4)."""
    report = evaluate_reading(EXAMPLES, encoder=encoder)
    assert list(report.scores) == ["gold passage"]
    for each, record in zip(EXAMPLES, report.scores["gold passage"].records, strict=True):
        scores = all_phrases(encoder, PassageText(each.title, each.passage), each.query)  # type: ignore[arg-type]
        start, end = max(scores, key=lambda phrase: scores[phrase])
        assert record.guess.text == each.passage[start:end]
        assert record.guess.score == pytest.approx(max(scores.values()), abs=1e-4)
    assert report.scores["gold passage"].threshold is None
    assert (report.n_without_phrase, report.n_passages) == (0, 5)


def test_the_small_corpus_is_searched_exactly(encoder: Encoder) -> None:
    """The best phrase of all gold passages together; which passage it is from is told."""
    report = evaluate_reading(EXAMPLES, encoder=encoder, options=ReadingOptions(small_corpus=True))
    for each, record in zip(EXAMPLES, report.scores["small corpus"].records, strict=True):
        everywhere = {
            (other.passage[a:b], other.title, other.passage): score
            for other in EXAMPLES
            for (a, b), score in all_phrases(
                encoder,
                PassageText(other.title, other.passage),
                each.query,  # type: ignore[arg-type]
            ).items()
        }
        text, title, passage = max(everywhere, key=lambda phrase: everywhere[phrase])
        assert record.guess.text == text
        assert record.guess.score == pytest.approx(max(everywhere.values()), abs=1e-4)
        assert record.guess.in_gold_passage == ((title, passage) == (each.title, each.passage))


def test_queries_give_the_same_alone_and_in_small_blocks(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory for scores is bounded; the result does not depend on it."""
    vectors = encoder.encode_passages([PassageText("", text) for text in ["", *SENTENCES, "  "]])
    corpus = PhraseCorpus(vectors, max_phrase_tokens=L)
    asked = encoder.encode_queries([each.query for each in EXAMPLES])
    expected = corpus.search(asked)
    monkeypatch.setattr("kbengine.learning.reading.small_corpus._SCORE_BYTES", 1)
    found = corpus.search(asked)
    for one, other in zip(found, expected, strict=True):
        assert one is not None and other is not None
        assert one[:2] == other[:2]
    assert corpus.best_in(0, asked.start[0], asked.end[0]) is None


def test_a_filter_leaves_tokens_out(encoder: Encoder) -> None:
    """Phrases begin and end at kept tokens; their length counts all tokens."""
    passages = encoder.encode_passages([PassageText("", " ".join(SENTENCES))])
    corpus = PhraseCorpus(passages, max_phrase_tokens=3, filter_options=FilterOptions(keep_fraction=0.3))
    logits = passages[0].filter_logits.max(axis=1)
    kept = np.flatnonzero(logits >= np.quantile(logits, 0.7))
    rng = np.random.default_rng(0)
    for _ in range(20):
        start, end = (rng.normal(size=encoder.d).astype(np.float32) for _ in range(2))
        found = corpus.best_in(0, start, end)
        scores = {
            (i, j): passages[0].vectors[i] @ start + passages[0].vectors[j] @ end
            for i in kept.tolist()
            for j in kept.tolist()
            if i <= j < i + 3
        }
        first, last = max(scores, key=lambda phrase: scores[phrase])
        assert found is not None
        assert found.span == Span(int(passages[0].starts[first]), int(passages[0].ends[last]))


def test_an_empty_corpus_finds_nothing(encoder: Encoder) -> None:
    """No token at all is no answer, not an error."""
    corpus = PhraseCorpus(encoder.encode_passages([PassageText("", "")]), max_phrase_tokens=L)
    empty = encoder.encode_queries([Question("Who?")])
    assert isinstance(empty, QueryVectors)
    assert corpus.search(empty) == [None]


def test_the_reader_abstains_only_where_questions_may_have_no_answer(reader: Reader) -> None:
    """Threshold 0 on the margin for SQuAD 2.0, none for SQuAD 1.1; one that is given counts."""
    answerable = [each for each in EXAMPLES if each.answerable]
    assert evaluate_reading(answerable, reader=reader).scores["reader"].threshold is None
    assert evaluate_reading(EXAMPLES, reader=reader).scores["reader"].threshold == 0
    options = ReadingOptions(no_answer_threshold=1e9)
    scores = evaluate_reading(EXAMPLES, reader=reader, options=options).scores["reader"]
    assert (scores.no_answer_em, scores.has_answer_em) == (100, 0)
    readings = reader.read([each.query for each in EXAMPLES], [PassageText(e.title, e.passage) for e in EXAMPLES])
    assert [record.guess.score for record in scores.records] == pytest.approx([r.margin for r in readings], abs=1e-4)


def test_examples_without_a_phrase_are_counted_not_scored(encoder: Encoder) -> None:
    """A passage that answers as a whole has nothing to compare a phrase with."""
    whole = example(9, "Tell me about water.", SENTENCES[9], None, answerable=True)
    report = evaluate_reading([*EXAMPLES, whole], encoder=encoder)
    assert (report.n_without_phrase, report.scores["gold passage"].n) == (1, 6)
    with pytest.raises(UsageError, match="none of 1 examples"):
        evaluate_reading([whole], encoder=encoder)
    with pytest.raises(UsageError, match="neither"):
        evaluate_reading(EXAMPLES)
