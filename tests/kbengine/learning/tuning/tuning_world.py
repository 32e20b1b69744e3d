"""A knowledge base of the tiny encoder's sentences, and questions whose answers an untrained encoder cannot find."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from kbengine.encoders.encoder import Encoder
from kbengine.knowledge_base import KnowledgeBase
from kbengine.learning.loop.options import OptimizerOptions
from kbengine.learning.tuning.options import TuningLoop, TuningOptions
from kbengine.learning.tuning.rows import TuningRow
from kbengine.search.query import Query, Weights
from tests.kbengine.small_kb import build_small_kb
from tests.tiny_encoder import write_tiny_encoder

PLANTED = (
    ("which city is the capital of Japan", "Tokyo", "6"),
    ("who was the first woman to win", "Nobel Prize", "2"),
    ("which forest covers the basin", "Amazon rainforest", "0"),
    ("what travels faster than sound", "light", "9"),
    ("where did the band tour", "Europe", "8"),
)


@functools.cache
def _built(architecture: str) -> Path:
    """Return a folder with the encoder and the knowledge base, built once."""
    folder = Path(tempfile.mkdtemp(prefix="kbengine-tuning-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = write_tiny_encoder(folder / "encoder", architecture=architecture)
    build_small_kb(folder / "kb", Encoder.load(path, device="cpu", dtype="float32"))
    return folder


def open_world(folder: Path, *, architecture: str = "shared-query") -> KnowledgeBase:
    """Return the knowledge base, open with a tiny encoder that has a directory."""
    shutil.copytree(_built(architecture), folder, dirs_exist_ok=True)
    encoder = Encoder.load(folder / "encoder", device="cpu", dtype="float32")
    return KnowledgeBase.open(folder / "kb", encoder)


def planted_rows() -> list[TuningRow]:
    """Return a row for each planted answer."""
    return [
        TuningRow(
            id=f"row-{i}",
            source="planted",
            task="question",
            query=replace(Query.question(text), weights=Weights(1.0, 10.0, 2.0, 1.0)),
            answers=frozenset((answer,)),
            doc_ids=frozenset((doc_id,)),
            passages=frozenset(((doc_id, 1),)),
        )
        for i, (text, answer, doc_id) in enumerate(PLANTED)
    ]


def fast_options(**changes) -> TuningOptions:
    """Return options that overfit the planted rows within a second or two."""
    optimizer = OptimizerOptions(learning_rate=changes.pop("rate", 1e-2), warmup_fraction=0.0)
    loop = TuningLoop(
        epochs=changes.pop("epochs", 12),
        batch_size=5,
        device="cpu",
        dtype="float32",  # the same on every machine; in bfloat16 twelve steps do not always suffice
        evaluate_every_steps=1000,  # before the first step and after the last
        checkpoint_every_steps=1000,
        optimizer=optimizer,
    )
    return TuningOptions(**({"loop": loop, "retrieval": "both", "top_k": 50} | changes))
