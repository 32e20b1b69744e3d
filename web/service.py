"""What the views of one app share: engine and settings, found through the current app."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flask import current_app

if TYPE_CHECKING:
    from web.engine import Engine
    from web.settings import ServiceSettings


@dataclass(frozen=True)
class Service:
    """The parts that views use; `current_service()` returns it inside a request."""

    settings: ServiceSettings
    engine: Engine


def current_service() -> Service:
    """Return the service of the app that handles the current request."""
    service = current_app.extensions["kbengine"]
    assert isinstance(service, Service)
    return service
