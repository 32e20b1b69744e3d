"""Training an encoder from files to a model directory: it learns, resumes exactly, and is saved as it was trained."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from kbengine.cli import main
from kbengine.encoders.encoder import Encoder
from kbengine.errors import EncoderError, InvalidOptionError, TrainingDataError, TrainingError
from kbengine.learning.data.report import DataReport
from kbengine.learning.loop.options import LoopOptions, OptimizerOptions
from kbengine.learning.loop.processes import Processes
from kbengine.learning.loop.recipe import parse_override, read_recipe
from kbengine.learning.phrases.development import DevelopmentOptions, DevelopmentSet
from kbengine.learning.phrases.initial import ModelOptions
from kbengine.learning.phrases.phrase_task import LossOptions
from kbengine.learning.phrases.teacher import teacher_logits
from kbengine.learning.runs.encoder import EncoderRecipe
from kbengine.learning.runs.examples import Examples
from kbengine.learning.runs.run import run_directory, train_model
from tests.kbengine.learning.phrases.small_training import example, examples, tokenizer, write_squad
from tests.tiny_encoder import write_tiny_encoder

LOOP = LoopOptions(
    epochs=40,
    batch_size=8,
    device="cpu",
    log_every_steps=1,
    evaluate_every_steps=20,
    checkpoint_every_steps=1000,
    optimizer=OptimizerOptions(learning_rate=5e-3),
)


@pytest.fixture
def recipe(tmp_path) -> EncoderRecipe:
    """Give a recipe that starts from the tiny encoder and trains all losses but distillation."""
    directory = write_tiny_encoder(tmp_path / "tiny")
    return EncoderRecipe(
        model=ModelOptions(init=str(directory), frozen="none", dropout=0.0),
        losses=LossOptions(pre_batches=1, no_answer="cls"),
        loop=LOOP,
        weights="float32",
    )


def all_examples() -> Examples:
    """Return the small world as training and development examples."""
    return Examples(tuple(examples()), tuple(examples()), DataReport())


class StopAfter:
    """Asks to stop after a number of steps."""

    def __init__(self, n):
        self.n = n

    def __call__(self):
        self.n -= 1
        return self.n == 0


class FakeReader:
    """A teacher that is sure of each passage's first token; counts the passages it was asked about."""

    fingerprint = "fake"

    def __init__(self, *, extra_tokens=0):
        self.n_asked = 0
        self.extra_tokens = extra_tokens

    def passage_logits(self, queries, passages):
        self.n_asked += len(passages)
        lengths = [len(ids) + self.extra_tokens for ids in tokenizer().ids([passage.text for passage in passages])]
        one_hot = [np.eye(length, dtype=np.float32)[0] * 5 for length in lengths]
        return [(each, each) for each in one_hot]


@dataclass(frozen=True)
class TaughtBy(EncoderRecipe):
    """A recipe with a teacher of the test's own."""

    reader: FakeReader = field(default_factory=FakeReader)

    def teacher(self, processes):
        """Return the fake reader."""
        return self.reader


def test_training_learns_to_read_and_to_find(recipe, tmp_path):
    """Eight facts by heart: the loss falls, exact match rises, alone and among all passages."""
    trained = train_model(recipe, tmp_path / "model", examples=all_examples())
    report = trained.report

    assert report.last_loss < 0.1 * report.first_loss
    assert report.first["em"] <= 25 and report.best["em"] == 100 and report.best["small_em"] == 100
    assert report.best["passage"] == 100 and report.best_score > report.first_score
    measured = DevelopmentSet(examples()).measure(Encoder.load(tmp_path / "model", device="cpu", dtype="float32"))
    assert measured == pytest.approx(dict(report.best))


@pytest.mark.gpu
def test_training_learns_on_a_gpu_in_bfloat16(recipe, tmp_path):
    """The same facts, autocast on; an interrupted run goes on to its end."""
    loop = replace(LOOP, device="cuda", dtype="bfloat16", checkpoint_every_steps=10)
    on_gpu = replace(recipe, loop=loop)
    with pytest.raises(KeyboardInterrupt):
        train_model(on_gpu, tmp_path / "model", examples=all_examples(), stop=StopAfter(15))
    report = train_model(on_gpu, tmp_path / "model", examples=all_examples(), resume=True).report

    assert report.best["em"] == 100 and report.last_loss < 0.2 * report.first_loss


