"""Adding, replacing, deleting: all or nothing, once, and what a full or failing disk does to it."""

from __future__ import annotations

import contextlib
import dataclasses
import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from storage.errors import (
    BuildIncompleteError,
    DuplicateDocumentError,
    InvalidOptionError,
    StateError,
    StorageFullError,
    UnknownDocumentError,
)
from storage.reader import KBReader
from storage.records import NewDocument, NewPassage, unpack_offsets
from storage.verify import verify
from storage.writer import KBWriter
from tests.storage.small_world import content, make_document, make_passage, make_settings, random_document


@contextlib.contextmanager
def file_size_limit(n_bytes: int) -> Iterator[None]:
    """A context in which no file may grow beyond this size, as under a quota."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def files_of(path: Path) -> list[str]:
    """The names in `segments/`."""
    return sorted(file.name for file in (path / "segments").iterdir())


def test_added_documents_are_there_with_their_texts_and_ids(tmp_path: Path) -> None:
    """Text, title, offsets and token ids come back; ids are consecutive within a passage and rise."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        commit = writer.add([make_document("a", "amber basalt cedar", "delta"), make_document("b", "ember fjord")])
        assert (commit.documents_added, commit.documents_replaced, commit.generation) == (2, 0, 2)
    assert content(tmp_path / "kb") == {"a": ("amber basalt cedar", "delta"), "b": ("ember fjord",)}
    with KBReader.open(tmp_path / "kb") as reader:
        passages = reader.passages([1, 2, 3])
        first = passages[1]
        assert first.offsets.ordinals.tolist() == [0, 2]
        assert [first.text[s:e] for s, e in zip(first.offsets.starts, first.offsets.ends, strict=True)] == [
            "amber",
            "cedar",
        ]
        assert [(p.first_token_id, p.token_count) for p in passages.values()] == [(1, 2), (3, 1), (4, 1)]
        assert [p.encoded_token_count for p in passages.values()] == [3, 1, 2]


def test_replacing_a_document_leaves_only_the_new_text(tmp_path: Path) -> None:
    """The old one is a tombstone; the commit counts it as replaced, not as added."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        writer.add([make_document("a", "amber basalt")])
        commit = writer.add([make_document("a", "cedar delta"), make_document("b", "ember")])
        assert (commit.documents_added, commit.documents_replaced) == (1, 1)
    assert content(tmp_path / "kb") == {"a": ("cedar delta",), "b": ("ember",)}


def test_replacing_can_be_refused(tmp_path: Path) -> None:
    """Nothing of the call is stored then."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        writer.add([make_document("a", "amber")])
        with pytest.raises(DuplicateDocumentError, match="'a'"):
            writer.add([make_document("new", "basalt"), make_document("a", "cedar")], replace=False)
    assert content(tmp_path / "kb") == {"a": ("amber",)}


def test_one_call_names_a_document_once(tmp_path: Path) -> None:
    """Twice in one call is ambiguous and refused."""
    with (
        KBWriter.create(tmp_path / "kb", make_settings()) as writer,
        pytest.raises(DuplicateDocumentError, match="twice"),
    ):
        writer.add([make_document("a", "amber"), make_document("a", "basalt")])
    assert content(tmp_path / "kb") == {}


def test_deleting_unknown_documents_deletes_nothing(tmp_path: Path) -> None:
    """The message names the unknown ids; known ones in the same call stay."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        writer.add([make_document("a", "amber")])
        with pytest.raises(UnknownDocumentError, match="'nobody'"):
            writer.delete(["a", "nobody"])
        assert content(tmp_path / "kb") == {"a": ("amber",)}
        assert writer.delete(["a", "a"]).documents_deleted == 1
        with pytest.raises(UnknownDocumentError):
            writer.delete(["a"])
    assert content(tmp_path / "kb") == {}


def test_deleting_touches_no_segment_file(tmp_path: Path) -> None:
    """A delete is one transaction."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        writer.add([make_document("a", "amber"), make_document("b", "basalt")])
        before = files_of(tmp_path / "kb")
        writer.delete(["a"])
        assert files_of(tmp_path / "kb") == before


