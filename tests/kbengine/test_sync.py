"""A knowledge base is kept in step with folders and feeds: added, changed, gone; nothing else is touched."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kbengine.build import document_encoder
from kbengine.build.builder import CorpusOptions, add_corpus
from kbengine.build.exporting import export_to
from kbengine.build.sync import SyncOptions, sync
from kbengine.corpus.origin import origin_of
from kbengine.errors import (
    BuildIncompleteError,
    CorpusError,
    DuplicateDocumentError,
    EmptyCorpusError,
    InvalidOptionError,
    StorageFullError,
)
from kbengine.knowledge_base import KnowledgeBase, KnowledgeBaseOptions
from storage.field_rows import shown_fields
from storage.reader import KBReader
from storage.verify import verify
from storage.writer import KBWriter
from tests.kbengine.synthetic_kb import WordEncoder

ROOT = Path(__file__).parents[2]


def no_encoder():
    """Fail: there is nothing to encode."""
    raise AssertionError("nothing was to be encoded")


def write(folder, **texts):
    """Write files by their names without `.md`; None removes one."""
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        path = folder / f"{name}.md"
        if text is None:
            path.unlink()
        else:
            path.write_text(text, encoding="utf-8")


def run(kb, *paths, encoder=WordEncoder, source=None, prefix="", skip_bad=False, **options):
    """Sync and return the report."""
    corpus = CorpusOptions(paths, skip_bad=skip_bad, source=source, prefix=prefix)
    return sync(kb, SyncOptions(corpus, **options), encoder=encoder)


def counts(report):
    """Return how many documents were added, changed, deleted and unchanged."""
    return len(report.added), len(report.changed), len(report.deleted), report.unchanged


def content(kb):
    """Return the texts of all documents by id."""
    with KBReader.open(kb) as reader:
        return {document.doc_id: [p.text for p in passages] for document, passages in reader.iterate_documents()}


def generation(kb):
    """Return the number of commits."""
    with KBReader.open(kb) as reader:
        return reader.snapshot().generation


@pytest.fixture
def folder(tmp_path):
    """A folder of three files."""
    write(tmp_path / "docs", a="amber basil", b="cedar dune", c="ember fjord")
    return tmp_path / "docs"


@pytest.fixture
def kb(folder, tmp_path):
    """A knowledge base made of it."""
    assert run(tmp_path / "kb", folder).created
    return tmp_path / "kb"


def test_new_changed_and_gone_files_are_added_replaced_and_deleted(kb, folder):
    """And the file that is the same is not written again."""
    write(folder, a="amber heron", b=None, d="grove")

    report = run(kb, folder)

    assert (report.added, report.changed, report.deleted, report.unchanged) == (["d.md"], ["a.md"], ["b.md"], 1)
    assert content(kb) == {"a.md": ["amber heron"], "c.md": ["ember fjord"], "d.md": ["grove"]}
    with KBReader.open(kb) as reader:
        assert reader.document("c.md").born_generation < reader.document("a.md").born_generation
    assert verify(kb).ok


def test_nothing_is_encoded_or_written_when_nothing_changed(kb, folder):
    """Also after a compaction, and when only the time of a file is another."""
    with KBWriter.open(kb) as writer:
        writer.compact()
    before = generation(kb)
    (folder / "a.md").touch()

    report = run(kb, folder, encoder=no_encoder)

    assert counts(report) == (0, 0, 0, 3)
    assert generation(kb) == before


@pytest.mark.parametrize("front", ["title: T", "url: https://x/", "date: 2020-01-01", "aliases: [A]"])
def test_a_change_of_title_address_facts_or_names_is_a_change(kb, folder, front):
    """Not only one of the text."""
    write(folder, a=f"---\n{front}\n---\namber basil")

    assert run(kb, folder).changed == ["a.md"]
    assert counts(run(kb, folder, encoder=no_encoder)) == (0, 0, 0, 3)


def test_two_sources_do_not_touch_each_other_nor_documents_added_by_hand(kb, folder, tmp_path):
    """Each deletes what is gone from itself; the same file names are kept apart by a prefix."""
    write(tmp_path / "more", a="iris jade", e="kelp")
    (tmp_path / "hand.jsonl").write_text('{"_id": "hand", "title": "By hand", "text": "lark mesa"}\n')
    add_corpus(CorpusOptions((tmp_path / "hand.jsonl",)), kb, encoder=WordEncoder())
    run(kb, tmp_path / "more", prefix="more/")
    write(folder, a=None)
    write(tmp_path / "more", e=None)

    assert run(kb, folder).deleted == ["a.md"]
    assert run(kb, tmp_path / "more", prefix="more/").deleted == ["more/e.md"]
    assert sorted(content(kb)) == ["b.md", "c.md", "hand", "more/a.md"]


def test_a_document_from_elsewhere_is_refused_by_name_and_can_be_taken_over(kb, folder, tmp_path):
    """Nothing is changed by the refusal; afterwards the other source has lost it."""
    write(tmp_path / "more", a="iris jade", e="kelp")
    before = generation(kb)

    with pytest.raises(DuplicateDocumentError, match=r"'a\.md' \(from .*docs\).*--adopt.*--prefix.*--source"):
        run(kb, tmp_path / "more")
    assert generation(kb) == before
    report = run(kb, tmp_path / "more", adopt=True)

    assert (report.added, report.changed) == (["e.md"], ["a.md"])
    assert content(kb)["a.md"] == ["iris jade"]


def test_a_knowledge_base_that_was_built_before_is_adopted(folder, tmp_path):
    """Who began with `build` or `add` goes on with `sync`."""
    kb = tmp_path / "kb"
    write(tmp_path / "first", z="opal")
    run(kb, tmp_path / "first", source="first")
    add_corpus(CorpusOptions((folder,)), kb, encoder=WordEncoder())

    with pytest.raises(DuplicateDocumentError, match="added by itself"):
        run(kb, folder)
    assert counts(run(kb, folder, adopt=True)) == (0, 3, 0, 0)
    assert counts(run(kb, folder, encoder=no_encoder)) == (0, 0, 0, 3)


def test_a_moved_folder_is_known_by_its_name(folder, tmp_path):
    """The name of a source is its path unless one is given."""
    kb = tmp_path / "kb"
    run(kb, folder, source="handbook")
    folder.rename(tmp_path / "moved")

    assert counts(run(kb, tmp_path / "moved", source="handbook", encoder=no_encoder)) == (0, 0, 0, 3)
    with KBReader.open(kb) as reader:
        meta = reader.document("a.md").meta
    assert origin_of(meta).source == "handbook" and shown_fields(meta) == [("sync.source", "handbook")]


def test_a_feed_is_kept_in_step_too(tmp_path):
    """Any file that `build` reads, packed or not."""
    feed, kb = tmp_path / "feed.jsonl.gz", tmp_path / "kb"
    lines = [{"_id": str(i), "title": f"T{i}", "text": f"amber {i}"} for i in range(4)]

    def publish(records):
        feed.write_bytes(gzip.compress("".join(json.dumps(each) + "\n" for each in records).encode()))

    publish(lines)
    run(kb, feed)
    publish([*lines[1:3], {**lines[3], "text": "basil"}, {"_id": "9", "title": "new", "text": "cedar"}])

    report = run(kb, feed)

    assert (report.added, report.changed, report.deleted, report.unchanged) == (["9"], ["3"], ["0"], 2)


def test_bad_lines_of_a_feed_delete_nothing(tmp_path):
    """Which documents they were is unknown; without --skip-bad they change nothing at all."""
    feed, kb = tmp_path / "feed.jsonl", tmp_path / "kb"
    lines = [json.dumps({"_id": str(i), "title": f"T{i}", "text": f"amber {i}"}) for i in range(3)]
    feed.write_text("\n".join(lines))
    run(kb, feed)
    feed.write_text("\n".join(["{", lines[1]]))

    with pytest.raises(CorpusError, match="line 1: malformed JSON"):
        run(kb, feed)
    report = run(kb, feed, skip_bad=True)

    assert counts(report) == (0, 0, 0, 1) and report.kept == 2
    assert len(content(kb)) == 3


def test_files_that_cannot_be_read_are_named_and_their_documents_kept(kb, folder):
    """Everything else is done."""
    (folder / "a.md").write_bytes(b"Z\xfcrich")
    write(folder, b=None)

    report = run(kb, folder)

    assert report.deleted == ["b.md"]
    assert [Path(bad.file).name for bad in report.corpus.bad] == ["a.md"]
    assert content(kb)["a.md"] == ["amber basil"]


def test_an_emptied_file_is_gone_and_told(kb, folder):
    """A file without text is no document."""
    write(folder, a=" \n")

    report = run(kb, folder)

    assert report.deleted == ["a.md"]
    assert [Path(name).name for name in report.corpus.first_empty] == ["a.md"]


@pytest.mark.parametrize("how", ["empty", "missing", "other files"])
def test_an_empty_or_missing_folder_deletes_nothing_unless_it_is_said(kb, folder, how):
    """A disk that is not mounted must not empty the knowledge base."""
    write(folder, a=None, b=None, c=None)
    if how == "missing":
        folder.rmdir()
    elif how == "other files":
        (folder / "photo.jpg").touch()

    with pytest.raises(EmptyCorpusError, match=r"nothing was changed.*--allow-empty"):
        run(kb, folder)
    assert len(content(kb)) == 3
    assert len(run(kb, folder, allow_empty=True).deleted) == 3
    assert content(kb) == {}


def test_more_than_half_of_many_documents_is_deleted_only_when_confirmed(tmp_path):
    """Half is not asked for, nor are ten documents."""
    folder, kb = tmp_path / "docs", tmp_path / "kb"
    names = [f"f{i:02}" for i in range(22)]
    write(folder, **{name: f"amber {name}" for name in names})
    run(kb, folder)
    write(folder, **dict.fromkeys(names[:12]))

    with pytest.raises(CorpusError, match=r"12 of the 22 documents .*--dry-run.*--yes"):
        run(kb, folder)
    assert len(run(kb, folder, dry_run=True).deleted) == 12
    assert len(run(kb, folder, delete_most=True).deleted) == 12
    write(folder, **dict.fromkeys(names[12:21]))
    assert len(run(kb, folder).deleted) == 9


def test_a_dry_run_changes_nothing(folder, tmp_path):
    """Neither a knowledge base nor the absence of one."""
    kb = tmp_path / "kb"
    assert run(kb, folder, dry_run=True, encoder=no_encoder).added == ["a.md", "b.md", "c.md"]
    assert not kb.exists()
    run(kb, folder)
    before = generation(kb)
    write(folder, a="new", b=None)

    report = run(kb, folder, dry_run=True, encoder=no_encoder)

    assert (report.changed, report.deleted, generation(kb)) == (["a.md"], ["b.md"], before)


def test_an_open_knowledge_base_is_kept_in_step_too(kb, folder):
    """While it answers; a dry run of it changes nothing either."""
    options = SyncOptions(CorpusOptions((folder,)))
    with KnowledgeBase(kb, WordEncoder(), KnowledgeBaseOptions()) as knowledge_base:
        write(folder, a="opal pine", b=None)
        assert counts(knowledge_base.sync(replace(options, dry_run=True))) == (0, 1, 1, 1)
        assert counts(knowledge_base.sync(options)) == (0, 1, 1, 1)
        found = knowledge_base.search("opal", k=10).hits
        assert {hit.document.doc_id for hit in found} == {"a.md", "c.md"} and "opal pine" in {
            h.passage.text for h in found
        }


def test_a_first_run_that_was_interrupted_goes_on_with_the_folder_as_it_is_now(folder, tmp_path, monkeypatch):
    """Files may change in between: what was stored is compared like anything else."""

    class Failing(WordEncoder):
        """Has no space left after the first chunk."""

        calls = 0

        def encode_passages(self, passages, *, progress=None):
            """Encode once."""
            self.calls += 1
            if self.calls > 1:
                raise StorageFullError("no space")
            return super().encode_passages(passages)

    kb = tmp_path / "kb"
    monkeypatch.setattr(document_encoder, "CHUNK_PASSAGES", 1)
    with pytest.raises(StorageFullError):
        run(kb, folder, encoder=Failing)
    with pytest.raises(BuildIncompleteError):
        KBReader.open(kb)
    write(folder, a="amber heron", b=None, d="grove")

    report = run(kb, folder)

    assert (report.added, report.changed, report.created) == (["c.md", "d.md"], ["a.md"], True)
    assert sorted(content(kb)) == ["a.md", "c.md", "d.md"]
    assert counts(run(kb, folder, encoder=no_encoder)) == (0, 0, 0, 3)
    assert verify(kb, deep=True).ok


def test_an_export_carries_where_documents_are_from(kb, folder, tmp_path):
    """A knowledge base made of an export is in step with the same folder."""
    with KBReader.open(kb) as reader:
        export_to(reader, tmp_path / "export.jsonl")
    run(tmp_path / "other", write(tmp_path / "more", z="opal") or tmp_path / "more")
    add_corpus(CorpusOptions((tmp_path / "export.jsonl",)), tmp_path / "other", encoder=WordEncoder())

    assert counts(run(tmp_path / "other", folder, encoder=no_encoder)) == (0, 0, 0, 3)


def test_what_cannot_be_kept_in_step_is_refused(folder, tmp_path):
    """Standard input, several paths without a name, and a field that the origin needs."""
    with pytest.raises(InvalidOptionError, match="standard input"):
        run(tmp_path / "kb", Path("-"))
    with pytest.raises(InvalidOptionError, match="2 paths and no name"):
        run(tmp_path / "kb", folder, folder)
    write(folder, a="---\nsync: daily\n---\namber")
    report = run(tmp_path / "kb", folder)
    assert "'sync' is 'daily'" in report.corpus.bad[0].reason


def test_kills_of_a_sync_end_in_the_same_state(tmp_path):
    """Killed while making the knowledge base and while changing it, and run again until it is done."""
    folder, kb = tmp_path / "docs", tmp_path / "kb"
    write(folder, **{f"f{i:03}": f"amber basil {i}\n\ncedar {i}" for i in range(90)})

    def kill(seed):
        command = [sys.executable, "-m", "tests.kbengine.build_killer", kb, folder, seed, 3]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            list(map(str, command)), cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["killed"]

    assert kill(5) > 0
    assert len(content(kb)) == 90
    write(folder, **{f"f{i:03}": f"heron {i}" for i in range(0, 90, 3)})
    write(folder, **{f"f{i:03}": None for i in range(1, 90, 3)})
    write(folder, **{f"g{i:03}": f"iris {i}" for i in range(40)})
    assert kill(6) > 0

    run(tmp_path / "whole", folder)
    assert content(kb) == content(tmp_path / "whole")
    assert counts(run(kb, folder, encoder=no_encoder)) == (0, 0, 0, 100)
    assert verify(kb, deep=True).ok
