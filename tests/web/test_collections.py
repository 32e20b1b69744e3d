"""The garbage collector of a service."""

from __future__ import annotations

import gc

from web.worker import leave_what_stays


def test_what_is_there_when_a_service_begins_is_passed_over():
    """Frozen objects are in no generation any more; later ones are."""
    before = gc.get_freeze_count()
    try:
        leave_what_stays()
        assert gc.get_freeze_count() > before + 1000
        later = [[]]
        assert any(each is later for each in gc.get_objects())
    finally:
        gc.unfreeze()
