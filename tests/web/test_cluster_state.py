"""What an older kbengine kept beside the folder of a cluster's service."""

from __future__ import annotations

from pathlib import Path

from web.cluster_state import take_over
from web.keys import key_file


def test_keys_of_an_older_version_go_on_and_its_jobs_are_told_of(tmp_path: Path) -> None:
    """Keys are copied once; those of the newer one are never replaced."""
    folder = tmp_path / "name" / "wiki"
    folder.mkdir(parents=True)
    assert take_over(folder) == []
    _, token = key_file(folder.parent, None).create("laptop", "read")
    (folder.parent / "jobs" / "one").mkdir(parents=True)
    keys, jobs = take_over(folder)
    assert "API keys of an older kbengine were copied" in keys
    assert str(folder.parent / "jobs") in jobs
    (known,) = key_file(folder, None).all()
    assert known.name == "laptop" and key_file(folder, None).check(token).id == known.id
    key_file(folder, None).create("second", "read")
    assert len(take_over(folder)) == 1
    assert len(key_file(folder, None).all()) == 2
