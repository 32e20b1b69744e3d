"""What a corpus is made of: documents, their passages, and the position a reader has reached."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields

from kbengine.errors import CorpusError
from storage.alias_records import NewAlias, NewLink
from storage.records import JSON

# A paragraph beyond this is stored in parts: one passage is encoded, stored and shown as a whole.
MAX_PASSAGE_CHARS = 100_000


@dataclass(frozen=True, slots=True)
class CorpusPassage:
    """One paragraph, or one part of a very long one, exactly as the corpus has it.

    Attributes:
        ordinal: The paragraph's number in the user's document (for KILT its paragraph id).
        text: The text, unchanged, so that character offsets agree with the user's document.
        section: The heading it stands under, or None.
        char_offset: Where `text` begins inside the paragraph: 0 unless the paragraph was split.
    """

    ordinal: int
    text: str
    section: str | None = None
    char_offset: int = 0


@dataclass(frozen=True, slots=True)
class CorpusDocument:
    """One document that can be stored: checked text, passages in the order of the document.

    Attributes:
        doc_id: The user's id, never blank.
        title: The title, may be empty.
        url: Where the document comes from, or None.
        meta: JSON facts about the document, such as `qid` and `aliases`.
        passages: Ordered by (ordinal, char_offset); may be empty for a page that is only a title.
        aliases: Other names that the corpus gives the document.
        links: Its links to other documents, by their text; the targets need not be there.
    """

    doc_id: str
    title: str
    url: str | None = None
    meta: Mapping[str, JSON] = field(default_factory=dict)
    passages: tuple[CorpusPassage, ...] = ()
    aliases: tuple[NewAlias, ...] = ()
    links: tuple[NewLink, ...] = ()

    def __post_init__(self) -> None:
        if not self.doc_id.strip():
            raise CorpusError(f"the document id is {self.doc_id!r}, wanted some text")
        if self.doc_id != self.doc_id.strip().strip("\ufeff"):
            raise CorpusError(
                f"the document id is {self.doc_id!r}, wanted no blanks or byte order marks around it: "
                f"{self.doc_id.strip().strip(chr(0xFEFF)).strip()!r}"
            )
        _check_storable("the document id", self.doc_id)
        _check_storable("the title", self.title)
        if self.url is not None:
            _check_storable("the url", self.url)
        if self.meta:
            _check_storable_meta(self.meta)
        last = (-1, -1)
        for passage in self.passages:
            here = (passage.ordinal, passage.char_offset)
            if here <= last:
                raise CorpusError(f"passage ordinal {passage.ordinal} follows {last[0]}, wanted rising numbers from 0")
            last = here
            _check_storable("a passage", passage.text, passage.ordinal)
            if passage.section is not None:
                _check_storable("a section heading", passage.section, passage.ordinal)


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """How far a corpus has been read: the place of the document just delivered, as plain JSON values.

    Attributes:
        file_index: Which of the given paths, from 0.
        file: That path, as it was given.
        record: Number of the document's (last) line, document or file inside that path, from 1.
        doc_id: The document's id, to notice a corpus that changed between two runs.
        bytes_read: Bytes of the files read so far, compressed as they lie on disk, for progress.
        documents: Documents delivered so far.
        passages: Passages delivered so far.
        textless_documents: Delivered documents that have no passage.
        bad_records: Bad records passed over so far.
    """

    file_index: int
    file: str
    record: int
    doc_id: str
    bytes_read: int
    documents: int
    passages: int
    textless_documents: int
    bad_records: int

    def to_json(self) -> dict[str, JSON]:
        """Return a JSON object that `from_json` accepts."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> SourcePosition:
        """Return the position that `to_json` wrote; anything else is refused."""
        wanted = {each.name for each in fields(cls)}
        if set(value) != wanted:
            raise CorpusError(
                f"a corpus position has the keys {sorted(value)}, wanted {sorted(wanted)}; start the build anew"
            )
        for name, part in value.items():
            is_right = isinstance(part, str) if name in ("file", "doc_id") else type(part) is int and part >= 0
            if not is_right:
                raise CorpusError(f"a corpus position has {name} = {part!r}; start the build anew")
        return cls(**value)  # type: ignore[arg-type]  # the types were just checked


@dataclass(frozen=True, slots=True)
class Record:
    """What a format reader found at one place: a document, or the problem with it, never both.

    Attributes:
        number: Place inside the path, rising from 1: a line, a document or a file.
        bytes_read: Bytes of the path consumed, compressed as on disk.
        document: The document, or None if the record is bad.
        problem: What is wrong, value seen and value wanted, or None.
        other_id: An id to use when the document's own is taken; only where the format has no ids.
        path: The file inside a folder, or None for formats of many records a file.
        empty: Whether it is a file without text: no document, and nothing wrong with it.
    """

    number: int
    bytes_read: int
    document: CorpusDocument | None = None
    problem: str | None = None
    other_id: str | None = None
    path: str | None = None
    empty: bool = False


def paragraph_passages(ordinal: int, text: str, section: str | None = None) -> Iterator[CorpusPassage]:
    """Yield the passages of one paragraph: none if it is blank, one as a rule, several beyond 100,000 characters.

    A long paragraph is cut after whitespace where the second half of the part has any; joined, the parts
    give the paragraph back except for parts that are only whitespace.
    """
    if len(text) <= MAX_PASSAGE_CHARS:
        if text and not text.isspace():
            yield CorpusPassage(ordinal, text, section)
        return
    start = 0
    while start < len(text):
        end = min(start + MAX_PASSAGE_CHARS, len(text))
        if end < len(text):
            end = _last_border(text, start + MAX_PASSAGE_CHARS // 2, end)
        part = text[start:end]
        if not part.isspace():
            yield CorpusPassage(ordinal, part, section, start)
        start = end


def _last_border(text: str, low: int, high: int) -> int:
    """Return the greatest index in (low, high] that follows whitespace, or `high` if there is none."""
    for index in range(high, low, -1):
        if text[index - 1].isspace():
            return index
    return high


def _check_storable(what: str, text: str, ordinal: int | None = None) -> None:
    """Refuse what SQLite cannot hold as text: NUL and half a surrogate pair."""
    place = "" if ordinal is None else f" (ordinal {ordinal})"
    if "\x00" in text:
        raise CorpusError(f"{what}{place} holds a NUL character at {text.index(chr(0))}, wanted text")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as e:
        raise CorpusError(
            f"{what}{place} holds a lone surrogate U+{ord(text[e.start]):04X} at character {e.start}, "
            "wanted valid Unicode"
        ) from e


def _check_storable_meta(meta: Mapping[str, JSON]) -> None:
    try:
        encoded = json.dumps(meta, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as e:
        raise CorpusError(
            f"the document's meta cannot be stored as JSON: {e}; wanted texts (dates as '2020-01-31'), numbers, true, "
            "false, lists and objects"
        ) from e
    # json.dumps writes NUL as an escape, so the escape is what to look for; a text "\\u0000" has two slashes.
    if b"\\u0000" in encoded.replace(b"\\\\", b""):
        raise CorpusError("the document's meta holds a NUL character, wanted text")
