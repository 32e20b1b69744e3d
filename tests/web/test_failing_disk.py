"""A disk that fails once: the change is refused by name, and the next one is taken."""

from __future__ import annotations

import errno

import pytest

from kbengine.errors import StateError
from storage.operating_system import using
from tests.storage.failing_calls import failing
from tests.web.conftest import Served

ZEBRA = {"id": "zebra", "title": "Zebra", "text": "A zebra has stripes."}


@pytest.mark.parametrize("call", ["fsync", "write", "rename"])
def test_a_service_takes_changes_again_when_its_disk_does(service: Served, call: str) -> None:
    """The writer whose sync failed is given up: another one is opened, which reads what is on the disk."""
    knowledge_base = service.engine.knowledge_base
    with using(failing(errno.EIO, call)), pytest.raises(StateError, match="Input/output error"):
        knowledge_base.add([ZEBRA])
    assert service.client.get("/v1/documents/zebra").status_code == 404
    assert service.post("/v1/documents", ZEBRA).status_code == 201
    assert service.client.get("/v1/documents/zebra").status_code == 200
