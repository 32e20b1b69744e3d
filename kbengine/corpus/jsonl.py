"""Reading JSON Lines: one record a line, one parse function a format."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from kbengine.corpus.compression import CorpusFile
from kbengine.corpus.document import CorpusDocument, Record
from kbengine.corpus.fields import decoded, kind_of
from kbengine.errors import CorpusError

ParseRecord: TypeAlias = Callable[[Mapping[str, object]], CorpusDocument]


def jsonl_records(file: CorpusFile, parse: ParseRecord) -> Iterator[Record]:
    """Yield the records of a JSON Lines file, lazily; blank lines are passed over but counted as lines.

    Lines end at a line feed alone: U+2028 and its like are legal inside JSON strings.
    """
    for number, line in file.lines():
        if line.isspace() or not line:
            continue
        try:
            document = parse(parse_object(line))
        except CorpusError as e:
            yield Record(number, file.bytes_read, problem=e.message)
        else:
            yield Record(number, file.bytes_read, document)


def parse_object(line: bytes) -> Mapping[str, object]:
    """Return the JSON object on a line of UTF-8, or CorpusError that says what is on it instead."""
    try:
        value: object = json.loads(decoded(line, "JSON in UTF-8"))
    except json.JSONDecodeError as e:
        raise CorpusError(f"malformed JSON at character {e.pos}: {e.msg}; wanted one JSON object a line") from e
    except (ValueError, RecursionError) as e:  # a number of thousands of digits; brackets nested too deep
        raise CorpusError(f"JSON that cannot be read: {e}; wanted one JSON object a line") from e
    if not isinstance(value, dict):
        raise CorpusError(f"the line holds {kind_of(value)}, wanted a JSON object")
    return value
