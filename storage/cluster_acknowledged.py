"""Notes of acknowledged generations, kept with the objects: what a catalog has lost is then noticed.

A catalog that was damaged, or restored from another time, may be a generation behind and look sound. So each
generation, once its transaction is durable, is noted in a record of its own before the caller hears of it. A manifest
without a note is of a change that was interrupted before or just after its transaction: nobody was told of it.
"""

from __future__ import annotations

from storage.errors import CorruptError, KBError, StateError
from storage.generation_manifest import ManifestRef
from storage.object_store import ObjectStore

__all__ = [
    "ACKNOWLEDGED_FOLDER",
    "acknowledged_generations",
    "check_no_generation_lost",
    "check_not_acknowledged",
    "forget_acknowledged",
    "is_acknowledged",
    "newest_acknowledged",
    "note_acknowledged",
]

ACKNOWLEDGED_FOLDER = "acknowledged"
_DIGITS, _SHA256_CHARS = 12, 64


def note_acknowledged(store: ObjectStore, ref: ManifestRef) -> None:
    """Note durably that this generation was made; once noted it stays so.

    Raises:
        StateError: It could not be noted; the generation itself is there.
    """
    try:
        store.write_record(_name(ref.generation), ref.sha256.encode())
    except KBError as error:
        raise StateError(
            f"generation {ref.generation} of {store.place} was made, but not noted as acknowledged: {error.message}; "
            "then repeat the call with the same operation id or arguments, which does nothing twice"
        ) from error


def acknowledged_generations(store: ObjectStore) -> list[int]:
    """Return the numbers of the generations that are noted, rising."""
    return [int(name) for name in store.record_names(ACKNOWLEDGED_FOLDER) if name.isdecimal()]


def newest_acknowledged(store: ObjectStore) -> ManifestRef | None:
    """Return the newest generation that is noted, None where none is.

    Raises:
        CorruptError: Its note is damaged.
    """
    numbers = acknowledged_generations(store)
    return _noted(store, numbers[-1]) if numbers else None


def check_no_generation_lost(store: ObjectStore, generation: int, *, catalog: str) -> None:
    """Raise CorruptError when a generation after this one, the newest that the catalog knows, was acknowledged.

    Args:
        store: Has the notes.
        generation: Asked for after the catalog was: one that is made meanwhile is not lost.
        catalog: What messages call the catalog.
    """
    lost = max(acknowledged_generations(store), default=0)
    if lost > generation:
        raise CorruptError(
            f"the catalog {catalog} is at generation {generation}, but generation {lost} of {store.place} was "
            "acknowledged: the catalog is damaged, or of another time; move it away and make it anew from the objects "
            "with 'kbengine cluster restore'"
        )


def check_not_acknowledged(store: ObjectStore, generation: int, *, catalog: str) -> None:
    """Raise CorruptError when this generation, which is to be made, was acknowledged before: see above."""
    if store.read_record(_name(generation)) is not None:
        check_no_generation_lost(store, generation - 1, catalog=catalog)


def forget_acknowledged(store: ObjectStore, *, after: int = 0, up_to: int | None = None) -> int:
    """Remove the notes of the generations after one and up to another, newest first; return how many."""
    numbers = [n for n in acknowledged_generations(store) if n > after and (up_to is None or n <= up_to)]
    for number in reversed(numbers):
        store.remove_record(_name(number))
    return len(numbers)


def is_acknowledged(store: ObjectStore, ref: ManifestRef) -> bool:
    """Tell whether this generation, of this checksum, is noted."""
    return store.read_record(_name(ref.generation)) == ref.sha256.encode()


def _noted(store: ObjectStore, generation: int) -> ManifestRef:
    data = store.read_record(_name(generation)) or b""
    if len(data) != _SHA256_CHARS or set(data) - set(b"0123456789abcdef"):
        raise CorruptError(
            f"{store.place}/{_name(generation)} is damaged; restore it from a copy of the cluster, or name the "
            "generation that is wanted (--generation)"
        )
    return ManifestRef(generation, data.decode())


def _name(generation: int) -> str:
    return f"{ACKNOWLEDGED_FOLDER}/{generation:0{_DIGITS}d}"
