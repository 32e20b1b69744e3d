"""Case restored from the statistics of a corpus, in training and in use alike, and kept with the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kbengine.encoders.checkpoint import read_checkpoint, write_checkpoint
from kbengine.encoders.encoder import Encoder
from kbengine.encoders.truecasing import TRUECASE_FILE, Truecaser
from kbengine.errors import EncoderError
from kbengine.inputs import Dialogue, Mention, Question, Slot
from tests.tiny_encoder import tiny_config, tiny_tokenizer_json, tiny_weights, write_tiny_encoder

TEXTS = (
    "We live in New York. The new bridge leads to York and the new town.",
    "They saw New York again. A new road to New York was built by NASA.",
    "People of NASA like the new bridge. People like the town.",
)


@pytest.fixture
def truecaser() -> Truecaser:
    """Give the statistics of three small texts."""
    return Truecaser.from_texts(TEXTS)


@pytest.mark.parametrize(
    ("text", "restored"),
    [
        ("who built the new bridge", "Who built the new bridge"),
        ("the road to new york?", "The Road to New York?"),
        ("nasa and the new town", "NASA and the new town"),
        ("Already Cased nasa", "Already Cased nasa"),
        ("1300", "1300"),
        ("", ""),
    ],
)
def test_words_get_their_usual_form_and_unknown_ones_a_capital(truecaser, text, restored):
    """Pairs decide where a word alone would mislead; a text with any capital is left as it is."""
    known = Truecaser({**truecaser.words, "built": "built", "and": "and"}, truecaser.pairs)

    assert known.restore(text) == restored


def test_every_kind_of_query_is_restored(truecaser):
    """A relation is lower-case by nature."""
    assert truecaser.query(Question("nasa")) == Question("NASA")
    assert truecaser.query(Slot("nasa", "headquarters location")) == Slot("NASA", "headquarters location")
    assert truecaser.query(Mention.from_parts("we like", "nasa", "the")) == Mention.from_parts("We like", "NASA", "the")
    assert truecaser.query(Dialogue(("nasa", "new york"))) == Dialogue(("NASA", "New York"))


def write_cased(directory, documents=None):
    """Return the directory of a tiny cased model."""
    config = replace(tiny_config(), uncased=False)
    weights = tiny_weights(config)
    write_checkpoint(
        directory, config, tiny_tokenizer_json(uncased=False), weights, dtype="float32", documents=documents
    )
    return directory


def test_the_encoder_restores_the_case_of_queries_as_training_does(tmp_path, truecaser):
    """A lower-case query and its restored form have the same vectors, and the fingerprint tells of the truecaser."""
    plain = read_checkpoint(write_cased(tmp_path / "plain"))
    cased = Encoder.load(write_cased(tmp_path / "cased", {TRUECASE_FILE: truecaser.to_json()}), device="cpu")
    low, high = cased.encode_queries([Question("nasa")]), cased.encode_queries([Question("NASA")])

    np.testing.assert_array_equal(low.start, high.start)
    assert cased.fingerprint != plain.fingerprint and cased.passage_fingerprint == plain.passage_fingerprint


def test_a_truecaser_that_cannot_be_meant_is_refused(tmp_path, truecaser):
    """In an uncased model, or with forms that are not those of their words."""
    with pytest.raises(EncoderError, match="uncased is true; remove the file"):
        (write_tiny_encoder(tmp_path / "m") / TRUECASE_FILE).write_text(truecaser.to_json())
        Encoder.load(tmp_path / "m", device="cpu")
    with pytest.raises(EncoderError, match="cannot be used"):
        Truecaser.from_json('{"words": {"a": "B"}, "pairs": {}}', "here")
