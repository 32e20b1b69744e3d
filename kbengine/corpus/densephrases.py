"""The corpus of DensePhrases and SQuAD: one JSON object with all documents under `data`, streamed."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from pathlib import Path

from kbengine.corpus.compression import CorpusFile
from kbengine.corpus.document import CorpusDocument, CorpusPassage, Record, paragraph_passages
from kbengine.corpus.fields import as_object, get_id, get_list, get_optional_text, get_text, kind_of
from kbengine.errors import CorpusError

_CHUNK_BYTES = 1 << 20
_MAX_VALUE_CHARS = 1 << 26

# An error this close to the end of what was read may only mean that the rest is not read yet: the longest
# thing JSON cannot be cut in without an "Unterminated string" is a pair of \uXXXX escapes.
_CUT_CHARS = 32


def densephrases_records(file: CorpusFile) -> Iterator[Record]:
    """Yield one document an entry of `data`, never more than a few of them in memory.

    The format has no ids: the title is the `doc_id`; where the title is taken, the file name and the
    document's number are added. An `id` in an entry is respected. Passage n is paragraph n, from 1.
    """
    text = _JsonText(file)
    text.expect("{", "an object with the documents under 'data'")
    found = False
    more = not text.skip("}")
    while more:
        key = text.value()
        text.expect(":", "a colon")
        if key == "data" and not found:
            found = True
            yield from _entries(file, text)
        else:
            text.value()
        more = text.skip(",")
        if not more:
            text.expect("}", "a comma or the closing brace")
    text.expect_end()
    if not found:
        raise CorpusError(f"{file.name}: the object has no 'data', wanted the list of documents there")


def _entries(file: CorpusFile, text: _JsonText) -> Iterator[Record]:
    text.expect("[", "the list of documents")
    number = 0
    more = not text.skip("]")
    while more:
        number += 1
        value = text.value()
        try:
            document, other_id = _document(value, number, Path(file.name).name)
        except CorpusError as e:
            yield Record(number, file.bytes_read, problem=e.message)
        else:
            yield Record(number, file.bytes_read, document, other_id=other_id)
        more = text.skip(",")
        if not more:
            text.expect("]", "a comma or the end of the list of documents")


def _document(value: object, number: int, file_name: str) -> tuple[CorpusDocument, str | None]:
    entry = as_object(value, "the document")
    title = get_text(entry, "title")
    name = title.strip() or "untitled"
    given = "id" in entry
    passages: list[CorpusPassage] = []
    for ordinal, paragraph in enumerate(get_list(entry, "paragraphs", "a list of {'context'}"), 1):
        try:
            context = get_text(as_object(paragraph, "the paragraph"), "context")
        except CorpusError as e:
            raise CorpusError(f"paragraph {ordinal}: {e.message}") from e
        passages.extend(paragraph_passages(ordinal, context))
    document = CorpusDocument(
        get_id(entry, "id") if given else name,
        title,
        get_optional_text(entry, "url"),
        passages=tuple(passages),
    )
    return document, None if given else f"{name} ({file_name}:{number})"


class _JsonText:
    """A JSON text of any length, taken value by value from a growing and shrinking buffer."""

    def __init__(self, file: CorpusFile) -> None:
        self._file = file
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")()
        self._decode = json.JSONDecoder().raw_decode
        self._text = ""
        self._at = 0
        self._n_dropped = 0
        self._ended = False

    def value(self) -> object:
        """Return the next value, whole."""
        self._skip_space()
        while True:
            try:
                value: object
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as e:
                cut = e.msg.startswith("Unterminated string") or e.pos + _CUT_CHARS >= len(self._text)
                if cut and self._read_more():
                    continue
                raise self._malformed(e.msg, e.pos) from e
            except (ValueError, RecursionError) as e:
                raise self._malformed(str(e), self._at) from e
            # A number at the very end may go on in the next chunk.
            if end == len(self._text) and isinstance(value, (int, float)) and self._read_more():
                continue
            self._at = end
            return value

    def skip(self, sign: str) -> bool:
        """Return whether the next character is `sign`; if so it is taken."""
        self._skip_space()
        found = self._text.startswith(sign, self._at)
        self._at += found
        return found

    def expect(self, sign: str, wanted: str) -> None:
        """Take the next character, which has to be `sign`."""
        if not self.skip(sign):
            raise self._malformed(f"wanted {wanted}", self._at)

    def expect_end(self) -> None:
        """Make sure that nothing follows."""
        self._skip_space()
        if self._at < len(self._text):
            raise self._malformed("wanted the end of the file", self._at)

    def _skip_space(self) -> None:
        while True:
            while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._text) or not self._read_more():
                return

    def _read_more(self) -> bool:
        """Return whether there was more to read; what lies before the current character is forgotten."""
        if self._ended:
            return False
        kept = len(self._text) - self._at
        if kept > _MAX_VALUE_CHARS:
            raise self._malformed(f"a value of more than {_MAX_VALUE_CHARS:,} characters", self._at)
        # Reading as much again as is held keeps the re-parsing of a long value linear.
        data = self._file.read(max(_CHUNK_BYTES, kept))
        self._ended = not data
        try:
            new = self._utf8.decode(data, final=self._ended)
        except UnicodeDecodeError as e:
            raise CorpusError(f"{self._file.name}: not UTF-8 near byte {self._file.bytes_read}: {e.reason}") from e
        self._n_dropped += self._at
        self._text = self._text[self._at :] + new
        self._at = 0
        return not self._ended

    def _malformed(self, problem: str, at: int) -> CorpusError:
        place = f"{self._file.name}, character {self._n_dropped + at}"
        if at >= len(self._text) and self._ended:
            return CorpusError(f"{place}: the JSON ends early ({problem}): the file is truncated; copy it again")
        seen = self._text[at : at + 20]
        what = kind_of(None) if not seen else repr(seen)
        return CorpusError(
            f"{place}: malformed JSON at {what}: {problem}; mend the file: one JSON document cannot be read on "
            "behind an error"
        )
