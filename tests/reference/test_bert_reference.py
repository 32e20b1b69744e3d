"""Our BERT gives what Hugging Face's `BertModel` gives with the same weights, padded or not, in both architectures."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import BertConfig, BertModel

from kbengine.encoders.config import ARCHITECTURES, Architecture
from kbengine.encoders.encoder import Encoder, PassageText
from kbengine.inputs import Question, Slot
from tests.tiny_encoder import SENTENCES, tiny_config, tiny_model, write_tiny_encoder


def reference(architecture: Architecture, tower: str) -> BertModel:
    """Return Hugging Face's model with the weights of one of our towers."""
    config = tiny_config(architecture)
    weights = tiny_model(config).state_dict()
    model: BertModel = BertModel(BertConfig(**asdict(config.backbone)), add_pooling_layer=False)
    model.train(False)
    own = {name.removeprefix(f"{tower}."): tensor for name, tensor in weights.items() if name.startswith(f"{tower}.")}
    if architecture == "shared-query":
        own |= {name: tensor for name, tensor in weights.items() if name.startswith("embeddings.")}
    missing, unexpected = model.load_state_dict(own, strict=False)
    assert not unexpected
    assert all(name.endswith(("position_ids", "token_type_ids")) for name in missing)
    return model


def states(model: BertModel, rows: list[list[int]]) -> list[Tensor]:
    """Return the last hidden states of each row, encoded together with padding."""
    width = max(len(row) for row in rows)
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    with torch.no_grad():
        found = model(input_ids=ids, attention_mask=mask).last_hidden_state
    return [found[i, : len(row)] for i, row in enumerate(rows)]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_trainable_model_equals_hugging_face(architecture: Architecture) -> None:
    """The padded forward pass that training uses, before any fusing."""
    model = tiny_model(tiny_config(architecture))
    rows = [[2, 9, 8, 7, 6, 3], [2, 30, 3], [2, *range(5, 45), 3]]
    expected = states(reference(architecture, "phrase_encoder"), rows)
    width = max(len(row) for row in rows)
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    is_token = torch.arange(width)[None] < torch.tensor([[len(row)] for row in rows])
    with torch.no_grad():
        found = model.passage_states(ids, is_token)
    for i, row in enumerate(rows):
        torch.testing.assert_close(found[i, : len(row)], expected[i], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_encoded_passages_equal_hugging_face(tmp_path: Path, architecture: Architecture) -> None:
    """Token vectors, filter logits and mean-pooled passage vectors."""
    encoder = Encoder.load(write_tiny_encoder(tmp_path / "m", architecture=architecture), device="cpu", dtype="float32")
    tokenizer = encoder.tokenizer
    weights = tiny_model(encoder.config).state_dict()
    passages = [PassageText("Paris" if i % 2 else "", sentence) for i, sentence in enumerate(SENTENCES)]
    rows = [
        [
            tokenizer.cls_id,
            *tokenizer.ids([p.title])[0],
            tokenizer.sep_id,
            *tokenizer.ids([p.text])[0],
            tokenizer.sep_id,
        ]
        for p in passages
    ]
    expected = states(reference(architecture, "phrase_encoder"), rows)
    for passage, found, theirs in zip(passages, encoder.encode_passages(passages), expected, strict=True):
        text = theirs[2 + len(tokenizer.ids([passage.title])[0]) : -1]
        np.testing.assert_allclose(found.vectors, text.numpy(), atol=1e-5, rtol=1e-5)
        logits = text @ weights["filter_head.weight"].T + weights["filter_head.bias"]
        np.testing.assert_allclose(found.filter_logits, logits.numpy(), atol=1e-5, rtol=1e-5)
        mean = theirs.mean(dim=0)
        np.testing.assert_allclose(found.passage_vector, (mean / mean.norm()).numpy(), atol=1e-5)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_encoded_queries_equal_hugging_face(tmp_path: Path, architecture: Architecture) -> None:
    """Heads of the shared encoder, [CLS] of the three-tower ones."""
    encoder = Encoder.load(write_tiny_encoder(tmp_path / "m", architecture=architecture), device="cpu")
    tokenizer = encoder.tokenizer
    weights = tiny_model(encoder.config).state_dict()
    subject, relation, question = tokenizer.ids(["Marie Curie", "place of birth", "Where is the Amazon river?"])
    cls_id, sep_id = tokenizer.cls_id, tokenizer.sep_id
    rows = [[cls_id, *subject, sep_id, *relation, sep_id], [cls_id, *question, sep_id]]
    found = encoder.encode_queries([Slot("Marie Curie", "place of birth"), Question("Where is the Amazon river?")])
    for i in range(len(rows)):
        if architecture == "shared-query":
            hidden = states(reference(architecture, "query_encoder"), rows)[i]
            start = hidden[0] @ weights["query_start_head.weight"].T + weights["query_start_head.bias"]
            end = hidden[0] @ weights["query_end_head.weight"].T + weights["query_end_head.bias"]
            mean = hidden.mean(dim=0)
        else:
            of_start = states(reference(architecture, "query_start_encoder"), rows)[i]
            of_end = states(reference(architecture, "query_end_encoder"), rows)[i]
            start, end = of_start[0], of_end[0]
            mean = (of_start.mean(dim=0) + of_end.mean(dim=0)) / 2
        np.testing.assert_allclose(found.start[i], start.numpy(), atol=1e-5, rtol=1e-5)
        np.testing.assert_allclose(found.end[i], end.numpy(), atol=1e-5, rtol=1e-5)
        np.testing.assert_allclose(found.passage[i], (mean / mean.norm()).numpy(), atol=1e-5)
