"""Documents as people write them: `id`, `title`, `text`, and where there are any `url`, `meta` and `aliases`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from kbengine.corpus.document import CorpusDocument, CorpusPassage, paragraph_passages
from kbengine.corpus.fields import get_id, get_optional_object, get_optional_text, get_text, kind_of
from kbengine.corpus.paragraphs import plain_text
from kbengine.errors import CorpusError, InvalidOptionError
from storage.alias_records import NewAlias
from storage.records import JSON

_KEYS = ("id", "title", "text", "url", "meta", "aliases")


def parse_plain(record: Mapping[str, object]) -> CorpusDocument:
    """Return the document of one object; `text` is a string, split at blank lines, or a list of paragraphs.

    Raises:
        CorpusError: a key is missing, of another type or unknown, or the text is blank.
    """
    unknown = [key for key in record if key not in _KEYS]
    if unknown:
        raise CorpusError(
            f"the document has {', '.join(map(repr, unknown))}, wanted only {', '.join(map(repr, _KEYS))}; put "
            "facts of your own under 'meta'"
        )
    paragraphs = record.get("text")
    if not isinstance(paragraphs, list | tuple):
        paragraphs = [each.text for each in plain_text(get_text(record, "text")).paragraphs]
    passages: list[CorpusPassage] = []
    for ordinal, paragraph in enumerate(paragraphs, start=1):
        if not isinstance(paragraph, str):
            raise CorpusError(f"'text'[{ordinal - 1}] is {kind_of(paragraph)}, wanted a paragraph")
        passages += paragraph_passages(ordinal, paragraph)
    if not passages:
        raise CorpusError("'text' is blank, wanted some text")
    return CorpusDocument(
        get_id(record, "id"),
        get_text(record, "title"),
        get_optional_text(record, "url"),
        cast("Mapping[str, JSON]", get_optional_object(record, "meta")),  # checked to be JSON when it is stored
        tuple(passages),
        _aliases(record.get("aliases")),
    )


def _aliases(names: object) -> tuple[NewAlias, ...]:
    if names is None:
        return ()
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise CorpusError(f"'aliases' is {names!r}, wanted a list of names")
    try:
        return tuple(NewAlias(name, "document") for name in dict.fromkeys(names))
    except InvalidOptionError as e:
        raise CorpusError(e.message) from e
