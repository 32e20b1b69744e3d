"""A tiny random T5 reads passages together: blanks change nothing, it learns, and its figures are written."""

from __future__ import annotations

import json

import pytest
import torch

from adapters.open_domain.passages import FoundPassages
from kbengine.errors import TrainingDataError
from kbengine.learning.loop.interruption import stop_on_interrupt
from kbengine.progress import NoProgress
from recipes.fid import FidOptions, FidReader, inputs_of, main, train
from tests.tiny_t5 import write_tiny_t5

PASSAGES = (
    {"title": "tower", "text": "the tower is on the river"},
    {"title": "museum", "text": "a granite museum in the town"},
    {"title": "diary", "text": "the keeper and the diary"},
)
ROWS = [
    FoundPassages("0", "what is on the river ?", ("tower",), PASSAGES),
    FoundPassages("1", "what is in the town ?", ("museum",), PASSAGES[:1] + PASSAGES[1:2]),
]


@pytest.fixture
def reader(tmp_path):
    """A reader of two passages, seeded."""
    return FidReader.load(str(write_tiny_t5(tmp_path / "t5")), FidOptions(n_passages=3, learning_rate=0.02, epochs=40))


def test_the_decoder_sees_every_passage_and_no_blank(reader):
    """More blanks, or the other question's, change no loss; another passage does."""
    reader.model.eval()
    states, is_text = reader.encode(ROWS, 3)
    alone = reader.loss(ROWS[1:], ["museum"])

    assert states.last_hidden_state.shape[:2] == is_text.shape and int(is_text[1].sum()) < int(is_text[0].sum())
    assert inputs_of(ROWS[1], 3)[2] == "" and inputs_of(ROWS[0], 1)[0].startswith("question: what is on the river ?")
    more = FidReader(reader.model, reader.tokenizer, FidOptions(n_passages=6))
    assert torch.allclose(more.loss(ROWS[1:], ["museum"]), alone, atol=1e-5)
    fewer = FidReader(reader.model, reader.tokenizer, FidOptions(n_passages=1))
    assert not torch.allclose(fewer.loss(ROWS[1:], ["museum"]), alone, atol=1e-4)


def test_it_learns_what_it_is_shown(reader):
    """The loss falls and both answers are written; without passages there is nothing to learn."""
    with stop_on_interrupt() as stop:
        losses = train(reader, ROWS, NoProgress(), stop)
        with pytest.raises(TrainingDataError, match="export passages"):
            train(reader, [FoundPassages("2", "what ?", (), ())], NoProgress(), stop)

    assert losses[-1] < losses[0] / 2
    assert reader.answers(ROWS, 3) == ["tower", "museum"]


def test_the_recipe_takes_exported_passages_and_writes_its_figures(tmp_path, capsys):
    """Exact match for each number of passages; the model is loaded again to be evaluated alone."""
    rows = [{"id": r.id, "question": r.question, "answers": list(r.answers), "ctxs": list(r.passages)} for r in ROWS]
    path = tmp_path / "passages.json"
    path.write_text(json.dumps(rows))
    init = write_tiny_t5(tmp_path / "t5")
    common = ["--dev", str(path), "--passages", "1", "3", "--device", "cpu"]
    main(["--init", str(init), "--train", str(path), "--out", str(tmp_path / "a"), "--epochs", "1", *common])
    main(["--init", str(tmp_path / "a"), "--out", str(tmp_path / "b"), *common])
    figures = [json.loads((tmp_path / name / "figures.json").read_text()) for name in "ab"]

    assert figures[0]["em_by_passages"] == figures[1]["em_by_passages"]
    assert set(figures[0]["em_by_passages"]) == {"1", "3"} and figures[0]["train_questions"] == 2
    assert "train_questions" not in figures[1] and '"1":' in capsys.readouterr().out
