"""Taking other names of documents from files into a knowledge base: streaming, all lines in one commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbengine.corpus.alias_table import AliasLine, read_alias_table
from kbengine.corpus.mentions import count_mentions, is_mention_file
from kbengine.corpus.report import MAX_BAD_KEPT
from kbengine.errors import CorpusError
from kbengine.progress import NoProgress, ProgressSink
from storage.catalog import chunked

if TYPE_CHECKING:
    from storage.alias_records import AliasSource, NewAlias
    from storage.reader import KBReader

_LINES_AT_ONCE = 2_000


@dataclass
class AliasImportReport:
    """What an import did: lines taken and passed over, with the first of those, and the commit's generation."""

    aliases: int = 0
    skipped: int = 0
    first_skipped: list[str] = field(default_factory=list)
    generation: int = 0

    def facts(self) -> dict[str, Any]:
        """Return the report as named values, for people and for JSON."""
        return {"aliases": self.aliases, "skipped_lines": self.skipped, "generation": self.generation}


def import_aliases(
    kb: Path,
    tables: Sequence[Path],
    *,
    source: AliasSource = "tsv",
    skip_bad: bool = False,
    progress: ProgressSink | None = None,
) -> AliasImportReport:
    """Store the aliases of the files and return what was done.

    A name that its document has from the same source already gets the new prior and count, so importing a file again
    changes nothing.

    Args:
        kb: the knowledge base's directory.
        tables: tables of `name<TAB>id or title[<TAB>prior]` (`-` is standard input), and entity-linking records in KILT
            form, whose marked mentions are counted over all files given.
        source: where the names of the tables are from: "tsv", "redirect" or another that can be given. Mentions have
            the source "mention".
        skip_bad: pass over lines that cannot be used, and count them, instead of refusing all.
        progress: shown the number of lines.

    Raises:
        CorpusError: a line cannot be used, or no line can; then nothing is stored.
    """
    from storage.reader import KBReader
    from storage.writer import KBWriter

    report = AliasImportReport()
    progress = progress or NoProgress()
    progress.begin("reading aliases", None, "")
    with KBWriter.open(kb) as writer, KBReader.open(kb, allow_incomplete=True) as reader:
        mentions = [path for path in tables if is_mention_file(path)]
        lines = chain.from_iterable(read_alias_table(path, source) for path in tables if path not in mentions)
        lines = chain(lines, count_mentions(mentions))
        pairs = _resolved(lines, reader, report, skip_bad=skip_bad, progress=progress)
        first = next(pairs, None)
        if first is None:
            why = f": {report.first_skipped[0]}" if report.first_skipped else ""
            raise CorpusError(f"{', '.join(map(str, tables))}: no line with an alias that can be stored{why}")
        change = writer.add_aliases(chain([first], pairs), replace=True)
    report.generation = change.generation
    return report


def _resolved(
    lines: Iterator[AliasLine], reader: KBReader, report: AliasImportReport, *, skip_bad: bool, progress: ProgressSink
) -> Iterator[tuple[str, NewAlias]]:
    """Give each usable line's document id and alias; the others are refused, or counted."""
    for batch in chunked(lines, _LINES_AT_ONCE):
        targets = {line.target for line in batch} | {_spaced(line.target) for line in batch}
        ids = reader.ids_of(sorted(targets))
        for line in batch:
            found = ids.get(line.target) or ids.get(_spaced(line.target)) or []
            problem = line.problem or _problem(line.target, found)
            if line.alias is not None and not problem:
                report.aliases += 1
                yield found[0], line.alias
            elif not skip_bad:
                raise CorpusError(f"{line.place}: {problem}; nothing was stored: fix the line or pass --skip-bad")
            else:
                report.skipped += 1
                if len(report.first_skipped) < MAX_BAD_KEPT:
                    report.first_skipped.append(f"{line.place}: {problem}")
        progress.advance(len(batch), f"{report.aliases:,} aliases, {report.skipped:,} skipped")


def _problem(target: str, found: Sequence[str]) -> str:
    if not found:
        return f"no document has the id or title {target!r}"
    if len(found) > 1:
        return f"{len(found)} documents have the title {target!r} ({', '.join(found[:3])}), wanted the id of one"
    return ""


def _spaced(title: str) -> str:
    """Return the title as people write it: redirect tables of Wikipedia have underscores."""
    return title.replace("_", " ")
