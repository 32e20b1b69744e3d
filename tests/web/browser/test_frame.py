"""Every page at every width and in both themes: nothing overflows, axe finds nothing serious, little is sent."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from kbengine.corpus.document import CorpusDocument, CorpusPassage
from tests.web.browser.conftest import watched_page
from tests.web.page.fake_engine import answer, evidence, task_answer
from web.errors import QueueFullError

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
ALL_RULES = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
CONTRAST = {"type": "rule", "values": ["color-contrast"]}

QUESTION = "?q=In+which+city+was+the+game+of+basketball+invented%3F&k=4"
MENTIONS = "?task=entity-linking&k=2&text=[START_ENT]+Mercury+[END_ENT]+sang,+[START_ENT]+Paris+[END_ENT]+slept."
PAGES = {
    "question": "",
    "relation": "?task=slot-filling",
    "entity": "?task=entity-linking",
    "dialogue": "?task=dialogue",
    "answers": QUESTION,
    "passages": f"{QUESTION}&unit=passage",
    "words first": f"{QUESTION}&strategy=sfs",
    "mentions": MENTIONS,
    "grounded": "?task=dialogue&turn=I+am+going+to+Lincoln.&turn=Was+it+always+called+Lincoln%3F&k=3",
    "compare": f"compare{QUESTION}",
    "documents": "documents",
    "document": "document?id=lincoln-nebraska&mark=1:0-7",
    "card": "entity?id=frida-kahlo",
    "meanings": "entity?name=Lincoln",
    "api": "docs",
    "tables": "fill",
    "jobs": "jobs",
    "status": "status",
    "missing": "document?id=none",
    "nowhere": "nowhere",
}
LONG = "Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch" * 3


def overflow_px(page: Page) -> int:
    """How much wider than its window the page is."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def violations(page: Page, rules: Any = ALL_RULES) -> list[str]:
    """What axe finds that is moderate or worse, with the first place of each."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    # Without selectors and details of what is right, which nobody looks at, axe takes half the time.
    options = {"runOnly": rules, "resultTypes": ["violations"], "selectors": False}
    found: Any = page.evaluate("(options) => axe.run(document, options)", options)
    return [
        f"{one['id']} ({one['impact']}): {one['nodes'][0]['html'][:200]} {json.dumps(one['nodes'][0]['any'][:1])[:300]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical", "moderate")
    ]


def broken_labels(page: Page) -> list[str]:
    """Short labels of the page's own that do not stand on one line."""
    return page.evaluate(
        """[...document.querySelectorAll(".site-nav a, .wordmark, .tabs__tab, .segments__item span, .parts th, dt")]
            .filter((one) => !one.querySelector("code"))  // a relation's name is as long as it is
            .filter((one) => one.offsetParent && one.offsetHeight > 1.9 * parseFloat(getComputedStyle(one).lineHeight))
            .map((one) => one.outerHTML)"""
    )


def told(found: dict[str, tuple[int, list[str]]]) -> str:
    """What is wrong, a line each; empty when nothing is."""
    lines = [f"{name}: {px} px too wide" for name, (px, _) in found.items() if px]
    return "\n".join([*lines, *(f"{name}: {one}" for name, (_, all_of_it) in found.items() for one in all_of_it)])


def open_everything(page: Page) -> None:
    """Every drawer is open."""
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")


def test_every_page_fits_every_width_and_is_accessible(browser, demo):
    """From 360 pixels on nothing scrolls sideways, all drawers open; axe finds nothing that matters in either theme."""
    with watched_page(browser, color_scheme="light", bypass_csp=True) as watched:
        watched.expected_status.add(404)
        page, found = watched.page, {}
        for name, path in PAGES.items():
            page.emulate_media(color_scheme="light")
            page.goto(f"{demo}/{path}")
            open_everything(page)
            for width in (1280, 800, 600, 360):
                page.set_viewport_size({"width": width, "height": 780})
                found[f"{name} at {width}"] = (overflow_px(page), broken_labels(page))
            found[f"{name}, light"] = (0, violations(page))
            page.emulate_media(color_scheme="dark")
            found[f"{name}, dark"] = (0, violations(page, CONTRAST))

    assert not told(found), told(found)


