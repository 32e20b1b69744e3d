"""The write-ahead log's checksums, checked before SQLite sees it.

When a byte in `kb.sqlite-wal` has changed, SQLite ends its recovery at that frame and silently forgets every
later commit. Each frame's checksum continues from the one before, so frames behind a damaged one can be told by its
*stored* checksum. A power cut may keep any frames of the transaction that it interrupted, its commit mark too, but none
of a later one, which is only begun when the one before is synced: frames beyond the transaction of the damaged frame
are what tells damage from an interrupted write. Damage in the last transaction is found by `storage.acknowledged`.
Format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storage.durable import read_error
from storage.errors import CorruptError

__all__ = ["check_wal"]

_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
_MAGIC = {0x377F0682: "<u4", 0x377F0683: ">u4"}
_CHUNK_FRAMES = 4096


def check_wal(path: Path) -> None:
    """Raise CorruptError when the log at `path` lost commits to a damaged byte. No file is fine.

    May run beside a writer: a log that was started afresh meanwhile is simply read again.
    """
    for _ in range(3):
        try:
            before = _header(path)
            problem = _problem(path)
            if _header(path) == before:
                break
        except FileNotFoundError:
            return
        except OSError as error:
            raise read_error(error, path) from error
    else:
        return
    if problem is not None:
        raise CorruptError(
            f"{path}: {problem}; commits would be lost by opening it: restore a backup ('kbengine restore'), or go on "
            "without what is lost: 'kbengine verify --repair --accept-loss'"
        )


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEADER_BYTES)


def _problem(path: Path) -> str | None:
    n_bytes = path.stat().st_size
    if n_bytes <= _HEADER_BYTES:
        return None
    header = _header(path)
    words = np.frombuffer(header, dtype=">u4")
    page_bytes = int(words[2])
    order = _MAGIC.get(int(words[0]))
    plausible = order is not None and 512 <= page_bytes <= 65_536 and page_bytes & (page_bytes - 1) == 0
    if order is None or not plausible or not _header_is_sound(header, order, words):
        # SQLite would take the whole log for empty. A header that never got written whole is followed by nothing.
        return None if n_bytes < _HEADER_BYTES + _FRAME_HEADER_BYTES + 512 else "its header is damaged"
    frame_bytes = _FRAME_HEADER_BYTES + page_bytes
    n_frames = (n_bytes - _HEADER_BYTES) // frame_bytes
    sums = words[6:8].astype(np.uint32)
    good, marked = np.zeros(n_frames, dtype=np.bool_), np.zeros(n_frames, dtype=np.bool_)
    for start in range(0, n_frames, _CHUNK_FRAMES):
        count = min(_CHUNK_FRAMES, n_frames - start)
        frames = np.fromfile(
            path, dtype=np.uint8, count=count * frame_bytes, offset=_HEADER_BYTES + start * frame_bytes
        )
        if frames.size != count * frame_bytes:
            return None  # shortened by a checkpoint while we read: the caller sees the new header and starts again
        frames = frames.reshape(-1, frame_bytes)
        heads = np.ascontiguousarray(frames[:, :_FRAME_HEADER_BYTES]).view(">u4").astype(np.uint32)
        # Frames of an earlier round of the log have other salts: the log ends before them.
        current = (heads[:, 2:4] == words[4:6].astype(np.uint32)).all(axis=1)
        checked = np.concatenate([frames[:, :8], frames[:, _FRAME_HEADER_BYTES:]], axis=1)
        previous = np.concatenate([sums[None, :], heads[:-1, 4:6]])
        part = slice(start, start + count)
        good[part] = (_checksums(checked, previous, order) == heads[:, 4:6]).all(axis=1) & current
        marked[part] = current & (heads[:, 1] != 0)
        sums = heads[-1, 4:6]
    if good.all():
        return None
    first_bad = int(np.argmin(good))
    # The mark that ends its transaction may be its own, or of the next frame, whose checksum it spoils.
    ends = marked & good
    ends[first_bad : first_bad + 2] = marked[first_bad : first_bad + 2]
    ends[:first_bad] = False
    beyond = int(np.argmax(ends)) + 1 if ends.any() else n_frames
    # A mark itself may be what changed; a second one that is sound says as much.
    if (beyond < n_frames and good[beyond]) or np.count_nonzero(ends & good) > 1:
        return f"frame {first_bad + 1} of {n_frames} is damaged and later transactions follow"
    return None


def _header_is_sound(header: bytes, order: str, words: NDArray[np.uint32]) -> bool:
    data = np.frombuffer(header[:24], dtype=np.uint8)[None, :]
    sums = _checksums(data, np.zeros((1, 2), dtype=np.uint32), order)[0]
    return bool((sums == words[6:8].astype(np.uint32)).all())


def _checksums(data: NDArray[np.uint8], previous: NDArray[np.uint32], order: str) -> NDArray[np.uint32]:
    """SQLite's checksum uint32 (n, 2) of each row of `data` (n, bytes), continuing from `previous` (n, 2).

    s0 += x[2i] + s1; s1 += x[2i+1] + s0 is linear modulo 2**32: a weighted sum of the words, weights Fibonacci
    numbers, plus a matrix power applied to the start.
    """
    words = np.ascontiguousarray(data).view(order).astype(np.uint32)
    weights, power = _weights(words.shape[1] // 2)
    contribution: NDArray[np.uint32] = words @ weights + previous.astype(np.uint32) @ power
    return contribution


@lru_cache(maxsize=8)
def _weights(n_pairs: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    step = np.array([[1, 1], [1, 2]], dtype=np.uint32)  # (s0, s1) @ step = one round with zero words
    weights = np.empty((2 * n_pairs, 2), dtype=np.uint32)
    power = np.eye(2, dtype=np.uint32)
    for pair in range(n_pairs - 1, -1, -1):
        # x0 enters s0 and, through s0, s1; x1 enters s1 only; both then go through the remaining rounds.
        weights[2 * pair] = np.array([1, 1], dtype=np.uint32) @ power
        weights[2 * pair + 1] = np.array([0, 1], dtype=np.uint32) @ power
        power = step @ power
    return weights, power
