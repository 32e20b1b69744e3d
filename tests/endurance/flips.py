"""Single bits flipped in files of every kind: an error that is named, or the same answers as ever."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from kbengine.errors import KBError
from storage.backup import restore
from storage.verify import verify
from storage.writer import KBWriter
from tests.endurance.world import asked, make_world
from tests.storage.power.state import state_of

FLIPS = 60
LEFT_OUT = ("writer.lock", "api-keys.json.lock")
"""What nothing is read from but the name of who holds a lock."""


def run(seed: int, scratch: Path, *, flips: int = FLIPS) -> dict[str, int]:
    """So many flips; kinds of files take turns."""
    rng = np.random.default_rng(seed)
    make_world(scratch)
    expected, restored = asked(_copy(scratch / "kb", scratch / "sound")), _restored(scratch)
    kinds: dict[str, list[Path]] = {}
    for path in sorted((*(scratch / "kb").rglob("*"), *(scratch / "backups").rglob("*"))):
        if path.is_file() and path.name not in LEFT_OUT:
            of_backup = "backups" in path.parts
            kinds.setdefault(("backup " if of_backup else "") + (path.suffix or path.parent.name), []).append(path)
    counts = {"flips": 0, "flips noticed": 0, **{f"flip: {kind}": 0 for kind in kinds}}
    for number in range(flips):
        kind = sorted(kinds)[(number + seed) % len(kinds)]
        file = kinds[kind][int(rng.integers(len(kinds[kind])))]
        data = bytearray(file.read_bytes())
        if not data:
            continue
        place, bit = int(rng.integers(len(data))), int(rng.integers(8))
        sound = bytes(data)
        data[place] ^= 1 << bit
        file.write_bytes(data)
        where = f"{file.relative_to(scratch)}, byte {place}, bit {bit}"
        try:
            if kind.startswith("backup"):
                noticed = _restores_or_says(scratch, restored)
            else:
                noticed = _answers_or_says(_copy(scratch / "kb", scratch / "flipped"), expected)
        except Exception as error:
            raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
        finally:
            file.write_bytes(sound)
        counts["flips"] += 1
        counts[f"flip: {kind}"] += 1
        counts["flips noticed"] += noticed
    return counts


def _copy(source: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(source, target))


def _answers_or_says(kb: Path, expected: object) -> bool:
    """Whether it was noticed; readers, verification and writers each say a named error or nothing is wrong."""
    noticed = False
    for answers in (lambda: asked(kb), lambda: verify(kb), lambda: KBWriter.open(kb).close(), lambda: asked(kb)):
        try:
            seen = answers()
        except KBError:
            noticed = True
            continue
        if isinstance(seen, dict):
            assert seen == expected, f"other answers: {[key for key in seen if seen[key] != expected.get(key)]}"  # type: ignore[attr-defined]
        elif seen is not None:
            noticed |= not seen.clean
    return noticed


def _restored(scratch: Path) -> object:
    target = scratch / "restored"
    shutil.rmtree(target, ignore_errors=True)
    restore(scratch / "backups", target)
    return state_of(target)


def _restores_or_says(scratch: Path, expected: object) -> bool:
    try:
        assert _restored(scratch) == expected, "another knowledge base was restored"
    except KBError:
        assert not (scratch / "restored").exists()
        return True
    return False
