"""A cluster of up to a billion vectors, simulated from stage costs that first predict a cluster they do not know.

Run: python -m benchmarks.cluster_simulation --queries FILE.jsonl.gz --scratch DIR --fit URL URL --kb DIR --held-out URL

Costs are fitted to `--fit` clusters and to one larger knowledge base as the only shard. Then `--held-out`, searched by
Ray actors and asked by some clients at once, is measured and predicted; last comes what was not measured.
What was measured is kept in the scratch folder and not measured again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cluster_model import Costs, Layout, Stage, simulate
from benchmarks.cluster_stages import OPTIONS, cluster_source, directory_source, measure, read_queries, summary
from benchmarks.measurement import write_result
from kbengine.cluster.calls import Method, call
from kbengine.cluster.opening import ClusterOptions, open_cluster
from kbengine.cluster.routing import place_of
from kbengine.encoders.encoder import Encoder
from kbengine.search.query import Query

ORDER = ("known_names", "count", "say", "look", "candidates", "score", "resolve")
COLUMNS = {"candidates": ("one", "rows", "scanned"), "score": ("one", "rows", "part"), "resolve": ("one", "part")}
PASSAGES_A_ROW = 149_367 / 11_445_850
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Config:
    """What is measured, and where things are kept meanwhile."""

    queries: Path
    scratch: Path
    fit: tuple[str, ...]
    kb: Path
    held_out: str
    n: int = 60
    clients: tuple[int, ...] = (1, 2, 4, 8)
    seconds: float = 8.0


def least_squares(points: Sequence[Mapping[str, float]], columns: Sequence[str]) -> dict[str, float]:
    """Return what each column costs, nothing negative: the best of the fits of all subsets of the columns."""
    wanted = np.array([each["ms"] for each in points])
    best: tuple[float, dict[str, float]] = (np.inf, {})
    for size in range(1, len(columns) + 1):
        for chosen in itertools.combinations(columns, size):
            matrix = np.array([[each[name] for name in chosen] for each in points]) / wanted[:, None]
            found = np.linalg.lstsq(matrix, np.ones(len(points)), rcond=None)[0]
            error = float(np.square(matrix @ found - 1).sum())
            if (found >= 0).all() and error < best[0] - 1e-9:
                best = error, dict(zip(chosen, map(float, found), strict=True))
    return best[1]


def point_of(measured: Mapping[str, Any], method: str, *, is_scanned: bool) -> dict[str, float]:
    """Return what a method took in one cluster, and what that may follow from; rows in millions."""
    return {
        "ms": measured["methods"][method]["ms_a_call"],
        "one": 1.0,
        "rows": measured["rows_a_shard"] / 1e6,
        "scanned": measured["passages_a_shard"] / 1e6 if is_scanned else 0.0,
        "part": 1.0 / measured["shards"],
    }


def fitted(clusters: Sequence[Mapping[str, Any]], large: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return what the methods and the router cost, by column, in ms."""
    found: dict[str, dict[str, float]] = {}
    for method in ORDER:
        points = [point_of(each, method, is_scanned=True) for each in clusters if method in each["methods"]]
        if method in large["methods"]:
            points.append(point_of(large, method, is_scanned=False))
        if points:
            found[method] = least_squares(points, COLUMNS.get(method, ("one", "rows")))
    calls = [{"ms": each["router_ms"], "one": 1.0, "calls": calls_of(each)} for each in (*clusters, large)]
    found["router"] = least_squares(calls, ("one", "calls"))
    return found


def calls_of(measured: Mapping[str, Any]) -> float:
    """Return how many calls a query made."""
    return float(sum(each["rounds_a_query"] * each["calls_a_round"] for each in measured["methods"].values()))


def costs_of(
    fit: Mapping[str, Mapping[str, float]], rounds: Mapping[str, Any], ray: Mapping[str, float], *, is_scanned: bool
) -> Costs:
    """Return costs for simulating; `rounds` is of a cluster of several shards, which makes rounds that one does not."""
    stages = {}
    for method in ORDER:
        of, seen = fit.get(method), rounds["methods"].get(method)
        if of is None or seen is None:
            continue
        row = of.get("rows", 0.0) + (PASSAGES_A_ROW * of.get("scanned", 0.0) if is_scanned else 0.0)
        asked = seen["calls_a_round"] / rounds["shards"]
        parts = (of.get("one", 0.0) * 1e-3, row * 1e-9, of.get("part", 0.0) * 1e-3)
        stages[method] = Stage(seen["rounds_a_query"], asked, *parts)
    return Costs(
        stages,
        router_s=fit["router"].get("one", 0.0) * 1e-3,
        router_call_s=fit["router"].get("calls", 0.0) * 1e-3,
        send_s=ray["send_ms"] * 1e-3,
        take_s=ray["take_ms"] * 1e-3,
        wire_s=ray["wire_ms"] * 1e-3,
        spread=0.35,
    )


