"""Lines of a JSONL file, plain or gzipped: each one parsed, or an error that names file, line and remedy."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TextIO, TypeAlias, cast

from adapters.errors import RecordError

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"

_GZIP_MAGIC = b"\x1f\x8b"
_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its number from 1 and either the JSON object it holds or what is wrong with it."""

    number: int
    value: dict[str, JSON] | None
    error: RecordError | None = None
    has_nan: bool = False


@contextlib.contextmanager
def open_text(path: str | Path) -> Iterator[TextIO]:
    """Give a text stream over a UTF-8 file, gzipped or not, told by its first bytes; `-` is standard input.

    Newlines are universal (`\\n`, `\\r\\n`, `\\r`) and nothing else ends a line: a raw U+2028 inside a string is
    legal JSON. Bytes that are not UTF-8 come out as lone surrogates (`surrogateescape`), so the caller can name
    the line that holds them.
    """
    with contextlib.ExitStack() as stack:
        raw: BinaryIO
        if str(path) == "-":
            raw = sys.stdin.buffer
        else:
            try:
                raw = stack.enter_context(Path(path).open("rb"))
            except OSError as error:
                raise RecordError(
                    f"cannot be read ({error.strerror})",
                    "unreadable_file",
                    "give the path of a readable JSONL file, plain or .gz",
                    file=str(path),
                    line=None,
                ) from error
        if isinstance(raw, io.BufferedReader):
            buffered = raw
        else:
            buffered = io.BufferedReader(cast(io.RawIOBase, raw))
            stack.callback(buffered.detach)
        is_gzip = buffered.peek(2)[:2] == _GZIP_MAGIC
        source = stack.enter_context(gzip.GzipFile(fileobj=buffered, mode="rb")) if is_gzip else buffered
        text = io.TextIOWrapper(source, encoding="utf-8", errors="surrogateescape", newline=None)
        # Detached, here and above, and not closed: standard input belongs to the process, files to the stack.
        stack.callback(text.detach)
        yield text


def read_text_lines(path: str | Path) -> Iterator[tuple[int, str, RecordError | None]]:
    """Yield number, text (without its newline) and error of each line; an error that ends the file comes last."""
    file = str(path)
    with open_text(path) as stream:
        number = 0
        while True:
            try:
                text = stream.readline()
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                yield number + 1, "", _gzip_error(file, number + 1, error)
                return
            except OSError as error:
                yield number + 1, "", _read_error(file, number + 1, error)
                return
            if not text:
                return
            number += 1
            text = text.removesuffix("\n")
            yield number, text, _encoding_error(file, number, text)


def read_lines(path: str | Path) -> Iterator[Line]:
    """Yield every line of a JSONL file in order, the bad ones with their error instead of a value."""
    file = str(path)
    constants: list[float] = []

    def constant(name: str) -> float:
        # NaN and Infinity are not JSON, but Python's reader, and so the official evaluator, takes them.
        constants.append(float(name))
        return constants[-1]

    decoder = json.JSONDecoder(parse_constant=constant)
    for number, text, error in read_text_lines(path):
        if error is None and not text.strip():
            error = RecordError("blank line", "blank_line", "delete it: one JSON object a line", file=file, line=number)
        if error is not None:
            yield Line(number, None, error)
            continue
        constants.clear()
        try:
            value: object = decoder.decode(text)
        except (ValueError, RecursionError) as problem:
            yield Line(number, None, _json_error(file, number, text, problem))
            continue
        if not isinstance(value, dict):
            yield Line(number, None, _not_object(file, number, value))
            continue
        yield Line(number, cast("dict[str, JSON]", value), None, bool(constants))


def _encoding_error(file: str, number: int, text: str) -> RecordError | None:
    if text.isascii():
        seen = "a NUL byte" if "\0" in text else None
    else:
        seen = None
        if number == 1 and text.startswith(_BOM):
            return RecordError(
                "starts with a byte order mark",
                "byte_order_mark",
                r"save as UTF-8 without BOM (sed -i '1s/^\xEF\xBB\xBF//' FILE)",
                file=file,
                line=1,
            )
        try:
            text.encode()
        except UnicodeEncodeError as error:
            seen = f"byte 0x{ord(text[error.start]) - 0xDC00:02x} at character {error.start + 1} is not UTF-8"
        else:
            seen = "a NUL byte" if "\0" in text else None
    if seen is None:
        return None
    return RecordError(
        f"wrong encoding: {seen}",
        "wrong_encoding",
        "convert the file to UTF-8 (iconv -f LATIN1 -t UTF-8, or -f UTF-16 for two bytes a character)",
        file=file,
        line=number,
    )


def _json_error(file: str, number: int, text: str, error: Exception) -> RecordError:
    if isinstance(error, json.JSONDecodeError):
        seen = f"broken JSON: {error.msg} at character {error.pos + 1} of {len(text)}"
    elif isinstance(error, RecursionError):
        seen = "broken JSON: nested too deeply"
    else:
        seen = f"broken JSON: {error}"
    remedy = "write one complete JSON object a line"
    if text.lstrip().startswith("["):
        remedy += "; a JSON array becomes lines with `jq -c '.[]'`"
    return RecordError(seen, "broken_json", remedy, file=file, line=number)


def _not_object(file: str, number: int, value: object) -> RecordError:
    remedy = "write one JSON object a line"
    if isinstance(value, list):
        remedy += " (`jq -c '.[]'` turns an array into lines)"
    return RecordError(f"{json_type(value)} where an object is wanted", "not_an_object", remedy, file=file, line=number)


def _gzip_error(file: str, number: int, error: Exception) -> RecordError:
    return RecordError(
        f"the gzip stream is damaged or cut off ({error})",
        "damaged_gzip",
        "check it with `gzip -t` and fetch it again",
        file=file,
        line=number,
    )


def _read_error(file: str, number: int, error: OSError) -> RecordError:
    return RecordError(
        f"cannot be read ({error.strerror or error})",
        "unreadable_file",
        "give a readable JSONL file and check the disk",
        file=file,
        line=number,
    )


def json_type(value: object) -> str:
    """Return the JSON name of a value's type with its article, for messages: `a string`, `null`, `an array`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "an array" if isinstance(value, list) else "an object"
