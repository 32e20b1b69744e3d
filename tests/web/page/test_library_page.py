"""Documents and the state of the knowledge base, without a browser: changed, brought back, and by whom."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from bs4 import BeautifulSoup

from kbengine.corpus.document import CorpusDocument, CorpusPassage
from storage.findings import Finding
from storage.verify import VerifyReport
from tests.web.page.fake_engine import FakeEngine
from web.app import create_app
from web.keys import key_file
from web.page.page_state import Deleted, RecentlyDeleted
from web.settings import ServiceSettings
from web.verifying import VerifyState


def soup(response) -> BeautifulSoup:
    """The page as a tree."""
    return BeautifulSoup(response.data, "lxml")


def text(response) -> str:
    """The page's words, blanks collapsed."""
    return " ".join(soup(response).get_text(" ").split())


def uploaded(name: str, data: bytes) -> tuple[io.BytesIO, str]:
    """A file as a form sends it."""
    return io.BytesIO(data), name


def test_a_pasted_document_is_stored_and_shown(client, engine):
    """Paragraphs are parted by blank lines; the id is made of the title."""
    sent = {"title": "Große Mole", "text": "One.\r\n\r\nTwo,\r\nstill two.", "url": "https://example.org/m"}
    response = client.post("/documents", data=sent)

    stored = engine.stored["groe-mole"]
    assert [(one.ordinal, one.text) for one in stored.passages] == [(1, "One."), (2, "Two,\nstill two.")]
    assert stored.url == "https://example.org/m"
    assert "The document is stored" in text(client.get(response.headers["Location"]))


def test_a_pasted_document_may_carry_fields(client, engine):
    """As a JSON object; anything else comes back with what was wanted."""
    sent = {"title": "Mole", "text": "One.", "fields": '{"source": "manual", "tags": ["a"]}'}
    client.post("/documents", data=sent)
    refused = [client.post("/documents", data={**sent, "fields": each}) for each in ("[1]", "{", "[" * 9_999)]

    assert engine.stored["mole"].meta == {"source": "manual", "tags": ["a"]} and len(engine.stored) == 2
    assert all(each.status_code == 400 and "wanted an object such as" in text(each) for each in refused)


def test_an_id_that_is_taken_is_not_overwritten_silently(client, engine):
    """The form comes back with what was typed; 'Replace' has to be ticked."""
    sent = {"title": "New", "text": "New text.", "id": "vell"}
    refused = client.post("/documents", data=sent)

    assert refused.status_code == 400 and engine.stored["vell"].title == "Vell"
    assert soup(refused).select_one("textarea[name=text]").text.strip() == "New text."
    assert client.post("/documents", data={**sent, "replace": "yes"}).status_code == 303
    assert engine.stored["vell"].title == "New"


def test_titles_may_repeat(client, engine):
    """A made id is a free one."""
    for _ in range(3):
        client.post("/documents", data={"title": "Mole", "text": "Stone."})

    assert {"mole", "mole-2", "mole-3"} <= set(engine.stored)


def test_uploaded_files_are_documents(client, engine):
    """Text, Markdown and HTML are one document each, JSON lines one a line."""
    files = [
        uploaded("notes.txt", b"First.\n\nSecond."),
        uploaded("guide.md", b"# Guide\n\n## Pier\n\nThe pier."),
        uploaded("page.html", b"<title>Page</title><p>Said.</p><script>bad()</script>"),
        uploaded(
            "many.jsonl", b'{"_id": "a", "title": "A", "text": "Aa."}\n{"_id": "b", "title": "B", "text": "Bb."}\n'
        ),
    ]
    response = client.post("/documents", data={"files": files})

    assert response.headers["Location"].startswith("/documents?added=5")
    assert {"notes.txt", "guide.md", "page.html", "a", "b"} <= set(engine.stored)
    assert engine.stored["guide.md"].passages[0].section == "Pier"
    assert "bad" not in engine.stored["page.html"].passages[0].text


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("photo.png", b"\x89PNG", "The file photo.png: is of a kind that is not read here"),
        ("notes.txt.gz", b"\x1f\x8b", "The file notes.txt.gz: the gzip data end early"),
        ("broken.txt", b"\xff\xfe\xff", "The file broken.txt: "),
        ("empty.txt", b"  \n", "holds no text"),
        ("bad.jsonl", b'{"_id": "a", "title": "A", "text": "Aa."}\n{oops\n', "The file bad.jsonl: line 2"),
        ("none.jsonl", b"", "The file none.jsonl: "),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_nothing_is_added(client, engine, name, data, told):
    """All or nothing; no path of the server shows."""
    files = [uploaded("good.txt", b"Good."), uploaded(name, data)]
    response = client.post("/documents", data={"files": files})

    assert response.status_code == 400
    assert told in text(response) and "/tmp" not in text(response)
    assert set(engine.stored) == {"vell"}


