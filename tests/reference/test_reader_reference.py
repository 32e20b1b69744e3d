"""Our reader gives what Hugging Face's `BertForQuestionAnswering` gives with the same weights."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig, BertForQuestionAnswering

from kbengine.encoders.encoder import PassageText
from kbengine.inputs import Question
from kbengine.reading.reader import Reader
from tests.tiny_encoder import SENTENCES
from tests.tiny_reader import tiny_cross_encoder, tiny_reader_config, write_tiny_reader


def test_logits_equal_hugging_face(tmp_path: Path) -> None:
    """Token types 0 for the query and 1 for title and passage; [CLS] is no answer; padding changes nothing."""
    config = tiny_reader_config()
    weights = {
        name if name.startswith("qa_outputs") else f"bert.{name}": tensor
        for name, tensor in tiny_cross_encoder(config).state_dict().items()
        if not name.startswith(("pair_outputs", "relevance_output"))
    }
    reference = BertForQuestionAnswering(BertConfig(**asdict(config.backbone)))
    reference.train(False)
    missing, unexpected = reference.load_state_dict(weights, strict=False)
    assert not unexpected and all(name.endswith(("position_ids", "token_type_ids")) for name in missing)
    reader = Reader.load(write_tiny_reader(tmp_path / "r"), device="cpu", dtype="float32")
    pairs = [("Who wrote the novel?", "Novel", SENTENCES[5]), ("Where?", "", SENTENCES[0]), ("When?", "Water", "light")]

    found = reader.logits([Question(q) for q, _, _ in pairs], [PassageText(t, p) for _, t, p in pairs])

    ids = reader.tokenizer.ids
    cls, sep = reader.tokenizer.cls_id, reader.tokenizer.sep_id
    for (query, title, passage), logits in zip(pairs, found, strict=True):
        first = [cls, *ids([query])[0], sep]
        second = [*ids([title])[0], sep, *ids([passage])[0], sep] if title else [*ids([passage])[0], sep]
        types = [0] * len(first) + [1] * len(second)
        with torch.no_grad():
            output = reference(input_ids=torch.tensor([first + second]), token_type_ids=torch.tensor([types]))
        n = len(logits.start)
        start, end = output.start_logits[0].numpy(), output.end_logits[0].numpy()
        np.testing.assert_allclose(logits.start, start[-n - 1 : -1], atol=1e-5)
        np.testing.assert_allclose(logits.end, end[-n - 1 : -1], atol=1e-5)
        np.testing.assert_allclose(logits.no_answer, start[0] + end[0], atol=1e-5)
