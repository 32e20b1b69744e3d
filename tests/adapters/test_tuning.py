"""Tuning on files: KILT rows to what is learned, development figures, the commands from end to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from adapters.kilt.records import read_gold
from adapters.tasks.calibration import SETTING, calibrations_of
from adapters.tuning.tuning_files import TaskFile, read_gold_rows, task_files, tuning_rows
from adapters.tuning.tuning_scores import DevelopmentScore, ScoreOptions, usual_measure
from kbengine.cli import cli
from kbengine.errors import InvalidOptionError
from kbengine.knowledge_base import KnowledgeBase
from kbengine.search.query import Weights
from tests.kbengine.learning.tuning.tuning_world import PLANTED, open_world


def write_rows(path: Path, rows=PLANTED, **provenance) -> Path:
    """KILT records of (question, answer, page)."""
    lines = [
        {
            "id": f"q{i}",
            "input": question,
            "output": [
                {"answer": answer, "provenance": [{"wikipedia_id": page, "title": f"Page {page}", **provenance}]}
            ],
        }
        for i, (question, answer, page) in enumerate(rows)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_records_become_rows_with_their_gold(tmp_path) -> None:
    """Answers, documents and, where the evidence names paragraphs, passages."""
    path = write_rows(tmp_path / "x.jsonl", PLANTED[:1], start_paragraph_id=2, end_paragraph_id=4)
    file = TaskFile(path, "question")

    (row,) = tuning_rows(file, read_gold_rows(file), Weights(1, 2, 3))

    assert (row.source, row.task, row.answers, row.doc_ids) == ("x", "question", {"Tokyo"}, {"6"})
    assert row.passages == {("6", 2), ("6", 3), ("6", 4)}
    assert row.query.weights == Weights(1, 2, 3)


@pytest.mark.parametrize(
    "provenance",
    [{}, {"start_paragraph_id": None}, {"start_paragraph_id": 5, "end_paragraph_id": 4}, {"start_paragraph_id": "5"}],
)
def test_evidence_without_paragraphs_names_no_passage(tmp_path, provenance) -> None:
    """Such rows are of no use for --loss passage, and say so there."""
    file = TaskFile(write_rows(tmp_path / "x.jsonl", PLANTED[:1], **provenance), "question")
    (row,) = tuning_rows(file, read_gold_rows(file), Weights())

    assert row.passages == frozenset()
    assert row.lacks("passage") == "no gold passage"
    assert [row.lacks(loss) for loss in ("phrase", "doc", "joint")] == [None, None, None]


def test_files_have_tasks(tmp_path) -> None:
    """By name, one for all, one for each; else the numbers are told."""
    paths = [tmp_path / "nq-dev-kilt.jsonl", tmp_path / "el_x.dev.jsonl.gz"]

    assert [file.task for file in task_files(paths, ())] == ["question", "entity-linking"]
    assert [file.task for file in task_files(paths, ("dialogue",))] == ["dialogue"] * 2
    assert [file.task for file in task_files(paths, ("dialogue", "question"))] == ["dialogue", "question"]
    assert [file.name for file in task_files(paths, ())] == ["nq-dev-kilt", "el_x.dev"]
    with pytest.raises(InvalidOptionError, match="3 tasks were given for 2 files"):
        task_files(paths, ("dialogue",) * 3)
    with pytest.raises(InvalidOptionError, match="called nq-dev-kilt"):
        task_files([paths[0], tmp_path / "other" / paths[0].name], ())


def test_bad_records_are_named_and_left_out(tmp_path) -> None:
    """A record that the task cannot ask; a file of nothing else is refused."""
    path = write_rows(tmp_path / "x.jsonl", [*PLANTED[:1], ("no separator", "a", "1")])
    told: list[str] = []
    with pytest.raises(InvalidOptionError, match="no record that can be asked as slot-filling"):
        read_gold_rows(TaskFile(path, "slot-filling"), notice=told.append)
    assert len(told) == 2 and "x.jsonl:1" in told[0]
    assert len(read_gold_rows(TaskFile(path, "question"), limit=1)) == 1


def test_development_figures_are_those_of_the_evaluator(tmp_path) -> None:
    """EM, page R-precision and KILT-EM of the answers, as predicting and scoring the same file gives them."""
    from adapters.kilt.predicting import PredictOptions, predict_file
    from adapters.kilt.scoring import score_files

    gold = write_rows(tmp_path / "gold.jsonl")
    file = TaskFile(gold, "question")
    with open_world(tmp_path) as knowledge_base:
        found = DevelopmentScore([(file, read_gold_rows(file))], ScoreOptions("em"))(knowledge_base.searcher())
        mean = DevelopmentScore([(file, read_gold_rows(file))], ScoreOptions("mean", "fused"))(
            knowledge_base.searcher()
        )
        predict_file(knowledge_base, gold, tmp_path / "out.jsonl", task="question", options=PredictOptions(pages=10))
    scores = score_files(gold, tmp_path / "out.jsonl")

    assert found.measures["gold fused em"] == pytest.approx(100 * scores.downstream["em"])
    assert found.measures["gold fused rprec"] == pytest.approx(100 * scores.retrieval["Rprec"])
    assert found.measures["gold fused kilt_em"] == pytest.approx(100 * scores.kilt["KILT-em"])
    assert found.score == found.measures["mean fused em"] + found.measures["mean phrase em"] / 1000
    assert mean.score == pytest.approx((mean.measures["mean fused rprec"] + mean.measures["mean fused kilt_em"]) / 2)


def test_each_loss_has_its_measure() -> None:
    """Document losses are about pages, phrase losses about answers on the right page."""
    measures = [usual_measure(loss) for loss in ("phrase", "joint", "doc", "passage", "task")]
    assert measures == ["kilt_em", "kilt_em", "rprec", "rprec", "mean"]
    with pytest.raises(InvalidOptionError, match="f1"):
        ScoreOptions("f1")  # type: ignore[arg-type]


def run(*arguments, code=0):
    """The command's output; its errors when it is to fail."""
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if code:
        assert done.exception is not None
        return str(done.exception) + done.output
    assert done.exit_code == 0, done.output + repr(done.exception)
    return done.stdout


