"""Each task's form in a real browser, with scripts and without; links that hold the whole search."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess

import pytest
from playwright.sync_api import Page, expect

from tests.web.browser.conftest import watched_page


def answers(page: Page) -> list[str]:
    """The texts of the answers, best first."""
    return [text.strip() for text in page.locator(".answer__text").all_inner_texts()]


def test_a_question_is_answered_with_its_phrase_marked(page, demo):
    """The answer, marked in its sentence, with title, paragraph and score."""
    page.goto(demo)
    page.get_by_label("Question", exact=True).fill("Who supplied the slide guitar score for the film Paris, Texas?")
    page.get_by_role("button", name="Ask").click()

    first = page.locator(".answer").first
    expect(first.locator(".answer__text")).to_have_text("Ry Cooder")
    expect(first.locator(".answer__sentence mark").first).to_have_text("Ry Cooder")
    expect(first.locator(".place")).to_contain_text("Paris, Texas (film)")
    expect(first.locator(".answer__number")).to_contain_text("Score")
    assert page.url == f"{demo}/?task=question&q=Who+supplied+the+slide+guitar+score+for+the+film+Paris%2C+Texas%3F"


def test_a_relation_is_completed(page, demo):
    """Subject and relation, the relation from the list of suggestions."""
    page.goto(f"{demo}/?task=slot-filling")
    page.get_by_label("Subject").fill("Marie Curie")
    page.get_by_label("Relation", exact=True).fill("place of birth")
    page.get_by_role("button", name="Find").click()

    expect(page.locator(".answer__text").first).to_have_text("Warsaw")


def test_selecting_a_name_marks_it(page, demo):
    """The mouse marks, a chip unmarks; what is sent are the marks."""
    page.goto(f"{demo}/?task=entity-linking")
    area = page.get_by_label("Text with a mention")
    area.fill("Every autumn the winemakers of Georgia seal their grapes in clay jars in the Caucasus.")
    area.evaluate("(one) => one.setSelectionRange(0, 5)")
    area.dispatch_event("pointerup")
    expect(page.locator(".chip")).to_have_text(["Every×"])
    page.get_by_role("button", name="Unmark Every").click()
    expect(page.locator(".chip")).to_have_count(0)
    area.evaluate("(one) => one.setSelectionRange(30, 38)")
    area.dispatch_event("pointerup")
    expect(page.locator(".mention-stack mark")).to_have_text(["Georgia"])
    page.get_by_role("button", name="Link", exact=True).click()

    expect(page.locator(".answer__text").first).to_contain_text("Georgia")
    assert "%5BSTART_ENT%5D+Georgia+%5BEND_ENT%5D" in page.url
    expect(page.get_by_label("Text with a mention")).to_have_value(
        "Every autumn the winemakers of Georgia seal their grapes in clay jars in the Caucasus."
    )


def test_marks_move_with_the_text_and_a_form_without_marks_is_not_sent(page, demo):
    """Typing before a mention moves it, typing into it unmarks it; then the browser asks for a mention."""
    page.goto(f"{demo}/?task=entity-linking&text=in+%5BSTART_ENT%5D+Paris+%5BEND_ENT%5D+today")
    area = page.get_by_label("Text with a mention")
    area.evaluate("(one) => one.setSelectionRange(0, 0)")
    area.press_sequentially("Not ")
    expect(page.locator(".mention-stack mark")).to_have_text(["Paris"])
    area.evaluate("(one) => one.setSelectionRange(9, 9)")
    area.press_sequentially("x")
    expect(page.locator(".mention-stack mark")).to_have_count(0)
    before = page.url
    page.get_by_role("button", name="Link", exact=True).click()

    assert area.evaluate("(one) => one.validationMessage") and page.url == before


def test_several_mentions_are_answered_one_by_one(page, demo):
    """Each mention has its own list, and the text links to them."""
    text = "[START_ENT] Mercury [END_ENT] sang while [START_ENT] Paris [END_ENT] slept.".replace(" ", "+")
    page.goto(f"{demo}/?task=entity-linking&k=3&text={text}")

    expect(page.locator(".answer-group__title")).to_have_text(["Mercury", "Paris"])
    assert page.locator(".linked-text__mention").count() == 2
    assert len(answers(page)) == 6


def test_a_dialogue_is_a_list_of_turns(page, demo):
    """Turns are added with Enter and removed with a button; the last one is answered."""
    page.goto(f"{demo}/?task=dialogue")
    page.get_by_label("Turn 1", exact=True).fill("I am driving across Nebraska and will have a day in Lincoln.")
    page.get_by_label("Turn 2, to be answered").fill("mistake")
    page.get_by_role("button", name="Remove turn 2").click()
    page.get_by_label("Turn 1, to be answered").press("Enter")
    page.get_by_label("Turn 2, to be answered").fill("Was the city always called Lincoln?")
    page.get_by_role("button", name="Find sources").click()

    expect(page.locator(".answer__text").first).to_have_text("Lincoln, Nebraska")
    assert page.url.count("turn=") == 2
    expect(page.locator(".turns__turn")).to_have_count(2)


def test_examples_lead_to_their_answers(page, demo):
    """A click on an example asks it."""
    page.goto(f"{demo}/?task=slot-filling")
    page.get_by_role("link", name="Marie Curie").click()

    expect(page.locator(".answer__text").first).to_have_text("Warsaw")


@pytest.mark.parametrize(
    ("query", "label", "button"),
    [
        ("?task=question", {"Question": "Where does Škoda Auto have its headquarters?"}, "Ask"),
        ("?task=slot-filling", {"Subject": "Frida Kahlo", "Relation": "spouse"}, "Find"),
        ("?task=entity-linking", {"Text with a mention": "in [START_ENT] Paris [END_ENT], Texas"}, "Link"),
        ("?task=dialogue", {"Dialogue": "I love tortoises.\nDid Darwin stay long?"}, "Find sources"),
    ],
    ids=["question", "relation", "entity", "dialogue"],
)
def test_a_link_is_the_whole_search_and_nothing_needs_scripts(browser, demo, query, label, button):
    """Without scripts: the form is sent, options too, and the address asked again gives the same answers."""
    with watched_page(browser, java_script_enabled=False) as watched:
        page = watched.page
        page.goto(f"{demo}/{query}")
        for name, text in label.items():
            page.get_by_label(name, exact=True).fill(text)
        page.get_by_role("radio", name="Passage").check()
        page.get_by_label("Answers", exact=True).fill("4")
        page.get_by_text("Search options", exact=True).click()
        page.get_by_role("radio", name="Dense first").check()
        page.get_by_role("button", name=button, exact=True).click()
        expect(page.locator(".answer")).to_have_count(4)
        found = answers(page)
        page.get_by_role("link", name="Link to this search").click()
        page.wait_for_load_state()
        again = answers(page)
        page.reload()

        assert found == again == answers(page)
        for name, text in label.items():
            expect(page.get_by_label(name, exact=True)).to_have_value(text)
        assert page.locator("input[name=unit]:checked").get_attribute("value") == "passage"
        assert page.locator("input[name=strategy]:checked").get_attribute("value") == "dfs"


def test_the_source_of_an_answer_can_be_checked(page, demo):
    """The whole paragraph, offsets that cut out the phrase, the parts that sum to the score, KILT provenance."""
    page.goto(f"{demo}/?q=Who+supplied+the+slide+guitar+score+for+the+film+Paris%2C+Texas%3F")
    first = page.locator(".answer").first
    first.get_by_text("Source and score").first.click()
    drawer = first.locator(".drawer").first
    paragraph = drawer.locator(".drawer__passage").inner_text()
    start, end = map(int, drawer.locator(".facts dd").nth(2).inner_text().split("–"))
    parts = [float(value) for value in drawer.locator(".parts__value").all_inner_texts()]
    drawer.get_by_text("KILT provenance").click()
    provenance = json.loads(drawer.locator("pre").nth(1).inner_text())

    assert paragraph[start:end] == "Ry Cooder"
    assert sum(parts) == pytest.approx(float(drawer.get_by_text("Why").inner_text().removeprefix("Why ")), abs=0.03)
    assert (provenance["start_character"], provenance["end_character"]) == (start, end)
    assert provenance["wikipedia_id"] == "paris-texas-film"


def test_what_is_copied_is_what_is_shown(browser, demo):
    """Citation, provenance and link land on the clipboard."""
    with watched_page(browser, permissions=["clipboard-read", "clipboard-write"]) as watched:
        page = watched.page
        page.goto(f"{demo}/?q=Who+supplied+the+slide+guitar+score+for+the+film+Paris%2C+Texas%3F")
        page.get_by_role("button", name="Copy link").click()
        expect(page.locator("#announce")).to_have_text("Copied")

        assert page.evaluate("navigator.clipboard.readText()") == page.url.replace("/?q=", "/?task=question&q=")


@pytest.mark.parametrize(
    "query",
    [
        "?q=Who+supplied+the+slide+guitar+score+for+the+film+Paris%2C+Texas%3F&k=3",
        "?task=dialogue&turn=Who's+Darwin%3F&k=2",
    ],
)
def test_code_on_the_page_asks_for_the_same(page, demo, query):
    """The Python program runs as it is shown and prints the answers of the page; so does curl."""
    page.goto(f"{demo}/{query}")
    shown = answers(page)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(page.locator("#code-python").text_content(), "page", "exec"), {})
    curl = subprocess.run(
        ["sh", "-c", page.locator("#code-curl").text_content()], capture_output=True, text=True, check=True
    )

    assert [line.split(" ", 1)[1].split(" | ")[0] for line in printed.getvalue().splitlines()] == shown
    assert [one["text"] for one in json.loads(curl.stdout)["answers"]] == shown


def test_two_settings_side_by_side(page, demo):
    """Another unit in B; both lists stand beside each other."""
    page.goto(f"{demo}/?q=Who+supplied+the+slide+guitar+score+for+the+film+Paris%2C+Texas%3F&k=5")
    page.get_by_role("link", name="Compare settings").click()
    page.locator("fieldset.compare-form__side").nth(1).get_by_role("radio", name="Document").check()
    page.get_by_role("button", name="Compare").click()

    expect(page.locator(".compared__list").nth(0).locator(".compared__text").first).to_have_text("Ry Cooder")
    expect(page.locator(".compared__list").nth(1).locator(".compared__text").first).to_have_text("Paris, Texas (film)")
    assert page.locator(".compared__move").count() == 10
