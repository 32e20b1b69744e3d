"""What people see in the terminal: facts and tables as text; JSON lines on request."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


class Output:
    """Writes results to one stream, as text for people or as one JSON object a line."""

    def __init__(self, stream: IO[str], *, as_json: bool) -> None:
        self._stream = stream
        self.as_json = as_json
        self._console: Console | None = None

    @property
    def console(self) -> Console:
        """Return the rich console of the stream, made when first needed."""
        if self._console is None:
            from rich.console import Console

            width = None if self._stream.isatty() else 120
            self._console = Console(file=self._stream, width=width, highlight=False, soft_wrap=False)
        return self._console

    def record(self, record: Mapping[str, Any]) -> None:
        """Write one JSON object on a line of its own."""
        self._stream.write(json.dumps(record, ensure_ascii=False) + "\n")

    def line(self, text: str = "") -> None:
        """Write one line of text exactly as it is."""
        self._stream.write(text + "\n")

    def facts(self, facts: Mapping[str, Any]) -> None:
        """Write named facts, one a line, or as one JSON object."""
        if self.as_json:
            self.record(facts)
            return
        width = max((len(name) for name in facts), default=0)
        for name, value in facts.items():
            self.line(f"{name.replace('_', ' '):<{width}}  {_readable(value)}")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Write a table, or one JSON object a row."""
        if self.as_json:
            for row in rows:
                self.record(dict(zip(columns, row, strict=True)))
            return
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(column)
        for row in rows:
            table.add_row(*("" if value is None else str(value) for value in row))
        self.console.print(table, markup=False)


def standard_output(*, as_json: bool) -> Output:
    """Return what writes to the standard output of now."""
    return Output(sys.stdout, as_json=as_json)


def _readable(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_readable(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_readable(each) for each in value)
    return str(value)
