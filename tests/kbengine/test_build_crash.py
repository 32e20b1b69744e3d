"""A build that is killed at random points, many times, and resumed each time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kbengine.build.builder import CorpusOptions, build
from kbengine.build.filtering import FilterOptions
from storage.reader import KBReader
from storage.verify import verify
from tests.kbengine.synthetic_kb import WORDS, WordEncoder

ROOT = Path(__file__).parents[2]


def write_corpus(path, n_documents):
    """Write a KILT file of random words."""
    rng = np.random.default_rng(3)
    with path.open("w", encoding="utf-8") as file:
        for i in range(n_documents):
            text = [f"Page {i}", *(" ".join(rng.choice(WORDS, size=12)) for _ in range(3))]
            record = {"_id": str(i), "wikipedia_id": str(i), "wikipedia_title": f"Page {i}", "text": text}
            targets = rng.integers(n_documents, size=3)
            record["anchors"] = [{"text": f"page {t % 50}", "href": f"Page%20{t}", "paragraph_id": 1} for t in targets]
            file.write(json.dumps(record) + "\n")


def content(path):
    """Return all documents, passages and kept tokens of a knowledge base, its vectors by token, and its aliases."""
    with KBReader.open(path) as reader:
        documents = [
            (document.doc_id, document.title, [(p.ordinal, p.text, p.offsets.ordinals.tolist()) for p in passages])
            for document, passages in reader.iterate_documents()
        ]
        snapshot = reader.snapshot()
        codes, scales = snapshot.gather(np.arange(snapshot.n_rows))
        aliases = [(each.doc_id, each.alias, each.uses, each.prior) for each in reader.list_aliases(limit=10**6)]
    return documents, codes * scales[:, None], aliases


def kill_and_compare(tmp_path, *, seed, kills, n_documents):
    """Kill a build so many times; the result must be that of a build in one go."""
    corpus = tmp_path / "pages.jsonl"
    write_corpus(corpus, n_documents)
    command = [sys.executable, "-m", "tests.kbengine.build_killer", tmp_path / "killed", corpus, seed, kills]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        list(map(str, command)), cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    build(
        CorpusOptions((corpus,)),
        tmp_path / "whole",
        encoder=WordEncoder(),
        filter_options=FilterOptions(keep_fraction=0.6),
    )

    killed, whole = content(tmp_path / "killed"), content(tmp_path / "whole")

    assert verify(tmp_path / "killed", deep=True).ok
    assert killed[2] == whole[2] and sum(links for _, _, links, _ in whole[2]) == 3 * n_documents
    assert [each[:2] for each in killed[0]] == [each[:2] for each in whole[0]]
    return json.loads(done.stdout)["killed"], killed, whole


def test_ten_kills_of_a_build_lose_nothing(tmp_path):
    """Every document is there once, in order, and verification is clean after each kill."""
    killed, result, whole = kill_and_compare(tmp_path, seed=11, kills=10, n_documents=500)

    assert killed == 10
    assert [[p[:2] for p in each[2]] for each in result[0]] == [[p[:2] for p in each[2]] for each in whole[0]]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_hundred_kills_of_a_build_lose_nothing(tmp_path):
    """The same, for longer."""
    killed, *_ = kill_and_compare(tmp_path, seed=12, kills=200, n_documents=9000)

    assert killed == 200
