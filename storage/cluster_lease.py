"""Leases: what only one may do at a time, for as long as whoever does it is alive."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Iterator

from sqlalchemy import delete

from storage import cluster_schema as schema
from storage.cluster_catalog import Catalog
from storage.errors import CatalogUnavailableError, KBError

__all__ = ["LEASE_S", "Lease", "held_lease"]

LEASE_S = 60.0
"""How long a lease outlives its holder: one that was killed stops the others for a minute at most."""
_RENEWALS = 3
"""How often it is renewed in that time."""


class Lease:
    """A lease that is held.

    What is done under one has to be right without it: a machine whose clock is ahead may take it too early.
    """

    def __init__(self, duration_s: float) -> None:
        self._duration_s = duration_s
        self._until = time.monotonic() + duration_s
        self._is_lost = False

    @property
    def is_held(self) -> bool:
        """Return whether nobody else can have taken it: it was renewed in time."""
        return not self._is_lost and time.monotonic() < self._until

    def renewed(self, at: float) -> None:
        """Note that it was renewed at this time, by the monotonic clock."""
        self._until = at + self._duration_s

    def lose(self) -> None:
        """Note that another has it."""
        self._is_lost = True


@contextlib.contextmanager
def held_lease(catalog: Catalog, name: str, *, holder: str, duration_s: float = LEASE_S) -> Iterator[Lease]:
    """Hold a lease in the block; a thread renews it.

    Args:
        catalog: Where it is entered.
        name: What is done.
        holder: Who does it, for the message that others get.
        duration_s: How long it stays entered when the holder dies.

    Raises:
        LockedError: Somebody else holds it, and its time is not over.
        CatalogUnavailableError: The catalog does not answer.
    """
    token = f"{holder} {uuid.uuid4().hex[:8]}"
    catalog.renew(name, token, duration_s=duration_s)
    lease, ended = Lease(duration_s), threading.Event()

    def renew() -> None:
        while not ended.wait(duration_s / _RENEWALS):
            at = time.monotonic()
            try:
                catalog.renew(name, token, duration_s=duration_s)
            except CatalogUnavailableError:
                continue  # it may answer before the time is over
            except KBError:
                lease.lose()
                return
            lease.renewed(at)

    renewing = threading.Thread(target=renew, name="kbengine-lease", daemon=True)
    renewing.start()
    try:
        yield lease
    finally:
        ended.set()
        renewing.join()
        with contextlib.suppress(CatalogUnavailableError):  # then it ends by itself
            _release(catalog, name, token)


def _release(catalog: Catalog, name: str, token: str) -> None:
    table = schema.leases
    with catalog.database.writing() as connection:
        connection.execute(delete(table).where(table.c.name == name, table.c.holder == token))
