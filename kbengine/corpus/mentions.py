"""Names in use: how often entity-linking records in KILT form have each text marked as a mention of each page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kbengine.corpus.alias_table import AliasLine
from kbengine.corpus.compression import CorpusFile
from kbengine.corpus.fields import as_object, get_list, get_text
from kbengine.corpus.jsonl import parse_object
from kbengine.errors import CorpusError, InvalidOptionError
from kbengine.inputs import END_MENTION, START_MENTION
from storage.alias_records import NewAlias

_HEAD_BYTES = 1 << 16


def is_mention_file(path: Path) -> bool:
    """Return whether the file holds JSON records; standard input cannot be looked into and is a table."""
    if str(path) == "-":
        return False
    with CorpusFile(path) as file:
        head = file.read(_HEAD_BYTES)
    return head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b'{"')


def count_mentions(paths: Sequence[Path]) -> Iterator[AliasLine]:
    """Yield the mentions of all files as aliases of the pages they mean, with their counts; bad lines where they stand.

    The counts are in memory: about 200 bytes for each distinct pair of a mention and a page.

    Raises:
        CorpusError: a file cannot be read.
    """
    counts: Counter[tuple[str, str]] = Counter()
    places: dict[tuple[str, str], str] = {}
    for path in paths:
        with CorpusFile(path) as file:
            for number, line in file.lines():
                if not line.strip():
                    continue
                place = f"{path}, line {number}"
                try:
                    mention, pages = _mention(parse_object(line.removeprefix(b"\xef\xbb\xbf")))
                    NewAlias(mention, "mention")  # refuses what is no name, at its line
                except (CorpusError, InvalidOptionError) as e:
                    yield AliasLine(place, None, problem=e.message)
                    continue
                for page in pages:
                    counts[mention, page] += 1
                    places.setdefault((mention, page), place)
    for (mention, page), count in counts.items():
        yield AliasLine(places[mention, page], NewAlias(mention, "mention", uses=count), page)


def _mention(record: Mapping[str, object]) -> tuple[str, list[str]]:
    """Return the marked text of a record and the ids of the pages that it means, each once."""
    text = get_text(record, "input")
    _, opened, rest = text.partition(START_MENTION)
    mention, closed, _ = rest.partition(END_MENTION)
    if not opened or not closed:
        raise CorpusError(f"'input' marks no mention, wanted {START_MENTION} and {END_MENTION} around one")
    pages: list[str] = []
    for index, output in enumerate(get_list(record, "output", "a list of answers")):
        provenance = as_object(output, f"'output'[{index}]").get("provenance") or []
        for page in provenance if isinstance(provenance, list) else []:
            page_id = as_object(page, f"a provenance of 'output'[{index}]").get("wikipedia_id")
            if page_id is not None:
                pages.append(str(page_id).strip())
    if not pages:
        raise CorpusError("'output' names no page, wanted provenance with a wikipedia_id")
    return " ".join(mention.split()), list(dict.fromkeys(pages))
