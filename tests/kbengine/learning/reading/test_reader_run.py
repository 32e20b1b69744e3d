"""`kbengine train reader`: from files to a reader, from any BERT, interrupted and resumed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

from kbengine.encoders.config import QueryLimits
from kbengine.errors import EncoderError, InvalidOptionError, TrainingDataError
from kbengine.inputs import Question
from kbengine.learning.data.report import DataReport
from kbengine.learning.loop.options import LoopOptions, OptimizerOptions
from kbengine.learning.reading.initial import ReaderModelOptions, initial_reader
from kbengine.learning.reading.training import ReaderTrainingOptions
from kbengine.learning.runs.data_section import DataSection
from kbengine.learning.runs.examples import Examples
from kbengine.learning.runs.reader import ReaderRecipe
from kbengine.learning.runs.run import train_model
from kbengine.reading.checkpoint import read_reader, write_reader
from kbengine.reading.reader import Reader
from kbengine.terminal.train_command import train as train_command
from tests.tiny_encoder import tiny_config, tiny_model, tiny_tokenizer_json, write_tiny_encoder
from tests.tiny_reader import tiny_cross_encoder, tiny_reader_config, write_tiny_reader
from tests.toy_reading import toy_examples

TINY = ReaderModelOptions(max_tokens=96, max_title_tokens=8, max_query_tokens=QueryLimits(32, 32, 32, 32), dropout=0)
LOOP = LoopOptions(
    epochs=2, batch_size=8, device="cpu", log_every_steps=1, optimizer=OptimizerOptions(learning_rate=1e-3)
)
EXAMPLES = Examples(tuple(toy_examples(24, seed=1)), tuple(toy_examples(8, seed=2)), DataReport())


@pytest.fixture(autouse=True)
def one_thread():
    """Tiny matrices: more threads than one only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def recipe(init: Path, **changes: object) -> ReaderRecipe:
    """Return a short recipe that begins with the model in `init`."""
    values = {"model": replace(TINY, init=str(init)), "loop": LOOP, "weights": "float32", **changes}
    return ReaderRecipe(**values)  # type: ignore[arg-type]


def write_squad(path: Path, n: int, *, seed: int) -> Path:
    """Write toy examples as a SQuAD file."""
    articles = [
        {
            "title": example.title,
            "paragraphs": [
                {
                    "context": example.passage,
                    "qas": [
                        {
                            "id": example.id,
                            "question": example.query.text,  # type: ignore[union-attr]
                            "answers": [{"text": example.answer_texts[0], "answer_start": example.answers[0].start}],
                        }
                    ],
                }
            ],
        }
        for example in toy_examples(n, seed=seed)
    ]
    path.write_text(json.dumps({"version": "1.1", "data": articles}))
    return path


@pytest.mark.parametrize("architecture", ["shared-query", "three-tower"])
def test_an_encoder_becomes_a_reader(tmp_path: Path, architecture) -> None:
    """Its phrase encoder's layers and embeddings, under a head of its own, the same for the same seed."""
    write_tiny_encoder(tmp_path / "e", architecture=architecture)
    options = replace(TINY, init=str(tmp_path / "e"))
    model = initial_reader(options, seed=3).model
    tower = tiny_model(tiny_config(architecture)).state_dict()
    state = model.state_dict()
    for name, tensor in state.items():
        if name.startswith("encoder.") or (name.startswith("embeddings.") and architecture == "three-tower"):
            assert torch.equal(tensor, tower[f"phrase_encoder.{name}"]), name
        elif name.startswith("embeddings."):
            assert torch.equal(tensor, tower[name]), name
    assert torch.equal(
        state["qa_outputs.weight"], initial_reader(options, seed=3).model.state_dict()["qa_outputs.weight"]
    )
    assert not torch.equal(state["qa_outputs.weight"], initial_reader(options, seed=4).model.qa_outputs.weight)


