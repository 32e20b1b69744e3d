"""The application factory: settings and an engine in, a Flask app out."""

from __future__ import annotations

from apiflask import APIFlask

from kbengine import __version__
from web.engine import Engine
from web.service import Service
from web.settings import ServiceSettings


def create_app(settings: ServiceSettings, engine: Engine) -> APIFlask:
    """Return the app: the JSON API under /v1, the page under /, health and metrics."""
    app = APIFlask("web", title="kbengine", version=__version__, static_folder=None)
    app.extensions["kbengine"] = Service(settings, engine)
    # The page: `from web.page import page` is registered here, a flask Blueprint with its own templates and static files.
    return app
