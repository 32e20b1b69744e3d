"""The shape of the project: layers, names, file sizes, light imports."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kbengine

ROOT = Path(__file__).parent.parent
PACKAGES = ("storage", "kbengine", "adapters", "web")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("name", PACKAGES)
def test_no_other_distribution_installs_this_name(name):
    """`adapters` and `web` are also names of other packages; beside them imports would go wrong."""
    owners = set(importlib.metadata.packages_distributions().get(name, []))

    assert owners <= {"kbengine"}, f"`import {name}` is also provided by {owners - {'kbengine'}}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_is_longer_than_600_lines(path):
    """A longer file holds more than one noun."""
    assert path.read_text(encoding="utf-8").count("\n") <= 600


def test_no_file_names_pickle_as_a_way_to_load():
    """Weights are safetensors, facts are JSON: nothing that is loaded can run code."""
    banned = re.compile(r"allow_pickle=True|weights_only=False|trust_remote_code|^import pickle|^from pickle", re.M)

    assert [str(path) for path in SOURCES if banned.search(path.read_text(encoding="utf-8"))] == []


def test_docstrings_say_what_is_done_not_what_comes_back():
    """A function that returns nothing says what it does: neither "Nothing; …" nor "Return when …"."""
    banned = re.compile(r'"{3}(Nothing(;| when)|Return (when|once|unless))')
    files = [*SOURCES, *(path for room in ("tests", "benchmarks", "recipes") for path in (ROOT / room).rglob("*.py"))]

    assert [str(path) for path in files if banned.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("arguments", [["--help"], ["query", "--help"], ["--version"]])
def test_help_imports_no_torch(arguments):
    """The command answers at once: heavy libraries are imported only where they are used."""
    code = (
        "import sys; from kbengine.cli import main; code = 0\n"
        f"try: main({arguments!r})\n"
        "except SystemExit as e: code = e.code\n"
        "heavy = {'torch', 'transformers', 'faiss', 'sqlalchemy', 'rich', 'flask', 'numpy'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy or code else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)

    assert done.returncode == 0, done.stderr


def test_the_version_is_the_same_everywhere():
    """Package, metadata and changelog name one version."""
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

    assert f'version = "{kbengine.__version__}"' in pyproject
    assert f"## [{kbengine.__version__}]" in changelog
