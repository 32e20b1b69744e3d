"""A training run as a picture and as TensorBoard's events."""

from __future__ import annotations

from dataclasses import replace

from kbengine.learning.loop.loop import train
from tests.kbengine.learning.phrases.test_loop import OPTIONS, Regression


def test_the_curves_are_drawn(tmp_path):
    """Losses and measures of the log as a picture."""
    train(Regression(), replace(OPTIONS, epochs=1), tmp_path / "run")

    assert (tmp_path / "run" / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_tensorboard_events_are_written(tmp_path):
    """An option of its own."""
    train(Regression(), replace(OPTIONS, epochs=1, tensorboard=True), tmp_path / "run")

    assert list((tmp_path / "run" / "tensorboard").glob("events*"))
