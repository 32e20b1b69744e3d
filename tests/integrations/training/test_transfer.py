"""Learning curves: how many rows each cell takes, which pages are gold, and what is drawn of it."""

from __future__ import annotations

import json

from recipes.learning_curves import SUBJECTS, drawn, plot, table
from recipes.transfer import VISITS, epochs_of, gold_pages, sizes
from recipes.transfer_encoders import QUESTION_SETS, rows_of


def test_curves_end_with_all_rows() -> None:
    """Sizes that a task has not are left out, and none comes twice."""
    assert sizes(16_497) == [0, 1000, 5000, 16_497]
    assert sizes(2685) == [0, 1000, 2685]
    assert sizes(5000) == [0, 1000, 5000]


def test_small_sets_are_seen_as_often_as_middle_ones() -> None:
    """About three thousand rows are seen, or all of them once."""
    assert [epochs_of(n) for n in (1000, 2685, 5000, 16_497)] == [3, 1, 1, 1]
    assert epochs_of(1000) * 1000 == VISITS


def test_gold_pages_are_those_of_all_outputs() -> None:
    """Answers without evidence name none."""
    output = [{"provenance": [{"wikipedia_id": " 7 "}, {"title": "x"}]}, {"answer": "a"}, {"provenance": None}]

    assert gold_pages([json.dumps({"output": output}), json.dumps({"output": [{"provenance": []}]})]) == {"7"}


def test_sets_that_no_task_may_learn_from_are_scored_only() -> None:
    """They are the transfer columns."""
    learned = {name for subject in SUBJECTS for name in subject.train}

    assert not learned & {"el_news", "cmudog", "inscit"}
    assert {name for subject in SUBJECTS for name in subject.transfer} == {"el_news", "cmudog", "inscit"}
    assert "el_wikilinks_easy" not in SUBJECTS[1].dev


def test_the_start_sees_no_row_of_what_it_is_tuned_for_and_nothing_of_unseen_pages(tmp_path) -> None:
    """Questions alone; its counterpart sees all tasks but the transfer sets."""
    for name in ("squad", "knet", "el_human", "el_news", "topicalchat", "cmudog"):
        (tmp_path / f"{name}.train.jsonl.gz").touch()
    (tmp_path / "all.pages.jsonl.gz").touch()

    start, full = (rows_of(sets, tmp_path) for sets in (QUESTION_SETS, None))

    assert [path.name.partition(".")[0] for path in start.train] == ["squad"]
    assert [path.name.partition(".")[0] for path in full.train] == ["el_human", "knet", "squad", "topicalchat"]
    assert start.exclude_pages == full.exclude_pages == tmp_path / "unseen_pages.txt"


def cell(encoder: str, rows: int, value: float) -> dict[str, object]:
    """A dialogue cell with one value for its own set, and half of it for the others."""
    sets = {
        "topicalchat": {"rprec": value},
        "cmudog": {"rprec": value / 2},
        "inscit": {"rprec": value / 2},
        "macro": {"rprec": 0.0},
    }
    return {"task": "dialogue", "encoder": encoder, "rows": rows, "scores": {"phrase": sets, "fused": sets}}


def test_the_table_and_the_plot_have_every_cell(tmp_path) -> None:
    """Own sets and transfer sets apart; a task without cells has no panel."""
    done = {"a": cell("start", 0, 10), "b": cell("start", 1000, 30), "c": cell("full", 0, 40)}

    assert drawn(done["b"], SUBJECTS[2], "fused") == 30
    assert drawn(done["b"], SUBJECTS[2], "fused", ("cmudog", "inscit")) == 15
    lines = table(done).split("\n")
    assert lines[3:] == [
        "| dialogue (rprec) | 1,000 | 30.0 / 30.0 | 15.0 / 15.0 |",
        "| dialogue (rprec) | full retraining | 40.0 / 40.0 | 20.0 / 20.0 |",
    ]
    plot(done, [tmp_path / "curves.png"])
    assert (tmp_path / "curves.png").stat().st_size > 1000
