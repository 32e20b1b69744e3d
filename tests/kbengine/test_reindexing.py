"""The reindex command: in place and into a copy, and what it tells."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from kbengine.build.builder import CorpusOptions, add_corpus, build
from kbengine.build.filtering import FilterOptions
from kbengine.build.reindexing import ReindexOptions, reindex
from kbengine.build.storing import StoreOptions
from kbengine.cli import main
from kbengine.errors import InvalidOptionError, KnowledgeBaseExistsError
from kbengine.terminal.facts import kb_facts
from storage.index_kind import LARGE_KIND, LARGE_ROWS
from storage.reader import KBReader
from storage.settings import KBSettings
from storage.verify import verify
from storage.writer import KBWriter
from tests.kbengine.synthetic_kb import WORDS, WordEncoder, synthetic_settings

INT8 = StoreOptions("indexed", 8)


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
        store=INT8,
    )
    return tmp_path / "kb"


def unfinished(corpus: CorpusOptions, ann: dict[str, str]) -> KBSettings:
    """The settings of a build that was interrupted before its first commit."""
    request = {
        "corpus": [str(path) for path in corpus.paths],
        "format": None,
        "skip_bad": False,
        "filter": FilterOptions().to_json(),
    }
    return dataclasses.replace(
        synthetic_settings(), ann=ann, build={"state": "building", "position": {"request": request}}
    )


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
    report = reindex(kb, ReindexOptions(FilterOptions(keep_fraction=1 / 3)), out=tmp_path / "small")
    assert checksums(kb) == before
    assert report.done.rows < 0.4 * report.done.rows_before
    assert report.bytes_after < report.bytes_before
    assert verify(tmp_path / "small", deep=True).clean
    assert [path.name for path in tmp_path.glob(".*")] == []
    with pytest.raises(KnowledgeBaseExistsError):
        reindex(kb, ReindexOptions(FilterOptions(keep_fraction=0.5)), out=tmp_path / "small")


def test_later_additions_are_filtered_by_the_same_threshold(kb: Path, tmp_path: Path) -> None:
    """What is added after reindexing has about the kept share, too."""
    report = reindex(kb, ReindexOptions(FilterOptions(keep_fraction=0.3)))
    corpus = tmp_path / "more.jsonl"
    corpus.write_text(json.dumps({"_id": "more", "title": "More", "text": " ".join(WORDS * 3)}))
    add_corpus(CorpusOptions((corpus,)), kb, encoder=WordEncoder())
    with KBReader.open(kb) as reader:
        snapshot = reader.snapshot()
        document = reader.document("more")
        rows = np.flatnonzero(
            snapshot.document_ids[snapshot.passages_of_rows(np.arange(snapshot.n_rows))] == document.document_id
        )
        logits = snapshot.best_logits(rows)
    assert 0 < len(rows) < 3 * len(WORDS)
    assert (logits >= np.float16(report.done.threshold)).all()


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
        ReindexOptions()


def test_dropping_vectors_asks_first(kb: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal --yes is needed; info tells what is stored; there is no way back."""
    arguments = ["reindex", "--kb", str(kb), "--index", "ivf-sq4", "--drop-vectors", "--json"]
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert "--yes" in capsys.readouterr().err
    main([*arguments, "--yes"])
    assert json.loads(capsys.readouterr().out)["quantiser_trained"] is True
    main(["info", "--kb", str(kb), "--json"])
    facts = json.loads(capsys.readouterr().out)
    assert (facts["index"], facts["index_quantiser"], facts["int8_vectors"]) == ("ivf-sq4", "trained", "dropped")
    assert facts["bytes_per_vector_without_text"] < facts["bytes_per_vector"]
    assert {"vectors", "index", "text"} <= set(facts["bytes_by_use"])
    with pytest.raises(SystemExit) as exit_:
        main(["reindex", "--kb", str(kb), "--index", "exact"])
    assert exit_.value.code == 2
    assert "dropped" in capsys.readouterr().err


