"""Files that are zip archives inside, such as .docx and .epub: opened in memory, and no larger than may be."""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import Final

from kbengine.corpus.compression import MAX_RECORD_BYTES
from kbengine.errors import CorpusError

_MOST_FILES: Final = 20_000


def opened_zip(data: bytes, kind: str) -> zipfile.ZipFile:
    """Return the archive, after a look at what its files unpack to.

    Raises:
        CorpusError: it is damaged, or unpacks to more than one document may have.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise CorpusError(f"is no {kind} file, or is damaged ({error}); copy or save it again") from error
    files = archive.infolist()
    n_bytes = sum(each.file_size for each in files)
    if n_bytes > MAX_RECORD_BYTES or len(files) > _MOST_FILES:
        raise CorpusError(
            f"unpacks to {len(files):,} files of {n_bytes / 2**20:,.0f} MiB, wanted at most {_MOST_FILES:,} of "
            f"{MAX_RECORD_BYTES // 2**20} MiB; split it"
        )
    return archive


def zip_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return the bytes of one file of an archive, no more than the archive says it has.

    Raises:
        CorpusError: it is not there, is encrypted, or is damaged.
    """
    try:
        with archive.open(name) as member:
            return member.read(archive.getinfo(name).file_size)
    except KeyError as error:
        raise CorpusError(f"holds no {name!r}; it is incomplete, save it again") from error
    except RuntimeError as error:  # what zipfile raises for a password
        raise CorpusError(f"{name!r} in it is encrypted; save it without a password") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
        raise CorpusError(f"{name!r} in it is damaged ({error}); copy or save it again") from error
