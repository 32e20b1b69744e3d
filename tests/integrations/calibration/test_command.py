"""`kbengine calibrate` on the bundled corpus: fit, show, use, forget."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adapters.commands.calibrate import calibrate
from adapters.commands.query import query
from storage.reader import KBReader
from tests.adapters.fake_knowledge_base import write_lines
from tests.adapters.test_query_commands import CORPUS, TEXT, answered, kb, run

__all__ = ["kb"]


@pytest.fixture(scope="module")
def mentions(tmp_path_factory) -> Path:
    """Ninety mentions of the corpus' pages by their titles; of every third the gold page is another."""
    pages = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").split("\n")[:90]]
    records = []
    for i, page in enumerate(pages):
        title = page["wikipedia_title"].partition(" (")[0]
        gold = pages[i - 1 if i % 3 == 0 else i]["wikipedia_id"]
        text = f"[START_ENT] {title} [END_ENT] is known for {page['text'][1].split('.')[0][-60:]}"
        records.append({"id": i, "input": text, "output": [{"answer": title, "provenance": [{"wikipedia_id": gold}]}]})
    return write_lines(tmp_path_factory.mktemp("dev") / "el_demo.dev.jsonl", records)


def test_calibrate_stores_shows_and_forgets(kb, mentions, tmp_path) -> None:
    """A dry run stores nothing; a fit is a commit that queries follow at once; --reset takes it back."""
    asked = ["--kb", kb, "--text", TEXT, "--span", "16:23"]
    before = generation(kb)
    (shipped,) = answered(kb, *asked[2:])
    dry = run(calibrate, mentions, "--kb", kb, "--dry-run")
    assert "ECE" in dry.stdout and "entity-linking" in dry.stdout and generation(kb) == before
    assert "ships with the encoder" in run(calibrate, "--show", "--kb", kb).stdout

    plot = tmp_path / "reliability.svg"
    done = run(calibrate, mentions, "--kb", kb, "--no-fit-weights", "--threshold-for", "coverage=0.8", "--json")
    fitted = json.loads(done.stdout)
    assert (fitted["task"], fitted["threshold_for"], generation(kb)) == ("entity-linking", "coverage=0.8", before + 1)
    shown = json.loads(run(calibrate, "--show", "--kb", kb, "--json", "--plot", plot).stdout)
    assert shown == fitted and plot.stat().st_size > 1000

    (record,) = answered(kb, *asked[2:])
    assert 0 < record["answers"][0]["probability"] < 1 and record["threshold"] == fitted["threshold"]
    refused = run(query, *asked, "--threshold", "0.999").stdout
    assert refused.startswith("no answer: the best candidate has probability 0.") and "the threshold is 1.00" in refused
    assert "p=0." in refused

    run(calibrate, "--reset", "--kb", kb, "--task", "question")
    assert "entity-linking" in run(calibrate, "--show", "--kb", kb).stdout
    run(calibrate, "--reset", "--kb", kb)
    assert answered(kb, *asked[2:])[0]["answers"] == shipped["answers"]


def generation(kb: Path) -> int:
    """The newest commit."""
    with KBReader.open(kb) as reader:
        return reader.info().generation
