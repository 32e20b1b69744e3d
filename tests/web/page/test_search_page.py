"""The search page without a browser: what is asked, and what is said in every state."""

from __future__ import annotations

import re

import pytest
from bs4 import BeautifulSoup

from adapters.tasks.values import Value
from kbengine.errors import CorruptError, LockedError, QueryTooLongError, StorageFullError
from kbengine.inputs import Mention, Question
from tests.web.page.fake_engine import FakeEngine, answer, evidence, task_answer
from web.errors import DeadlineError, QueueFullError, StoppingError


def soup(response) -> BeautifulSoup:
    """The page as a tree."""
    return BeautifulSoup(response.data, "lxml")


def text(response) -> str:
    """The page's words, blanks collapsed."""
    return " ".join(soup(response).get_text(" ").split())


def test_an_empty_page_teaches_and_shows_examples(client):
    """Nothing was asked yet: examples are made of the open knowledge base."""
    response = client.get("/")

    assert response.status_code == 200
    assert "What is Vell?" in text(response) and "What comes back" in text(response)


@pytest.mark.parametrize("task", ["question", "slot-filling", "entity-linking", "dialogue"])
def test_every_example_can_be_asked(client, engine, task):
    """An example is a link that leads to answers."""
    for link in soup(client.get(f"/?task={task}")).select(".examples__link"):
        assert client.get(link["href"]).status_code == 200
    assert engine.asked


def test_an_empty_knowledge_base_says_how_to_begin(client, engine):
    """No examples, but the way to add a document."""
    engine.stored.clear()
    engine.generation += 1

    assert "holds no documents yet" in text(client.get("/"))


def test_the_phrase_is_marked_in_its_sentence(client):
    """An answer is a quotation: the mark stands inside the sentence it was read from."""
    sentence = soup(client.get("/?q=Who+designed+the+lighthouse%3F")).select_one(".answer__sentence")

    assert sentence.select_one("mark").text == "Ines Rook"
    assert sentence.text == "Its lighthouse, designed by Ines Rook, burned down twice."


def test_options_reach_the_engine(client, engine):
    """Unit, effort and threshold are what the form says; one answer more than shown tells of a next page."""
    client.get("/?q=x&unit=sentence&k=3&effort=exact&threshold=0.5&strategy=sfs&encoder=tuned")
    (request, options), *_ = engine.asked

    assert request == Question("x")
    assert (options.unit, options.k, options.effort, options.threshold) == ("sentence", 4, "exact", 0.5)
    assert (options.strategy, options.encoder) == ("sfs", "tuned")
    assert options.explain


def test_the_form_holds_what_was_asked(client):
    """A reloaded permalink shows the whole state."""
    page = soup(client.get("/?q=a+%22b%22&unit=sentence&k=3&effort=exact"))

    assert page.select_one("input[name=q]")["value"] == 'a "b"'
    assert page.select_one("input[name=unit][checked]")["value"] == "sentence"
    assert page.select_one("input[name=effort][checked]")["value"] == "exact"
    assert page.select_one("input[name=k]")["value"] == "3"


@pytest.mark.parametrize("task", ["question", "slot-filling", "entity-linking", "dialogue"])
def test_each_form_offers_every_strategy_with_what_it_does(client, task):
    """Closed and set to the task's own choice; each choice has a name and a line that a screen reader reads with it."""
    options = soup(client.get(f"/?task={task}")).select_one("#ask .ask__search")
    radios = options.select("input[name=strategy]")

    assert [radio["value"] for radio in radios] == ["", "dense", "dfs", "sfs", "hybrid"]
    assert [radio["value"] for radio in radios if radio.has_attr("checked")] == [""]
    assert all(options.select_one(f"#{radio['aria-describedby']}").text for radio in radios)
    assert not options.has_attr("open")


def test_what_was_chosen_is_open_and_named(client):
    """The disclosure is open, the strategy is told beside the answers, and link and code hold it."""
    page = soup(client.get("/?q=x&strategy=sfs"))

    assert page.select_one(".ask__search").has_attr("open")
    assert page.select_one("input[name=strategy][checked]")["value"] == "sfs"
    assert "Words first" in page.select_one(".results__side").text
    assert "strategy=sfs" in page.select_one("#permalink")["href"]
    assert '"strategy": "sfs"' in page.select_one("#code-curl").text


def test_query_encoders_are_offered_where_there_are_some(client, engine):
    """Without tuned ones there is no choice; an address that names one keeps it chosen."""
    assert not soup(client.get("/?q=x")).select("select[name=encoder]")
    engine.encoder_names = ["dialogue", "linking", "minilm"]
    menu = soup(client.get("/?q=x&encoder=linking")).select_one("select[name=encoder]")

    assert [option["value"] for option in menu.select("option")] == ["", "dialogue", "linking", "minilm"]
    assert [option["value"] for option in menu.select("option[selected]")] == ["linking"]


