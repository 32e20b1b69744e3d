"""Mends of faults found from outside or by endurance runs: each taken out alone, its regression test fails."""

from __future__ import annotations

import errno
from pathlib import Path

from tests.storage.power.mutation import Mutation


def _widths(scratch: Path) -> None:
    from tests.storage import test_repaired_answers as tests

    tests.test_a_segment_that_needs_wider_numbers_is_read_beside_others(scratch)


def _frames_out_of_order(scratch: Path) -> None:
    from tests.storage import test_database as tests

    tests.test_what_a_power_cut_leaves_of_a_transaction_is_no_damage(scratch)


def _damaged_logs(scratch: Path) -> None:
    from tests.storage import test_database as tests

    tests.test_damage_anywhere_in_the_log_is_seen_by_whoever_opens_it(scratch)


def _read_only_mounts(scratch: Path) -> None:
    from tests.storage import test_file_errors as tests

    tests.test_a_reader_on_a_read_only_mount_keeps_writers_out(tests.make(scratch / "kb"))


def _logs_on_read_only_mounts(scratch: Path) -> None:
    from tests.storage import test_file_errors as tests

    tests.test_a_log_is_never_passed_over_on_a_read_only_mount(tests.make(scratch / "kb"), scratch)


def _stuck_files(scratch: Path) -> None:
    from tests.storage import test_file_errors as tests

    tests.test_a_reindex_is_done_when_what_it_replaced_cannot_be_removed(tests.make(scratch / "kb"))


def _leftovers(scratch: Path) -> None:
    from tests.storage import test_file_errors as tests

    tests.test_what_killed_processes_left_is_seen_and_removed(tests.make(scratch / "kb"))


def _locks(scratch: Path) -> None:
    from storage.errors import StateError
    from tests.storage import test_file_errors as tests

    kb = tests.make(scratch / "kb")
    tests.test_a_lock_that_cannot_be_made_is_a_named_error(kb, errno.EROFS, StateError, "writable")


def _synced_copies(scratch: Path) -> None:
    from tests.storage import test_file_errors as tests

    tests.test_a_copy_with_other_segments_syncs_the_encoders_that_it_takes_along(tests.make(scratch / "kb"), scratch)


def _repaired_words(scratch: Path) -> None:
    from tests.storage import test_repaired_answers as tests

    tests.test_lexical_scores_are_what_they_were(scratch, 0)


def _damaged_names(scratch: Path) -> None:
    from tests.storage import test_database as tests

    tests.test_a_damaged_schema_is_a_named_error_whatever_its_letters(scratch)


def _empty_directories(scratch: Path) -> None:
    from tests.storage import test_file_errors as tests

    tests.test_a_copy_without_empty_directories_opens_and_is_tidied_up(tests.make(scratch / "kb"))


def _half_written_notes(scratch: Path) -> None:
    from tests.storage import test_file_errors as tests

    tests.test_a_note_that_is_written_in_parts_is_whole(tests.make(scratch / "kb"))


def _changed_keys(scratch: Path) -> None:
    from tests.web import test_keys as tests
    from web.keys import KeyFile

    tests.test_a_changed_bit_of_the_file_changes_no_key_unseen(KeyFile(scratch / "api-keys.json"))


def _jobs(scratch: Path) -> None:
    from tests.web import test_power_cut as tests

    tests.test_a_power_cut_loses_no_job(scratch)


def _given_up_writers(scratch: Path) -> None:
    from kbengine.knowledge_base import KnowledgeBase
    from storage.errors import StateError
    from storage.operating_system import using
    from tests.endurance.service_load import build_served
    from tests.storage.failing_calls import failing

    with KnowledgeBase.open(build_served(scratch / "served")) as knowledge_base:
        document = {"id": "zebra", "title": "Zebra", "text": "A zebra has stripes."}
        try:
            with using(failing(errno.EIO, "fsync")):
                knowledge_base.add([document])
        except StateError:
            knowledge_base.add([document])
        else:
            raise ValueError("no sync failed")


_UNLINKED = """            calls = __import__("storage.operating_system", fromlist=["_"]).operating_system()
            error = calls.unlink(path) if path.exists() else None
"""

