"""Answers recorded while all was sound are given again, after repairs and merges too; others are damage."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from storage.backup import back_up, restore
from storage.durable import write_durably
from storage.errors import CorruptError
from storage.recorded_answers import RECORDED_NAME, read_answers, record_answers
from storage.recorded_answers import _checksum as checksum
from storage.reindexing import ReindexRequest
from storage.repair import repair
from storage.verify import verify
from storage.writer import KBWriter
from tests.storage.small_world import make_document, make_settings, random_document, reencode


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A knowledge base of two segments with a deleted document; its answers are recorded."""
    path = tmp_path_factory.mktemp("made") / "kb"
    rng = np.random.default_rng(0)
    with KBWriter.create(path, make_settings(ann={"exact_below_rows": 20, "nlist": 4})) as writer:
        writer.add([random_document(f"a{number}", rng, passages=3) for number in range(9)])
        writer.delete(["a1"])
        writer.add([random_document(f"b{number}", rng, passages=2) for number in range(5)])
    record_answers(path)
    return path


@pytest.fixture
def kb(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path / "kb"))


def asked_and_ok(kb: Path) -> tuple[int, bool]:
    """How many queries were compared, and whether all is well."""
    report = verify(kb)
    return report.asked, report.ok


def test_a_repaired_and_merged_knowledge_base_answers_as_before(kb: Path) -> None:
    """Segments that were encoded again, and others of them put together."""
    assert asked_and_ok(kb) == (24, True)
    for file in (kb / "segments").glob("*.seg"):
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    assert asked_and_ok(kb) == (0, False)
    assert repair(kb, reencode)
    assert asked_and_ok(kb) == (24, True)
    with KBWriter.open(kb) as writer:
        writer.merge_all()
    assert asked_and_ok(kb) == (16, True)  # words weigh otherwise without the dead
    with KBWriter.open(kb) as writer:
        writer.compact()
    assert asked_and_ok(kb) == (16, True)


def test_a_repair_that_makes_other_vectors_is_found(kb: Path) -> None:
    """Checksums cannot tell: they are of what was written."""
    with KBWriter.open(kb) as writer:
        writer.merge_all()
    (file,) = (kb / "segments").glob("*.seg")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)

    def otherwise(stored: list) -> list:
        again = reencode(stored)
        for each in again:
            each.vectors[:, 0] += 0.5
        return again

    repair(kb, otherwise)
    report = verify(kb)
    assert not report.ok and {finding.where for finding in report.findings} == {RECORDED_NAME}
    assert "recorded was" in report.findings[0].what


@pytest.mark.parametrize(
    "change",
    [
        lambda writer: writer.add([make_document("new", "amber basalt")]),
        lambda writer: writer.delete(["a0"]),
        lambda writer: writer.reindex(ReindexRequest(ann={"kind": "ivf-sq4"}, drop_vectors=True)),
    ],
)
def test_what_changes_answers_makes_the_recorded_ones_old(kb: Path, change) -> None:
    """They are not compared until they are recorded anew."""
    with KBWriter.open(kb) as writer:
        change(writer)
    assert asked_and_ok(kb) == (0, True)
    before = read_answers(kb)
    after = record_answers(kb)
    assert before is not None and after.generation > before.generation
    assert asked_and_ok(kb) == (24, True)


def test_damage_of_the_record_is_named_and_repaired(kb: Path) -> None:
    """Each byte of it is under its checksum."""
    sound = (kb / RECORDED_NAME).read_bytes()
    for place in np.random.default_rng(0).integers(len(sound) - 1, size=40).tolist():
        data = bytearray(sound)
        data[place] ^= 2
        (kb / RECORDED_NAME).write_bytes(data)
        with pytest.raises(CorruptError, match="--record"):
            read_answers(kb)
    assert [finding.severity for finding in verify(kb).findings] == ["repairable"]
    assert repair(kb, reencode) == ["recorded answers anew"]
    assert (kb / RECORDED_NAME).read_bytes() == sound


def test_another_processor_may_round_otherwise(kb: Path) -> None:
    """Of scores that are equal but for rounding neither value nor order counts; more than that does."""

    def change(by: float) -> None:
        facts = json.loads((kb / RECORDED_NAME).read_text("utf-8"))
        facts.pop("checksum")
        facts["found"]["tokens"] = [[[item, score + by] for item, score in each] for each in facts["found"]["tokens"]]
        write_durably(kb / RECORDED_NAME, [json.dumps(facts | {"checksum": checksum(facts)}).encode()], replace=True)

    change(1e-5)
    assert asked_and_ok(kb) == (24, True)
    change(0.1)
    assert asked_and_ok(kb) == (24, False)


def test_a_backup_has_the_recorded_answers_and_an_empty_one_finds_nothing(kb: Path, tmp_path: Path) -> None:
    """The restored one is compared with them; without documents there is nothing to ask."""
    back_up(kb, tmp_path / "backups")
    restore(tmp_path / "backups", tmp_path / "again")
    assert asked_and_ok(tmp_path / "again") == (24, True)
    KBWriter.create(tmp_path / "empty", make_settings()).close()
    record_answers(tmp_path / "empty")
    assert asked_and_ok(tmp_path / "empty") == (0, True)