def test_repeated_operation_changes_nothing_and_returns_the_first_commit(tmp_path: Path) -> None:
    """Also after reopening: a call whose answer was lost can be repeated."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        added = writer.add([make_document("a", "amber")], op_id="first")
        deleted = writer.delete(["a"], op_id="second")
    with KBWriter.open(tmp_path / "kb") as writer:
        assert writer.add([make_document("a", "amber")], op_id="first") == added
        assert writer.delete(["a"], op_id="second") == deleted
    assert content(tmp_path / "kb") == {}
    assert verify(tmp_path / "kb").generation == deleted.generation


def test_ids_are_never_given_twice(tmp_path: Path) -> None:
    """Not even after everything was deleted and purged, and the knowledge base reopened."""
    seen: set[int] = set()
    for _ in range(3):
        with contextlib.ExitStack() as stack:
            exists = (tmp_path / "kb").exists()
            writer = KBWriter.open(tmp_path / "kb") if exists else KBWriter.create(tmp_path / "kb", make_settings())
            stack.enter_context(writer)
            writer.add([make_document("a", "amber basalt cedar", "delta")])
            with KBReader.open(tmp_path / "kb") as reader:
                snapshot = reader.snapshot()
                tokens = set(snapshot.token_ids_of_rows(np.arange(snapshot.n_rows)).tolist())
            assert tokens.isdisjoint(seen)
            seen |= tokens
            writer.delete(["a"])
            writer.compact(purge=True)
    assert len(seen) == 9


def test_documents_without_passages_and_passages_without_kept_tokens_are_stored(tmp_path: Path) -> None:
    """A document of a title alone, and a passage that only has its passage vector."""
    bare = NewDocument("bare", "Only a title")
    vectorless = NewDocument("silent", "Silent", None, {}, (make_passage("amber basalt", kept=[]),))
    with KBWriter.create(tmp_path / "kb", make_settings(token_scale=None, passage_scale=None)) as writer:
        writer.add([bare])
        assert files_of(tmp_path / "kb") == []
        writer.add([vectorless])
        writer.add([make_document("a", "cedar delta ember")])
        assert writer.settings.token_scale is not None
    with KBReader.open(tmp_path / "kb") as reader:
        assert [document.doc_id for document in reader.list_documents()] == ["a", "bare", "silent"]
        assert reader.snapshot().token_counts.tolist() == [0, 2]
        (passage_id,) = reader.snapshot().passage_ids[reader.snapshot().passages_of_rows(np.array([0]))].tolist()
        assert reader.passages([passage_id])[passage_id].text == "cedar delta ember"
    assert verify(tmp_path / "kb", deep=True).clean


def test_long_offsets_survive(tmp_path: Path) -> None:
    """Character offsets beyond 65,535 use the wider packing."""
    text = "amber " + "x" * 70_000 + " basalt cedar"
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        writer.add([NewDocument("a", "A", None, {}, (make_passage(text, kept=[0, 2, 3]),))])
    with KBReader.open(tmp_path / "kb") as reader:
        passage = reader.passages([1])[1]
    assert [passage.text[s:e] for s, e in zip(passage.offsets.starts, passage.offsets.ends, strict=True)] == [
        "amber",
        "basalt",
        "cedar",
    ]
    assert passage.packed_offsets[0] == 4
    assert unpack_offsets(b"\x02", passage_id=1).ordinals.tolist() == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"ends": np.array([99], dtype=np.int32)}, "within the text"),
        ({"vectors": np.full((1, 8), np.nan, dtype=np.float32)}, "NaN"),
        ({"starts": np.zeros(2, dtype=np.int32)}, "starts"),
        ({"filter_logits": np.zeros((1, 3), dtype=np.float32)}, "filter_logits"),
        ({"ordinal": -1}, "paragraph"),
    ],
)
def test_contradictory_passages_are_refused(change: dict[str, object], complaint: str) -> None:
    """The encoder's arrays must fit the text and each other."""
    with pytest.raises(InvalidOptionError, match=complaint):
        dataclasses.replace(make_passage("amber"), **change)  # type: ignore[arg-type]  # on purpose


def test_text_and_meta_that_cannot_be_stored_are_refused() -> None:
    """Lone surrogates, values that JSON has not, empty ids."""
    with pytest.raises(InvalidOptionError, match="surrogate"):
        NewDocument("a", "amber \ud800")
    with pytest.raises(InvalidOptionError, match="JSON"):
        NewDocument("a", "A", None, {"x": float("nan")})
    with pytest.raises(InvalidOptionError, match="non-empty"):
        NewDocument("", "A")