def test_states_that_are_rare_are_accessible_too(browser, fake, fake_address):
    """Probabilities, a no-answer, nothing found, busy, an empty knowledge base, words without a break."""
    place = evidence(LONG, f"At {LONG} it ended.", title=LONG, doc_id=LONG)
    fake.add([CorpusDocument(LONG, LONG, passages=(CorpusPassage(1, LONG, LONG),))])
    states: dict[str, Any] = {
        "probable": lambda request, _: task_answer(request, answer(LONG, place, place, probability=0.9)),
        "doubtful": lambda request, _: task_answer(
            request, answer(probability=0.4), status="no_answer", reason="below_threshold", threshold=0.6
        ),
        "nothing": lambda request, _: task_answer(request),
    }
    with watched_page(browser, viewport={"width": 360, "height": 780}, bypass_csp=True) as watched:
        watched.expected_status.add(429)
        page, found = watched.page, {}
        for name, respond in states.items():
            fake.respond = respond
            page.goto(f"{fake_address}/?q={LONG}&threshold=0.6")
            open_everything(page)
            found[name] = (overflow_px(page), violations(page))
        for name in (f"document?id={LONG}", "documents", "status"):
            page.goto(f"{fake_address}/{name}")
            open_everything(page)
            found[name] = (overflow_px(page), [])
        fake.failure = QueueFullError("48 requests wait", retry_after_s=1)
        page.goto(f"{fake_address}/?q=x")
        found["busy"] = (overflow_px(page), violations(page))
        fake.failure = None
        fake.stored.clear()
        fake.generation += 1
        page.goto(fake_address)
        found["empty"] = (overflow_px(page), violations(page))

    assert not told(found), told(found)


def test_a_busy_service_is_asked_again_with_one_click(browser, fake, fake_address):
    """The page says what happened; its button asks the same."""
    with watched_page(browser) as watched:
        watched.expected_status.add(429)
        fake.failure = QueueFullError("48 requests wait", retry_after_s=1)
        watched.page.goto(f"{fake_address}/?q=Who%3F")
        expect(watched.page.get_by_role("alert")).to_contain_text("Too many searches at once")
        fake.failure = None
        watched.page.get_by_role("link", name="Try again").click()

        expect(watched.page.locator(".answer__text")).to_have_text("Ines Rook")


@pytest.mark.parametrize("name", ["question", "relation", "answers", "documents"])
def test_a_page_with_all_its_files_is_small(browser, demo, name):
    """At most 150 kB, headers included, on a first visit."""
    with watched_page(browser) as watched:
        watched.page.goto(f"{demo}/{PAGES[name].replace('&k=4', '')}", wait_until="networkidle")

        assert 10_000 < watched.received_bytes <= 150_000


def test_styles_and_scripts_are_fetched_once(browser, demo):
    """The second page costs its own words only."""
    with watched_page(browser) as watched:
        watched.page.goto(demo, wait_until="networkidle")
        watched.page.get_by_role("link", name="Documents").click()
        watched.page.wait_for_load_state("networkidle")
        sizes = watched.page.evaluate(
            "performance.getEntriesByType('resource').filter((one) => one.transferSize > 300).map((one) => one.name)"
        )

        assert sizes == []


def test_the_theme_is_chosen_and_kept(browser, demo):
    """System, light, dark: the button goes round, the choice survives a reload, nothing flashes."""
    with watched_page(browser, color_scheme="light") as watched:
        page = watched.page
        page.goto(demo)
        paper = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(paper)
        page.get_by_role("button", name="Theme: as the system").click()
        page.get_by_role("button", name="Theme: light").click()
        dark = page.evaluate(paper)
        page.reload()

        assert dark != light and page.evaluate(paper) == dark
        page.get_by_role("button", name="Theme: dark").click()
        assert page.evaluate(paper) == light


def test_headings_and_landmarks_form_an_outline(page, demo):
    """One h1 a page, one main, named navigations."""
    for path in PAGES.values():
        if path in ("document?id=none", "nowhere"):
            continue
        page.goto(f"{demo}/{path}")
        assert page.locator("h1").count() == 1, path
        assert page.locator("main").count() == 1, path
        assert page.title().endswith("kbengine"), path