def cpu_s(pid: int) -> float:
    """Return the processor's seconds that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def messages(cluster: Any, n: int = 400) -> dict[str, float]:
    """Return what a call over Ray that asks for nothing costs: here, in the actor, and on its way."""
    import ray

    router = cluster.router
    known = router._newest()
    name, searcher = next(iter(known.placed.items()))
    (replica,) = router._searchers.replicas(searcher)
    pid = int(ray.get(replica.replica.handle.pid.remote()))
    message = call(place_of(known.ref, name), "ready", Method(None, str), None)
    for _ in range(50):
        replica.send(message, is_hedge=False).result()
    times, own, actor = [], time.process_time(), cpu_s(pid)
    for _ in range(n):
        began = time.perf_counter()
        replica.send(message, is_hedge=False).result()
        times.append(time.perf_counter() - began)
    send, take = (time.process_time() - own) / n, (cpu_s(pid) - actor) / n
    wall = float(np.quantile(times, 0.25))
    parts = {"send_ms": send, "take_ms": take, "wire_ms": max(0.0, wall - send - take), "call_ms": wall}
    return {key: round(1e3 * value, 3) for key, value in parts.items()}


def running() -> int:
    """Return how many threads of the machine run or wait for a core, this one aside."""
    lines = Path("/proc/stat").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("procs_running")).split()[1]) - 1


def asked_by(cluster: Any, queries: Sequence[Query], clients: int, seconds: float) -> dict[str, Any]:
    """Return what clients saw that asked one query after the other, and how busy the machine was with other things."""
    others = [running() for _ in range(200) if time.sleep(0.01) is None]
    times: list[float] = []
    until = time.perf_counter() + seconds

    def ask(first: int) -> None:
        place = first * 7
        while time.perf_counter() < until:
            began = time.perf_counter()
            cluster.search(queries[place % len(queries)], OPTIONS)
            times.append(time.perf_counter() - began)
            place += 1

    began = time.perf_counter()
    threads = [threading.Thread(target=ask, args=(each,)) for each in range(clients)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    wall = time.perf_counter() - began
    others += [running() for _ in range(200) if time.sleep(0.01) is None]
    p50, p95 = (1e3 * float(each) for each in np.quantile(times, (0.5, 0.95)))
    return {
        "clients": clients,
        "others": round(float(np.mean(others)), 2),
        "per_s": round(len(times) / wall, 2),
        "p50_ms": round(p50, 1),
        "p95_ms": round(p95, 1),
    }


def compared(costs: Costs, rows: tuple[float, ...], measured: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return measured points with what is predicted for them, as busy as the machine was."""
    found = []
    for point in measured:
        layout = Layout(rows, clients=point["clients"], others=round(point["others"]), queries=200)
        seen = simulate(costs, layout)
        found.append(
            {
                **point,
                "predicted_per_s": round(seen.per_s, 2),
                "predicted_p50_ms": round(1e3 * seen.p50_s, 1),
                "predicted_p95_ms": round(1e3 * seen.p95_s, 1),
            }
        )
    return found


