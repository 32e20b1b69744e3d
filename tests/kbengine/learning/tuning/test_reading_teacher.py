"""A reader that teaches tuning: what it reads, how it scores phrases, and an encoder that learns from it alone."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from kbengine.errors import EncoderError, InvalidOptionError
from kbengine.learning.loop.journal import read_log
from kbengine.learning.loop.task import Evaluation
from kbengine.learning.tuning.candidates import CandidateSource
from kbengine.learning.tuning.options import TuningOptions, read_tuning_options
from kbengine.learning.tuning.reading import best_passages, span_scores
from kbengine.learning.tuning.tuning import tune
from kbengine.reading.reader import Reader
from kbengine.reading.spans import PassageLogits
from kbengine.search.query import SearchOptions, Weights
from tests.kbengine.learning.tuning.tuning_world import fast_options, open_world, planted_rows
from tests.tiny_encoder import write_tiny_encoder
from tests.tiny_reader import write_tiny_reader

PHRASES = Weights(1, 0, 0)


class SureReader:
    """Is sure that "Tokyo" answers, wherever it stands; keeps what it was asked."""

    fingerprint = "sure"

    def __init__(self):
        self.asked = []

    def logits(self, queries, passages, *, truncate=False):
        """Words are tokens; every start and end is 0 but those of Tokyo, 5 each."""
        assert truncate
        self.asked += [
            (query.text, passage.title, passage.text) for query, passage in zip(queries, passages, strict=True)
        ]
        return [self._logits(passage.text) for passage in passages]

    def _logits(self, text):
        words = [(at, word) for at, word in _words(text)]
        is_answer = np.array([5.0 * (word.strip(".,;") == "Tokyo") for _, word in words], np.float32)
        starts = np.array([at for at, _ in words], np.int32)
        ends = np.array([at + len(word.rstrip(".,;")) for at, word in words], np.int32)
        return PassageLogits(is_answer, is_answer, 1.0, 3.0, starts, ends)


def _words(text):
    at = 0
    for word in text.split(" "):
        yield at, word
        at += len(word) + 1


def test_a_span_is_scored_from_the_token_of_its_first_character_to_that_of_its_last() -> None:
    """Tokens 0-4, 5-7, 7-9: start + end − no answer + relevance; what has no token is not read."""
    logits = PassageLogits(
        np.float32([1, 2, 3]), np.float32([10, 20, 30]), 4.0, 0.5, np.int32([0, 5, 7]), np.int32([4, 7, 9])
    )
    spans = [(0, 4, 1 + 10), (0, 7, 1 + 20), (5, 9, 2 + 30), (6, 9, 2 + 30), (5, 8, 2 + 30), (7, 9, 3 + 30)]

    scores, has_tokens = span_scores(logits, *np.array([span[:2] for span in spans], np.int64).T)
    nothing, without = span_scores(logits, np.array([4, 9, 4]), np.array([5, 12, 12]))

    assert scores.tolist() == [score - 4 + 0.5 for *_, score in spans] and has_tokens.all()
    assert not without.any() and not nothing.any()


def test_passages_are_taken_from_the_searches_in_turn() -> None:
    """Each once, best first, at most so many."""
    rankings = [np.array([4, 4, 7]), np.array([5, 4, 6, 8])]

    assert best_passages(rankings, 10).tolist() == [4, 5, 7, 6, 8]
    assert best_passages(rankings, 2).tolist() == [4, 5]


def test_the_best_passages_are_read_once_and_only_their_phrases_are_scored(tmp_path) -> None:
    """With titles; a second search asks for nothing that was read before."""
    reader = SureReader()
    rows = planted_rows()[:2]
    with open_world(tmp_path) as knowledge_base:
        source = CandidateSource(
            knowledge_base.searcher(), top_k=400, retrieval="both", loss="phrase", reader=reader, n_read=4
        )
        encoded = knowledge_base.encoder.encode_queries([row.query.input for row in rows])
        found = source.find(rows, encoded)
        n_asked = len(reader.asked)
        again = source.find(rows, encoded)

    assert n_asked == 8 == len(set(reader.asked)) == len(reader.asked)
    assert all(title.startswith("Page ") for _, title, _ in reader.asked)
    assert (again.reader == found.reader).all() and (again.is_read == found.is_read).all()
    assert found.is_read.any() and not found.is_read[~found.is_phrase].any()
    assert not found.reader[~found.is_read].any()
    for row in range(2):
        assert len(np.unique(found.passage_of[row][found.is_read[row]])) <= 4
        assert set(found.reader[row][found.is_read[row]].tolist()) <= {2.0, 7.0, 12.0}  # 0, 5, 10 − 1 + 3


def test_an_encoder_learns_from_the_reader_alone(tmp_path, monkeypatch) -> None:
    """A question without any gold: the reader's answer comes first afterwards."""
    row = dataclasses.replace(planted_rows()[0], answers=frozenset(), doc_ids=frozenset(), passages=frozenset())

    def agrees(searcher) -> Evaluation:
        hit = searcher.search([row.query], SearchOptions(k=1, weights=PHRASES))[0].hits[0]
        return Evaluation(float(hit.text.strip(".;") == "Tokyo"), {})

    monkeypatch.setattr(Reader, "load", lambda *_, **__: SureReader())
    with open_world(tmp_path) as knowledge_base:
        write_tiny_reader(tmp_path / "reader")
        options = fast_options(epochs=30, reader=str(tmp_path / "reader"), passage=0.0)
        assert agrees(knowledge_base.searcher()).score == 0

        done = tune(knowledge_base, [row], "taught", options, score=agrees)

    assert done.taught and done.info is not None
    assert done.report.best_score == 1 and done.without_right["planted"]["without_right_candidate"] == 1