def test_strategies_and_encoders_can_be_compared(client, engine):
    """Each side has its own."""
    engine.encoder_names = ["linking", "minilm"]
    page = soup(client.get("/compare?q=x&strategy=dense&b_strategy=sfs&b_encoder=linking"))

    assert [(options.strategy, options.encoder) for _, options in engine.asked] == [("dense", None), ("sfs", "linking")]
    assert page.select_one("select[name=strategy] option[selected]")["value"] == "dense"
    assert page.select_one("select[name=b_encoder] option[selected]")["value"] == "linking"
    assert page.select_one(".compared__title span").text.startswith("phrase, normal, dense")


def test_several_mentions_are_linked_one_by_one(client, engine):
    """Each mention has its own answers, and stands in the text as a link to them."""
    engine.respond = lambda request, _: task_answer(
        request, answer("Vell", evidence("Vell"), unit="document"), timings_ms={"total": 3.0}
    )
    page = soup(client.get("/?task=entity-linking&text=[START_ENT] Rook [END_ENT] of [START_ENT] Vell [END_ENT].&k=2"))

    assert [request.start for request, _ in engine.asked] == [0, 8]
    assert all(isinstance(request, Mention) for request, _ in engine.asked)
    assert [link["href"] for link in page.select(".linked-text__mention")] == ["#mention-1", "#mention-2"]
    assert [group.text for group in page.select(".answer-group__title")] == ["Rook", "Vell"]


def test_grouped_answers_show_their_other_passages(client, engine):
    """The same answer from several places is one answer."""
    places = (evidence(), evidence("Ines Rook", "Ines Rook kept the light.", doc_id="light", title="Light"))
    engine.respond = lambda request, _: task_answer(request, answer("Ines Rook", *places))
    page = soup(client.get("/?q=x"))

    assert len(page.select(".answer")) == 1
    assert "1 more passage" in page.select(".answer summary")[3].text
    assert page.select_one(".others .place__title").text == "Light"


def test_a_probability_is_shown_when_there_is_one(client, engine):
    """Only calibrated tasks have one."""
    assert "%" not in soup(client.get("/?q=x")).select_one(".answer__score").text
    engine.respond = lambda request, _: task_answer(request, answer(probability=0.873))

    assert "87 %" in soup(client.get("/?q=x")).select_one(".answer__score").text


def test_a_threshold_is_offered_where_there_are_probabilities(client, engine):
    """Without a calibration nothing could reach it; a link that has one still shows what is wrong."""
    assert soup(client.get("/")).select_one("input[name=threshold]")
    engine.calibrations.tasks = frozenset()

    assert not soup(client.get("/")).select_one("input[name=threshold]")
    assert soup(client.get("/?q=x&threshold=0.5")).select_one("input[name=threshold]")["value"] == "0.5"


def test_no_answer_below_the_threshold_says_why_and_what_to_do(client, engine):
    """The best candidate's probability, the one wanted, and the way to see it anyway."""
    engine.respond = lambda request, _: task_answer(
        request, answer(probability=0.42), status="no_answer", reason="below_threshold", threshold=0.6
    )
    response = client.get("/?q=x&threshold=0.6")

    assert "The best candidate has 42 %, wanted 60 %" in text(response)
    assert soup(response).select_one(".notice a")["href"] == "/?task=question&q=x&threshold=0"
    assert soup(response).select_one(".answers--doubtful .answer")


def test_what_the_documents_do_not_hold_is_said(client, engine):
    """The candidates are there, and the way to take the best of them."""
    engine.respond = lambda request, _: task_answer(
        request, answer(probability=0.02), status="no_answer", reason="unanswerable"
    )
    response = client.get("/?q=x")

    assert "The documents seem to hold no answer" in text(response)
    assert soup(response).select_one(".notice a")["href"] == "/?task=question&q=x&threshold=0"
    assert soup(response).select_one(".answers--doubtful .answer")


@pytest.mark.parametrize(
    ("contradicts", "said"),
    [((), "Several values Ulm · Bonn"), (("Bonn",), "The sources contradict each other. Ulm · Bonn")],
)
def test_several_values_of_a_slot_are_said(client, engine, contradicts, said):
    """Above the answers; a single one is not."""
    values = (Value("Ulm", 1, 0.6, contradicts), Value("Bonn", 2, 0.3, ("Ulm",) if contradicts else ()))
    engine.respond = lambda request, _: task_answer(request, answer(text="Ulm"), values=values)
    assert said in text(client.get("/?task=slot-filling&subject=Ada&relation=P19"))

    engine.respond = lambda request, _: task_answer(request, answer(text="Ulm"), values=values[:1])
    response = client.get("/?task=slot-filling&subject=Ada&relation=P19&k=1")
    assert not soup(response).select(".notice")


def test_nothing_found_says_what_to_do(client, engine):
    """More effort, other words, another document."""
    engine.respond = lambda request, _: task_answer(request)
    response = client.get("/?q=x")

    assert "Nothing was found" in text(response)
    assert "/?task=question&q=x&effort=exact" in [link["href"] for link in soup(response).select(".notice a")]


