"""Lists of answers and of documents on the page: their pages, their order, fewer of them; all by addresses alone."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from bs4 import BeautifulSoup

from kbengine.corpus.document import CorpusDocument, CorpusPassage
from kbengine.search.results import DocumentRef
from tests.web.page.fake_engine import answer, evidence, task_answer
from web.page.narrowing import toggled


def soup(response) -> BeautifulSoup:
    """The page as a tree."""
    return BeautifulSoup(response.data, "lxml")


def shown(page: BeautifulSoup) -> list[str]:
    """The answers of a page, or the titles of its documents."""
    return [each.get_text(strip=True) for each in page.select(".answer__text, .documents__title")]


@pytest.fixture
def many(engine):
    """Thirty answers, best first; every other one's document has a year."""

    def place(n: int):
        meta = {} if n % 2 else {"year": 2000 - n}
        return evidence(document=DocumentRef(f"d{n}", f"Title {n % 7}", None, meta))

    found = [answer(f"answer {n:02}", place(n), rank=n, score=60.0 - n) for n in range(1, 31)]
    engine.respond = lambda request, options: task_answer(request, *found[: options.k])
    return engine


def test_answers_are_leafed_through_by_links(client, many):
    """Each page says where it stands; ranks go on; scores are drawn against the best answer of all."""
    first = soup(client.get("/?q=x&k=12"))
    second = soup(client.get(first.select_one("[rel=next]")["href"]))
    third = soup(client.get(second.select_one("[rel=next]")["href"]))

    assert shown(first) + shown(second) + shown(third) == [f"answer {n:02}" for n in range(1, 31)]
    assert "Answers 13–24" in second.text and third.select_one("[rel=next]") is None
    assert second.select_one(".answer__rank").text == "13" and second.select_one(".answer--first") is None
    assert float(second.select_one(".score-bar__value")["width"]) < 90
    assert soup(client.get(second.select_one("[rel=prev]")["href"])).select_one("[rel=prev]") is None
    assert "page=2" in second.select_one("a[href*='answers.json']")["href"]


def test_answers_that_all_fit_have_no_pages(client, many):
    """Nothing to leaf through."""
    page = soup(client.get("/?q=x&k=30"))
    assert page.select_one(".pager") is None and "30 answers" in page.select_one(".list-tools").text


@pytest.mark.parametrize("asked", ["page=0", "page=x", "page=-1", "page=101&k=10"])
def test_a_page_that_cannot_be_is_told(client, many, asked):
    """With what was wanted."""
    refused = client.get(f"/?q=x&{asked}")
    assert refused.status_code == 400 and "wanted 1 to 100" in refused.text and not many.asked


def test_a_page_behind_the_last_says_so(client, many):
    """And leads back."""
    page = soup(client.get("/?q=x&page=9"))
    assert "No more answers" in page.text and page.select_one("[rel=prev]")


def test_answers_are_sorted_by_what_their_documents_hold(client, many):
    """The best hundred; those without a value come last, best first; the address keeps the order from page to page."""
    years = soup(client.get("/?q=x&k=20&sort=year"))
    titles = shown(soup(client.get("/?q=x&sort=title")))
    following = parse_qs(urlsplit(years.select_one("[rel=next]")["href"]).query)

    assert shown(years)[:3] == ["answer 30", "answer 28", "answer 26"] and shown(years)[15:17] == [
        "answer 01",
        "answer 03",
    ]
    assert shown(soup(client.get("/?q=x&sort=-year")))[:2] == ["answer 02", "answer 04"]
    assert titles[:2] == ["answer 07", "answer 14"]
    assert following["sort"] == ["year"] and following["page"] == ["2"]
    assert {options.k for _, options in many.asked} == {101}
    assert years.select_one("option[value=year][selected]")


def test_a_dialogue_too_long_for_an_address_is_leafed_through_by_forms(client, many):
    """Everything it holds travels in the form."""
    sent = {"task": "dialogue", "turn": "word " * 2_000}
    page = soup(client.post("/", data=sent))
    form = page.select_one("form:has([data-turn=next])")
    fields = {each["name"]: each["value"] for each in form.select("input")}
    second = soup(client.post(form["action"], data=fields))

    assert fields["page"] == "2" and shown(second)[0] == "answer 11"
    assert page.select_one("form.list-tools")["method"] == "post"


def test_answers_are_narrowed_by_fields_and_widened_again(client, engine):
    """A link adds the condition and begins with the first page, the same link takes it away."""
    engine.add([CorpusDocument("new", "New", meta={"source": "it's"}, passages=(CorpusPassage(1, "Said."),))])
    link = soup(client.get("/?q=x&page=2&sort=title")).select_one(".narrow__value")
    asked = parse_qs(urlsplit(link["href"]).query)
    chosen = soup(client.get(link["href"])).select_one(".narrow__value[aria-current]")

    assert asked["where"] == ["source = 'it's'"] and "page" not in asked and asked["sort"] == ["title"]
    assert "where" not in parse_qs(urlsplit(chosen["href"]).query)


def test_documents_are_leafed_through_sorted_and_counted(client, engine):
    """Pages have numbers; what is asked for stays in every address."""
    engine.add([CorpusDocument(f"n{n:03}", f"Name {99 - n}", meta={"source": "x"}) for n in range(60)])
    first = soup(client.get("/documents?sort=-title&where=source+%3D+'x'"))
    second = soup(client.get(first.select_one("[rel=next]")["href"]))
    last = soup(client.get(next(each for each in first.select(".pager a") if each.text == "Last")["href"]))

    assert "1–25 of 60 documents" in first.text and "26–50 of 60 documents" in second.text
    assert shown(first)[0] == "Name 99" and shown(second)[0] == "Name 74" and len(shown(last)) == 10
    assert second.select_one("option[value='-title'][selected]")
    assert second.select_one("input[name=where]")["value"] == "source = 'x'"
    assert last.select_one("[rel=next]") is None and "Page 3 of 3" in last.text


def test_a_page_of_documents_that_is_not_there_leads_to_the_last(client, engine):
    """A number that is none is refused."""
    assert "There is no page 9" in client.get("/documents?page=9").text
    assert client.get("/documents?page=nine").status_code == 400


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, "a = 1"),
        ("b = 2", "b = 2 and a = 1"),
        ("b = 2 OR c = 3", "(b = 2 OR c = 3) and a = 1"),
        ("b = 2 and c = 3", "b = 2 and c = 3 and a = 1"),
        ("not b = 2", "not b = 2 and a = 1"),
    ],
)
def test_a_condition_is_added_and_taken_away(before, after):
    """What was there stays as it was written."""
    assert toggled(before, "a = 1") == (after, False)
    assert toggled(after, "a = 1") == (before, True)
