"""Opening a corpus file: plain, gzip, zstd, bzip2 or xz, told apart by the first bytes, never by the name."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import sys
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import zstandard

from kbengine.errors import CorpusError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# A single record larger than this is refused: whatever it is, it is not one document.
MAX_RECORD_BYTES: Final = 256 * 1024 * 1024

STDIN_NAME: Final = "-"

_BUFFER_BYTES: Final = 1 << 20
_ZSTD_INPUT_BYTES: Final = 1 << 14
_ZIP: Final = b"PK\x03\x04"
_OTHER_ARCHIVES: Final = (
    (_ZIP, "a zip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"PAR1", "a Parquet file"),
    (b"SQLite format 3\x00", "an SQLite database"),
)


class CorpusFile(AbstractContextManager["CorpusFile"]):
    """One open corpus file, decompressed as it is read; a context manager.

    Damaged or truncated archives and I/O errors become CorpusError that names the file. A zip archive is refused unless
    `takes_zip` says that the file's format is one.
    """

    def __init__(self, path: Path, *, takes_zip: bool = False) -> None:
        self.name: Final = str(path)
        self._takes_zip = takes_zip
        self._kind = "plain"
        try:
            raw = sys.stdin.buffer.fileno() if self.name == STDIN_NAME else path
            self._counted: Final = _CountingFile(io.FileIO(raw, closefd=self.name != STDIN_NAME))
        except OSError as e:
            raise CorpusError(f"{self.name}: cannot be read: {e.strerror or e}") from e
        try:
            self._stream: Final = self._decompressed(io.BufferedReader(self._counted, _BUFFER_BYTES))
        except Exception as e:
            self._counted.close()
            raise self._translated(e) from e

    @property
    def bytes_read(self) -> int:
        """Bytes consumed of the file as it lies on disk; runs ahead of the records by one buffer."""
        return self._counted.n_read

    def readline(self) -> bytes:
        r"""Return the next line with its `\n`, or b"" at the end; only `\n` ends a line."""
        try:
            line = self._stream.readline(MAX_RECORD_BYTES + 1)
        except Exception as e:
            raise self._translated(e) from e
        if len(line) > MAX_RECORD_BYTES:
            raise CorpusError(
                f"{self.name}: a line is longer than {MAX_RECORD_BYTES // 2**20} MiB, wanted one record a line; "
                "is this the format it is read as? See --format"
            )
        return line

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the remaining lines with their numbers from 1, without a byte order mark at the beginning."""
        number = 0
        while line := self.readline():
            number += 1
            yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line

    def read(self, n: int) -> bytes:
        """Up to n bytes, fewer only at the end."""
        try:
            return self._stream.read(n)
        except Exception as e:
            raise self._translated(e) from e

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._counted.close()

    def _decompressed(self, plain: io.BufferedReader) -> io.BufferedReader:
        magic = plain.peek(16)[:16]
        if magic.startswith(b"\x1f\x8b"):
            self._kind = "gzip"
            # GzipFile is a BufferedIOBase; BufferedReader only calls the readinto that both have.
            unpacked: io.RawIOBase = gzip.GzipFile(fileobj=plain)  # type: ignore[assignment]
            return io.BufferedReader(unpacked, _BUFFER_BYTES)
        # 0x184D2A5x opens a skippable frame: what pzstd writes before the first real one.
        if magic.startswith(b"\x28\xb5\x2f\xfd") or (magic[1:4] == b"\x2a\x4d\x18" and magic[0] >> 4 == 5):
            self._kind = "zstd"
            return io.BufferedReader(_ZstdFile(plain), _BUFFER_BYTES)
        if magic.startswith(b"BZh") and magic[4:10] == b"1AY&SY":
            self._kind = "bzip2"
            return io.BufferedReader(bz2.BZ2File(plain), _BUFFER_BYTES)
        if magic.startswith(b"\xfd7zXZ\x00"):
            self._kind = "xz"
            return io.BufferedReader(lzma.LZMAFile(plain), _BUFFER_BYTES)
        for start, kind in _OTHER_ARCHIVES:
            if magic.startswith(start) and not (start == _ZIP and self._takes_zip):
                raise CorpusError(f"{self.name}: is {kind}, wanted text, plain or packed by gzip, zstd, bzip2 or xz")
        self._kind = "plain"
        return plain

    def _translated(self, error: Exception) -> Exception:
        read = f"after {self.bytes_read} bytes"
        again = "copy or download it again"
        if isinstance(error, EOFError):
            return CorpusError(f"{self.name}: the {self._kind} data end early, {read}: it is truncated; {again}")
        is_of_bzip2 = self._kind == "bzip2" and isinstance(error, OSError) and error.errno is None
        if isinstance(error, (gzip.BadGzipFile, zlib.error, zstandard.ZstdError, lzma.LZMAError)) or is_of_bzip2:
            return CorpusError(f"{self.name}: the {self._kind} data are damaged, {read}: {error}; {again}")
        if isinstance(error, OSError):
            return CorpusError(f"{self.name}: cannot be read, {read}: {error.strerror or error}")
        return error


class _CountingFile(io.RawIOBase):
    """A raw file that counts the bytes taken from it."""

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        self.n_read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        n = self._file.readinto(buffer)
        self.n_read += n or 0
        return n

    def close(self) -> None:
        self._file.close()
        super().close()


class _ZstdFile(io.RawIOBase):
    """The content of one or more zstd frames.

    zstandard's own stream reader takes a truncated frame for a finished one; this raises EOFError.
    """

    def __init__(self, source: io.BufferedReader) -> None:
        self._source = source
        self._ready: deque[memoryview] = deque()
        self._frame: zstandard.ZstdDecompressionObj | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        target = memoryview(buffer).cast("B")
        while not self._ready:
            packed = self._source.read(_ZSTD_INPUT_BYTES)
            if not packed:
                if self._frame is not None:
                    raise EOFError
                return 0
            self._ready.extend(memoryview(part) for part in self._unpack(packed) if part)
        part = self._ready.popleft()
        n = min(len(part), len(target))
        target[:n] = part[:n]
        if n < len(part):
            self._ready.appendleft(part[n:])
        return n

    def _unpack(self, packed: bytes) -> Iterator[bytes]:
        while packed:
            if self._frame is None:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            yield self._frame.decompress(packed)
            packed = b""
            if self._frame.eof:
                packed = self._frame.unused_data
                self._frame = None


def file_size(path: Path) -> int:
    """Return the bytes of a file as they lie on disk; 0 for a pipe."""
    try:
        return path.stat().st_size if str(path) != STDIN_NAME and path.is_file() else 0
    except OSError as e:
        raise CorpusError(f"{path}: cannot be read: {e.strerror or e}") from e