def test_tune_list_query_predict_verify_delete(tmp_path) -> None:
    """From rows to answers of the tuned encoder, and away with it."""
    rows = write_rows(tmp_path / "rows.jsonl")
    with open_world(tmp_path):
        pass
    kb = tmp_path / "kb"
    tune = [
        "tune",
        "--kb",
        kb,
        "--task",
        "question",
        "--train",
        rows,
        "--dev",
        rows,
        "--loss",
        "doc",
        "--name",
        "finder",
    ]
    tune += ["--epochs", 10, "--learning-rate", 0.01, "--device", "cpu", "--set", "loop.evaluate_every_steps=100"]
    tune += ["--set", "loop.checkpoint_every_steps=100", "--signals", "phrase", "--no-calibrate"]
    tune += ["--set", "loop.dtype=float32"]

    facts = json.loads(run(*tune, "--json"))

    assert facts["stored"] and facts["encoder"] == "finder" and facts["rows"] == {"rows": 5}
    figure = facts["development"]["mean phrase rprec"]
    assert figure["before"] < figure["after"] >= 60
    listed = json.loads(run("encoders", "list", "--kb", kb, "--json"))
    assert (listed["name"], listed["tasks"], listed["fingerprint"]) == ("finder", ["question"], facts["fingerprint"])
    assert "finder" in run("encoders", "list", "--kb", kb)
    answer = json.loads(run("query", "--kb", kb, "--encoder", "finder", PLANTED[0][0], "--json"))
    assert answer["encoder"] == facts["fingerprint"]
    run("predict", rows, "--kb", kb, "--task", "question", "--encoder", "finder", "--out", tmp_path / "out.jsonl")
    assert len(list(read_gold(tmp_path / "out.jsonl"))) == 5
    assert "ok" in run("verify", "--kb", kb)
    assert "--overwrite" in run(*tune, code=1)
    run("encoders", "export", "finder", "--kb", kb, "--out", tmp_path / "finder")
    exported = json.loads(run("query", "--kb", kb, "--encoder", tmp_path / "finder", PLANTED[0][0], "--json"))
    assert exported["answers"][0]["text"] == answer["answers"][0]["text"]
    assert json.loads(run("encoders", "delete", "finder", "--kb", kb, "--json")) == {"deleted": "finder"}
    assert "no tuned encoder" in run("encoders", "delete", "finder", "--kb", kb, code=1)


