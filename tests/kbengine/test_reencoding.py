"""`reindex --encoder`: the stored text encoded again into a new knowledge base, from which nothing is missing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from kbengine.build.builder import CorpusOptions, build
from kbengine.build.exporting import export_to
from kbengine.build.filtering import FilterOptions
from kbengine.build.reencoding import ReencodeOptions, reencode
from kbengine.build.storing import StoreOptions
from kbengine.cli import main
from kbengine.errors import EncoderMismatchError, InvalidOptionError, KnowledgeBaseExistsError
from storage.alias_records import NewAlias
from storage.feedback_records import NewFeedback
from storage.reader import KBReader
from storage.verify import verify
from storage.writer import KBWriter
from tests.kbengine.synthetic_kb import WORDS, WordEncoder


class OtherEncoder(WordEncoder):
    """Other vectors of the same words; the first `fails` calls end as if Ctrl-C had been pressed."""

    fingerprint = passage_fingerprint = "e" * 64
    name = "other"

    def __init__(self, fails: int = 0) -> None:
        self.fails = fails

    def encode_passages(self, passages, *, progress=None):
        """Return vectors turned around."""
        if self.fails:
            self.fails -= 1
            raise KeyboardInterrupt
        return [self._encode(passage.text[::-1]) for passage in passages]


@pytest.fixture
def kb(tmp_path: Path) -> Path:
    """Twenty documents, one of them deleted, with an alias, fields, a link and feedback."""
    rng = np.random.default_rng(3)
    lines = []
    for i in range(20):
        text = "\n\n".join(" ".join(rng.choice(WORDS, size=12)) for _ in range(2))
        record = {
            "id": f"doc-{i}",
            "title": f"Title {i}",
            "text": text,
            "url": f"https://x.org/{i}",
            "meta": {"year": i},
        }
        lines.append(json.dumps(record))
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    corpus = CorpusOptions((tmp_path / "corpus.jsonl",))
    filter_options = FilterOptions(keep_fraction=0.5)
    path = tmp_path / "kb"
    build(corpus, path, encoder=WordEncoder(), filter_options=filter_options, store=StoreOptions(code_bits=8))
    with KBWriter.open(path) as writer:
        writer.delete(["doc-7"])
        writer.add_aliases([("doc-3", NewAlias("Number Three"))])
        writer.add_feedback([NewFeedback("question", "who?", "amber", "wrong", "doc-1", None)])
        writer.add_feedback([NewFeedback("question", "who?", "basil", "right", "doc-2", 1)])
        writer.delete_feedback([1])
    return path


def exported(path: Path, to: Path) -> str:
    """All that an export says."""
    with KBReader.open(path) as reader:
        export_to(reader, to)
    return to.read_text()


def test_everything_but_the_vectors_is_as_it_was(kb: Path, tmp_path: Path) -> None:
    """Documents, aliases, fields and feedback; filter and store too; no file is left lying about."""
    report = reencode(kb, tmp_path / "new", encoder=OtherEncoder())

    assert report.documents == 19 and report.kept_fraction == pytest.approx(0.5, abs=0.02)
    assert exported(tmp_path / "new", tmp_path / "b.jsonl") == exported(kb, tmp_path / "a.jsonl")
    with KBReader.open(kb) as old, KBReader.open(tmp_path / "new") as new:
        assert new.settings.encoder_name == "other" and old.settings.encoder_name == "synthetic"
        assert (new.settings.stores_all, new.settings.code_bits) == (True, 8)
        assert new.list_feedback() == old.list_feedback() != []
    assert verify(tmp_path / "new", deep=True).clean
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_other_tokens_and_bits_may_be_stored(kb: Path, tmp_path: Path) -> None:
    """What is given goes before what was."""
    options = ReencodeOptions(FilterOptions(keep_fraction=0.25), store="indexed")
    report = reencode(kb, tmp_path / "new", encoder=OtherEncoder(), options=options)
    assert report.stored_tokens == report.indexed_tokens
    assert report.kept_fraction == pytest.approx(0.25, abs=0.02)


def test_an_interrupted_call_goes_on(kb: Path, tmp_path: Path) -> None:
    """Also one that was interrupted when only the feedback was missing."""
    with pytest.raises(KeyboardInterrupt):
        reencode(kb, tmp_path / "new", encoder=OtherEncoder(fails=1))
    (texts,) = tmp_path.glob(".new.texts-*")
    copy = texts.read_bytes()
    reencode(kb, tmp_path / "new", encoder=OtherEncoder())
    assert not texts.exists()

    texts.write_bytes(copy)
    assert reencode(kb, tmp_path / "new", encoder=OtherEncoder()).resumed
    with KBReader.open(kb) as old, KBReader.open(tmp_path / "new") as new:
        assert new.list_feedback() == old.list_feedback()


def test_what_cannot_be_done_is_refused(kb: Path, tmp_path: Path) -> None:
    """The same encoder, a path that holds something, a threshold of another encoder's logits."""
    with pytest.raises(EncoderMismatchError, match="already"):
        reencode(kb, tmp_path / "new", encoder=WordEncoder())
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(KnowledgeBaseExistsError, match="full"):
        reencode(kb, tmp_path / "full", encoder=OtherEncoder())
    threshold = FilterOptions(threshold=0.5)
    build(CorpusOptions((tmp_path / "corpus.jsonl",)), tmp_path / "t", encoder=WordEncoder(), filter_options=threshold)
    with pytest.raises(InvalidOptionError, match="--keep-fraction"):
        reencode(tmp_path / "t", tmp_path / "new", encoder=OtherEncoder())
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--encoder", "minilm-phrase"], "give --out"),
        (["--encoder", "minilm-phrase", "--out", "x", "--drop-vectors"], "second 'kbengine reindex'"),
        (["--device", "cpu", "--index", "opq48"], "is for --encoder"),
    ],
)
def test_the_command_says_what_it_wants(kb: Path, capsys, given: list[str], said: str) -> None:
    """Options that mean nothing together."""
    with pytest.raises(SystemExit) as raised:
        main(["reindex", "--kb", str(kb), *given])
    assert raised.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())
