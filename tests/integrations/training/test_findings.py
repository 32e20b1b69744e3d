"""The findings' script on the small world: every row is trained, and the contrasts are what they are said to be."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from kbengine.encoders.encoder import Encoder, PassageText
from kbengine.learning.data.passage_index import IndexedPassage
from kbengine.span import Span
from recipes.contrast import contrast, near_negatives, negative_log_share, without_answer
from recipes.findings import ROWS, main
from recipes.findings_page import shown
from tests.kbengine.learning.phrases.small_training import examples, write_squad
from tests.tiny_bert import write_bert
from tests.tiny_encoder import write_tiny_encoder

PASSAGES = [IndexedPassage(each.doc_id, each.title, each.passage) for each in examples()]


def test_the_share_is_that_of_the_first():
    """Three of four parts."""
    assert negative_log_share(np.array([math.log(3), 0.0])) == pytest.approx(math.log(4 / 3))


def test_hard_negatives_are_near_but_hold_no_answer_and_topics_are_other_documents(tmp_path):
    """The capitals of other countries for a capital; questions with negatives of both kinds count."""
    near = near_negatives(examples(), PASSAGES)[0]
    encoder = Encoder.load(write_tiny_encoder(tmp_path / "m"), device="cpu")
    some = [replace(each, passage=f"{each.passage} The town is old.") for each in examples()]
    found = {scores: contrast(encoder, some, PASSAGES, scores=scores) for scores in ("phrase", "passage")}

    assert {each.title for each in near[:2]} == {"Germany", "Japan"}
    assert all("Paris" not in each.text for each in near)
    assert all(0 < each.topic < 100 and 0 < each.near < 100 and each.n == 3 for each in found.values())
    assert all(0 < each.hard < 100 for each in found.values())
    assert found["phrase"] != found["passage"]


def test_the_hard_negative_is_the_gold_passage_without_the_sentence_of_the_answer():
    """As published; a passage of one sentence has none."""
    text = "Ulm is old. Einstein was born in Ulm. It has a minster."
    example = replace(examples()[0], passage=text, answers=(Span(33, 36),), title="Ulm")

    assert without_answer(example) == PassageText("Ulm", "Ulm is old. It has a minster.")
    assert without_answer(replace(example, passage=text[12:37], answers=(Span(21, 24),))) is None


def test_several_seeds_are_shown_as_their_mean_and_how_far_they_are_apart():
    """One number for one seed, a dash for none."""
    figures = [{"single_em": 10.0}, {"single_em": 13.0}, {"single_em": 13.0}]

    assert shown(figures, "single_em", 1) == "12.0 ± 2.0"
    assert shown(figures[:1], "single_em", 1) == "10.0" and shown(figures, "L_hard", 3) == "–"


@pytest.mark.slow
def test_every_row_is_trained_and_stands_in_the_page(tmp_path, capsys):
    """All twelve trainings at the smallest scale, the teacher included; a second run trains nothing."""
    rows = write_squad(tmp_path / "rows.json")
    pages = tmp_path / "pages.jsonl"
    lines = [{"wikipedia_id": d, "wikipedia_title": t, "text": [t, x]} for d, t, x in PASSAGES]
    pages.write_text("".join(json.dumps(line) + "\n" for line in lines))
    init = write_bert(tmp_path / "bert", max_position_embeddings=512)
    arguments = ["--init", str(init), "--train", str(rows), "--dev", str(rows), "--pages", str(pages)]
    arguments += ["--work", str(tmp_path / "work"), "--out", str(tmp_path / "findings.md"), "--epochs", "1"]
    arguments += ["--batch-size", "4", "--device", "cpu", "--max-passage-tokens", "64"]
    main([*arguments, "--only", "in-batch"])
    main(arguments)
    page = (tmp_path / "findings.md").read_text()
    figures = [json.loads(line.partition(" ")[2]) for line in capsys.readouterr().out.splitlines()]

    assert len(figures) == 1 + len(ROWS) and figures[0] == figures[2]
    assert all(f"| {row.what} |" in page for row in ROWS)
    assert "8 training and 8 development examples" in page
