"""Every call that changes a file of a cluster is killed, fails, finds the disk full, or writes half."""

from __future__ import annotations

from pathlib import Path

from tests.endurance import faults
from tests.storage.power.cluster_steps import CLUSTER_SERIES


def run(seed: int, scratch: Path) -> dict[str, int]:
    """A batch of one series; series take turns."""
    return faults.run(seed, scratch, names=CLUSTER_SERIES, count="cluster fault")