def test_an_encoder_that_is_no_name_is_told(tmp_path) -> None:
    """Of a query and of a calibration."""
    with open_world(tmp_path):
        pass
    assert "there is no encoder 'finder'" in run("query", "--kb", tmp_path / "kb", "--encoder", "finder", "who", code=1)
    assert "no tuned encoder" in run("calibrate", "--show", "--kb", tmp_path / "kb", "--encoder", "finder", code=1)


def test_options_come_from_recipe_and_command_line(tmp_path) -> None:
    """The command line wins; an unknown option is named."""
    from adapters.commands.tune import tune_request

    recipe = tmp_path / "tuning.toml"
    recipe.write_text(
        'retrieval = "dense"\nkl = 0.5\n[loop]\nepochs = 3\n[parameters]\nparameters = "lora"\nrank = 4\n'
    )
    given = {
        "train": (tmp_path / "nq.jsonl",),
        "tasks": ("question",),
        "dev": (),
        "dev_tasks": (),
        "limit": None,
        "dev_limit": 500,
        "measure": None,
        "signals": "both",
        "calibrate": True,
        "run": None,
        "overwrite": False,
        "resume": False,
        "loss": "doc",
    }

    request = tune_request(tmp_path, "x", recipe=recipe, settings=("top_k=7",), kl=0.25, rank=None, **given)

    options = request.options
    assert (options.loss, options.retrieval, options.kl, options.top_k) == ("doc", "dense", 0.25, 7)
    assert (options.loop.epochs, options.loop.batch_size) == (3, 12)
    assert (options.parameters.parameters, options.parameters.rank) == ("lora", 4)
    with pytest.raises(InvalidOptionError, match="unknown options nonsense"):
        tune_request(tmp_path, "x", recipe=None, settings=("nonsense=1",), **given)


def test_a_tuned_encoder_has_a_calibration_of_its_own(tmp_path) -> None:
    """Stored under its fingerprint; the answerer takes that of the encoder that answers."""
    from adapters.calibration.calibrating import store
    from adapters.tasks.answerer import Answerer, AnswerOptions
    from kbengine.inputs import Question
    from tests.adapters.calibrations import calibration
    from tests.kbengine.learning.tuning.test_tuned_encoders import store as store_encoder

    with open_world(tmp_path) as knowledge_base:
        info = store_encoder(knowledge_base)
        store(knowledge_base, calibration("question", encoder=info.fingerprint, threshold=0.5))
        answerer = Answerer(knowledge_base, notice=lambda _: None)

        own, tuned = (
            answerer.answer([Question(PLANTED[0][0])], AnswerOptions(encoder=name))[0] for name in (None, "linker")
        )

        assert (own.encoder, tuned.encoder) == (knowledge_base.encoder.fingerprint, info.fingerprint)
        assert (own.threshold, tuned.threshold) == (None, 0.5)
        assert own.answers[0].probability is None and tuned.answers[0].probability is not None
        assert calibrations_of(knowledge_base.setting(SETTING), encoder=info.fingerprint).tasks.keys() == {"question"}
    with KnowledgeBase.open(tmp_path / "kb", "linker") as knowledge_base:
        assert Answerer(knowledge_base).calibrations_for(None).tasks.keys() == {"question"}
