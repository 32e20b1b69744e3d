"""`kbengine train verdict`: from KILT rows of claims to a model that judges others; interrupted, resumed, refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from kbengine.encoders.encoder import PassageText
from kbengine.errors import CorruptError, EncoderError, InvalidOptionError, QueryError, TrainingDataError, UsageError
from kbengine.inputs import Question
from kbengine.learning.data.claims import ClaimExample, read_claims
from kbengine.learning.data.reading import DataOptions
from kbengine.learning.loop.options import LoopOptions, OptimizerOptions
from kbengine.learning.loop.processes import Processes
from kbengine.learning.loop.task import Position
from kbengine.learning.runs.data_section import DataSection
from kbengine.learning.runs.run import train_model
from kbengine.learning.runs.verdict import ClaimData, VerdictRecipe
from kbengine.learning.verdicts.initial import VerdictModelOptions, initial_verdict_model
from kbengine.learning.verdicts.training import VerdictTask, VerdictTrainingOptions, combined_log_odds
from kbengine.reading.checkpoint import read_reader
from kbengine.terminal.train_command import train as train_command
from kbengine.verdicts.checkpoint import read_verdict_model
from kbengine.verdicts.judge import Judge
from kbengine.verdicts.verdict import judgement_of
from tests.tiny_reader import write_tiny_reader
from tests.toy_claims import PLACES, toy_claims, write_lines

QUICK = LoopOptions(epochs=2, batch_size=8, device="cpu", optimizer=OptimizerOptions(learning_rate=1e-3))
LEARN = LoopOptions(
    epochs=8, batch_size=16, device="cpu", dtype="float32", optimizer=OptimizerOptions(learning_rate=3e-3)
)
WEIGHTS = "model.safetensors"


@pytest.fixture(autouse=True)
def one_thread():
    """Tiny matrices: more threads than one only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with a reader, claims to train on and to develop on, and their pages."""
    return write_claims(tmp_path, 24)


def write_claims(folder: Path, n: int) -> Path:
    """Write a tiny reader, n training claims, 40 development claims and all pages."""
    write_tiny_reader(folder / "reader")
    (rows, pages), (dev, dev_pages) = toy_claims(n, seed=1), toy_claims(40, seed=2)
    write_lines(folder / "train.jsonl", rows)
    write_lines(folder / "dev.jsonl", dev)
    write_lines(folder / "pages.jsonl", pages + dev_pages)
    return folder


def recipe(folder: Path, **changes: Any) -> VerdictRecipe:
    """A recipe of the folder's files."""
    data = ClaimData(train=(folder / "train.jsonl",), dev=(folder / "dev.jsonl",), pages=(folder / "pages.jsonl",))
    model = VerdictModelOptions(init=str(folder / "reader"), dropout=0)
    return VerdictRecipe(**{"data": data, "model": model, "loop": QUICK, "weights": "float32", **changes})


def one(row: dict[str, Any], folder: Path, **options: Any) -> ClaimExample:
    """The example made of one row."""
    path = write_lines(folder / "one.jsonl", [row])
    (example,), _ = read_claims([path], DataOptions((folder / "pages.jsonl",), **options))
    return example


def test_a_rule_is_learned_and_holds_for_other_claims(tmp_path: Path) -> None:
    """At least 90 of 100 unseen claims, their passage between three of other places that may say the opposite."""
    plan = recipe(write_claims(tmp_path, 200), loop=LEARN, reading=VerdictTrainingOptions(1.0))
    trained = train_model(plan, tmp_path / "model")
    facts = trained.facts()
    assert facts["supports"] + facts["refutes"] == 200 and facts["dev_accuracy"] >= 90
    judge = Judge.load(tmp_path / "model", device="cpu", dtype="float32")
    rows, pages = toy_claims(100, seed=3)
    texts = [PassageText(page["wikipedia_title"].strip(), page["text"][1].strip()) for page in pages]
    rng = np.random.default_rng(0)
    beside = []
    for i, text in enumerate(texts):
        others = [each for each in texts if each.title != text.title]
        picked = [others[int(j)] for j in rng.choice(len(others), 3, replace=False)]
        beside.append([*picked[: i % 4], text, *picked[i % 4 :]])
    found = judge.judge([Question(row["input"]) for row in rows], beside)
    right = [each is not None and each.verdict == r["output"][0]["answer"] for r, each in zip(rows, found, strict=True)]
    assert sum(right) >= 90
    assert sum(each.evidence[i % 4].weight > 0.5 for i, each in enumerate(found) if each is not None) >= 60
    card = (tmp_path / "model" / "README.md").read_text()
    assert f"accuracy {trained.report.best['accuracy']:.1f}" in card and "train.jsonl" in card


