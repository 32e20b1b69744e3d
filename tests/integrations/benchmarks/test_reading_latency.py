"""The comparison of a reader in three arithmetics."""

from __future__ import annotations

from pathlib import Path

from benchmarks.reading_latency import agreement, readers_of
from kbengine.encoders.encoder import PassageText
from kbengine.inputs import Question, TaskInput
from tests.tiny_encoder import SENTENCES
from tests.tiny_reader import write_tiny_reader


def test_arithmetics_are_compared_by_spans_and_margins(tmp_path: Path) -> None:
    """A reader agrees with itself; another arithmetic's margins differ, by less than they spread."""
    readers = readers_of(write_tiny_reader(tmp_path / "r"))
    questions: list[TaskInput] = [Question("Where was the author born?")] * len(SENTENCES)
    pairs = questions, [PassageText("", text) for text in SENTENCES]
    reference = readers["torch_float32"]
    own = agreement(reference, reference, pairs)
    assert own["same_best_span_percent"] == 100.0
    assert own["margin_mean_absolute_difference"] == own["margin_sign_differs_percent"] == 0.0
    other = agreement(readers["onnx_int8"], reference, pairs)
    assert 0 < other["margin_mean_absolute_difference"] < other["margin_spread"]
