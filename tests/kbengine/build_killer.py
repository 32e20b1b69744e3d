"""Kills a build (of a folder: a sync) again and again until it is done; run as a script: KB CORPUS SEED KILLS.

Prints a JSON report.

One process imports everything once and forks a child for each try; it never computes itself, because FAISS and torch
hang in a child forked after their threads have started.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path

import kbengine.build.document_encoder
from kbengine.build.builder import CorpusOptions, build
from kbengine.build.filtering import FilterOptions
from kbengine.build.sync import SyncOptions, sync
from storage.verify import verify
from tests.kbengine.synthetic_kb import WordEncoder


def run_build(kb: Path, corpus: Path) -> None:
    """Build, or go on with the build, in small chunks; keep in step with a folder."""
    kbengine.build.document_encoder.CHUNK_PASSAGES = 12
    if corpus.is_dir():
        sync(kb, SyncOptions(CorpusOptions((corpus,))), encoder=WordEncoder)
        return
    build(CorpusOptions((corpus,)), kb, encoder=WordEncoder(), filter_options=FilterOptions(keep_fraction=0.6))


def check(kb: Path) -> None:
    """Exit with 3 when verification finds anything but leftovers of the crash."""
    if kb.exists():
        report = verify(kb)
        if not report.ok:
            print(report.findings, file=sys.stderr)
            os._exit(3)


def in_child(work, *arguments) -> int:
    """Return the pid of a forked child that does the work and exits with 0, or 1 after an error."""
    pid = os.fork()
    if pid:
        return pid
    code = 0
    try:
        work(*arguments)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    """Kill `KILLS` builds, verifying after each; then let one finish."""
    kb, corpus = Path(sys.argv[1]), Path(sys.argv[2])
    rng, kills = random.Random(int(sys.argv[3])), int(sys.argv[4])
    killed = finished = 0
    while killed < kills:
        pid = in_child(run_build, kb, corpus)
        time.sleep(rng.uniform(0.002, 0.15))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            killed += 1
        elif os.WEXITSTATUS(status) == 0:
            finished += 1  # a fast machine: from the beginning
            shutil.rmtree(kb)
            continue
        else:
            sys.exit(f"the build failed after {killed} kills")
        _, status = os.waitpid(in_child(check, kb), 0)
        if status:
            sys.exit(f"verification failed after {killed} kills")
    _, status = os.waitpid(in_child(run_build, kb, corpus), 0)
    if status:
        sys.exit(f"the build could not be resumed after {killed} kills")
    print(json.dumps({"killed": killed, "finished_early": finished}))


if __name__ == "__main__":
    main()