def test_a_run_is_repeated_and_resumed_to_the_bit(files: Path) -> None:
    """Twice the same, and once stopped after two steps; dropout and other passages included."""
    plan = recipe(files, model=VerdictModelOptions(init=str(files / "reader"), dropout=0.1))
    train_model(plan, files / "a")
    train_model(plan, files / "b")
    steps = iter(range(100))
    with pytest.raises(KeyboardInterrupt):
        train_model(plan, files / "c", stop=lambda: next(steps) == 1)
    assert not (files / "c").exists()
    train_model(plan, files / "c", resume=True)
    first, *others = (read_verdict_model(files / name).weights for name in "abc")
    assert all(torch.equal(tensor, other[name]) for other in others for name, tensor in first.items())


def test_passages_count_by_the_softmax_of_their_relevance() -> None:
    """By hand: weights e^0.2 : e^-1 : e^1.5; a passage's windows are one piece of evidence; equals cancel."""
    log_odds, relevance = np.float32([2.0, -3.0, 0.5]), np.float32([0.2, -1.0, 1.5])
    weights = np.exp(relevance) / np.exp(relevance).sum()
    by_hand = float((weights * log_odds).sum())
    found = judgement_of(log_odds, relevance, [0, 0, 1])
    assert found.log_odds == pytest.approx(by_hand, abs=1e-6) and found.verdict == "SUPPORTS"
    assert found.probability == pytest.approx(1 / (1 + math.exp(-abs(by_hand))))
    first, second = found.evidence
    assert first.weight == pytest.approx(weights[0] + weights[1])
    assert first.log_odds == pytest.approx((weights[0] * 2 - weights[1] * 3) / (weights[0] + weights[1]))
    assert (second.weight, second.log_odds) == (pytest.approx(weights[2]), pytest.approx(0.5))
    in_training = combined_log_odds(torch.tensor(log_odds), torch.tensor(relevance), torch.ones(1, 3, dtype=torch.bool))
    assert in_training.item() == pytest.approx(by_hand, abs=1e-6)
    undecided = judgement_of(np.float32([1, -1]), np.float32([3, 3]), [0, 1])
    assert (undecided.log_odds, undecided.probability) == (0, 0.5)
    refuted = judgement_of(np.float32([-1000]), np.float32([1000]), [0])
    assert (refuted.verdict, refuted.probability, refuted.evidence[0].weight) == ("REFUTES", 1.0, 1.0)


def test_the_loss_is_that_of_the_verdict_and_of_the_evidence(files: Path) -> None:
    """Cross-entropy of the combined log-odds; minus the log of the evidence's share where other passages compete."""
    initial = initial_verdict_model(recipe(files).model)
    rows, _ = toy_claims(24, seed=1)
    examples = [one(row, files) for row in rows[:4]]
    two = replace(examples[0], further=(PassageText("tokyo", "no fire in tokyo ."),))
    task = VerdictTask(initial.model, initial.tokenizer_json, [two, *examples[1:]], options=VerdictTrainingOptions(1.0))
    batch = task.collate([0, 1], epoch=0)
    initial.model.eval()
    with torch.no_grad():
        output = initial.model(batch.input_ids, batch.token_types, batch.is_token)
        terms = task.losses(batch, Position(), Processes("cpu"))
    verdicts, relevances = [], []
    for claim, supports in zip(batch.of_claim, batch.supports, strict=True):
        share = output.relevance[claim].softmax(0)
        logit = float(share @ output.log_odds[claim])
        verdicts.append(math.log1p(math.exp(-logit if supports else logit)))
        relevances.append(-math.log(float(share[batch.is_evidence[claim]].sum())))
    assert int(batch.of_claim[0].sum()) == 3 and int((batch.of_claim[0] & batch.is_evidence).sum()) == 2
    assert terms.parts["verdict"].item() == pytest.approx(np.mean(verdicts), rel=1e-5)
    assert terms.parts["relevance"].item() == pytest.approx(np.mean(relevances), rel=1e-5)
    assert terms.total.item() == pytest.approx(np.mean(verdicts) + np.mean(relevances), rel=1e-5)
    alone = VerdictTask(initial.model, initial.tokenizer_json, examples, options=VerdictTrainingOptions(0.0))
    assert alone.losses(alone.collate([0, 1], epoch=0), Position(), Processes("cpu")).parts["relevance"].item() == 0


