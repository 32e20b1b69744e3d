"""The command `fill` on a small knowledge base: every row, the same answers as by Python, errors before the model."""

from __future__ import annotations

import csv
import json

import pytest
from click.testing import CliRunner

from adapters.commands.fill import fill
from kbengine import KnowledgeBase
from kbengine.encoders.encoder import Encoder
from tests.kbengine.small_kb import build_small_kb
from tests.tiny_encoder import write_tiny_encoder


@pytest.fixture(scope="module")
def kb(tmp_path_factory):
    """A document for each sentence."""
    folder = tmp_path_factory.mktemp("fill")
    encoder = Encoder.load(write_tiny_encoder(folder / "tiny"), dtype="float32")
    return build_small_kb(folder / "kb", encoder)


@pytest.fixture
def table(tmp_path):
    """Two names and an empty one."""
    path = tmp_path / "names.csv"
    path.write_text("name\nMarie Curie\nParis\n \n", encoding="utf-8")
    return path


def run(kb, *arguments):
    """What the command printed."""
    return CliRunner().invoke(fill, ["--kb", str(kb), *map(str, arguments)])


def test_the_command_and_python_fill_alike(kb, table, tmp_path):
    """Cell for cell; every row is there."""
    out = tmp_path / "filled.csv"
    done = run(kb, table, "--subject", "name", "--relation", "P19", "--threshold", 0, "--out", out, "--json")

    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert (facts["rows"], facts["asked"], facts["resumed"]) == (3, 2, 0)
    with out.open(encoding="utf-8", newline="") as file:
        by_command = list(csv.DictReader(file))
    with KnowledgeBase.open(kb) as knowledge_base:
        rows = [{"name": name} for name in ("Marie Curie", "Paris", " ")]
        by_python = knowledge_base.fill(rows, subject="name", relations=["P19"], threshold=0)
    wanted = [{name: "" if cell is None else str(cell) for name, cell in row.items()} for row in by_python]
    assert by_command == wanted and all(row["P19"] for row in wanted[:2])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--subject", "who"], "no column 'who'"),
        ([], "names (subject) or one of questions"),
        (["--subject", "name", "--relation", "P99999999"], "P99999999"),
        (["--subject", "name", "--out", "x.doc"], "no known kind"),
    ],
)
def test_what_is_wrong_is_said_before_the_model_is_loaded(table, tmp_path, arguments, says):
    """There is not even a knowledge base."""
    done = run(tmp_path / "none", table, "--out", tmp_path / "o.csv", *arguments)
    assert done.exit_code and says in str(done.exception)
