"""The command `annotate` on a small knowledge base: texts, files, standard input, and what is none of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from adapters.commands.annotate import annotate
from kbengine.encoders.encoder import Encoder
from tests.kbengine.small_kb import build_small_kb
from tests.tiny_encoder import write_tiny_encoder

TEXT = "There Marie Curie was in Paris."


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A document for each sentence."""
    folder = tmp_path_factory.mktemp("annotate")
    encoder = Encoder.load(write_tiny_encoder(folder / "tiny"), dtype="float32")
    return build_small_kb(folder / "kb", encoder)


def run(kb: Path, *arguments: str, stdin: str | None = None) -> Result:
    """What the command printed."""
    return CliRunner().invoke(annotate, ["--kb", str(kb), *arguments], input=stdin)


def test_a_text_a_file_and_standard_input_say_the_same(kb: Path, tmp_path: Path) -> None:
    """One JSON object a mention."""
    file = tmp_path / "article.txt"
    file.write_text(TEXT, encoding="utf-8")

    printed = [run(kb, each, "--json", stdin=TEXT).stdout for each in (TEXT, str(file), "-")]

    found = [json.loads(line) for line in printed[0].splitlines()]
    assert [TEXT[each["span"][0] : each["span"][1]] for each in found] == [each["text"] for each in found]
    assert {"Marie Curie", "Paris"} <= {each["text"] for each in found}
    assert printed[0] == printed[1] == printed[2]


def test_people_read_a_line_for_each_mention_with_the_reason_where_there_is_no_link(kb: Path) -> None:
    """And are told where there is none."""
    assert "Marie Curie  –  no document of this name" in run(kb, TEXT, "--threshold", "1").stdout
    assert "→" in run(kb, TEXT, "--threshold", "0").stdout
    assert run(kb, "nothing here", "--links-only", "--threshold", "1").stdout == "no mention found\n"


@pytest.mark.parametrize(
    ("given", "said"), [("missing.txt", "there is no file"), ("", "blank"), (" ", "blank"), ("{folder}", "is a folder")]
)
def test_what_is_no_text_is_refused(kb: Path, tmp_path: Path, given: str, said: str) -> None:
    """With the remedy."""
    result = run(kb, given.format(folder=tmp_path))

    assert result.exit_code == 2 and said in result.output


def test_a_file_in_another_encoding_is_refused_with_the_remedy(kb: Path, tmp_path: Path) -> None:
    """Not read wrongly."""
    file = tmp_path / "latin.txt"
    file.write_bytes("Café".encode("latin-1"))

    result = run(kb, str(file))

    assert result.exit_code == 2 and "iconv" in result.output