def beyond(costs: Mapping[str, Costs]) -> dict[str, Any]:
    """Return latency and throughput against vectors, shards and replicas, on machines of 8 cores of this kind."""
    found: dict[str, Any] = {"vectors": [], "shards": [], "replicas": []}

    def entry(kind: str, total: float, layout: Layout, passages: str) -> None:
        one = simulate(costs[passages], replace(layout, queries=40))
        many = simulate(costs[passages], replace(layout, clients=4 * layout.machines + 4, queries=160))
        found[kind].append(
            {
                "vectors": total,
                "shards": len(layout.rows),
                "replicas": layout.replicas,
                "machines": layout.machines,
                "passages": passages,
                "p50_ms": round(1e3 * one.p50_s, 1),
                "p95_ms": round(1e3 * one.p95_s, 1),
                "per_s": round(many.per_s, 1),
                "loaded_p95_ms": round(1e3 * many.p95_s, 1),
            }
        )
        print(kind, found[kind][-1], flush=True)

    for total in (1e7, 1e8, 3e8, 1e9):
        n = max(1, round(total / 6.25e7))
        layout = Layout((total / n,) * n, replicas=8, machines=n, cores=8, routers=max(1, n // 2), apart=True)
        for passages in costs:
            entry("vectors", total, layout, passages)
    for n in (4, 8, 16, 32):
        layout = Layout((1e9 / n,) * n, replicas=8, machines=n, cores=8, routers=8, apart=True)
        entry("shards", 1e9, layout, "scanned")
    for copies in (1, 2, 4, 8):
        layout = Layout((6.25e7,) * 16, replicas=copies, machines=16, cores=8, routers=8, apart=True)
        entry("replicas", 1e9, layout, "scanned")
    return found


def measurements(config: Config) -> dict[str, Any]:
    """Return what was measured: stages of all clusters, messages over Ray, and what clients of the held-out one saw."""
    encoder = Encoder.load("minilm-phrase")
    queries = read_queries(config.queries, config.n)
    measured = []
    for name in (*config.fit, config.held_out):
        with cluster_source(name, config.scratch / "shards") as (source, sizes):
            measured.append(summary(measure(source, encoder, queries, repeats=3), sizes))
    with directory_source(config.kb) as (source, sizes):
        large = summary(measure(source, encoder, queries, repeats=3), sizes)
    with open_cluster(ClusterOptions(config.held_out, folder=config.scratch / "state", replicas=1)) as cluster:
        ray = messages(cluster)
        rows = [float(each.rows) for each in cluster.router.manifest().shards]
        asked_by(cluster, queries, 1, 3.0)
        points = [asked_by(cluster, queries, clients, config.seconds) for clients in config.clients]
    return {
        "clusters": measured[:-1],
        "held_out": measured[-1],
        "large": large,
        "ray": ray,
        "rows": rows,
        "served": points,
    }


def figures_of(measured: Mapping[str, Any]) -> dict[str, Any]:
    """Fit, predict what was held out, and go on to what is not measured."""
    clusters, held, large = measured["clusters"], measured["held_out"], measured["large"]
    fit = fitted(clusters, large)
    stages = {}
    for method, seen in held["methods"].items():
        if method in fit:
            point = point_of(held, method, is_scanned=True)
            expected = sum(value * point[name] for name, value in fit[method].items())
            stages[method] = {"measured_ms": seen["ms_a_call"], "predicted_ms": round(expected, 4)}
    expected = sum(value * {"one": 1.0, "calls": calls_of(held)}[name] for name, value in fit["router"].items())
    stages["router"] = {"measured_ms": held["router_ms"], "predicted_ms": round(expected, 3)}
    several = next(each for each in clusters if each["shards"] > 1)
    costs = {
        key: costs_of(fit, several, measured["ray"], is_scanned=key == "scanned") for key in ("scanned", "indexed")
    }
    served = compared(costs["scanned"], tuple(measured["rows"]), measured["served"])
    return {
        "fitted_to": [*clusters, large],
        "fit_ms": fit,
        "ray": measured["ray"],
        "held_out": {"stages": held, "compared": stages, "served": served},
        "costs": asdict(costs["scanned"]),
        "simulated": beyond(costs),
    }


def main() -> None:
    """Read arguments, run, write figures and the plot."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--queries", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--fit", nargs="+", required=True)
    parser.add_argument("--kb", type=Path, required=True)
    parser.add_argument("--held-out", required=True)
    parser.add_argument("--n", type=int, default=60)
    given = parser.parse_args()
    config = Config(given.queries, given.scratch, tuple(given.fit), given.kb, given.held_out, given.n)
    kept = config.scratch / "measured.json"
    if not kept.exists():
        kept.write_text(json.dumps(measurements(config)), encoding="utf-8")
    figures = figures_of(json.loads(kept.read_text(encoding="utf-8")))
    claim = "stage costs predict a cluster that they were not fitted on, and say what a billion vectors take"
    path = write_result("cluster_simulation", claim, figures)
    from benchmarks.cluster_plot import plot

    plot(figures, path.with_suffix(".png"))


if __name__ == "__main__":
    main()