def test_a_question_that_cannot_be_asked_keeps_the_form(client, engine):
    """The text stays in its field beside the error."""
    engine.failure = QueryTooLongError("the query has 900 tokens, wanted at most 512; shorten it")
    response = client.get("/?q=so+long")

    assert response.status_code == 400
    assert "900 tokens" in text(response)
    assert soup(response).select_one("input[name=q]")["value"] == "so long"
    assert soup(response).select_one("[role=alert]")


@pytest.mark.parametrize(
    ("error", "status", "retry"),
    [
        (QueueFullError("48 requests wait", retry_after_s=2), 429, True),
        (StoppingError("the service is shutting down"), 503, True),
        (DeadlineError("no answer in 30 s"), 504, True),
        (LockedError("another process writes"), 503, True),
        (CorruptError("segment a is damaged"), 500, True),
        (StorageFullError("no space"), 507, False),
        (RuntimeError("secret detail"), 500, True),
    ],
)
def test_every_failure_is_a_page_that_says_what_to_do(client, engine, error, status, retry):
    """Busy, stopping, too late, damaged: a status, a title, advice, and a link where trying again may help."""
    engine.failure = error
    response = client.get("/?q=x&k=3")

    assert response.status_code == status
    assert response.mimetype == "text/html"
    assert soup(response).select_one("[role=alert] h1").text
    again = [link["href"] for link in soup(response).select("a.button--primary")]
    assert again == (["/?q=x&k=3"] if retry else [])
    assert "secret" not in text(response) and "Traceback" not in text(response)


def test_a_busy_answer_says_when_to_come_back(client, engine):
    """Programs read the header, people the page."""
    engine.failure = QueueFullError("48 requests wait", retry_after_s=3)

    assert client.get("/?q=x").headers["Retry-After"] == "3"


def test_a_posted_form_becomes_an_address(client):
    """Long fields are posted; the state is in the address all the same."""
    response = client.post("/", data={"task": "dialogue", "turn": "One\r\nTwo", "k": "10", "threshold": ""})

    assert response.status_code == 303
    assert response.headers["Location"] == "/?task=dialogue&turn=One&turn=Two"


def test_a_text_too_long_for_an_address_is_answered_at_once(client, engine):
    """There is no link then, and the page says so."""
    response = client.post("/", data={"task": "dialogue", "turn": "word " * 2000})

    assert response.status_code == 200
    assert len(engine.asked) == 1
    assert "too long for a link" in text(response)


def test_relations_are_suggested(client):
    """The names of known relations, without scripts."""
    options = [option["value"] for option in soup(client.get("/?task=slot-filling")).select("datalist option")]

    assert "place of birth" in options and len(options) > 500


def test_the_page_needs_nothing_inline_and_nothing_from_elsewhere(client):
    """The policy forbids inline code; the page has none, and every file is its own."""
    response = client.get("/?q=x")
    page = soup(response)

    assert "script-src 'self'" in response.headers["Content-Security-Policy"]
    assert not page.select("[style], style, script:not([src])")
    assert not [tag for tag in page.find_all(True) for name in tag.attrs if name.startswith("on")]
    for tag in page.select("script[src], link[href], img[src]"):
        assert re.match(r"/static/", tag.get("src") or tag.get("href"))


def test_comparing_shows_where_answers_moved(client, engine):
    """Rank 1 of A is rank 2 of B, and one answer is only in B."""

    def respond(request, options):
        names = ["Rook", "Vell"] if options.effort == "normal" else ["Dug", "Rook"]
        return task_answer(request, *(answer(name, rank=rank) for rank, name in enumerate(names, start=1)))

    engine.respond = respond
    page = soup(client.get("/compare?q=x"))
    moves = [" ".join(move.text.split()) for move in page.select(".compared__move")]

    assert [options.effort for _, options in engine.asked] == ["normal", "exact"]
    assert moves == ["down in B by↓1", "only A", "only B", "down in B by↓1"]


def test_comparing_without_a_query_leads_to_the_search_page(client):
    """There is nothing to compare yet."""
    assert client.get("/compare").headers["Location"] == "/"


def test_an_unknown_page_says_so_in_html(client):
    """A mistyped address is told to people as a page, to programs as a problem document."""
    page, data = (client.get("/nowhere", headers={"Accept": kind}) for kind in ("text/html,*/*;q=0.8", "*/*"))

    assert (page.status_code, page.mimetype) == (404, "text/html")
    assert (data.status_code, data.mimetype) == (404, "application/problem+json")


def test_two_apps_share_no_state():
    """Undo and examples belong to one app."""
    import io

    from web.app import create_app
    from web.page.page_state import PAGE_STATE
    from web.settings import ServiceSettings

    first, second = (create_app(ServiceSettings(), FakeEngine(), log_stream=io.StringIO()) for _ in range(2))

    assert first.extensions[PAGE_STATE] is not second.extensions[PAGE_STATE]
