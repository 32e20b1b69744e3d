"""A real Chromium before the real service: the demo knowledge base, and a fake engine for states hard to reach.

Debian's `chromium` is looked for; without it these tests are skipped, unless KBENGINE_REQUIRE_BROWSER is set.
"""

from __future__ import annotations

import io
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from werkzeug.serving import make_server

from tests.waiting import HANG_S
from tests.web.page.fake_engine import FakeEngine
from web.app import create_app
from web.engine import Engine
from web.settings import ServiceSettings

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")
REQUIRE = "KBENGINE_REQUIRE_BROWSER"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs a browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@contextmanager
def serving(engine: Any) -> Iterator[str]:
    """The address of the service of an engine, while it runs."""
    app = create_app(ServiceSettings(), engine, log_stream=io.StringIO())
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser; one process for all tests."""
    found = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    if found is None:
        missing = "no Chromium was found; install Debian's 'chromium'"
        if os.environ.get(REQUIRE):
            pytest.fail(missing)
        pytest.skip(missing)
    expect.set_options(timeout=HANG_S * 1000)
    arguments = ["--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=arguments)
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def demo_engine(bundled_kb: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The bundled knowledge base, opened once; tests that change it undo what they did."""
    engine = Engine.open(Path(shutil.copytree(bundled_kb, tmp_path_factory.mktemp("page") / "demo-kb")))
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def demo(demo_engine: Engine) -> Iterator[str]:
    """The address of the service of the bundled knowledge base."""
    with serving(demo_engine) as address:
        yield address


@pytest.fixture
def fake() -> FakeEngine:
    """An engine whose answers a test prepares."""
    return FakeEngine()


@pytest.fixture
def fake_address(fake: FakeEngine) -> Iterator[str]:
    """The address of the service of the fake engine."""
    with serving(fake) as address:
        yield address


class Watched:
    """A page, and everything about it that must not happen: errors, foreign requests, dialogs, policy violations."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.problems: list[str] = []
        self.received_bytes = 0
        self.expected_status: set[int] = set()
        page.on("pageerror", lambda error: self.problems.append(f"script error: {error}"))
        page.on("console", self._console)
        page.on("dialog", self._dialog)
        page.on("request", self._request)
        page.on("requestfinished", self._finished)

    def _console(self, message: Any) -> None:
        status_told = any(f"status of {status}" in message.text for status in self.expected_status)
        if message.type in ("error", "warning") and not status_told:
            self.problems.append(f"console {message.type}: {message.text}")

    def _dialog(self, dialog: Any) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Any) -> None:
        if urlsplit(request.url).hostname != "127.0.0.1":
            self.problems.append(f"request to {request.url}")

    def _finished(self, request: Any) -> None:
        sizes = request.sizes()
        self.received_bytes += sizes["responseBodySize"] + sizes["responseHeadersSize"]


@contextmanager
def watched_page(browser: Browser, **options: Any) -> Iterator[Watched]:
    """A page in a browser profile of its own; what must not happen fails the test at the end."""
    options.setdefault("viewport", {"width": 1280, "height": 900})
    context: BrowserContext = browser.new_context(**options)
    context.set_default_timeout(HANG_S * 1000)
    watched = Watched(context.new_page())
    try:
        yield watched
    finally:
        context.close()
    assert watched.problems == []


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    """A fresh page that is watched."""
    with watched_page(browser) as one:
        yield one


@pytest.fixture
def page(watched: Watched) -> Page:
    """A fresh page; no console error, no foreign request, no dialog may happen on it."""
    return watched.page