def test_vectors_of_another_dimension_are_refused(tmp_path: Path) -> None:
    """Both dimensions are in the message."""
    odd = NewPassage(
        1,
        "amber",
        np.zeros((1, 5), dtype=np.float32),
        np.zeros(1, dtype=np.uint32),
        np.zeros(1, dtype=np.int32),
        np.ones(1, dtype=np.int32),
        np.zeros((1, 2), dtype=np.float32),
        np.zeros(5, dtype=np.float32),
    )
    with (
        KBWriter.create(tmp_path / "kb", make_settings()) as writer,
        pytest.raises(InvalidOptionError, match=r"5 dimensions.*8"),
    ):
        writer.add([NewDocument("a", "A", None, {}, (odd,))])


def test_build_is_resumable_and_invisible_until_finished(tmp_path: Path) -> None:
    """The position is stored in the transaction of the documents; readers are told that the build is incomplete."""
    building = make_settings(build={"state": "building", "position": {}})
    with KBWriter.create(tmp_path / "kb", building) as writer:
        writer.add([make_document("a", "amber")], build_position={"line": 1})
    with pytest.raises(BuildIncompleteError, match="line"):
        KBReader.open(tmp_path / "kb")
    with KBWriter.open(tmp_path / "kb") as writer:
        assert writer.settings.build_position == {"line": 1}
        writer.add([make_document("b", "basalt")], build_position={"line": 2})
        writer.merge_all()
        writer.finish_build()
    assert content(tmp_path / "kb") == {"a": ("amber",), "b": ("basalt",)}
    with KBReader.open(tmp_path / "kb") as reader:
        assert reader.settings.build_state == "complete"


def test_settings_that_describe_the_vectors_cannot_be_changed(tmp_path: Path) -> None:
    """Others can, and are there after reopening."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        with pytest.raises(InvalidOptionError, match="build anew"):
            writer.set_setting("d", 16)
        with pytest.raises(InvalidOptionError, match="unknown"):
            writer.set_setting("ann", {"lists": 3})
        writer.set_setting("ann", {"nprobe": 3})
        writer.set_setting("fusion", {"passage": 0.5})
    with KBWriter.open(tmp_path / "kb") as writer:
        assert writer.settings.ann_options.nprobe == 3
        assert writer.get_setting("fusion") == {"passage": 0.5}
        assert writer.get_setting("nothing") is None


def test_full_disk_while_writing_a_segment_changes_nothing(tmp_path: Path) -> None:
    """StorageFullError; the knowledge base answers as before, and the next write works once there is space."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        writer.add([make_document("a", "amber")])
        before = files_of(tmp_path / "kb")
        with file_size_limit(1000), pytest.raises(StorageFullError):
            writer.add([make_document("b", "basalt cedar delta ember")])
        assert files_of(tmp_path / "kb") == before
        assert content(tmp_path / "kb") == {"a": ("amber",)}
        writer.add([make_document("b", "basalt")])
    assert content(tmp_path / "kb") == {"a": ("amber",), "b": ("basalt",)}
    assert verify(tmp_path / "kb").clean


def test_full_disk_while_committing_changes_nothing(tmp_path: Path) -> None:
    """The segment file fits, SQLite's log does not: its file is removed, and the writer stays usable."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        for number in range(12):
            writer.add([make_document(f"d{number}", "amber basalt")])
        writer.wait_for_merging()
        before = files_of(tmp_path / "kb")
        expected = content(tmp_path / "kb")
        log_bytes = (tmp_path / "kb" / "kb.sqlite-wal").stat().st_size
        with file_size_limit(log_bytes + 5000), pytest.raises(StorageFullError):
            writer.add([make_document("new", "cedar")])
        assert content(tmp_path / "kb") == expected
        writer.delete(["d1"])
        assert files_of(tmp_path / "kb") == before
        writer.add([make_document("new", "cedar"), make_document("d1", "amber basalt")])
    assert content(tmp_path / "kb") == {**expected, "new": ("cedar",)}
    assert verify(tmp_path / "kb", deep=True).clean


def test_failing_disk_stops_the_writer_until_it_is_reopened(tmp_path: Path) -> None:
    """An I/O error that is no full disk: nothing changed, further calls tell to reopen, reopening works."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        writer.add([make_document("a", "amber")])
        (tmp_path / "kb" / "segments").rename(tmp_path / "kb" / "away")
        with pytest.raises(StateError):
            writer.add([make_document("b", "basalt")])
        (tmp_path / "kb" / "away").rename(tmp_path / "kb" / "segments")
        with pytest.raises(StateError, match="open it again"):
            writer.add([make_document("b", "basalt")])
    with KBWriter.open(tmp_path / "kb") as writer:
        writer.add([make_document("b", "basalt")])
    assert content(tmp_path / "kb") == {"a": ("amber",), "b": ("basalt",)}


