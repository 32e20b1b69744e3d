"""What `kbengine doctor` finds, and that it names what to install."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from kbengine.terminal.doctor import LIBRARIES, OPTIONAL, diagnose

PYPROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def names(requirements: list[str]) -> set[str]:
    """The packages of a list of requirements."""
    return {Requirement(each).name for each in requirements}


def test_this_environment_is_a_good_one() -> None:
    """Nothing is bad; what is optional is no more than a note."""
    findings = {finding.check: finding for finding in diagnose()}
    assert [finding for finding in findings.values() if finding.state == "bad"] == []
    assert findings["optional packages"].state in ("ok", "note")


def test_a_missing_library_is_named_as_an_index_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told can be typed."""

    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    found = {finding.check: finding.found for finding in diagnose() if finding.state == "bad"}
    assert found == {name: f"not installed; run: pip install {name}" for name in LIBRARIES}


def test_what_it_looks_for_is_what_the_project_asks_for() -> None:
    """Required and optional packages stand in pyproject.toml under these names."""
    extras = PYPROJECT["optional-dependencies"]
    assert set(LIBRARIES) <= names(PYPROJECT["dependencies"])
    assert set(OPTIONAL) <= set.union(*(names(extras[each]) for each in ("calibration", "densephrases", "training")))
