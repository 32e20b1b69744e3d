"""How the numeric libraries of one process share its cores."""

from __future__ import annotations

import os

# torch, faiss and numpy each bring a thread pool of their own. By default an idle pool goes on spinning for
# milliseconds on the cores that the next pool needs: on two cores a query took twice as long. numpy's matrix
# products are small here, so its pool has one thread.
_DEFAULTS = {"OMP_WAIT_POLICY": "PASSIVE", "OPENBLAS_NUM_THREADS": "1"}


def set_thread_defaults() -> None:
    """Make idle threads sleep instead of spinning, unless the environment says otherwise.

    It must be called before torch, faiss and numpy are imported, so applications call it first; the command line does.
    Nothing in the library calls it: how a process uses its cores is the application's choice.
    """
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
