"""Documents added and deleted in a real browser: the effect on the same question shows at once."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.web.browser.conftest import watched_page

TITLE = "Lighthouse of Orrin Head"
TEXT = "The lighthouse of Orrin Head was designed by Maren Tolvik.\n\nIt was first lit in 1911."
QUESTION = "/?task=question&q=Who+designed+the+lighthouse+of+Orrin+Head%3F&k=3"


@pytest.mark.parametrize("with_scripts", [True, False], ids=["scripts", "no-scripts"])
def test_added_answered_deleted_gone_undone(browser, demo, with_scripts):
    """Add, ask, delete, ask again, undo, ask again: each answer is of that moment."""
    with watched_page(browser, java_script_enabled=with_scripts) as watched:
        page = watched.page
        page.goto(f"{demo}/documents")
        page.get_by_label("Title", exact=True).fill(TITLE)
        page.get_by_label("Text", exact=True).fill(TEXT)
        page.locator("#add").get_by_role("button", name="Add", exact=True).click()
        expect(page.get_by_role("status").first).to_contain_text("The document is stored")

        page.goto(demo + QUESTION)
        expect(page.locator(".answer__text").first).to_have_text("Maren Tolvik")
        page.locator(".answer").first.get_by_role("link", name=TITLE).click()
        page.get_by_text("Delete this document").click()
        page.get_by_role("button", name="Delete “").click()
        expect(page.get_by_role("status").first).to_contain_text("is deleted")
        undo_page = page.url

        page.get_by_role("link", name="Ask again").click()
        expect(page.locator(".answer")).to_have_count(3)
        assert "Maren Tolvik" not in page.locator("main").inner_text()

        page.goto(undo_page)
        page.get_by_role("button", name="Undo").click()
        page.goto(demo + QUESTION)
        expect(page.locator(".answer__text").first).to_have_text("Maren Tolvik")

        page.locator(".answer").first.get_by_role("link", name=TITLE).click()
        page.get_by_text("Delete this document").click()
        page.get_by_role("button", name="Delete “").click()
        page.goto(f"{demo}/documents?q=Tolvik")
        expect(page.locator("main")).to_contain_text("No document matches")


def test_uploaded_files_are_found_at_once(page, demo, demo_engine, tmp_path):
    """Two files, one of them Markdown; the page says how many were added."""
    (tmp_path / "pier.txt").write_text("The pier of Orrin Head is 412 metres long.", encoding="utf-8")
    (tmp_path / "ferry.md").write_text(
        "# Ferry\n\n## Times\n\nThe ferry to Orrin Head leaves at noon.", encoding="utf-8"
    )
    page.goto(f"{demo}/documents")
    page.get_by_label("Files").set_input_files([tmp_path / "pier.txt", tmp_path / "ferry.md"])
    page.locator("#add").get_by_role("button", name="Add", exact=True).click()
    try:
        expect(page.get_by_role("status").first).to_contain_text("2 documents are added")
        page.goto(f"{demo}/?q=How+long+is+the+pier+of+Orrin+Head%3F")
        expect(page.locator(".answer__sentence").first).to_contain_text("412 metres")
    finally:
        demo_engine.writes.run(demo_engine.knowledge_base.delete, ["pier.txt", "ferry.md"])


def test_a_name_given_to_a_document_counts_at_once(page, demo):
    """What nobody calls Marie Curie is her name from now on, until it is taken away."""
    ask = f"{demo}/?task=slot-filling&subject=Zzyqua&relation=place+of+birth&k=3"
    page.goto(ask)
    expect(page.locator(".answer__text").first).not_to_have_text("Warsaw")

    page.goto(f"{demo}/document?id=marie-curie")
    page.get_by_label("Another name").fill("Zzyqua")
    page.locator("#names").get_by_role("button", name="Add", exact=True).click()
    expect(page.locator(".names__name", has_text="Zzyqua")).to_be_visible()

    page.goto(ask)
    expect(page.locator(".answer__text").first).to_have_text("Warsaw")

    page.goto(f"{demo}/document?id=marie-curie")
    page.get_by_role("button", name="Remove the name Zzyqua").click()
    expect(page.locator(".names__name", has_text="Zzyqua")).to_have_count(0)


def test_the_knowledge_base_is_verified_on_demand(page, demo):
    """The button starts it; the page says what was found."""
    page.goto(f"{demo}/status")
    page.get_by_role("button", name="Verify now").click()
    while page.locator(".verdict--good").count() == 0:
        page.wait_for_timeout(100)
        page.goto(f"{demo}/status")

    expect(page.locator(".verdict")).to_have_text("Everything is what was written.")


def test_what_is_wrong_with_a_form_is_told_beside_it(browser, demo):
    """Nothing typed is lost."""
    with watched_page(browser) as watched:
        watched.expected_status.add(400)
        page = watched.page
        page.goto(f"{demo}/documents")
        page.get_by_label("Text", exact=True).fill("No title.")
        page.locator("#add").get_by_role("button", name="Add", exact=True).click()

        expect(page.get_by_role("alert")).to_contain_text("title is empty")
        expect(page.locator("textarea[name=text]")).to_have_value("No title.")
