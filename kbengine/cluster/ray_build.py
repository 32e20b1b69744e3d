"""A build's pieces as tasks of Ray: on the machines of a runtime, or the cores of this one.

A message goes out and a result comes back, both bytes. A worker that dies costs its piece: the task is started again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kbengine.cluster.build_work import Piece, done
from kbengine.cluster.calls import Failure
from kbengine.cluster.ray_runtime import RayOptions, connect
from kbengine.cluster.wire import decode, encode
from kbengine.errors import KBError, StateError

_DONE, _FAILED = b".", b"!"
_RETRIES = 20
"""Workers that may die over one piece before the build gives up: with less, one bad machine could end a long build."""


class RayWorkers:
    """Does pieces of a build with so many tasks at once.

    Args:
        n: how many.
        address: of a Ray runtime; None starts one on this machine, which ends with this process.
        device: where chunks are encoded: on GPUs each task takes one.

    Raises:
        MissingExtraError: Ray is not installed.
        StateError: the runtime does not answer.
    """

    def __init__(self, n: int, *, address: str | None = None, device: str = "auto") -> None:
        self._n = n
        self._ray = connect(RayOptions(address=address, cpus=n if address is None else None))
        # One thread each: workers are the parallelism, and none of them waits for another's cores.
        threads = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
        gpus = 1 if device.startswith("cuda") else 0
        self._task: Any = self._ray.remote(_done).options(
            max_retries=_RETRIES, num_cpus=1, num_gpus=gpus, runtime_env={"env_vars": threads}
        )

    def work(self, pieces: Iterable[Piece]) -> Iterator[tuple[Piece, bytes]]:
        """Yield each piece with its result, as they are done.

        Raises:
            KBError: what a worker raised.
            StateError: workers died over one piece again and again.
        """
        waiting = iter(pieces)
        running: dict[Any, Piece] = {}
        try:
            for piece in waiting:
                running[self._task.remote(piece.to_bytes())] = piece
                if len(running) >= 2 * self._n:  # the next is at hand when one is done
                    yield self._first(running)
            while running:
                yield self._first(running)
        finally:
            for task in running:
                self._ray.cancel(task, force=True)

    def _first(self, running: dict[Any, Piece]) -> tuple[Piece, bytes]:
        (finished, *_), _ = self._ray.wait(list(running), num_returns=1)
        piece = running.pop(finished)
        try:
            answer: bytes = self._ray.get(finished)
        except self._ray.exceptions.RayError as error:
            said = str(error).strip().partition("\n")[0]
            raise StateError(
                f"workers died over {piece.kind} {piece.number} {_RETRIES + 1} times ({said}); look at their memory "
                "and disks, then run the same build again: what is done stays"
            ) from error
        if answer[:1] == _FAILED:
            raise _error_of(decode(Failure, answer[1:]))
        return piece, answer[1:]


def _done(message: bytes) -> bytes:
    """Do a piece in a worker; the first byte of what comes back tells a result from an error."""
    try:
        return _DONE + done(Piece.from_bytes(message))
    except KBError as error:
        return _FAILED + encode(Failure(error.code, error.message))


def _error_of(failure: Failure) -> KBError:
    """Return the error that a worker raised, of the same class."""

    def below(kind: type[KBError]) -> Iterator[type[KBError]]:
        yield kind
        for each in kind.__subclasses__():
            yield from below(each)

    kind = next((each for each in below(KBError) if each.code == failure.code), StateError)
    return kind(failure.message)
