"""Right and wrong in a real browser: by mouse and keyboard, without loading the page again, and without scripts."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.web.browser.conftest import watched_page

SEARCH = "/?task=question&q=Who+designed+the+lighthouse%3F"


def test_an_answer_is_judged_without_loading_the_page_again(page, fake_address, fake):
    """Pressed by mouse, changed and taken back by keyboard; each is said to screen readers."""
    page.goto(fake_address + SEARCH)
    page.evaluate("window.isSame = true")
    right = page.get_by_role("button", name="Right: answer 1")
    wrong = page.get_by_role("button", name="Wrong: answer 1")

    right.click()
    expect(right).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#announce")).to_have_text("Stored. Thank you.")
    right.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(wrong).to_have_attribute("aria-pressed", "true")
    expect(right).to_have_attribute("aria-pressed", "false")
    assert [(each.answer, each.verdict) for each in fake.said] == [("Ines Rook", "wrong")]
    page.keyboard.press("Space")
    expect(wrong).to_have_attribute("aria-pressed", "false")

    assert fake.said == [] and page.evaluate("window.isSame")


def test_without_scripts_the_buttons_lead_back(browser, fake_address, fake):
    """To the same search, where the button is pressed."""
    with watched_page(browser, java_script_enabled=False) as watched:
        watched.page.goto(fake_address + SEARCH)
        watched.page.get_by_role("button", name="Right: answer 1").click()
        pressed = watched.page.get_by_role("button", name="Right: answer 1")
        expect(pressed).to_have_attribute("aria-pressed", "true")

    assert [each.verdict for each in fake.said] == ["right"]
