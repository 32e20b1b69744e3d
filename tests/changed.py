"""Which tests say most of what changed: `make test-quick` runs them.

python -m tests.changed [BASE] prints the test files that changed since BASE (main) and those that import what changed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ALWAYS = ("tests/test_layout.py", "tests/test_messages.py")
PACKAGES = ("storage", "kbengine", "adapters", "web")
_IMPORT = re.compile(r"^\s*(?:from|import) ([\w.]+)(?: import ([\w, ]+))?", re.MULTILINE)


def imported(source: str) -> set[str]:
    """Return the dotted names that a file imports; of `from a import b` both a and a.b, which may be a module."""
    names: set[str] = set()
    for module, parts in _IMPORT.findall(source):
        names |= {module, *(f"{module}.{part.strip()}" for part in parts.split(",") if part.strip())}
    return names


def chosen_tests(changed: Iterable[str], tests: dict[str, str], sources: dict[str, str] | None = None) -> list[str]:
    """Return the tests to run for changed paths; `tests` and `sources` have each file's text by its path.

    A module that no test imports is tested through the modules that import it, or else through its room: all tests of
    the folder of the same name.
    """
    chosen = set(ALWAYS) & set(tests)
    uses = {path: imported(text) for path, text in tests.items()}
    users = {path.removesuffix(".py").replace("/", "."): imported(text) for path, text in (sources or {}).items()}
    for path in changed:
        parts = Path(path).with_suffix("").parts
        if path in tests:
            chosen.add(path)
        elif path.endswith(".md"):
            chosen |= {"tests/test_docs.py"} & set(tests)
        elif path.endswith(".py") and parts[0] in (*PACKAGES, "tests"):
            module = ".".join(parts)
            found = {test for test, names in uses.items() if module in names}
            if not found:
                between = {user for user, names in users.items() if module in names}
                found = {test for test, names in uses.items() if names & between}
            if not found and parts[0] in PACKAGES:
                found = {test for test in tests if test.startswith("/".join(("tests", *parts[:-1], "test_")))}
            chosen |= found
    return sorted(chosen)


def changed_since(base: str) -> list[str]:
    """Return the paths that differ from where this branch left `base`, untracked ones included."""

    def git(*arguments: str) -> list[str]:
        return subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.splitlines()

    (left_at,) = git("merge-base", "HEAD", base)
    return sorted({*git("diff", "--name-only", left_at), *git("ls-files", "--others", "--exclude-standard")})


def main() -> None:
    """Print the tests."""
    base = sys.argv[1] if len(sys.argv) > 1 else "main"
    paths = (path for path in (ROOT / "tests").rglob("test_*.py") if "integrations" not in path.parts)
    tests = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}
    modules = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    sources = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in modules}
    print("\n".join(chosen_tests(changed_since(base), tests, sources)))


if __name__ == "__main__":
    main()