@pytest.mark.parametrize("name", ["../../etc/passwd.txt", "/root/passwd.txt"])
def test_a_file_name_is_never_a_path(client, engine, name):
    """Only its last part counts, as an id."""
    client.post("/documents", data={"files": [uploaded(name, b"Said.")]})

    assert "passwd.txt" in engine.stored


@pytest.mark.parametrize(
    "sent",
    [
        {"title": "", "text": "x"},
        {"title": "x", "text": " "},
        {"title": "x", "text": "y", "url": "javascript:alert(1)"},
        {"title": "x", "text": "y", "id": "a\nb"},
        {"title": "x", "text": "y", "id": "i" * 600},
        {"title": "x" * 3000, "text": "y"},
        {"title": "x", "text": "a\x00b"},
        {"title": ""},
    ],
)
def test_what_cannot_be_stored_is_told(client, engine, sent):
    """Nothing is added, and the reader knows why."""
    response = client.post("/documents", data=sent)

    assert response.status_code == 400
    assert soup(response).select_one("[role=alert]")
    assert set(engine.stored) == {"vell"}


def test_the_same_form_sent_twice_is_one_operation(client, engine):
    """A double click adds once: the form carries the name of its operation."""
    token = soup(client.get("/documents")).select_one("input[name=operation]")["value"]
    client.post("/documents", data={"title": "Mole", "text": "Stone.", "operation": token})

    assert engine.operations[-1] == f"page-{token}"


def test_a_deleted_document_comes_back_with_its_names(client, engine):
    """Undo brings back text, sections, ordinals and the names people gave it."""
    before = engine.stored["vell"]
    engine.names["vell"] = {"Old Vell": 0.25, "The Port": None}
    response = client.post("/document/delete", data={"id": "vell", "back": "/?task=question&q=x"})
    page = soup(client.get(response.headers["Location"]))

    assert "vell" not in engine.stored
    assert page.select_one(".notice a")["href"] == "/?task=question&q=x"
    token = page.select_one("input[name=token]")["value"]
    assert client.post("/document/restore", data={"token": token}).status_code == 303
    assert engine.stored["vell"] == before
    assert engine.names["vell"] == {"Old Vell": 0.25, "The Port": None}
    assert client.post("/document/restore", data={"token": token}).status_code == 404


def test_undo_does_not_overwrite_a_newer_document(client, engine):
    """The id was given anew meanwhile: nothing is lost."""
    response = client.post("/document/delete", data={"id": "vell"})
    token = soup(client.get(response.headers["Location"])).select_one("input[name=token]")["value"]
    engine.add([CorpusDocument("vell", "Another")])

    assert client.post("/document/restore", data={"token": token}).status_code == 400
    assert engine.stored["vell"].title == "Another"


def test_what_is_kept_for_undo_is_bounded():
    """Fifty deletions or sixty-four million characters, the oldest are forgotten first."""

    def deleted(n_chars: int) -> Deleted:
        return Deleted(CorpusDocument("a", "A", passages=(CorpusPassage(1, "x" * n_chars),)), 1)

    kept = RecentlyDeleted(max_documents=2, max_chars=100)
    tokens = [kept.keep(deleted(n_chars)) for n_chars in (1, 1, 1)]
    assert [kept.find(token) is None for token in tokens] == [True, False, False]
    large = kept.keep(deleted(1000))
    assert kept.find(large) is not None and kept.find(tokens[2]) is None


def test_names_are_given_and_taken_away(client, engine):
    """On the document's page, at once."""
    client.post("/document/names", data={"id": "vell", "name": " The Port "})
    assert "The Port" in text(client.get("/document?id=vell"))

    client.post("/document/names/remove", data={"id": "vell", "name": "The Port"})
    assert engine.names["vell"] == {}


def test_listing_goes_page_by_page_and_finds_words(client, engine):
    """The next page is a link; a search that finds nothing says what to do."""
    engine.add([CorpusDocument(f"d{number:02}", f"Pier {number}") for number in range(30)])
    first = soup(client.get("/documents"))
    second = soup(client.get(first.select_one("a[rel=next]")["href"]))

    titles = [link.text for page in (first, second) for link in page.select(".documents__title")]
    assert len(titles) == 31 and len(set(titles)) == 31
    assert len(soup(client.get("/documents?q=Pier 1")).select(".documents__title")) == 11
    assert "No document matches" in text(client.get("/documents?q=zzz"))


