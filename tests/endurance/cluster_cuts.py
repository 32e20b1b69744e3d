"""Power cuts anywhere in operations on a cluster."""

from __future__ import annotations

from pathlib import Path

from tests.endurance import cuts
from tests.storage.power.cluster_steps import CLUSTER_SERIES


def run(seed: int, scratch: Path) -> dict[str, int]:
    """A batch of one series; series take turns."""
    return cuts.run(seed, scratch, names=CLUSTER_SERIES, count="cluster power cuts")
