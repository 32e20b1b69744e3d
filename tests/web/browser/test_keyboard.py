"""The whole page by keyboard alone: shortcuts, order of focus, a focus that is seen."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

QUESTION = "?q=In+which+city+was+the+game+of+basketball+invented%3F&k=4"


def focused(page: Page) -> str:
    """What has the focus: its id, name, or words."""
    return page.evaluate(
        "(() => { const one = document.activeElement; return one.id || one.name || one.textContent.trim(); })()"
    )


def test_asking_moving_opening_and_reading_without_a_mouse(page, demo):
    """`/` to the field, Enter asks, j and k move, o opens and closes."""
    page.goto(demo)
    page.keyboard.press("/")
    page.keyboard.type("In which city was the game of basketball invented?")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?task=question&q=*")
    items = page.locator(".answer")

    page.keyboard.press("j")
    expect(items.nth(0)).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(items.nth(2)).to_be_focused()
    page.keyboard.press("k")
    expect(items.nth(1)).to_be_focused()
    page.keyboard.press("o")
    expect(items.nth(1).locator(".drawer").first).to_be_visible()
    page.keyboard.press("o")
    expect(items.nth(1).locator(".drawer").first).to_be_hidden()
    expect(items.nth(1)).to_be_focused()


def test_pages_are_turned_and_lists_narrowed_by_keyboard(page, demo):
    """`n` and `p` turn the pages of answers and of documents; the order is chosen in the form, without a script."""
    page.goto(f"{demo}/?q=Who+wrote+the+Metamorphosis%3F&k=3")
    page.wait_for_load_state()  # keys are heard from then on
    page.keyboard.press("n")
    expect(page).to_have_url(re.compile("page=2"))
    expect(page.locator(".answer__rank").first).to_have_text("4")
    page.wait_for_load_state()
    page.keyboard.press("p")
    expect(page.locator(".answer__rank").first).to_have_text("1")

    page.goto(f"{demo}/documents")
    page.wait_for_load_state()  # keys are heard from then on
    page.keyboard.press("n")
    expect(page).to_have_url(re.compile("page=2"))
    page.get_by_label("Sort by").select_option("-added")
    page.get_by_label("Filter").press("Enter")
    expect(page).to_have_url(re.compile("sort=-added"))
    expect(page.locator(".pager__place")).to_have_text(re.compile("Page 1 of"))


def test_a_strategy_is_chosen_with_the_keyboard(page, demo):
    """The disclosure opens with Enter, arrows choose, Enter in the field asks; the address holds the choice."""
    page.goto(f"{demo}/?q=Who+wrote+the+Metamorphosis%3F&k=3")
    summary = page.get_by_text("Search options", exact=True)
    summary.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("radio", name="Default", exact=True)).to_be_focused()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    expect(page.get_by_role("radio", name="Words first")).to_be_checked()
    page.get_by_label("Question", exact=True).press("Enter")

    expect(page).to_have_url(re.compile("strategy=sfs"))
    expect(page.get_by_role("radio", name="Words first")).to_be_visible()
    expect(page.locator(".answer")).to_have_count(3)


def test_shortcuts_are_letters_while_typing(page, demo):
    """A question may hold any of them."""
    page.goto(demo)
    page.get_by_label("Question", exact=True).press_sequentially("jok/?1")

    expect(page.get_by_label("Question", exact=True)).to_have_value("jok/?1")
    expect(page.locator("#help")).to_be_hidden()
    page.keyboard.press("Escape")
    assert focused(page) != "q"


def test_help_opens_and_gives_the_focus_back(page, demo):
    """`?` opens, Escape closes."""
    page.goto(f"{demo}/{QUESTION}")
    page.keyboard.press("j")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")

    expect(page.locator("#help")).to_be_hidden()
    expect(page.locator(".answer").first).to_be_focused()


def test_numbers_change_the_task(page, demo):
    """1 to 4 are the tabs."""
    page.goto(demo)
    page.keyboard.press("2")
    page.wait_for_url("**/?task=slot-filling")
    page.keyboard.press("4")
    page.wait_for_url("**/?task=dialogue")


def test_documents_move_and_open_too(page, demo):
    """J goes down the list, o opens the document."""
    page.goto(f"{demo}/documents")
    page.keyboard.press("j")
    page.keyboard.press("j")
    title = page.locator(".documents__item").nth(1).locator("a").inner_text()
    page.keyboard.press("o")
    page.wait_for_url("**/document?id=*")

    expect(page.locator("h1")).to_have_text(title)


def test_a_mention_is_marked_by_keyboard(page, demo):
    """Shift and arrows select, Tab reaches the button, Enter marks; the chips are reached the same way."""
    page.goto(f"{demo}/?task=entity-linking")
    page.keyboard.press("/")
    page.keyboard.type("to Paris")
    for _ in range(5):
        page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("Tab")
    assert focused(page) == "Mark “Paris”"
    page.keyboard.press("Enter")
    expect(page.locator(".chip")).to_have_text(["Paris×"])


def test_the_skip_link_is_first(page, demo):
    """Tab, Enter: past the header."""
    page.goto(demo)
    page.keyboard.press("Tab")
    assert focused(page) == "Skip to content"
    page.keyboard.press("Enter")

    assert focused(page) == "main"


@pytest.mark.parametrize("path", ["?task=slot-filling", QUESTION, "documents", "document?id=paris", "status"])
def test_every_stop_of_the_tab_key_is_seen(page, demo, path):
    """Each control that Tab reaches shows an outline of its own."""
    page.goto(f"{demo}/{path}")
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        found = page.evaluate(
            """() => {
                const one = document.activeElement;
                if (one === document.body) return null;
                const shown = one.matches(".segments__item input") ? one.nextElementSibling : one;
                const style = getComputedStyle(shown);
                const box = shown.getBoundingClientRect();
                const name = one.outerHTML.slice(0, 90);
                return [name, parseFloat(style.outlineWidth), style.outlineStyle, box.width * box.height];
            }"""
        )
        if found is None:
            break
        seen.append(found)

    assert len(seen) > 8
    assert [one for one in seen if one[1] < 2 or one[2] == "none" or one[3] <= 0] == []