def test_documents_are_listed_under_a_filter_and_show_their_fields(client, engine):
    """The filter stays in its box and in the links; one that cannot be asked is explained in its place."""
    fields = {"source": "manual", "tags": ["long", "new"], "open": True, "<b>": {"x": 1}}
    engine.add([CorpusDocument(f"m{n:02}", "Manual", meta=fields) for n in range(30)])
    page = soup(client.get("/documents", query_string={"where": "source = 'manual'"}))
    refused = client.get("/documents?where=source")
    document = soup(client.get("/document?id=m00"))

    assert len(page.select(".documents__title")) == 25
    assert page.select_one("input[name=where]")["value"] == "source = 'manual'"
    assert "where=source" in page.select_one("a[rel=next]")["href"]
    assert "No document matches" in text(client.get("/documents?where=source = 'feed'"))
    assert refused.status_code == 400 and "the filter 'source' cannot be read" in text(refused)
    facts = dict(zip([e.text for e in document.select("dt")], [e.text for e in document.select("dd")], strict=True))
    assert (facts["source"], facts["tags"], facts["open"], facts["<b>.x"]) == ("manual", "long, new", "true", "1")


@pytest.mark.parametrize("back", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "/\\evil", "/?\n"])
def test_the_way_back_stays_on_this_page(client, back):
    """A link of this page never leads elsewhere."""
    page = soup(client.get("/document", query_string={"id": "vell", "back": back}))

    assert page.select_one(".crumb a")["href"] == "/documents"


def test_the_source_is_a_link_only_when_it_is_of_the_web(client, engine):
    """A document may say anything about its source."""
    engine.add([CorpusDocument("bad", "Bad", "javascript:alert(1)"), CorpusDocument("good", "Good", "https://e.org")])

    assert not soup(client.get("/document?id=bad")).select("a[rel*=external]")
    assert soup(client.get("/document?id=good")).select_one("a[rel*=external]")["href"] == "https://e.org"


def test_status_shows_counts_commits_and_the_verification(client, engine):
    """Never verified, running, all well, damaged: each has its words."""
    assert "Not verified since" in text(client.get("/status"))
    assert client.post("/status/verify", data={"now": ""}).status_code == 303
    assert "Every byte is being read" in text(client.get("/status"))

    report = VerifyReport(engine.path, False, 8, 5, 9, 1, 0, ())
    engine.verification.state = VerifyState("done", "2026-01-02T03:04:05+00:00", "2026-01-02T03:04:09+00:00", report)
    assert "Everything is what was written" in text(client.get("/status"))

    findings = (Finding("segments/<b>", "is damaged", "error"),)
    engine.verification.state = replace(engine.verification.state, report=replace(report, findings=findings))
    shown = text(client.get("/status"))
    assert "Something is not what was written" in shown and "restore a backup" in shown
    assert "1.9 MiB" in shown and "2026-01-02 03:04:05 UTC" in shown


POSTS = ["/documents", "/document/delete", "/document/restore", "/document/names", "/document/names/remove"]


@pytest.mark.parametrize("path", [*POSTS, "/status/verify"])
@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}],
    ids=["origin", "null", "cross-site"],
)
def test_no_other_site_can_change_anything(client, engine, path, headers):
    """A form on a stranger's page reaches the service with the stranger's origin, and is refused."""
    response = client.post(path, data={"id": "vell", "title": "x", "text": "y"}, headers=headers)

    assert response.status_code == 403 and response.mimetype == "text/html"
    assert set(engine.stored) == {"vell"} and engine.verification.state.state == "never"


def test_pages_keep_browsers_sending_their_origin(client):
    """With 'no-referrer' a browser's own forms would come with the origin 'null'."""
    assert client.get("/documents").headers["Referrer-Policy"] == "same-origin"


def test_a_name_that_was_made_to_lead_here_is_refused(client):
    """DNS rebinding: a stranger's host name resolves to this machine."""
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 403


@pytest.mark.parametrize(
    ("scope", "read", "write", "admin"),
    [(None, 401, 401, 401), ("read", 200, 403, 403), ("write", 200, 303, 403), ("admin", 200, 303, 303)],
)
def test_with_keys_the_browser_is_asked_and_scopes_hold(tmp_path, scope, read, write, admin):
    """The key is the password of HTTP Basic: no cookie, no script, and a reading key cannot write."""
    engine = FakeEngine(tmp_path)
    client = create_app(ServiceSettings(require_key=True), engine, log_stream=io.StringIO()).test_client()
    auth = None
    if scope is not None:
        _, token = key_file(tmp_path, None).create("test", scope)
        auth = ("anyone", token)

    first = client.get("/", auth=auth)
    assert first.status_code == read
    if scope is None:
        assert first.headers["WWW-Authenticate"].startswith("Basic")
    assert client.post("/document/delete", data={"id": "vell"}, auth=auth).status_code == write
    assert client.post("/status/verify", data={"now": ""}, auth=auth).status_code == admin
    assert client.post("/", data={"task": "question", "q": "x"}, auth=auth).status_code == (
        401 if auth is None else 303
    )
