"""How the numeric libraries of one process share its cores, and how much they keep."""

from __future__ import annotations

import os

# torch, faiss and numpy each bring a thread pool of their own. By default an idle pool goes on spinning for
# milliseconds on the cores that the next pool, or another process, needs. Spinning for some microseconds bridges the
# gaps inside one forward pass and no more (two cores, one of them busy with something else, p50 of a query: 180 ms by
# default, 22 ms so, 15 ms without any spinning; idle: 12, 12 and 14 ms). numpy's products are small: one thread.
#
# oneDNN, which torch computes with, makes machine code for each shape of a product and keeps that of the last 1,024. A
# build meets a new shape with nearly every batch, whose code takes 3 MB: 300 MB after 1,338 pages, hardly any used
# again. The layers of a batch have the same shapes; 64 serve them as well, and take no longer.
_DEFAULTS = {"GOMP_SPINCOUNT": "3000", "OPENBLAS_NUM_THREADS": "1", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64"}


def set_thread_defaults() -> None:
    """Make idle threads sleep instead of spinning, and little be kept, unless the environment says otherwise.

    It must be called before torch, faiss and numpy are imported, so applications call it first; the command line does.
    Nothing in the library calls it: how a process uses its cores is the application's choice.
    """
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