def test_a_folder_of_hugging_face_becomes_a_reader(tmp_path: Path) -> None:
    """config.json, tokenizer.json and safetensors of any BERT; the pooler is left out."""
    config = tiny_config("three-tower")
    tower = {
        f"bert.{name.removeprefix('phrase_encoder.')}": tensor.contiguous()
        for name, tensor in tiny_model(config).state_dict().items()
        if name.startswith("phrase_encoder.")
    }
    folder = tmp_path / "bert"
    folder.mkdir()
    save_file(tower | {"bert.pooler.dense.bias": torch.zeros(32)}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", **config.to_json()["backbone"]}))
    (folder / "tokenizer.json").write_text(tiny_tokenizer_json())
    state = initial_reader(replace(TINY, init=str(folder))).model.state_dict()
    assert all(torch.equal(tensor, state[name.removeprefix("bert.")]) for name, tensor in tower.items())


def test_a_reader_is_trained_further_with_its_own_lengths(tmp_path: Path) -> None:
    """Weights, configuration and tokenizer are taken over."""
    write_tiny_reader(tmp_path / "r", seed=5, max_tokens=80)
    initial = initial_reader(ReaderModelOptions(init=str(tmp_path / "r")))
    checkpoint = read_reader(tmp_path / "r")
    assert initial.model.config == checkpoint.config
    assert all(torch.equal(tensor, checkpoint.weights[name]) for name, tensor in initial.model.state_dict().items())


def test_a_reader_without_pairs_is_given_some_that_say_nothing_yet(tmp_path: Path) -> None:
    """What it reads stays as it was until it is trained further; without being asked to, it gets none."""
    plain = replace(tiny_reader_config(), pair_size=0)
    write_reader(tmp_path / "r", plain, tiny_tokenizer_json(), tiny_cross_encoder(plain).state_dict(), dtype="float32")
    before = Reader.load(tmp_path / "r", device="cpu", dtype="float32")
    assert initial_reader(ReaderModelOptions(init=str(tmp_path / "r"), pair_size=0)).model.config == plain
    initial = initial_reader(ReaderModelOptions(init=str(tmp_path / "r"), pair_size=6))
    after = Reader.from_model(initial.model, initial.tokenizer_json, device="cpu", dtype="float32")
    assert after.config == replace(plain, pair_size=6)
    asked, passages = [Question("Where was she born?")], ["She was born in Warsaw and died in Paris."]
    assert after.read(asked, passages) == before.read(asked, passages)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    """A length without positions; a model that is not there."""
    write_tiny_encoder(tmp_path / "e")
    with pytest.raises(EncoderError, match="positions for 128"):
        initial_reader(replace(TINY, init=str(tmp_path / "e"), max_tokens=512))
    with pytest.raises(EncoderError):
        initial_reader(replace(TINY, init=str(tmp_path / "nothing here")))
    with pytest.raises(InvalidOptionError, match=r"model\.init"):
        ReaderRecipe(data=DataSection(reader=tmp_path))


def test_a_resumed_run_gives_the_same_reader(tmp_path: Path) -> None:
    """Stopped after three steps and gone on with, to the bit; dropout and negatives included."""
    write_tiny_encoder(tmp_path / "e")
    plan = recipe(tmp_path / "e", model=replace(TINY, init=str(tmp_path / "e"), dropout=0.1))
    train_model(plan, tmp_path / "straight", examples=EXAMPLES)
    steps = iter(range(100))
    with pytest.raises(KeyboardInterrupt):
        train_model(plan, tmp_path / "stopped", examples=EXAMPLES, stop=lambda: next(steps) == 2)
    assert not (tmp_path / "stopped").exists()
    train_model(plan, tmp_path / "stopped", examples=EXAMPLES, resume=True)
    straight, resumed = read_reader(tmp_path / "straight"), read_reader(tmp_path / "stopped")
    assert all(torch.equal(tensor, resumed.weights[name]) for name, tensor in straight.weights.items())


def test_files_become_a_reader_by_the_command(tmp_path: Path) -> None:
    """Defaults of the reader, options of the command line, a report on stdout; the result can be loaded."""
    write_tiny_encoder(tmp_path / "e")
    files = [write_squad(tmp_path / f"{name}.json", n, seed=n) for name, n in (("train", 24), ("dev", 8))]
    small = [f"model.max_query_tokens.{kind}=32" for kind in ("question", "slot_filling", "entity_linking", "dialogue")]
    arguments = [
        *("reader", "--train", files[0], "--dev", files[1], "--init", tmp_path / "e", "--out", tmp_path / "out"),
        *("--epochs", 1, "--max-tokens", 96, "--device", "cpu", "--json", "--set", "model.max_title_tokens=8"),
        *(part for each in small for part in ("--set", each)),
    ]
    result = CliRunner().invoke(train_command, [str(each) for each in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert (facts["examples"], facts["steps"], facts["out"]) == (24, 1, str(tmp_path / "out"))
    assert "dev_f1" in facts
    reader = Reader.load(tmp_path / "out", device="cpu", dtype="float32")
    assert reader.read([Question("who ?")], ["the author covers the city in paris ."])[0].span.end > 0
    report = json.loads((tmp_path / "out.run" / "report.json").read_text())
    assert report["begun_with"]["options"]["optimizer"]["learning_rate"] == 1e-4


def test_files_are_read_as_the_recipe_says(tmp_path: Path) -> None:
    """Nothing to train on is an error before anything is made; a directory in the way too."""
    write_tiny_encoder(tmp_path / "e")
    plan = recipe(tmp_path / "e", reading=ReaderTrainingOptions(max_dev_examples=4))
    with pytest.raises(TrainingDataError, match="nothing to train on"):
        train_model(plan, tmp_path / "out")
    with pytest.raises(EncoderError, match="already exists"):
        train_model(plan, tmp_path / "e")
    data = DataSection(
        train=(write_squad(tmp_path / "t.json", 8, seed=1),), dev=(write_squad(tmp_path / "d.json", 8, seed=2),)
    )
    trained = train_model(replace(plan, data=data), tmp_path / "out")
    assert trained.report.n_examples == 8 and trained.facts()["without_answer_span"] == 0
