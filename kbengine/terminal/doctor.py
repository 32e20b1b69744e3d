"""What `kbengine doctor` looks at: whether this environment can hold and serve a knowledge base."""

from __future__ import annotations

import importlib.metadata
import platform
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "note", "bad"]

PACKAGES = ("kbengine", "adapters", "storage", "web")
LIBRARIES = (
    "torch",
    "transformers",
    "onnxruntime",
    "faiss-cpu",
    "numpy",
    "sqlalchemy",
    "pysqlite3",
    "tokenizers",
    "safetensors",
)
OPTIONAL = {
    "scikit-learn": "calibrate",
    "matplotlib": "plots",
    "h5py": "densephrases dump",
    "blosc": "densephrases dump",
    "bm25s": "hard negatives",
    "accelerate": "training in several processes",
    "tensorboard": "train --tensorboard",
}


@dataclass(frozen=True)
class Finding:
    """One thing that was checked, and what was found."""

    check: str
    state: State
    found: str


def diagnose() -> list[Finding]:
    """Return the findings of all checks, in the order people should read them."""
    return [
        Finding("python", "ok", platform.python_version()),
        *_names(),
        *_libraries(),
        _optional(),
        _sqlite(),
        _processor(),
        _encoder(),
    ]


def _names() -> list[Finding]:
    """Check that no other distribution installs one of our four import names."""
    owners = importlib.metadata.packages_distributions()
    findings = []
    for name in PACKAGES:
        others = sorted(set(owners.get(name, [])) - {"kbengine"})
        if others:
            found = f"`import {name}` is also provided by {', '.join(others)}; use an environment of its own"
            findings.append(Finding(f"package {name}", "bad", found))
    return findings or [Finding("package names", "ok", ", ".join(PACKAGES))]


def _libraries() -> list[Finding]:
    findings = []
    for name in LIBRARIES:
        try:
            findings.append(Finding(name, "ok", importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            findings.append(Finding(name, "bad", f"not installed; run: pip install {name}"))
    return findings


def _optional() -> Finding:
    """Name the optional packages that are missing and what wants them; nothing else needs them."""
    missing = [name for name in OPTIONAL if not any(importlib.metadata.distributions(name=name))]
    found = ", ".join(f"{name} ({OPTIONAL[name]})" for name in missing)
    return Finding("optional packages", "note" if missing else "ok", f"without {found}" if missing else "all")


def _sqlite() -> Finding:
    from pysqlite3 import sqlite_version

    from kbengine.errors import PlatformError
    from storage.database import check_sqlite_version

    try:
        check_sqlite_version(sqlite_version)
    except PlatformError as e:
        return Finding("sqlite", "bad", e.message)
    return Finding("sqlite", "ok", sqlite_version)


def _processor() -> Finding:
    import torch

    from kbengine.encoders.device import choose_device, choose_dtype

    device = choose_device("auto")
    fast = choose_dtype("auto", device) == torch.bfloat16
    speed = "passages in bfloat16" if fast else "passages in float32: this processor is not faster in bfloat16"
    return Finding("device", "ok" if fast else "note", f"{device}; {torch.get_num_threads()} threads; {speed}")


def _encoder() -> Finding:
    from kbengine.encoders.encoder import Encoder
    from kbengine.errors import KBError

    try:
        encoder = Encoder.load("minilm-phrase")
    except KBError as e:
        return Finding("default encoder", "bad", e.message)
    facts = f"minilm-phrase, d = {encoder.d}, fingerprint {encoder.fingerprint[:12]}"
    return Finding("default encoder", "ok", f"{facts}, queries in {encoder.query_arithmetic}")
