"""First paint of the web page in a real Chromium, cold and warm cache, and what a first visit transfers.

Run: python -m benchmarks.page_paint --kb DIR     (DIR: `kbengine demo --kb DIR`; needs Debian's `chromium`)
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.measurement import quantiles_ms, write_result

PAGES = {
    "search": "/",
    "relation": "/?task=slot-filling",
    "answers": "/?task=question&q=In+which+city+was+the+game+of+basketball+invented%3F",
    "documents": "/documents",
    "status": "/status",
}
PAINT = """
new Promise((done) => new PerformanceObserver((list) => {
    for (const one of list.getEntries()) if (one.name === "first-contentful-paint") done(one.startTime);
}).observe({type: "paint", buffered: true}))
"""
TRANSFERRED = """
[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .reduce((sum, one) => sum + one.transferSize, 0)
"""


@dataclass(frozen=True)
class Config:
    """What is measured."""

    kb: Path
    chromium: str
    visits: int = 30
    warm_up: int = 3


@contextmanager
def served(kb: Path) -> Iterator[str]:
    """Yield the address of `kbengine serve`, as its first log line gives it."""
    command = [sys.executable, "-m", "kbengine.cli", "serve", "--kb", str(kb), "--port", "0"]
    with tempfile.TemporaryFile() as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            while True:
                time.sleep(0.1)
                told = os.pread(log.fileno(), 1 << 16, 0).decode()
                line = next((one for one in told.splitlines() if '"event": "serving"' in one), None)
                if line is not None:
                    break
                if process.poll() is not None:
                    raise SystemExit(told)
            yield json.loads(line)["url"]
        finally:
            process.terminate()


def visit(page: Page, address: str) -> tuple[float, int]:
    """Return the seconds to the first contentful paint of one visit, and the bytes it transferred."""
    page.goto(address, wait_until="load")
    return page.evaluate(PAINT) / 1e3, page.evaluate(TRANSFERRED)


def measure_page(browser: Browser, address: str, config: Config) -> dict[str, Any]:
    """Return the figures of one page: each cold visit is a profile of its own, the warm one follows in it."""
    cold, warm, sizes = [], [], []
    for number in range(config.warm_up + config.visits):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        first_s, size = visit(page, address)
        again_s, _ = visit(page, address)
        context.close()
        if number >= config.warm_up:
            cold.append(first_s)
            warm.append(again_s)
            sizes.append(size)
    return {"cold": quantiles_ms(cold), "warm": quantiles_ms(warm), "transferred_bytes": max(sizes)}


def measure(config: Config) -> dict[str, Any]:
    """Return all figures."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with served(config.kb) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=config.chromium, args=arguments)
        figures: dict[str, Any] = {name: measure_page(browser, address + path, config) for name, path in PAGES.items()}
        figures["chromium"] = browser.version
        figures["load_average_1_min"] = round(os.getloadavg()[0], 2)
        browser.close()
    return figures


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kb", type=Path, required=True)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--visits", type=int, default=Config.visits)
    options = parser.parse_args()
    figures = measure(Config(options.kb, options.chromium, options.visits))
    write_result("page_paint", "first contentful paint below 1 s on loopback, first visit <= 150 kB", figures)


if __name__ == "__main__":
    main()
