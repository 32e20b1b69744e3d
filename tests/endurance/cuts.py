"""Power cuts anywhere, with anything left of what was not synced."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from tests.storage.power.scenarios import Cuts, check_all, record_series
from tests.storage.power.steps import SERIES

CUTS = 30


def run(
    seed: int, scratch: Path, *, cuts: int = CUTS, names: Collection[str] = SERIES, count: str = "power cuts"
) -> dict[str, int]:
    """So many cuts of one series; series take turns."""
    name = sorted(names)[seed % len(names)]
    recording = record_series(scratch / "run", name)
    return {count: check_all(recording, scratch, Cuts(random=cuts, seed=seed))}
