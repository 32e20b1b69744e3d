"""Looking after replicas goes on whatever went wrong at one look."""

from __future__ import annotations

from kbengine.cluster.opening import Tending
from kbengine.errors import StateError
from tests.waiting import wait_until


def test_a_look_that_fails_is_followed_by_others() -> None:
    """As when Ray's head is away, which raises errors of Ray's own."""
    looks: list[int] = []

    def look() -> list[str]:
        looks.append(1)
        if len(looks) == 1:
            raise RuntimeError("the head does not answer")
        if len(looks) == 2:
            raise StateError("no machine is left")
        return []

    tending = Tending(look, every_s=0.001)
    wait_until(lambda: len(looks) >= 3)
    tending.close()