def test_mined_passages_are_seen_and_the_evidence_is_none_of_them(files: Path) -> None:
    """With their titles, at most as many as wanted."""
    rows, _ = toy_claims(24, seed=1)
    examples = [one(row, files) for row in rows[:4]]
    mined = replace(
        examples[0], negatives=(examples[0].passage, "no prize in berlin ."), negative_titles=("x", "berlin")
    )
    initial = initial_verdict_model(recipe(files).model)
    options = VerdictTrainingOptions(1.0, 3)
    task = VerdictTask(initial.model, initial.tokenizer_json, [mined, *examples[1:]], options=options)
    assert task._others(mined, np.random.default_rng(0)) == [PassageText("berlin", "no prize in berlin .")]


def test_rows_that_cannot_be_used_are_counted_by_their_reason(files: Path) -> None:
    """Another answer, two answers, no provenance, page, paragraph or claim; a page alone will do."""
    good = toy_claims(24, seed=1)[0][0]
    entry = good["output"][0]["provenance"][0]

    def with_output(*outputs: dict[str, Any]) -> dict[str, Any]:
        return {**good, "output": list(outputs)}

    rows = [
        good,
        with_output({"answer": "NOT ENOUGH INFO", "provenance": [entry]}),
        with_output({"answer": "SUPPORTS", "provenance": [entry]}, {"answer": "REFUTES", "provenance": [entry]}),
        with_output({"answer": "REFUTES"}),
        with_output({"answer": "REFUTES", "provenance": [{"wikipedia_id": "elsewhere"}]}),
        with_output({"answer": "REFUTES", "provenance": [{**entry, "start_paragraph_id": 7, "end_paragraph_id": 7}]}),
        {**good, "input": " "},
        with_output({"answer": "refutes", "provenance": [{"wikipedia_id": entry["wikipedia_id"]}]}),
    ]
    path = write_lines(files / "mixed.jsonl", rows)
    examples, report = read_claims([path], DataOptions((files / "pages.jsonl",)))
    assert [example.verdict for example in examples] == [good["output"][0]["answer"], "REFUTES"]
    assert examples[0].passage.startswith("in ") and examples[0].title in PLACES
    assert dict(report.unusable) == {
        "answer is neither SUPPORTS nor REFUTES": 1,
        "several answers": 1,
        "no provenance": 1,
        "page not in the pages files": 1,
        "paragraph not on its page": 1,
        "no claim": 1,
    }
    assert sum(report.files[0].notes.values()) == 1
    with pytest.raises(TrainingDataError, match=r"none of 1 rows .*neither SUPPORTS nor REFUTES: 1"):
        read_claims([write_lines(files / "none.jsonl", [rows[1]])], DataOptions((files / "pages.jsonl",)))


def test_evidence_of_several_passages_stays_together(files: Path) -> None:
    """In the row's order, each passage once, at most as many as wanted; excluded pages are left out."""
    (good, other), _ = (each[:2] for each in toy_claims(24, seed=1))
    entries = [each["output"][0]["provenance"][0] for each in (good, other)]
    row = {**good, "output": [{"answer": "SUPPORTS", "provenance": [entries[0], entries[0], entries[1]]}]}
    both = one(row, files, max_passages=3)
    assert len(both.evidence) == 2 and both.evidence[0].text == both.passage
    assert len(one(row, files, max_passages=1).evidence) == 1
    without = one(row, files, max_passages=3, exclude=frozenset([entries[0]["wikipedia_id"]]))
    assert without.doc_id == entries[1]["wikipedia_id"]
    with pytest.raises(TrainingDataError, match="excluded page: 1"):
        one(row, files, exclude=frozenset(entry["wikipedia_id"] for entry in entries))


def test_what_cannot_be_learned_from_is_refused(files: Path) -> None:
    """One verdict alone, no corpus, no claims, rows of another form, options that claims have no use for."""
    supports = [row for row in toy_claims(24, seed=1)[0] if row["output"][0]["answer"] == "SUPPORTS"]
    path = write_lines(files / "supports.jsonl", supports)
    data = recipe(files).data
    with pytest.raises(TrainingDataError, match=f"are {len(supports)} SUPPORTS; wanted some of each"):
        train_model(recipe(files, data=replace(data, train=(path,))), files / "out")
    with pytest.raises(TrainingDataError, match="give the corpus with --pages"):
        train_model(recipe(files, data=replace(data, pages=())), files / "out")
    with pytest.raises(TrainingDataError, match="--train"):
        train_model(recipe(files, data=ClaimData()), files / "out")
    squad = files / "squad.json"
    squad.write_text(json.dumps({"version": "1.1", "data": [{"title": "x", "paragraphs": []}]}))
    with pytest.raises(TrainingDataError, match="holds squad rows"):
        train_model(recipe(files, data=replace(data, train=(squad,))), files / "out")
    with pytest.raises(InvalidOptionError, match=r"data\.adapt"):
        VerdictRecipe(data=DataSection(adapt=(files,)))
    with pytest.raises(InvalidOptionError, match="same-phrase"):
        VerdictRecipe(data=DataSection(hard_negatives="same-phrase"))
    with pytest.raises(EncoderError, match="no reader"):
        train_model(recipe(files, model=VerdictModelOptions(init=str(files / "nothing"))), files / "out")