def test_a_reader_in_a_directory_teaches(tmp_path) -> None:
    """The tiny one, which knows nothing: its divergence is a part of the loss, beside the other, and falls."""
    write_tiny_reader(tmp_path / "reader")
    with open_world(tmp_path) as knowledge_base:
        options = fast_options(loss="doc", reader=str(tmp_path / "reader"), reader_weight=0.5, epochs=6)
        options = dataclasses.replace(options, loop=dataclasses.replace(options.loop, log_every_steps=1))
        done = tune(knowledge_base, planted_rows(), "t", options)

    assert done.info is not None and done.info.report["reader"] == str(tmp_path / "reader")
    steps = [record for record in read_log(done.run) if record["kind"] == "step"]
    first, last = steps[0]["parts"], steps[-1]["parts"]
    assert steps[0]["loss"] == pytest.approx(first["doc"] + first["passage_vector"] + 0.5 * first["reader"], rel=1e-3)
    assert last["reader"] < first["reader"]


def test_what_holds_no_reader_is_refused_before_anything_is_read(tmp_path) -> None:
    """A missing directory, an encoder's."""
    write_tiny_encoder(tmp_path / "an-encoder")
    with open_world(tmp_path) as knowledge_base:
        for name in ("nowhere", "an-encoder"):
            options = fast_options(reader=str(tmp_path / name))
            with pytest.raises(EncoderError, match=f"no reader .*{name}"):
                tune(knowledge_base, planted_rows(), "t", options)


def test_a_recipes_reader_is_relative_to_it_or_bundled(tmp_path) -> None:
    """A directory beside the file; any other name stays what it is."""
    write_tiny_reader(tmp_path / "mine")
    (tmp_path / "r.toml").write_text('reader = "mine"\nreader_weight = 2\n')
    (tmp_path / "s.toml").write_text('reader = "bundled"\n')

    assert read_tuning_options(tmp_path / "r.toml").reader == str(tmp_path / "mine")
    assert read_tuning_options(tmp_path / "s.toml").reader == "bundled"


@pytest.mark.parametrize("options", [{"reader_weight": -1.0}, {"reader_passages": 0}])
def test_options_of_reading_have_ranges(options) -> None:
    """Told with the value."""
    with pytest.raises(InvalidOptionError, match=str(next(iter(options.values())))):
        TuningOptions(**options)
