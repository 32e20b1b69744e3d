"""Pictures of `benchmarks.cluster_simulation`: what was predicted beside what was measured, and what lies beyond.

Run: python -m benchmarks.cluster_plot benchmarks/results/cluster_simulation.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def plot(figures: Mapping[str, Any], path: Path) -> None:
    """Draw four panels to a file."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 4, figsize=(17, 4))
    stages = figures["held_out"]["compared"]
    names = sorted(stages, key=lambda name: stages[name]["measured_ms"])
    places = range(len(names))
    panels[0].barh([each + 0.2 for each in places], [stages[n]["measured_ms"] for n in names], 0.4, label="measured")
    panels[0].barh([each - 0.2 for each in places], [stages[n]["predicted_ms"] for n in names], 0.4, label="predicted")
    panels[0].set_yticks(list(places), names)
    panels[0].set(title="A cluster that was not fitted", xlabel="ms of a core, a call (router: a query)")
    panels[0].legend()
    simulated = figures["simulated"]
    for passages in ("scanned", "indexed"):
        rows = [each for each in simulated["vectors"] if each["passages"] == passages]
        panels[1].plot([r["vectors"] for r in rows], [r["p50_ms"] for r in rows], "o-", label=f"passages {passages}")
    panels[1].set(title="62 million vectors a shard", xlabel="vectors", ylabel="p50 of one client, ms", xscale="log")
    panels[1].set_ylim(bottom=0)
    panels[1].legend()
    for panel, kind, title in ((panels[2], "shards", "A billion vectors"), (panels[3], "replicas", "16 shards")):
        rows = simulated[kind]
        places = [each[kind] for each in rows]
        panel.plot(places, [each["p50_ms"] for each in rows], "o-", color="tab:blue")
        panel.set(title=title, xlabel=kind, xscale="log")
        panel.set_ylabel("p50 of one client, ms", color="tab:blue")
        panel.set_ylim(bottom=0)
        panel.minorticks_off()
        panel.set_xticks(places, [str(each) for each in places])
        beside = panel.twinx()
        beside.plot(places, [each["per_s"] for each in rows], "s--", color="tab:orange")
        beside.set_ylabel("queries/s under load", color="tab:orange")
        beside.set_ylim(bottom=0)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    source = Path(sys.argv[1])
    plot(json.loads(source.read_text(encoding="utf-8"))["figures"], source.with_suffix(".png"))
