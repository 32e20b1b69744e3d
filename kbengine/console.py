"""What people see in the terminal: answers, facts and findings as text; JSON lines on request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from kbengine.results import Hit, SearchResult

CONTEXT_CHARS = 160
"""Characters of the passage shown around a phrase on either side, cut at words."""


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

    def result(self, query: str, result: SearchResult) -> None:
        """Write the answers to one query."""
        if self.as_json:
            self.record({"query": query, **result.to_json()})
            return
        if not result.hits:
            self.line("no answer: the knowledge base holds nothing that could be compared with this query")
            return
        for hit in result.hits:
            self._hit(hit)
        timings = ", ".join(f"{name} {value:.1f}" for name, value in result.timings_ms.items())
        cut = "; the query was cut to what the encoder takes" if result.truncated else ""
        self.console.print(f"generation {result.generation}; ms: {timings}{cut}", style="dim", markup=False)

    def _hit(self, hit: Hit) -> None:
        from rich.padding import Padding
        from rich.text import Text

        head = Text()
        head.append(f"{hit.rank:>2}. ", style="dim")
        head.append(hit.document.title if hit.unit == "document" else hit.phrase_text, style="bold green")
        head.append(f"   {hit.score:.2f}", style="cyan")
        where = f"   {hit.document.title}" if hit.unit != "document" else ""
        span = f"{hit.phrase.start}:{hit.phrase.end}"
        head.append(f"{where}  [{hit.document.doc_id} ¶{hit.passage.ordinal} {span}]", style="dim")
        self.console.print(head)
        self.console.print(Padding(self._context(hit), (0, 0, 0, 4)))
        if hit.parts is not None:
            parts = hit.parts
            self.console.print(
                f"    start {parts.start:.2f} + end {parts.end:.2f} + passage {parts.passage:.2f} "
                f"+ lexical {parts.lexical:.2f}",
                style="dim",
                markup=False,
            )

    def _context(self, hit: Hit) -> Text:
        """Return the words around the phrase, the phrase marked."""
        from rich.text import Text

        text = hit.passage.text
        begin = max(0, hit.phrase.start - CONTEXT_CHARS)
        stop = min(len(text), hit.phrase.end + CONTEXT_CHARS)
        if begin > 0:
            begin = text.find(" ", begin, hit.phrase.start) + 1 or begin
        if stop < len(text):
            cut = text.rfind(" ", hit.phrase.end, stop)
            stop = cut if cut > 0 else stop
        context = Text("… " if begin > 0 else "")
        context.append(text[begin : hit.phrase.start])
        context.append(hit.phrase_text, style="bold underline")
        context.append(text[hit.phrase.end : stop])
        context.append(" …" if stop < len(text) else "")
        return context

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
