"""What every benchmark shares: the machine, quantiles of times, and where results are written."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
LIBRARIES = ("torch", "onnxruntime", "faiss-cpu", "numpy", "pysqlite3", "sqlalchemy", "tokenizers")


def machine() -> dict[str, Any]:
    """Return processor, cores, memory, Python and library versions, and the commit."""
    model = "unknown"
    flags: set[str] = set()
    for line in Path("/proc/cpuinfo").read_text().split("\n"):
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
        if line.startswith("flags"):
            flags = set(line.split())
            break
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "processor": model,
        "bfloat16": sorted(flags & {"avx512_bf16", "amx_bf16"}),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in LIBRARIES},
        "commit": commit.stdout.strip(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def quantiles_ms(seconds: Sequence[float]) -> dict[str, float]:
    """Return p50, p95, p99 and the mean of the times, in milliseconds."""
    values = np.asarray(seconds) * 1e3
    return {
        "p50_ms": round(float(np.quantile(values, 0.5)), 2),
        "p95_ms": round(float(np.quantile(values, 0.95)), 2),
        "p99_ms": round(float(np.quantile(values, 0.99)), 2),
        "mean_ms": round(float(values.mean()), 2),
    }


def resident_bytes() -> dict[str, int]:
    """Return this process's resident memory: private (anonymous), of mapped files, and their sum."""
    fields = {}
    for line in Path("/proc/self/status").read_text().split("\n"):
        name, _, value = line.partition(":")
        if name in ("RssAnon", "RssFile", "VmRSS"):
            fields[name] = int(value.split()[0]) * 1024
    return {"anonymous": fields["RssAnon"], "mapped_files": fields["RssFile"], "total": fields["VmRSS"]}


def write_result(name: str, claim: str, figures: dict[str, Any]) -> Path:
    """Return the file to which the claim, its figures and the machine were written; they are printed too."""
    record = {"benchmark": name, "claim": claim, "figures": figures, "machine": machine()}
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(figures, indent=2, ensure_ascii=False))
    print(f"written to {path}")
    return path