def test_leftovers_of_a_crash_are_removed_on_opening(tmp_path: Path) -> None:
    """Files that no live segment refers to; files of live ones and of users stay."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        writer.add([make_document("a", "amber")])
    live = files_of(tmp_path / "kb")
    for name in ("segments/0123.seg", "segments/0123.tmp", "index/0123.tokens.ann", "segments/README"):
        (tmp_path / "kb" / name).write_bytes(b"?")
    report = verify(tmp_path / "kb")
    assert [finding.severity for finding in report.findings] == ["leftover"] * 3
    assert report.ok and not report.clean
    KBWriter.open(tmp_path / "kb").close()
    assert files_of(tmp_path / "kb") == sorted([*live, "README"])
    assert list((tmp_path / "kb" / "index").iterdir()) == []


def test_purged_text_is_in_no_file(tmp_path: Path) -> None:
    """Neither in the database, nor in its full-text index, nor in the log, nor in a segment."""
    secret = "zanzibarquartz"
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        writer.add([make_document("keep", "amber basalt")])
        writer.add([make_document("gone", f"cedar {secret} delta", title=f"About {secret}")])
        writer.add([make_document("other", "ember fjord")])
        writer.delete(["gone"])
        assert writer.compact(purge=True) == 1
        found = [path for path in (tmp_path / "kb").rglob("*") if path.is_file() and b"zanzibar" in path.read_bytes()]
        assert found == []
    assert content(tmp_path / "kb") == {"keep": ("amber basalt",), "other": ("ember fjord",)}
    assert verify(tmp_path / "kb", deep=True).clean


class WriterAndModel(RuleBasedStateMachine):
    """A knowledge base and a dictionary that must agree whatever is done."""

    directory: Path

    @initialize()
    def create(self) -> None:
        import tempfile

        self.scratch = tempfile.TemporaryDirectory()
        self.path = Path(self.scratch.name) / "kb"
        self.writer = KBWriter.create(self.path, make_settings())
        self.model: dict[str, tuple[str, ...]] = {}

    @rule(ids=st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1, max_size=4), seed=st.integers(0, 1000))
    def add(self, ids: list[str], seed: int) -> None:
        rng = np.random.default_rng(seed)
        documents = [random_document(doc_id, rng) for doc_id in ids]
        commit = self.writer.add(documents)
        assert commit.documents_replaced == len(self.model.keys() & set(ids))
        self.model.update({doc.doc_id: tuple(passage.text for passage in doc.passages) for doc in documents})

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.sampled_from(sorted(self.model)), unique=True, min_size=1, max_size=3))
        self.writer.delete(ids)
        for doc_id in ids:
            del self.model[doc_id]

    @rule()
    def merge(self) -> None:
        self.writer.merge_all(max_rows=200)

    @rule(purge=st.booleans())
    def compact(self, purge: bool) -> None:
        self.writer.compact(purge=purge)

    @rule()
    def reopen(self) -> None:
        self.writer.close()
        self.writer = KBWriter.open(self.path)

    @invariant()
    def same_content(self) -> None:
        if hasattr(self, "model"):
            assert content(self.path) == self.model

    def teardown(self) -> None:
        if hasattr(self, "writer"):
            self.writer.close()
            report = verify(self.path, deep=True)
            assert report.clean, report.findings
            self.scratch.cleanup()


TestWriterAndModel = WriterAndModel.TestCase
TestWriterAndModel.settings = settings(
    max_examples=10, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
