"""What verification found: collected one by one, so that one damaged thing does not hide the next."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from storage.database import translated
from storage.errors import CorruptError, FormatTooNewError, InvalidOptionError, NotAKnowledgeBaseError, StateError

__all__ = ["Finding", "Findings", "Severity"]

Severity = Literal["error", "repairable", "derived", "leftover"]
"""What a finding means: "error": restore a backup; "repairable": `repair` rebuilds it from the stored text;
"derived": rebuilt by itself when next opened; "leftover": a crash's remains, removed by the next writer."""


@dataclass(frozen=True)
class Finding:
    """Something that is not what was written.

    Attributes:
        where: A file, with the table inside kb.sqlite.
        what: What is wrong there.
        severity: What it means.
    """

    where: str
    what: str
    severity: Severity


class Findings:
    """Collects findings; a check that cannot go on becomes one."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.found: list[Finding] = []

    def add(self, where: str, what: str, severity: Severity) -> None:
        """Note a finding."""
        self.found.append(Finding(where, what, severity))

    @contextlib.contextmanager
    def checking(self, where: str, severity: Severity = "error") -> Iterator[None]:
        """Turn an error that damage explains into a finding, which ends only the block of this check."""
        try:
            with translated(self.directory):
                yield
        except (CorruptError, FormatTooNewError, NotAKnowledgeBaseError, InvalidOptionError, StateError) as error:
            self.add(where, error.message, severity)
        except (ValueError, TypeError, KeyError, IndexError, OverflowError, AttributeError) as error:
            # A damaged row may hold a value of another type than any code expects.
            self.add(where, f"cannot be read: {type(error).__name__}: {error}", severity)
