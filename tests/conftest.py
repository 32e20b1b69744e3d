"""What holds for all tests: property tests may take as long as the machine needs, the bundled corpus is built once."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("any-speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-speed")

LONGEST = (
    "web/browser/test_frame.py",
    "storage/power/test_power_cut.py",
    "test_docs.py",
    "endurance/test_endurance.py",
    "web/test_server.py",
    "web/browser/test_changing.py",
    "web/browser/test_script_injection.py",
    "web/test_remote_changes.py",
    "kbengine/cluster/test_cluster.py",
    "kbengine/cluster/test_build.py",
    "storage/power/test_mutations.py",
    "web/test_stopping.py",
    "web/browser/test_keyboard.py",
    "web/browser/test_searching.py",
    "kbengine/test_build_crash.py",
    "storage/test_recorded_answers.py",
    "kbengine/test_sync_power_cut.py",
    "test_demo.py",
)
"""Files that take longest, first: begun at the end, one of them would keep one process busy and the others waiting."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest."""
    ranks = {str(Path(__file__).parent / name): rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(str(item.path), len(ranks)))


@pytest.fixture(scope="session")
def bundled_kb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The knowledge base of the bundled corpus, as `kbengine demo` makes it; to be copied, not changed.

    All processes of a run share it: whoever comes first builds it.
    """
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    path = root / "bundled" / "demo-kb"
    path.parent.mkdir(exist_ok=True)
    with (root / "bundled.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            from tests.test_cli import kbengine

            done = kbengine("demo", "--no-serve", "--kb", path)
            assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def module_demo_kb(bundled_kb: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of it for the tests of one module."""
    return Path(shutil.copytree(bundled_kb, tmp_path_factory.mktemp("demo") / "demo-kb"))