@pytest.mark.parametrize(("n_steps", "dtype", "dropout"), [(5, "float32", 0.1), (13, "bfloat16", 0.0)])
def test_a_resumed_training_gives_the_same_weights_bit_for_bit(recipe, tmp_path, n_steps, dtype, dropout):
    """Interrupted before and after the queue of pre-batch negatives opens, in either way of attention."""
    loop = replace(LOOP, epochs=8, batch_size=4, dtype=dtype)
    short = replace(recipe, model=replace(recipe.model, dropout=dropout), loop=loop)
    train_model(short, tmp_path / "whole", examples=all_examples())
    with pytest.raises(KeyboardInterrupt):
        train_model(short, tmp_path / "cut", examples=all_examples(), stop=StopAfter(n_steps))
    assert not (tmp_path / "cut").exists()
    with pytest.raises(TrainingError, match=f"come to step {n_steps}; resume it"):
        train_model(short, tmp_path / "cut", examples=all_examples())
    train_model(short, tmp_path / "cut", examples=all_examples(), resume=True)
    whole, cut = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "cut"))

    assert all(np.array_equal(whole[name], cut[name]) for name in whole)


def test_other_data_or_losses_are_not_mixed_into_a_run(recipe, tmp_path):
    """The run knows what it began with."""
    with pytest.raises(KeyboardInterrupt):
        train_model(recipe, tmp_path / "m", examples=all_examples(), stop=StopAfter(2))
    other = replace(all_examples(), train=(*examples()[1:], example(0, answers=())))

    with pytest.raises(TrainingError, match="other options or data"):
        train_model(recipe, tmp_path / "m", examples=other, resume=True)
    with pytest.raises(TrainingError, match="other options or data"):
        train_model(replace(recipe, losses=LossOptions()), tmp_path / "m", examples=all_examples(), resume=True)


@pytest.mark.parametrize("frozen", ["none", "words", "embeddings"])
def test_frozen_embeddings_stay_as_they_were(recipe, tmp_path, frozen):
    """And only those."""
    before = load_file(tmp_path / "tiny" / "model.safetensors")
    options = replace(recipe, model=replace(recipe.model, frozen=frozen), loop=replace(LOOP, epochs=1))
    train_model(options, tmp_path / "m", examples=replace(all_examples(), dev=()))
    after = load_file(tmp_path / "m" / "model.safetensors")
    still = {name for name in before if np.array_equal(before[name], after[name])}

    words = "embeddings.word_embeddings.weight"
    assert (words in still) == (frozen != "none")
    assert ("embeddings.position_embeddings.weight" in still) == (frozen == "embeddings")
    assert "phrase_encoder.encoder.layer.0.attention.self.query.weight" not in still


def test_a_teacher_is_asked_once_and_its_answers_are_kept(recipe, tmp_path):
    """A second run over the same examples reads the shards; an example without an answer has none."""
    given = [*examples(), example(0, id="none", answers=(), answerable=False)]
    reader = FakeReader()
    first = teacher_logits(reader, given, tokenizer(), tmp_path / "teacher")
    again = teacher_logits(reader, given, tokenizer(), tmp_path / "teacher", processes=Processes("cpu"))

    assert reader.n_asked == 8 and first[-1] is None and again[-1] is None
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(first[:-1], again[:-1], strict=True))
    teacher_logits(reader, given[:4], tokenizer(), tmp_path / "teacher")
    assert reader.n_asked == 12


def test_distillation_is_part_of_a_run(recipe, tmp_path):
    """With a reader the loss is there; a teacher of another tokenizer is refused."""
    losses = replace(recipe.losses, distillation=1.0)
    short = replace(recipe, losses=losses, loop=replace(LOOP, epochs=1))
    train_model(TaughtBy(**vars(short), reader=FakeReader()), tmp_path / "m", examples=all_examples())
    log = [json.loads(line) for line in (run_directory(tmp_path / "m") / "log.jsonl").read_text().splitlines()]

    assert all(record["parts"]["distillation"] > 0 for record in log if record["kind"] == "step")
    with pytest.raises(TrainingError, match="a teacher must have the encoder's tokenizer"):
        other = TaughtBy(**vars(short), reader=FakeReader(extra_tokens=1))
        train_model(other, tmp_path / "n", examples=all_examples())
    with pytest.raises(InvalidOptionError, match="no teacher is given"):
        train_model(short, tmp_path / "o", examples=all_examples())


def test_nothing_is_overwritten(recipe, tmp_path):
    """A directory that is there is refused before any work is done."""
    (tmp_path / "model").mkdir()
    with pytest.raises(EncoderError, match="already exists"):
        train_model(recipe, tmp_path / "model", examples=all_examples())
    assert not run_directory(tmp_path / "model").exists()


def test_the_development_set_needs_answerable_examples_and_can_be_thinned():
    """Unanswerable ones have no passage to find."""
    with pytest.raises(TrainingDataError, match="none of 1 development examples"):
        DevelopmentSet([example(0, answers=(), answerable=False)])
    thinned = DevelopmentSet(examples(), DevelopmentOptions(max_examples=3)).examples

    assert [each.id for each in thinned] == ["fact-0", "fact-2", "fact-5"]