MENDS = (
    Mutation(
        "segments of one width (reliability 1)",
        _widths,
        [("snapshot", "dtype=np.result_type(*(array.dtype for array in arrays))", "dtype=arrays[0].dtype")],
    ),
    Mutation(
        "frames out of order are damage (reliability 2)",
        _frames_out_of_order,
        [
            (
                "wal",
                "    beyond = int(np.argmax(ends)) + 1 if ends.any() else n_frames\n",
                "    beyond = first_bad + 1\n",
            )
        ],
    ),
    Mutation(
        "writers beside readers of read-only mounts (reliability 3)",
        _read_only_mounts,
        [("database", "        hold = hold_off_writers(directory)\n", '        return "mode=ro&immutable=1", None\n')],
    ),
    Mutation(
        "logs on read-only mounts are passed over (reliability 3)",
        _logs_on_read_only_mounts,
        [("database", "        if log.exists() and log.stat().st_size:\n", "        if False:\n")],
    ),
    Mutation(
        "readers do not look for lost commits (reliability 4)",
        _damaged_logs,
        [("reader", "                check_complete(directory, connection, acknowledged)\n", "")],
    ),
    Mutation(
        "commits are not noted (reliability 4)",
        _damaged_logs,
        [
            (
                "session",
                "            self.acknowledged.note(generation)\n            self._settle_doubts()\n",
                "            self._settle_doubts()\n",
            )
        ],
    ),
    Mutation(
        "what cannot be removed is an error after the commit (reliability 5)",
        _stuck_files,
        [("session", "            error = remove_file(path)\n", _UNLINKED)],
    ),
    Mutation(
        "temporary files beside kb.sqlite stay (reliability 7)",
        _leftovers,
        [("creation", "    parts = (directory, directory / SEGMENT", "    parts = (directory / SEGMENT")],
    ),
    Mutation(
        "weights of a killed tune stay (reliability 7)",
        _leftovers,
        [("writer", "            remove_tuned_leftovers(directory)\n", "")],
    ),
    Mutation(
        "raw errors of the lock (reliability 8)",
        _locks,
        [
            (
                "lock",
                "        except OSError as error:\n"
                "            raise write_error(error, self.path) from error\n        try:",
                "        except ZeroDivisionError as error:\n            raise error\n        try:",
            )
        ],
    ),
    Mutation(
        "keys have no checksum (reliability 9)",
        _changed_keys,
        [
            (
                "web.keys",
                '            if stored["version"] > 1 and stored["checksum"] !=',
                "            if 0 > 1 and stored !=",
            )
        ],
    ),
    Mutation(
        "copied encoders are not synced (reliability 11)",
        _synced_copies,
        [
            (
                "creation",
                "        copy_directory(encoders, target / ENCODER_DIRECTORY)\n",
                '        __import__("shutil").copytree(encoders, target / ENCODER_DIRECTORY)\n',
            )
        ],
    ),
    Mutation(
        "the dead are left out of a repaired segment, and count elsewhere (reliability 12)",
        _repaired_words,
        [
            ("repair", "    for death in sorted(dead, reverse=True):\n", "    for death in sorted(dead)[:0]:\n"),
            ("live_words", "frequencies(hashes, self._dead)", "frequencies(hashes, self._dead[:0])"),
        ],
    ),
    Mutation(
        "damaged names are raw errors (found by flips)",
        _damaged_names,
        [("database", "        if not _is_of_sqlite(error):\n", "        if error:\n")],
    ),
    Mutation(
        "absent directories are synced (found by power cuts)",
        _empty_directories,
        [("session", "            if directory.is_dir():", "            if directory:")],
    ),
    Mutation(
        "a note is written once (found by short writes)",
        _half_written_notes,
        [("acknowledged", "            while written < len(line):\n", "            if True:\n")],
    ),
    Mutation(
        "the name of the folder of jobs is not synced (found by power cuts)",
        _jobs,
        [("web.jobs.store", "folder, self.folder, self.folder.parent):\n", "folder, self.folder):\n")],
    ),
    Mutation(
        "what a job made is not synced (found by power cuts)",
        _jobs,
        [("web.jobs.store", "            fsync_file(result)\n", "")],
    ),
    Mutation(
        "a writer whose disk failed once is kept (found by the soak)",
        _given_up_writers,
        [("kbengine.knowledge_base", "if self._writer is not None and not self._writer.is_usable:", "if False:")],
    ),
)
