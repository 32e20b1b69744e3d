"""The gate: changes of the code that would lose data or answer wrongly are noticed, and only these."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.storage.power.cluster_mutations import CLUSTER_CHECKS, CLUSTER_MUTATIONS
from tests.storage.power.mends import MENDS
from tests.storage.power.mutation import Mutation, module_of
from tests.storage.power.mutations import CHECKS, MUTATIONS

ROOT = Path(__file__).parents[3]
Ask = Callable[..., tuple[str, str]]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """What a fresh process with the code changed says of a check."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.storage.power.mutation_child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    assert child.stdin is not None and child.stdout is not None
    stdin, stdout = child.stdin, child.stdout

    def ask(scratch: Path, *, mutation: str = "", check: str = "") -> tuple[str, str]:
        stdin.write(json.dumps({"mutation": mutation, "check": check, "scratch": str(scratch)}) + "\n")
        stdin.flush()
        kind, what = json.loads(stdout.readline())
        return kind, what

    yield ask
    child.communicate()


@pytest.mark.parametrize("name", [check.__name__ for check in (*CHECKS, *CLUSTER_CHECKS)])
def test_the_code_as_it_is_passes(ask: Ask, tmp_path: Path, name: str) -> None:
    """Nothing is lost, wrong or left over."""
    assert ask(tmp_path, check=name) == ("passed", "")


@pytest.mark.parametrize("name", [mutation.name for mutation in (*MUTATIONS, *CLUSTER_MUTATIONS)])
def test_the_mutation_is_noticed(ask: Ask, tmp_path: Path, name: str) -> None:
    """By the check that is there for it; a mutation whose place in the code is gone says so."""
    kind, what = ask(tmp_path, mutation=name)
    assert kind == "noticed", (kind, what)


@pytest.mark.slow
@pytest.mark.parametrize("name", [mend.name for mend in MENDS])
def test_a_mend_that_is_taken_out_is_missed(ask: Ask, tmp_path: Path, name: str) -> None:
    """Its regression test fails, alone."""
    kind, what = ask(tmp_path, mutation=name)
    assert kind == "noticed", (kind, what)


@pytest.mark.parametrize("mend", MENDS, ids=lambda mend: mend.name)
def test_what_would_be_taken_out_is_there(mend: Mutation) -> None:
    """Each text once, so that nobody moves a mend away from its test."""
    for module, old, _ in mend.edits:
        path = ROOT / f"{module_of(module).replace('.', '/')}.py"
        assert path.read_text("utf-8").count(old) == 1, (module, old)