def test_the_command_trains_from_squad_and_the_result_is_a_model(recipe, tmp_path, capsys):
    """Files in, model directory out; facts as JSON; unusable rows on stderr; the recipe file and `--set` are heard."""
    squad = write_squad(tmp_path / "train.json", [*examples(), example(1, id="off")])
    value = json.loads(squad.read_text())
    value["data"][-1]["paragraphs"][0]["qas"][0]["answers"][0]["text"] = "Bonn"
    squad.write_text(json.dumps(value))
    toml = tmp_path / "recipe.toml"
    toml.write_text('weights = "float16"\n[data]\ntrain = ["train.json"]\n[loop]\nepochs = 2\nbatch_size = 4\n')
    main(
        [
            *("train", "--recipe", str(toml), "--dev", str(squad), "--init", str(tmp_path / "tiny"), "--device", "cpu"),
            *("--out", str(tmp_path / "m"), "--set", "losses.pre_batches=0", "--json"),
        ]
    )
    shown = capsys.readouterr()
    facts = json.loads(shown.out)
    data = json.loads((tmp_path / "m.run" / "data.json").read_text())

    assert facts["examples"] == 8 and facts["unusable_rows"] == 1 and facts["steps"] == 4
    assert "1 of 9 rows unusable: answer not at its offset (off" in shown.err
    assert data["recipe"]["losses"]["pre_batches"] == 0 and data["recipe"]["loop"]["epochs"] == 2
    assert Encoder.load(tmp_path / "m", device="cpu").d == 32


def test_adapting_trains_on_cloze_questions_of_the_corpus_itself(recipe, tmp_path, capsys):
    """No rows are needed; excluded documents give no question."""
    from tests.tiny_encoder import SENTENCES

    corpus = tmp_path / "corpus.jsonl"
    pages = [{"wikipedia_id": str(i), "wikipedia_title": s.split()[1], "text": [s]} for i, s in enumerate(SENTENCES)]
    corpus.write_text("".join(json.dumps(page) + "\n" for page in pages))
    (tmp_path / "unseen.txt").write_text("0\n")
    main(
        [
            *("train", "--adapt", str(corpus), "--exclude-pages", str(tmp_path / "unseen.txt"), "--epochs", "1"),
            *("--init", str(tmp_path / "tiny"), "--device", "cpu", "--out", str(tmp_path / "m"), "--json"),
        ]
    )

    assert json.loads(capsys.readouterr().out)["examples"] >= 5
    assert Encoder.load(tmp_path / "m", device="cpu").d == 32


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "there is nothing to train on; give --train FILE, or --adapt CORPUS"),
        (["--set", "losses.lambda=1"], "losses has unknown options lambda; known are"),
        (["--set", "epochs"], "'epochs' sets nothing, wanted section.option=value"),
        (["--set", "loop.seed.x=1", "--seed", "3"], "names no option: seed is a value, not a section"),
        (["--set", "data.hard_negatives=bm25"], "they would be mined for nothing"),
        (["--train", "x", "--recipe", "missing.toml"], "cannot read the recipe missing.toml"),
    ],
)
def test_what_cannot_be_trained_is_said_in_one_line(arguments, message, tmp_path, capsys):
    """No traceback; exit code 1 or 2."""
    with pytest.raises(SystemExit) as caught:
        main(["train", *arguments, "--out", str(tmp_path / "m")])
    assert caught.value.code in (1, 2) and message in capsys.readouterr().err


def test_a_recipe_file_has_sections_and_its_paths_count_from_its_folder(tmp_path):
    """Nested options, and values that are no TOML stand for themselves."""
    path = tmp_path / "r.toml"
    path.write_text(
        '[data]\ntrain = ["a.jsonl"]\npages = ["/p.jsonl"]\n[model.max_query_tokens]\ndialogue = 128\n'
        "[loop.optimizer]\nlearning_rate = 1e-4\n[loop.optimizer.rate_factors]\nfilter_head = 10\n"
    )
    recipe = read_recipe(EncoderRecipe, path, [parse_override("model.init=minilm"), parse_override("loop.epochs=7")])

    assert recipe.data.train == (tmp_path / "a.jsonl",) and recipe.data.pages == (Path("/p.jsonl"),)
    assert recipe.model.max_query_tokens.dialogue == 128 and recipe.model.init == "minilm"
    assert recipe.loop.optimizer.rate_factors == (("filter_head", 10.0),) and recipe.loop.epochs == 7
    assert json.loads(json.dumps(recipe.to_json()))["data"]["train"] == [str(tmp_path / "a.jsonl")]
