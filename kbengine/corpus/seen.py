"""Which document ids a run has met, and where: sixteen bytes an id however long the ids are."""

from __future__ import annotations

import hashlib
from array import array

_FIRST_SLOTS = 1 << 12
_RECORD_BITS = 40


class SeenIds:
    """A hash table of 8-byte id hashes and places; ids are added, never removed.

    A Python dict of six million ids takes 700 MB, this 130 to 270 MB. Two of six million ids share a hash with
    a chance of one in a million; the run then stops at a duplicate that is none, and both places are named.
    """

    def __init__(self) -> None:
        self._n = 0
        self._hashes = array("Q", bytes(8 * _FIRST_SLOTS))
        self._places = array("Q", bytes(8 * _FIRST_SLOTS))

    def __len__(self) -> int:
        return self._n

    def add(self, doc_id: str, file_index: int, record: int) -> tuple[int, int] | None:
        """Return the (file index, record) where the id was first met, or None if it is new and now noted."""
        digest = hashlib.blake2b(doc_id.encode("utf-8"), digest_size=8).digest()
        hashed = int.from_bytes(digest, "little") or 1  # 0 marks a free slot
        slot = _slot(self._hashes, hashed)
        if self._hashes[slot]:
            place = self._places[slot]
            return place >> _RECORD_BITS, place & ((1 << _RECORD_BITS) - 1)
        self._hashes[slot] = hashed
        self._places[slot] = file_index << _RECORD_BITS | record
        self._n += 1
        if self._n * 4 > len(self._hashes) * 3:
            self._grow()
        return None

    def _grow(self) -> None:
        n_slots = 2 * len(self._hashes)
        hashes, places = array("Q", bytes(8 * n_slots)), array("Q", bytes(8 * n_slots))
        for hashed, place in zip(self._hashes, self._places, strict=True):
            if hashed:
                slot = _slot(hashes, hashed)
                hashes[slot], places[slot] = hashed, place
        self._hashes, self._places = hashes, places


def _slot(hashes: array[int], hashed: int) -> int:
    """Return where the hash is, or the free slot where it belongs; the length is a power of two."""
    mask = len(hashes) - 1
    slot = hashed & mask
    while hashes[slot] and hashes[slot] != hashed:
        slot = (slot + 1) & mask
    return slot
