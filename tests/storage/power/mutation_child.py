"""Run by test_mutations: forks a child for each line on standard input, which does one check with the code changed.

A line is JSON: the name of a mutation, or none and the name of a check; and a directory. The answer is a line, too.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import tests.storage.power.scenarios  # noqa: F401  # with all that storage imports, once for all children
from storage.newest_schema import newest_schema
from tests.storage.power.cluster_mutations import CLUSTER_CHECKS, CLUSTER_MUTATIONS
from tests.storage.power.mends import MENDS
from tests.storage.power.mutation import module_of
from tests.storage.power.mutations import CHECKS, MUTATIONS

Edits = Sequence[tuple[str, str, str]]


class _Loader(importlib.machinery.SourceFileLoader):
    edits: Edits = ()

    def get_data(self, path: str) -> bytes:
        data = super().get_data(path)
        if not path.endswith(".py"):
            raise OSError("no byte code is kept of changed files")
        text = data.decode()
        for name, old, new in self.edits:
            if module_of(name) == self.name:
                if text.count(old) != 1:
                    sys.stdout.write(json.dumps(["stale", f"{name}.py has {text.count(old)} times {old!r}"]) + "\n")
                    sys.stdout.flush()
                    os._exit(0)
                text = text.replace(old, new)
        return text.encode()


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the changed modules."""

    def __init__(self, edits: Edits) -> None:
        self._edits = edits
        self._names = {module_of(name) for name, _, _ in edits}

    def find_spec(self, name: str, path: object, target: ModuleType | None = None) -> object:
        if name not in self._names:
            return None
        root = Path(__file__).parents[3]
        loader = _Loader(name, str(root / f"{name.replace('.', '/')}.py"))
        loader.edits = self._edits
        return importlib.util.spec_from_file_location(name, loader.path, loader=loader)


def work(order: dict[str, str]) -> None:
    """Do the check and tell what came of it."""
    mutation = next((each for each in (*MUTATIONS, *CLUSTER_MUTATIONS, *MENDS) if each.name == order["mutation"]), None)
    check = (
        mutation.check
        if mutation
        else next(each for each in (*CHECKS, *CLUSTER_CHECKS) if each.__name__ == order["check"])
    )
    if mutation:
        for name in [name for name in sys.modules if name.split(".")[0] in ("storage", "kbengine", "web", "tests")]:
            del sys.modules[name]  # to be imported with the change
        sys.dont_write_bytecode = True
        sys.meta_path.insert(0, _Finder(mutation.edits))
    try:
        check(Path(order["scratch"]))
    except AssertionError as error:
        told = ["noticed", str(error)[:300]]
    except BaseException as error:  # pytest's own failures are no exceptions
        told = ["noticed", f"{type(error).__name__}: {error}"[:300]] if mutation else ["error", traceback.format_exc()]
    else:
        told = ["passed", ""]
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    os._exit(0)


def main() -> None:
    """Fork a child for each line."""
    newest_schema()  # imports alembic
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            work(json.loads(line))
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