def test_a_copy_can_have_another_index(kb: Path, tmp_path: Path) -> None:
    """--out with --index: the copy is complete and clean, the original keeps its vectors."""
    reindex(kb, ReindexOptions(ann={"kind": "opq4"}, drop_vectors=True), out=tmp_path / "small")
    assert verify(tmp_path / "small", deep=True).clean
    again = tmp_path / "again"
    reindex(tmp_path / "small", ReindexOptions(FilterOptions(keep_fraction=0.5)), out=again)
    assert verify(again, deep=True).clean
    with KBReader.open(kb) as reader, KBReader.open(again) as other:
        assert not reader.settings.drops_vectors
        assert other.settings.drops_vectors
        wanted = {document.doc_id for document in reader.list_documents(limit=50)}
        assert {document.doc_id for document in other.list_documents(limit=50)} == wanted


def test_info_tells_when_an_index_is_no_longer_the_best_for_its_size(kb: Path) -> None:
    """Knowledge bases that grew keep their kind; those that are large are told of the other one."""
    with KBReader.open(kb) as reader:
        info = reader.info()
    assert kb_facts(info)["index_quantiser"] == "not needed"
    assert f"--index {LARGE_KIND}" in kb_facts(dataclasses.replace(info, indexed_rows=LARGE_ROWS))["index_quantiser"]


def test_a_build_trains_its_index_once_there_is_enough_to_scan(kb: Path, tmp_path: Path) -> None:
    """Few vectors leave the wished kind untrained, which info tells; more train it; a bad kind costs no encoding."""
    corpus = CorpusOptions((tmp_path / "corpus.jsonl",))
    for name, below, state in (("few", 10_000, "not trained"), ("enough", 300, "trained")):
        ann = {"kind": "opq4", "exact_below_rows": below}
        build(corpus, tmp_path / name, encoder=WordEncoder(), filter_options=FilterOptions(), ann=ann, store=INT8)
        with KBReader.open(tmp_path / name) as reader:
            assert kb_facts(reader.info())["index_quantiser"].startswith(state)
            assert (len(list((tmp_path / name / "segments").glob("*.quantiser"))) == 1) == (state == "trained")
    with pytest.raises(InvalidOptionError, match="divides"):
        build(
            corpus,
            tmp_path / "bad",
            encoder=WordEncoder(),
            filter_options=FilterOptions(),
            ann={"kind": "opq5"},
            store=INT8,
        )
    assert not (tmp_path / "bad").exists()
    with KBWriter.create(tmp_path / "begun", unfinished(corpus, {"kind": "exact"})):
        pass
    with pytest.raises(InvalidOptionError, match="begun with index"):
        build(corpus, tmp_path / "begun", encoder=WordEncoder(), filter_options=FilterOptions())
    assert verify(kb).clean


def test_what_a_build_stores_is_indexed_in_part_and_anew(
    kb: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All tokens by default: a share is indexed, more can be at any time, fewer stored after asking."""
    path = tmp_path / "whole"
    corpus = CorpusOptions((tmp_path / "corpus.jsonl",))
    report = build(corpus, path, encoder=WordEncoder(), filter_options=FilterOptions(keep_fraction=0.3))
    assert report.stored_tokens == report.passage_tokens
    assert report.kept_fraction == pytest.approx(0.3, abs=0.05)
    with KBReader.open(path) as reader:
        facts = kb_facts(reader.info())
    assert (facts["stored_tokens"], facts["stored_as"], facts["stored_vectors"]) == ("all", "4 bits", facts["tokens"])
    assert facts["kept_fraction"] == pytest.approx(0.3, abs=0.05)
    main(["reindex", "--kb", str(path), "--keep-fraction", "0.9", "--json"])
    facts = json.loads(capsys.readouterr().out)
    assert facts["stored_vectors"] == report.stored_tokens
    assert facts["indexed_vectors"] == pytest.approx(0.9 * report.stored_tokens, rel=0.05)
    with pytest.raises(SystemExit):
        main(["reindex", "--kb", str(path), "--store", "indexed"])
    assert "--yes" in capsys.readouterr().err
    main(["reindex", "--kb", str(path), "--store", "indexed", "--yes", "--json"])
    facts = json.loads(capsys.readouterr().out)
    assert facts["stored_vectors"] == facts["indexed_vectors"] < report.stored_tokens
    with pytest.raises(InvalidOptionError, match="must be encoded"):
        reindex(kb, ReindexOptions(store="all"))
    with pytest.raises(InvalidOptionError, match="tokens to store"):
        StoreOptions("some")  # type: ignore[arg-type]  # what is refused
