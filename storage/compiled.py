"""Functions that Numba compiles to machine code when they are first called; they run without Python's lock.

The machine code is kept beside the source, or in the user's cache folder, and is used again by the next process. Where
neither can be written, every process compiles for itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

__all__ = ["compiled", "or_go_on"]

P = ParamSpec("P")
R = TypeVar("R")

_log = logging.getLogger(__name__)

FREE_SUMS = frozenset({"reassoc", "contract"})
"""What lets sums be made in another order, several numbers at once: the same one for every row."""


def compiled(*, free_sums: bool = False) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a function of arrays and numbers when it is first called.

    Args:
        free_sums: Whether its sums may be made in another order than is written. They do not depend on anything but
            what is summed all the same.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @cache
        def made() -> Callable[P, R]:
            # Divisions by zero give what they give in numpy: looking out for them takes longer than dividing.
            fastmath = set(FREE_SUMS) if free_sums else False
            return _made(function, {"nogil": True, "error_model": "numpy", "fastmath": fastmath})

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return made()(*args, **kwargs)

        return call

    return decorate


def _made(function: Callable[P, R], options: dict[str, Any]) -> Callable[P, R]:
    from numba import njit  # 0.15 s that only who searches pays

    try:
        dispatcher = njit(cache=True, **options)(function)
    except (RuntimeError, OSError) as error:  # no folder can be written
        _log.info("the machine code of %s is not kept: %s", function.__qualname__, error)
        uncached: Callable[P, R] = njit(**options)(function)
        return uncached
    dispatcher._cache.save_overload = or_go_on(dispatcher._cache.save_overload, function.__qualname__)
    made: Callable[P, R] = dispatcher
    return made


def or_go_on(keep: Callable[..., None], name: str) -> Callable[..., None]:
    """Return what keeps a function's machine code, or does not: a full disk stops no search."""

    def keep_or_go_on(*args: Any) -> None:
        try:
            keep(*args)
        except OSError as error:
            _log.info("the machine code of %s is not kept: %s", name, error)

    return keep_or_go_on
