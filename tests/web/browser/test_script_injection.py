"""No text of a user, a query, a document or a file runs as a script: with the page's policy on, and with it off."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page

from adapters.tasks.answers import TaskAnswer
from kbengine.corpus.document import CorpusDocument, CorpusPassage
from kbengine.inputs import TaskInput
from kbengine.search.results import DocumentRef, PassageRef
from kbengine.span import Span
from tests.web.browser.conftest import Watched, serving, watched_page
from tests.web.browser.payloads import PAYLOADS
from tests.web.page.fake_engine import FakeEngine, answer, evidence, task_answer

STRANGERS = "main :is(img, iframe, script, style, object, video, math, base, link, meta, template, animate)"
"""Elements that no template has: one in the page was made of a text."""

HANDLERS = """
[...document.querySelectorAll("*")].flatMap((one) => [...one.attributes])
    .filter((one) => one.name.startsWith("on") || one.name === "style" && !one.ownerElement.matches("textarea"))
    .map((one) => one.ownerElement.outerHTML.slice(0, 200))
"""
LINKS = """
[...document.querySelectorAll("a[href], form[action], button[formaction]")]
    .map((one) => one.href || one.action || one.formAction).filter((one) => !/^https?:/.test(one))
"""


def hostile_answer(request: TaskInput) -> TaskAnswer:
    """Every payload as answer, title, id, section, passage, address and name."""
    answers = []
    for rank, payload in enumerate(PAYLOADS, start=1):
        text = f"Before {payload} after. {payload}"
        place = evidence(
            "Before",
            text,
            document=DocumentRef(payload, payload, payload),
            passage=PassageRef(rank, 1, text, payload),
            span=Span(7, 7 + len(payload)),
            sentence=Span(0, len(text)),
        )
        answers.append(answer(payload, place, place, rank=rank, probability=0.5))
    return task_answer(request, *answers)


@pytest.fixture(scope="module")
def hostile() -> Iterator[tuple[FakeEngine, str]]:
    """A knowledge base that is nothing but payloads, and the address of its service."""
    engine = FakeEngine()
    engine.respond = lambda request, _: hostile_answer(request)
    engine.add(
        [
            CorpusDocument(p, p, p, {"aliases": [p]}, (CorpusPassage(1, f"{p} {p}", p), CorpusPassage(2, p, p)))
            for p in PAYLOADS
        ]
    )
    engine.names = {payload: {payload: None} for payload in PAYLOADS}
    with serving(engine) as address:
        yield engine, address


@contextmanager
def visiting(browser: Browser, *, policy: bool) -> Iterator[Watched]:
    """A page whose content security policy holds, or is switched off in the browser."""
    with watched_page(browser, bypass_csp=not policy) as watched:
        watched.expected_status |= {400, 404}
        watched.page.add_init_script(
            "addEventListener('securitypolicyviolation', (event) => { window.violated = event.violatedDirective; });"
        )
        yield watched


@pytest.fixture(params=[True, False], ids=["policy", "no-policy"])
def visitor(browser, request) -> Iterator[Watched]:
    """A page with the policy, and one without."""
    with visiting(browser, policy=request.param) as watched:
        yield watched


@pytest.fixture
def unprotected(browser) -> Iterator[Watched]:
    """A page without the policy: nothing but the page itself stops a script."""
    with visiting(browser, policy=False) as watched:
        yield watched


def check(page: Page) -> None:
    """Nothing ran, nothing was stopped by the policy alone, and no text became an element, a handler or a link."""
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)))")

    assert page.evaluate("window.pwned") is None
    assert page.evaluate("window.violated") is None
    assert page.locator(STRANGERS).count() == 0
    assert page.evaluate(HANDLERS) == []
    assert page.evaluate(LINKS) == []
    assert page.title() != ""


def test_there_are_many_payloads():
    """The corpus is not empty by accident."""
    assert len(PAYLOADS) == len(set(PAYLOADS)) == 170


def test_answers_of_every_payload(visitor, hostile):
    """Answer, sentence, title, id, section, source, citation and provenance, of every payload, page by page."""
    _, address = hostile
    n_shown, page = 0, 1
    while n_shown < len(PAYLOADS):
        visitor.page.goto(f"{address}/?q=x&k=100&page={page}")
        n_here = visitor.page.locator(".answer").count()
        assert visitor.page.locator(".answer__rank").first.text_content() == str(n_shown + 1)
        assert n_here > 0, f"page {page} shows nothing, {n_shown} answers before"
        n_shown, page = n_shown + n_here, page + 1
        check(visitor.page)
    assert n_shown == len(PAYLOADS)


@pytest.mark.parametrize("task", ["question", "slot-filling", "entity-linking", "dialogue"])
def test_queries_of_every_payload(visitor, hostile, task):
    """Every payload in a query: as field, title of the window, permalink and code; with and without an answer."""
    engine, address = hostile
    engine.respond = lambda request, _: task_answer(request, answer())
    for start in range(0, len(PAYLOADS), 60):
        some = PAYLOADS[start : start + 60]
        fields = {
            "question": [("q", "\n".join(some))],
            "slot-filling": [("subject", "\n".join(some)), ("relation", "\n".join(reversed(some)))],
            "entity-linking": [("text", "".join(f"{one} [START_ENT] {one} [END_ENT] " for one in some))],
            "dialogue": [("turn", one) for one in some],
        }[task]
        query = urlencode([("task", task), *fields])
        visitor.page.goto(f"{address}/?{query}")
        check(visitor.page)
        visitor.page.goto(f"{address}/compare?{query}")
        check(visitor.page)
    query = urlencode([("task", task), *zip(("unit", "k", "effort", "threshold"), PAYLOADS[1:5], strict=True)])
    visitor.page.goto(f"{address}/?{query}")
    check(visitor.page)
    engine.respond = lambda request, _: hostile_answer(request)


@pytest.mark.parametrize("task", ["question", "slot-filling", "entity-linking", "dialogue"])
def test_examples_made_of_payloads(unprotected, hostile, task):
    """Titles and sentences of documents become examples."""
    _, address = hostile
    unprotected.page.goto(f"{address}/?task={task}")
    check(unprotected.page)


def test_listings_of_every_payload(unprotected, hostile):
    """Titles and ids, page by page, and words looked for."""
    _, address = hostile
    unprotected.page.goto(f"{address}/documents")
    seen = 0
    while True:
        check(unprotected.page)
        seen += unprotected.page.locator(".documents__item").count()
        following = unprotected.page.locator("a[rel=next]")
        if not following.count():
            break
        following.click()
    assert seen == len(PAYLOADS) + 1
    unprotected.page.goto(f"{address}/documents?{urlencode({'q': ' '.join(PAYLOADS[:80])})}")
    check(unprotected.page)


def test_documents_of_payloads(visitor, hostile):
    """Text, section, names, source, and the way back, of payloads of every kind."""
    _, address = hostile
    for payload in PAYLOADS[::11]:
        visitor.page.goto(f"{address}/document?{urlencode({'id': payload, 'back': payload, 'added': payload})}")
        assert visitor.page.locator(".reading__passage").count() == 2
        check(visitor.page)


def test_unknown_documents_and_addresses_named_like_payloads(unprotected, hostile):
    """What is not there is named in the error."""
    _, address = hostile
    for payload in PAYLOADS[::30]:
        unprotected.page.goto(f"{address}/document?{urlencode({'id': payload + ' (unknown)'})}")
        check(unprotected.page)
        unprotected.page.goto(f"{address}/{urlencode({'x': payload})}")
        check(unprotected.page)


def test_file_names_and_forms_of_payloads(visitor, hostile, tmp_path):
    """Files that cannot be read are named; what was typed comes back into the form."""
    _, address = hostile
    for payload in PAYLOADS[::34]:
        visitor.page.goto(f"{address}/documents")
        visitor.page.get_by_label("Title", exact=True).fill(payload)
        visitor.page.get_by_label("Text", exact=True).fill(payload)
        visitor.page.get_by_label("Files").set_input_files(
            {"name": payload.replace("/", "∕") + ".png", "mimeType": "image/png", "buffer": io.BytesIO(b"x").getvalue()}
        )
        visitor.page.locator("#add").get_by_role("button", name="Add", exact=True).click()
        visitor.page.get_by_role("alert").wait_for()
        check(visitor.page)


def test_deleted_and_restored_payloads(unprotected, hostile):
    """The notice after a deletion holds the title."""
    engine, address = hostile
    for payload in PAYLOADS[::60]:
        unprotected.page.goto(f"{address}/document?{urlencode({'id': payload})}")
        unprotected.page.get_by_text("Delete this document").click()
        unprotected.page.get_by_role("button", name="Delete “").click()
        check(unprotected.page)
        unprotected.page.get_by_role("button", name="Undo").click()
        check(unprotected.page)
        assert payload in engine.stored


def test_typed_payloads_stay_text(unprotected, hostile):
    """The scripts of the page build marks, chips and turns from what is typed."""
    _, address = hostile
    page = unprotected.page
    page.goto(f"{address}/?task=entity-linking")
    area = page.get_by_label("Text with a mention")
    for payload in PAYLOADS[::10]:
        area.fill(payload)
        area.evaluate("(one) => one.select()")
        area.dispatch_event("pointerup")
        page.locator(".chip").wait_for()
        check(page)
    page.goto(f"{address}/?task=dialogue")
    for payload in PAYLOADS[::10]:
        page.locator(".turns textarea").last.fill(payload)
        check(page)


def test_a_script_that_does_run_would_be_noticed(browser, hostile):
    """The check itself: a payload written as markup sets the mark that all these tests look for."""
    _, address = hostile
    with watched_page(browser, bypass_csp=True) as watched:
        watched.page.goto(f"{address}/documents")
        watched.page.evaluate("(one) => { document.querySelector('main').innerHTML = one; }", PAYLOADS[1])
        watched.page.wait_for_function("window.pwned === 1")
        watched.problems.clear()  # the picture that is not there


def test_the_policy_alone_stops_a_script_too(browser, hostile):
    """Were a text ever written as markup, the policy would still keep it from running."""
    _, address = hostile
    with watched_page(browser) as watched:
        watched.page.goto(f"{address}/documents")
        for payload in PAYLOADS[:10]:
            watched.page.evaluate("(one) => { document.querySelector('main').innerHTML = one; }", payload)
            watched.page.wait_for_timeout(20)
        assert watched.page.evaluate("window.pwned") is None
        assert any("Content Security Policy" in one for one in watched.problems)
        watched.problems.clear()
