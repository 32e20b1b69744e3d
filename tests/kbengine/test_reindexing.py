"""The reindex command: in place and into a copy, and what it tells."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from kbengine.builder import CorpusOptions, add_corpus, build
from kbengine.cli import main
from kbengine.errors import InvalidOptionError, KnowledgeBaseExistsError
from kbengine.filtering import FilterOptions
from kbengine.reindexing import reindex
from storage.reader import KBReader
from storage.verify import verify
from tests.kbengine.synthetic_kb import WORDS, WordEncoder


@pytest.fixture
def kb(tmp_path: Path) -> Path:
    """A knowledge base with every token kept."""
    rng = np.random.default_rng(3)
    lines = []
    for i in range(40):
        text = "\n\n".join(" ".join(rng.choice(WORDS, size=12)) for _ in range(2))
        lines.append(json.dumps({"_id": f"doc-{i}", "title": f"Title {i}", "text": text}))
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    build(
        CorpusOptions((tmp_path / "corpus.jsonl",)),
        tmp_path / "kb",
        encoder=WordEncoder(),
        filter_options=FilterOptions(),
    )
    return tmp_path / "kb"


def checksums(path: Path) -> dict[str, str]:
    """The checksum of each file of a directory, but for those that every reader of SQLite makes."""
    return {
        str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in path.rglob("*")
        if file.is_file()
        and not file.name.endswith("-shm")
        and not (file.name.endswith("-wal") and not file.stat().st_size)
    }


def test_the_copy_is_filtered_and_the_original_untouched(kb: Path, tmp_path: Path) -> None:
    """--out: a whole new knowledge base with a third of the tokens."""
    before = checksums(kb)
    report = reindex(kb, FilterOptions(keep_fraction=1 / 3), out=tmp_path / "small")
    assert checksums(kb) == before
    assert report.filtered.rows < 0.4 * report.filtered.rows_before
    assert report.bytes_after < report.bytes_before
    assert verify(tmp_path / "small", deep=True).clean
    assert [path.name for path in tmp_path.glob(".*")] == []
    with pytest.raises(KnowledgeBaseExistsError):
        reindex(kb, FilterOptions(keep_fraction=0.5), out=tmp_path / "small")


def test_later_additions_are_filtered_by_the_same_threshold(kb: Path, tmp_path: Path) -> None:
    """What is added after reindexing has about the kept share, too."""
    report = reindex(kb, FilterOptions(keep_fraction=0.3))
    corpus = tmp_path / "more.jsonl"
    corpus.write_text(json.dumps({"_id": "more", "title": "More", "text": " ".join(WORDS * 3)}))
    add_corpus(CorpusOptions((corpus,)), kb, encoder=WordEncoder())
    with KBReader.open(kb) as reader:
        snapshot = reader.snapshot()
        document = reader.document("more")
        rows = np.flatnonzero(
            snapshot.document_ids[snapshot.passages_of_rows(np.arange(snapshot.n_rows))] == document.document_id
        )
        logits = snapshot.filter_logits(rows).max(axis=1)
    assert 0 < len(rows) < 3 * len(WORDS)
    assert (logits >= np.float16(report.filtered.threshold)).all()


def test_the_command_tells_what_it_did(kb: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Facts on stdout; asking for more than is stored is exit 2 with the remedy."""
    main(["reindex", "--kb", str(kb), "--keep-fraction", "0.25", "--json"])
    facts = json.loads(capsys.readouterr().out)
    assert facts["stored_vectors"] < facts["stored_vectors_before"]
    with pytest.raises(SystemExit) as exit_:
        main(["reindex", "--kb", str(kb), "--keep-fraction", "0.9"])
    assert exit_.value.code == 2
    assert "build anew" in capsys.readouterr().err
    with pytest.raises(InvalidOptionError, match="nothing to do"):
        reindex(kb, FilterOptions())
