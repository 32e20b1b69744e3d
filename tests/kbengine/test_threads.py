"""How thread pools are told to share the cores."""

from __future__ import annotations

import os

from kbengine.terminal.threads import set_thread_defaults


def test_what_the_environment_says_is_left_alone(monkeypatch):
    """Only what is unset gets a value."""
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", raising=False)

    set_thread_defaults()

    assert os.environ["GOMP_SPINCOUNT"] == "7"
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "64"
