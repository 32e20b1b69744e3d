"""The shape of the project: layers, names, file sizes, light imports."""

from __future__ import annotations

import ast
import importlib.metadata
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import kbengine

ROOT = Path(__file__).parent.parent
PACKAGES = ("storage", "kbengine", "adapters", "web")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(source: str) -> int:
    """Return how many lines of a module hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                lines.difference_update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(lines)


@pytest.mark.parametrize("name", PACKAGES)
def test_no_other_distribution_installs_this_name(name):
    """`adapters` and `web` are also names of other packages; beside them imports would go wrong."""
    owners = set(importlib.metadata.packages_distributions().get(name, []))

    assert owners <= {"kbengine"}, f"`import {name}` is also provided by {owners - {'kbengine'}}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_has_more_than_400_lines_of_code(path):
    """Docstrings, comments and blank lines not counted; a longer file holds more than one noun."""
    assert code_lines(path.read_text(encoding="utf-8")) <= 400


def test_lines_of_code_are_those_that_neither_explain_nor_are_blank():
    """A docstring is none, a text of several lines is as many as it has."""
    source = (
        '"""A module.\n\nOf two.\n"""\n\n# why\nx = """a\nb"""\n\n\ndef f():\n    """Do it."""\n    return x  # so\n'
    )
    assert code_lines(source) == 4


def test_no_file_names_pickle_as_a_way_to_load():
    """Weights are safetensors, facts are JSON: nothing that is loaded can run code."""
    banned = re.compile(r"allow_pickle=True|weights_only=False|trust_remote_code|^import pickle|^from pickle", re.M)

    assert [str(path) for path in SOURCES if banned.search(path.read_text(encoding="utf-8"))] == []


def test_docstrings_say_what_is_done_not_what_comes_back():
    """A function that returns nothing says what it does: neither "Nothing; …" nor "Return when …"."""
    banned = re.compile(r'"{3}(Nothing(;| when)|Return (when|once|unless))')
    files = [*SOURCES, *(path for room in ("tests", "benchmarks", "recipes") for path in (ROOT / room).rglob("*.py"))]

    assert [str(path) for path in files if banned.search(path.read_text(encoding="utf-8"))] == []


def test_docstrings_of_functions_are_in_the_imperative():
    """They begin with a verb, such as "Return the …"; those of properties may be nouns."""
    noun = re.compile(r"(The|A|An|All|Each|Every|Whether|How|What|Which|Where|These|Those) ")
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and noun.match(ast.get_docstring(node) or "")
        and not any("property" in ast.unparse(each) for each in node.decorator_list)
    ]

    assert found == []


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
