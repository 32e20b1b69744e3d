"""The KILT knowledge source: one Wikipedia page a line, `text[0]` the title, headings as paragraphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from kbengine.corpus.document import CorpusDocument, CorpusPassage, paragraph_passages
from kbengine.corpus.fields import (
    as_object,
    get_id,
    get_optional_object,
    get_optional_text,
    get_text,
    kind_of,
)
from kbengine.corpus.kilt_links import page_links
from kbengine.errors import CorpusError
from storage.alias_records import aliases_of_meta
from storage.records import JSON

_SECTION = "Section::::"
# `kilt_id` is what the Hugging Face copy calls `_id`.
_ID_KEYS = ("wikipedia_id", "_id", "kilt_id")


def parse_kilt(record: Mapping[str, object], *, anchors: bool = False) -> CorpusDocument:
    """Return the document of one KILT page: ordinals are KILT paragraph ids, texts are unchanged.

    Not passages: paragraph 0 where it repeats the title, `Section::::Name` headings (they name the section of
    what follows) and blank paragraphs. A paragraph 0 that is not the title is text and is kept. Wikidata's aliases
    and the anchors are the document's aliases and links.

    Args:
        record: The parsed line.
        anchors: Whether to keep the anchors as they are in `meta["anchors"]`; they can outweigh the text.
    """
    title = get_text(record, "wikipedia_title")
    url = get_optional_text(get_optional_object(record, "history"), "url")
    meta = _meta(record, anchors)
    return CorpusDocument(
        _page_id(record),
        title,
        url,
        meta,
        tuple(_passages(_paragraphs(record), title)),
        tuple(aliases_of_meta(meta)),
        page_links(record.get("anchors")),
    )


def _page_id(record: Mapping[str, object]) -> str:
    ids = {key: get_id(record, key) for key in _ID_KEYS if key in record}
    if not ids:
        get_id(record, "wikipedia_id")  # raises, naming the key that is missing
    if len(set(ids.values())) > 1:
        seen = ", ".join(f"'{key}' is {value!r}" for key, value in ids.items())
        raise CorpusError(f"{seen}, wanted one id")
    return next(iter(ids.values()))


def _paragraphs(record: Mapping[str, object]) -> list[object]:
    if "text" not in record:
        raise CorpusError("'text' is missing, wanted a list of paragraphs")
    text = record["text"]
    if isinstance(text, dict):  # the Hugging Face copy: {"paragraph": [...]}
        text = text.get("paragraph")
    if not isinstance(text, list):
        raise CorpusError(f"'text' is {kind_of(text)}, wanted a list of paragraphs")
    return text


def _passages(paragraphs: list[object], title: str) -> Iterator[CorpusPassage]:
    section: str | None = None
    for ordinal, text in enumerate(paragraphs):
        if not isinstance(text, str):
            raise CorpusError(f"'text'[{ordinal}] is {kind_of(text)}, wanted a paragraph")
        if ordinal == 0 and text.strip() == title.strip():
            continue
        if _SECTION in text and text.lstrip().startswith(_SECTION):
            section = _section_name(text)
        else:
            yield from paragraph_passages(ordinal, text, section)


def _section_name(heading: str) -> str | None:
    """`Section::::History.:Early life.` → `History: Early life`."""
    parts = heading.strip().removeprefix(_SECTION).split(".:")
    return ": ".join(part.strip().removesuffix(".") for part in parts) or None


def _meta(record: Mapping[str, object], anchors: bool) -> dict[str, JSON]:
    meta: dict[str, JSON] = {}
    facts = get_optional_object(record, "wikidata_info")
    if facts:
        meta["qid"] = get_optional_text(facts, "wikidata_id")
        meta["description"] = get_optional_text(facts, "description")
        meta["aliases"] = _aliases(facts.get("aliases"))
    meta["categories"] = get_optional_text(record, "categories")
    if anchors:
        meta["anchors"] = cast("JSON", record.get("anchors"))  # parsed from JSON, so JSON it is
    return {key: value for key, value in meta.items() if value}


def _aliases(value: object) -> list[JSON]:
    """Return the alias texts of [{"alias": text}], of {"alias": [text]} (Hugging Face) or of plain texts."""
    if value is None:
        return []
    if isinstance(value, dict):
        value = value.get("alias")
    if not isinstance(value, list):
        raise CorpusError(f"'aliases' is {kind_of(value)}, wanted a list of {{'alias': text}}")
    return [each if isinstance(each, str) else get_text(as_object(each, "an alias"), "alias") for each in value]
