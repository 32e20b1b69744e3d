"""Each write, sync, rename, truncation and unlink in turn is killed or fails: nothing acknowledged is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.verify import verify
from storage.writer import KBWriter
from tests.storage.fault_child import STEPS
from tests.storage.small_world import content, make_document, make_settings
from tests.waiting import HANG_S

ROOT = Path(__file__).parents[2]
SYSTEM_CALLS = ("write", "pwrite64", "fsync", "fdatasync", "rename", "unlink", "ftruncate")
CHILD = "tests.storage.fault_child"
STRACE = ["strace", "-f", "-qq", "-e", f"trace={','.join(SYSTEM_CALLS)}", "-o"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
FAULTS = ("signal=SIGKILL", "error=EIO", "error=ENOSPC")


def run(directory: Path, injection: str) -> tuple[list[str], int]:
    """What the child told, and its exit status."""
    child = subprocess.run(
        [*STRACE, "/dev/null", "-e", f"inject={injection}", sys.executable, "-m", CHILD, str(directory)],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_S,
    )
    return child.stdout.split(), child.returncode


def counts(directory: Path) -> dict[str, int]:
    """How often the child makes each of the calls, from its start to its end."""
    log = directory.parent / "strace.log"
    subprocess.run(
        [*STRACE, str(log), sys.executable, "-m", CHILD, str(directory)],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        check=True,
        timeout=HANG_S,
    )
    lines = log.read_text(errors="replace").splitlines()
    return {call: sum(f" {call}(" in line for line in lines) for call in SYSTEM_CALLS}


def points(found: dict[str, int], *, stride: int) -> Iterator[str]:
    """The injections: each call, each fault, every `stride`-th occurrence."""
    for call, count in found.items():
        for fault_number, fault in enumerate(FAULTS):
            if call == "unlink" and fault == "error=ENOSPC":
                continue
            for occurrence in range(1 + fault_number % stride, count + 1, stride):
                yield f"{call}:{fault}:when={occurrence}"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_every_injected_fault_leaves_a_sound_knowledge_base(tmp_path: Path) -> None:
    """After each fault: reopened, the content is what was acknowledged, or that and the step in flight."""
    origin = tmp_path / "origin"
    with KBWriter.create(origin, make_settings()) as writer:
        for number in range(3):
            writer.add([make_document(f"seed{number}", f"text {number} of the start")])
    models = [content(origin)]
    for _, change in STEPS:
        models.append(change(models[-1]))
    found = counts(Path(shutil.copytree(origin, tmp_path / "counted")))
    stride = int(os.environ.get("KBENGINE_FAULT_STRIDE", "4"))
    n_faults = 0
    for injection in points(found, stride=stride):
        directory = Path(shutil.copytree(origin, tmp_path / "kb"))
        told, status = run(directory, injection)
        done = told.count("done")
        allowed = models[done : done + 2]
        n_faults += status != 0 or any(word.startswith("error") for word in told)
        KBWriter.open(directory, background_merging=False).close()
        seen = content(directory)
        assert seen in allowed, f"{injection}: {told}"
        report = verify(directory, deep=True)
        assert report.clean, f"{injection}: {report.findings}"
        with KBWriter.open(directory, background_merging=False) as writer:
            writer.add([make_document("afterwards", "all is well")])
        assert content(directory) == {**seen, "afterwards": ("all is well",)}
        shutil.rmtree(directory)
    assert n_faults > 10
