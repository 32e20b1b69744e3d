"""The default encoder's recipe from end to end, on a made-up data folder and a tiny BERT."""

from __future__ import annotations

import gzip
import json

import pytest

from kbengine.encoders.encoder import Encoder
from kbengine.learning.loop.interruption import never
from kbengine.progress import NoProgress
from recipes.minilm_phrase import Recipe, main
from recipes.plan import NOT_TRAINED, full_plan, plan_of
from tests.kbengine.learning.phrases.small_training import FACTS
from tests.tiny_bert import write_bert
from tests.tiny_encoder import SENTENCES

SMALL = [
    *("cloze.model.max_passage_tokens=64", "rows.model.max_passage_tokens=64", "teacher.model.max_tokens=128"),
    *(
        f"teacher.model.max_query_tokens.{kind}=64"
        for kind in ("question", "slot_filling", "entity_linking", "dialogue")
    ),
    *("cloze.loop.batch_size=4", "teacher.loop.batch_size=4", "rows.loop.batch_size=4", "n_cloze=20"),
]


def write_gz(path, rows):
    """Write rows as packed JSON lines."""
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


@pytest.fixture
def data(tmp_path):
    """Give a folder with pages, rows of one set for training and one that must not be, and a list of unseen pages."""
    folder = tmp_path / "data"
    folder.mkdir()
    texts = [(title, text) for title, text, _, _ in FACTS] + [(s.split()[1], s) for s in SENTENCES]
    pages = [{"wikipedia_id": str(i), "wikipedia_title": t, "text": [t, x]} for i, (t, x) in enumerate(texts)]
    rows = []
    for i, (title, text, relation, answer) in enumerate(FACTS):
        start = text.index(answer)
        place = {"wikipedia_id": str(i), "title": title, "start_paragraph_id": 1, "end_paragraph_id": 1}
        place |= {"start_character": start, "end_character": start + len(answer)}
        output = [{"answer": answer, "provenance": [place]}]
        rows.append({"id": f"r{i}", "input": f"{title} [SEP] {relation}", "output": output})
    write_gz(folder / "knet.pages.jsonl.gz", pages)
    write_gz(folder / "knet.train.jsonl.gz", rows)
    write_gz(folder / "knet.dev.jsonl.gz", rows[5:])
    write_gz(folder / "cmudog.train.jsonl.gz", [{**row, "id": f"forbidden-{row['id']}"} for row in rows])
    (folder / "unseen_pages.txt").write_text("5\n6\n7\n12\n")
    return folder


@pytest.mark.slow
def test_the_recipe_makes_a_packed_encoder_with_its_card_and_can_be_run_again(data, tmp_path, capsys):
    """Every stage has its result; a second run finds them all."""
    init = write_bert(tmp_path / "bert")
    arguments = ["--data", str(data), "--work", str(tmp_path / "work"), "--init", str(init), "--scale", "tiny"]
    for setting in SMALL:
        arguments += ["--set", setting]
    main(arguments)
    first = capsys.readouterr().out
    main(arguments)

    encoder = Encoder.load(tmp_path / "work" / "minilm-phrase", device="cpu")
    card = (tmp_path / "work" / "minilm-phrase" / "README.md").read_text()
    scores = json.loads((tmp_path / "work" / "scores.json").read_text())
    assert encoder.fingerprint == Encoder.load(tmp_path / "work" / "packed", device="cpu").fingerprint
    assert "| knet |" in card and "cmudog" in card and "the text of 4 pages" in card
    assert set(scores["macro"]) == {"phrase", "fused"} and scores["documents"] == 18
    assert set(json.loads((tmp_path / "work" / "times.json").read_text())) == {
        *("cloze training", "teacher", "training on rows", "packing", "scoring", "model card")
    }
    assert "14 of 14 cloze questions" in first and first.count("is there") == 0
    assert capsys.readouterr().out.count("is there") == 6


def test_nothing_forbidden_is_trained_on(data, tmp_path):
    """No row of the transfer sets, no text of an unseen page; development rows may stand on them."""
    recipe = Recipe(plan_of("tiny", ["n_cloze=1000"]), data, tmp_path, "unused", NoProgress(), never)
    unseen = {"5", "6", "7", "12"}
    trained_on = [*recipe.rows().train, *recipe.cloze()]

    assert {example.doc_id for example in recipe.rows().dev} == {"5", "6", "7"}
    assert len(recipe.rows().train) == 5 and len(recipe.cloze()) >= 5
    assert not unseen & {example.doc_id for example in trained_on}
    assert not any(example.id.startswith("forbidden") for example in trained_on)
    assert {"el_news", "cmudog", "inscit"} == NOT_TRAINED


def test_every_option_of_the_plan_can_be_set():
    """Dotted names reach the nested options; the others keep the scale's values."""
    plan = plan_of("full", ["rows.loop.epochs=6", "cloze.losses.filter=0.5", "n_cloze=7"])

    assert plan.rows.loop.epochs == 6 and plan.cloze.losses.filter == 0.5 and plan.n_cloze == 7
    assert plan.teacher == full_plan().teacher
