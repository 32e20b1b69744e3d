"""Who does the work of a build, as the command line names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbengine.cluster.build_work import InProcess, Workers
from kbengine.cluster.process_build import ProcessWorkers
from kbengine.cluster.ray_build import RayWorkers
from kbengine.errors import InvalidOptionError

if TYPE_CHECKING:
    from kbengine.encoders.encoder import Encoder


def workers_for(n: int, *, encoder: Encoder, ray: str | None = None, device: str = "auto") -> Workers:
    """Return who does the work: this process, processes of this machine, or tasks of Ray.

    Args:
        n: how many work at once.
        encoder: loaded here already.
        ray: address of a Ray runtime, HOST:PORT, or `local` for one that is started here; None: without Ray.
        device: where chunks are encoded: on GPUs each task of Ray takes one.

    Raises:
        InvalidOptionError: `n` is not positive.
        MissingExtraError: Ray is asked for and not installed.
    """
    if n < 1:
        raise InvalidOptionError(f"workers is {n}, wanted 1 or more")
    if ray is not None:
        return RayWorkers(n, address=None if ray == "local" else ray, device=device)
    if n == 1:
        return InProcess(encoder)
    return ProcessWorkers(n)