def test_the_reader_is_taken_over(files: Path) -> None:
    """Its layers and its relevance; the new head is the same for the same seed, and small."""
    initial = initial_verdict_model(recipe(files).model, seed=3)
    reader, state = read_reader(files / "reader").weights, initial.model.state_dict()
    taken = [name for name in reader if not name.startswith(("qa_outputs.", "pair_outputs."))]
    assert all(torch.equal(reader[name], state[name]) for name in taken)
    assert set(state) - set(taken) == {"verdict_output.weight", "verdict_output.bias"}
    again, other = (initial_verdict_model(recipe(files).model, seed=seed).model.state_dict() for seed in (3, 4))
    assert torch.equal(state["verdict_output.weight"], again["verdict_output.weight"])
    assert not torch.equal(state["verdict_output.weight"], other["verdict_output.weight"])


def test_a_model_is_kept_whole_and_told_from_a_reader(files: Path) -> None:
    """What was saved is what is loaded; damage, a reader in its place and a directory in the way are errors."""
    initial = initial_verdict_model(recipe(files).model)
    judge = Judge.from_model(initial.model, initial.tokenizer_json, n_passages=3, device="cpu", dtype="float32")
    judge.save(files / "model", dtype="float32", card="# A model")
    loaded = Judge.load(files / "model", device="cpu", dtype="float32")
    claims = [Question("paris is a city ."), Question("no river in tokyo ."), Question("fire")]
    long = " ".join(["paris is a great city ."] * 40)
    passages = [["paris is great .", PassageText("Paris", long)], [], ["no fire ."]]
    together = judge.judge(claims, passages)
    again = loaded.judge(claims, passages)
    assert together[1] is None and again[1] is None and loaded.n_passages == 3
    assert together[0] is not None and again[0] is not None and len(together[0].evidence) == 2
    assert again[0].log_odds == pytest.approx(together[0].log_odds, abs=1e-5)
    alone = judge.judge(claims[:1], passages[:1])[0]
    assert alone is not None and alone.log_odds == pytest.approx(together[0].log_odds, abs=1e-4)
    with pytest.raises(UsageError, match="3 claims came with 1"):
        judge.judge(claims, passages[:1])
    with pytest.raises(QueryError):
        judge.judge([Question("paris " * 200)], [["paris"]])
    assert judge.judge([Question("paris " * 200)], [["paris"]], truncate=True)[0] is not None
    with pytest.raises(EncoderError, match="already exists"):
        judge.save(files / "model")
    with pytest.raises(EncoderError, match="no verdict model"):
        Judge.load(files / "reader")
    with pytest.raises(EncoderError, match="verdict-model"):
        read_reader(files / "model")
    weights = files / "model" / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(CorruptError):
        Judge.load(files / "model")


def test_files_become_a_model_by_the_command(files: Path) -> None:
    """Defaults of the recipe, options of the command line, counts and development measures on stdout."""
    arguments = [
        *("verdict", "--train", files / "train.jsonl", "--dev", files / "dev.jsonl", "--pages", files / "pages.jsonl"),
        *("--init", files / "reader", "--out", files / "out", "--epochs", 1, "--device", "cpu", "--json"),
        *("--negative-fraction", 0.25, "--dev-limit", 10, "--set", "model.n_passages=2", "--weights", "int8"),
    ]
    result = CliRunner().invoke(train_command, [str(each) for each in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert (facts["examples"], facts["steps"]) == (24, 1) and facts["supports"] + facts["refutes"] == 24
    assert {"dev_accuracy", "dev_recall_supports", "dev_recall_refutes"} <= set(facts)
    assert Judge.load(files / "out", device="cpu").n_passages == 2
    recorded = json.loads((files / "out.run" / "data.json").read_text())["recipe"]
    assert recorded["data"]["max_passages"] == 3 and recorded["reading"]["negative_fraction"] == 0.25
