"""The page on a fake engine, asked with Flask's test client."""

from __future__ import annotations

import io

import pytest
from flask.testing import FlaskClient

from tests.web.page.fake_engine import FakeEngine
from web.app import create_app
from web.settings import ServiceSettings


@pytest.fixture
def engine() -> FakeEngine:
    """The engine behind the page."""
    return FakeEngine()


@pytest.fixture
def client(engine: FakeEngine) -> FlaskClient:
    """A browser without scripts; it raises nothing, as a server does."""
    return create_app(ServiceSettings(), engine, log_stream=io.StringIO()).test_client()
