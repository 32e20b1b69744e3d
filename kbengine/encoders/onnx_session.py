"""ONNX Runtime on this processor: one thread a text, several texts side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

T = TypeVar("T")
R = TypeVar("R")

# Instructions that multiply uint8 by int8 and add up in int32. Those before them (AVX2, AVX-512) add pairs in int16,
# which overflows; there weights are uint8, which ONNX Runtime multiplies exactly (1.5 times as long on a Zen 5).
_EXACT = frozenset({"avx512_vnni", "avx_vnni", "amx_int8"})
_ERRORS_ONLY = 3


def adds_int8_exactly(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Return whether the processor adds products of uint8 and int8 without overflow; false where unknown."""
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() == "flags":
                    return not _EXACT.isdisjoint(value.split())
    except OSError:
        return False
    return False


def open_session(model: bytes) -> InferenceSession:
    """Return a session that computes in the thread that calls it; call it from several at once.

    Args:
        model: an ONNX file's bytes. Making them of the stored weights and preparing a session takes 40 ms each for
            MiniLM, so nothing is kept on disk.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # More would fuse the sum before a normalisation with it, which takes five times as long as both.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = _ERRORS_ONLY
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def side_by_side(function: Callable[[T], R], items: Sequence[T], *, n_threads: int | None = None) -> Iterator[R]:
    """Give the function's result for each item, in order, computed by as many threads as there are cores.

    The threads live as long as the call: starting them takes a tenth of a millisecond, and nothing is left over that
    would not survive a fork.
    """
    n_threads = min(n_threads or len(os.sched_getaffinity(0)), len(items))
    if n_threads < 2:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(n_threads, thread_name_prefix="kbengine-onnx") as executor:
        yield from executor.map(function, items)
