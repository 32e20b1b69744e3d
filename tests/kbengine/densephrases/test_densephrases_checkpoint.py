"""Published DensePhrases checkpoints, as synthetic files of exactly their layout, become encoders."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import BertConfig, BertModel

from kbengine.densephrases.checkpoint import import_checkpoint
from kbengine.encoders.checkpoint import read_checkpoint
from kbengine.encoders.encoder import Encoder, PassageText
from kbengine.errors import EncoderError
from kbengine.inputs import Question, Slot
from tests.kbengine.densephrases.published import published_tensors, write_base, write_checkpoint_folder


def test_a_checkpoint_becomes_a_three_tower_encoder(tmp_path: Path) -> None:
    """599 tensors for 12 layers; here 5 + 16 a layer, a tower, pooler left out; nothing else is changed."""
    tensors = published_tensors()
    report = import_checkpoint(
        write_checkpoint_folder(tmp_path / "c", tensors),
        tmp_path / "m",
        base=write_base(tmp_path / "b"),
        dtype="float32",
    )
    checkpoint = read_checkpoint(tmp_path / "m")
    assert checkpoint.config.architecture == "three-tower"
    assert not checkpoint.config.uncased and checkpoint.config.passage_token_type == 1
    assert len(checkpoint.weights) == 3 * (5 + 16 * 2) + 2
    for name, tensor in checkpoint.weights.items():
        published = name.replace("filter_head", "filter_linear")
        assert torch.equal(tensor, tensors[published]), name
    assert report.left_out == ("….pooler.…",) and report.renamed == ()
    assert report.n_parameters == sum(tensor.numel() for tensor in checkpoint.weights.values())


def test_its_vectors_are_those_of_the_published_model(tmp_path: Path) -> None:
    """Token type 1 on the passage side, [CLS] of each query tower, computed by Hugging Face from the same tensors."""
    tensors = published_tensors()
    base = write_base(tmp_path / "b")
    import_checkpoint(write_checkpoint_folder(tmp_path / "c", tensors), tmp_path / "m", base=base, dtype="float32")
    encoder = Encoder.load(tmp_path / "m", device="cpu", dtype="float32")
    config = BertConfig.from_pretrained(base)

    def states(tower: str, ids: list[int], token_type: int) -> Tensor:
        model = BertModel(config)
        own = {name.removeprefix(f"{tower}."): each for name, each in tensors.items() if name.startswith(f"{tower}.")}
        model.load_state_dict(own, strict=False)
        model.train(False)
        with torch.no_grad():
            types = torch.full((1, len(ids)), token_type)
            return model(input_ids=torch.tensor([ids]), token_type_ids=types).last_hidden_state[0]

    ids, cls, sep = encoder.tokenizer.ids, encoder.tokenizer.cls_id, encoder.tokenizer.sep_id
    passage = PassageText("France", "Paris is the capital of France.")
    title, text = ids([passage.title, passage.text])
    expected = states("phrase_encoder", [cls, *title, sep, *text, sep], 1)[2 + len(title) : -1]
    found = encoder.encode_passages([passage])[0]
    np.testing.assert_allclose(found.vectors, expected.numpy(), atol=1e-5)
    np.testing.assert_allclose(
        found.filter_logits,
        (expected @ tensors["filter_linear.weight"].T + tensors["filter_linear.bias"]).numpy(),
        atol=1e-5,
    )
    queries = encoder.encode_queries([Question("Which river?"), Slot("France", "capital")])
    rows = [[cls, *ids(["Which river?"])[0], sep], [cls, *ids(["France"])[0], sep, *ids(["capital"])[0], sep]]
    for i, row in enumerate(rows):
        np.testing.assert_allclose(queries.start[i], states("query_start_encoder", row, 0)[0].numpy(), atol=1e-5)
        np.testing.assert_allclose(queries.end[i], states("query_end_encoder", row, 0)[0].numpy(), atol=1e-5)


def test_older_names_and_passengers_are_known(tmp_path: Path) -> None:
    """bert_start and the like are renamed; the teacher, poolers and position ids stay behind; both are reported."""
    old = {"phrase_encoder": "bert_start", "query_start_encoder": "bert_q_start", "query_end_encoder": "bert_q_end"}
    tensors = published_tensors()
    legacy: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        tower, dot, rest = name.partition(".")
        legacy[f"module.{old.get(tower, tower)}{dot}{rest}"] = tensor
    legacy |= {"module.cross_encoder.embeddings.word_embeddings.weight": torch.zeros(3, 4)}
    legacy |= {"module.qa_outputs.bias": torch.zeros(2), "module.bert_qd.pooler.dense.bias": torch.zeros(2)}
    legacy |= {"module.bert_start.embeddings.position_ids": torch.arange(512)[None]}
    base = write_base(tmp_path / "b")
    report = import_checkpoint(write_checkpoint_folder(tmp_path / "c", legacy), tmp_path / "m", base=base)
    import_checkpoint(write_checkpoint_folder(tmp_path / "d", tensors), tmp_path / "n", base=base)
    assert read_checkpoint(tmp_path / "m").fingerprint == read_checkpoint(tmp_path / "n").fingerprint
    assert set(report.left_out) == {"cross_encoder.…", "qa_outputs.…", "bert_qd.…", "….pooler.…", "….position_ids"}
    assert "bert_start.… → phrase_encoder.…" in report.renamed and "module.… → …" in report.renamed
    assert report.facts()["architecture"] == "three-tower"


@pytest.mark.parametrize("kind", ["checkpoint", "imported"])
def test_a_query_encoder_alone_takes_the_phrase_encoder_from_another(tmp_path: Path, kind: str) -> None:
    """From the checkpoint it was trained from, or from the model that was made of it."""
    base = write_base(tmp_path / "b")
    whole = write_checkpoint_folder(tmp_path / "whole", published_tensors(seed=1))
    import_checkpoint(whole, tmp_path / "imported", base=base, dtype="float32")
    tensors = published_tensors(seed=2)
    queries = {name: each for name, each in tensors.items() if not name.startswith("phrase_encoder.")}
    alone = write_checkpoint_folder(tmp_path / "alone", queries)
    with pytest.raises(EncoderError, match=r"has no phrase_encoder; .* --phrase-encoder"):
        import_checkpoint(alone, tmp_path / "m", base=base)
    source = whole if kind == "checkpoint" else tmp_path / "imported"
    report = import_checkpoint(alone, tmp_path / "m", base=base, phrase_encoder=source, dtype="float32")
    weights, first = read_checkpoint(tmp_path / "m").weights, read_checkpoint(tmp_path / "imported").weights
    assert report.phrase_encoder_from == source
    for name, tensor in weights.items():
        expected = first[name] if name.startswith("phrase_encoder.") else tensors[name.replace("_head", "_linear")]
        assert torch.equal(tensor, expected), name


def test_safetensors_and_the_older_torch_format_are_read(tmp_path: Path) -> None:
    """The same model from three kinds of files, also named directly."""
    tensors, base = published_tensors(), write_base(tmp_path / "b")
    for name in "xyz":
        (tmp_path / name).mkdir()
    save_file(tensors, tmp_path / "x" / "model.safetensors")
    torch.save(tensors, tmp_path / "y" / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    torch.save(tensors, tmp_path / "z" / "pytorch_model.bin")
    sources = [tmp_path / "x", tmp_path / "y", tmp_path / "z" / "pytorch_model.bin"]
    prints = set()
    for i, source in enumerate(sources):
        import_checkpoint(source, tmp_path / f"m{i}", base=base)
        prints.add(read_checkpoint(tmp_path / f"m{i}").fingerprint)
    assert len(prints) == 1


class Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path: Path) -> None:
    """Nothing but tensors is ever made of a pickle."""
    (tmp_path / "c").mkdir()
    target = tmp_path / "touched"
    torch.save({"phrase_encoder.x": Touch(target)}, tmp_path / "c" / "pytorch_model.bin")
    with pytest.raises(EncoderError, match="cannot read tensors"):
        import_checkpoint(tmp_path / "c", tmp_path / "m", base=write_base(tmp_path / "b"))
    assert not target.exists()


def test_without_a_configuration_the_shapes_tell(tmp_path: Path) -> None:
    """Layers, sizes and vocabulary; heads of 64 dimensions, as every BERT has them."""
    tensors = published_tensors(hidden=128, heads=2)
    base = write_base(tmp_path / "b", hidden=128, heads=2)
    folder = write_checkpoint_folder(tmp_path / "c", tensors)
    import_checkpoint(folder, tmp_path / "m", base=base)
    (base / "config.json").unlink()
    import_checkpoint(folder, tmp_path / "n", base=base)
    with_config, without = (read_checkpoint(tmp_path / name).config for name in "mn")
    assert asdict(with_config.backbone) == asdict(without.backbone)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"surprise.weight": torch.zeros(2)}, r"surprise\.weight"),
        ({"filter_linear.weight": None, "filter_linear.bias": None}, "no filter_head"),
        ({"query_end_encoder.encoder.layer.1.output.dense.bias": None}, r"query_end_encoder\.encoder\.layer\.1"),
        ({"filter_linear.bias": torch.tensor([0.0, torch.nan])}, "NaN"),
        ({"filter_linear.bias": torch.zeros(3)}, r"filter_head\.bias is \(3,\)"),
    ],
)
def test_a_broken_checkpoint_is_named(tmp_path: Path, change: dict[str, Tensor | None], message: str) -> None:
    """Unknown, missing, misshapen and spoilt tensors; nothing is written."""
    tensors = {name: each for name, each in {**published_tensors(), **change}.items() if each is not None}
    folder = write_checkpoint_folder(tmp_path / "c", tensors)
    with pytest.raises(EncoderError, match=message):
        import_checkpoint(folder, tmp_path / "m", base=write_base(tmp_path / "b"))
    assert not (tmp_path / "m").exists()


def test_missing_files_are_named(tmp_path: Path) -> None:
    """No weights; no tokenizer; a directory in the way; something else than tensors."""
    base = write_base(tmp_path / "b")
    (tmp_path / "empty").mkdir()
    with pytest.raises(EncoderError, match="neither"):
        import_checkpoint(tmp_path / "empty", tmp_path / "m", base=base)
    with pytest.raises(EncoderError, match="is not there"):
        import_checkpoint(tmp_path / "nothing.bin", tmp_path / "m", base=base)
    folder = write_checkpoint_folder(tmp_path / "c", published_tensors())
    with pytest.raises(EncoderError, match=r"vocab\.txt"):
        import_checkpoint(folder, tmp_path / "m")
    with pytest.raises(EncoderError, match="already exists"):
        import_checkpoint(folder, base, base=base)
    torch.save([1, 2], tmp_path / "empty" / "pytorch_model.bin")
    with pytest.raises(EncoderError, match="wanted tensors by name"):
        import_checkpoint(tmp_path / "empty", tmp_path / "m", base=base)
