"""Several knowledge bases in one process: found by name, with keys of their own, and none sees another."""

from __future__ import annotations

import io
import json
import shutil

import pytest
from werkzeug.test import Client

from kbengine.errors import InvalidOptionError
from tests.waiting import wait_until
from tests.web.conftest import serve
from tests.web.running_server import serving
from web.app import create_app
from web.keys import KeyFile
from web.knowledge_bases import KnowledgeBases, NamedPath, named_paths
from web.server import serve as serve_kbs
from web.service import StopFlag
from web.settings import ServiceSettings

QUESTION = {"text": "Who conducted research on radioactivity?", "k": 1}
NAMES = ("news", "films")


@pytest.fixture
def served_as(built_kb, tmp_path, encoder):
    """A function from settings to a client of two knowledge bases; the first lost a document."""
    engines = []

    def make(**settings):
        apps, stopping = {}, StopFlag()
        for name in NAMES:
            path = tmp_path / name
            shutil.copytree(built_kb, path)
            chosen = ServiceSettings(**settings)
            engines.append(serve(path, encoder, chosen).engine)
            app = create_app(chosen, engines[-1], log_stream=io.StringIO(), name=name, served=NAMES, stopping=stopping)
            apps[name] = app
        engines[0].knowledge_base.delete(["marie-curie"])
        return Client(KnowledgeBases(apps))

    yield make
    for engine in engines:
        engine.close()


def test_a_name_in_the_address_says_which_is_meant(served_as):
    """Without one it is the first."""
    client = served_as()

    asked = {
        path: client.post(f"{path}/question", json=QUESTION).json for path in ("/v1", *map("/v1/kb/{}".format, NAMES))
    }

    assert asked["/v1"]["answers"][0]["text"] == asked["/v1/kb/news"]["answers"][0]["text"]
    assert asked["/v1/kb/films"]["generation"] != asked["/v1/kb/news"]["generation"]
    documents = {name: client.get(f"/v1/kb/{name}/documents/marie-curie").status_code for name in NAMES}
    assert documents == {"news": 404, "films": 200}
    assert client.get("/v1/kb/films/documents/a/b c").json["id"] == "a/b c"
    told = {path: client.get(path).json for path in ("/v1/kb", "/v1/kb/news", "/v1/kb/films", "/v1/kb/films/kb")}
    assert [each["name"] for each in told.values()] == ["news", "news", "films", "films"]
    assert all(each["served"] == list(NAMES) for each in told.values())
    assert client.get("/v1/kb/nobody/documents").json["code"] == "not_found"
    assert client.get("/readyz").json["checks"]["others"] == "ok"
    assert client.get("/kb/films/readyz").json["status"] == "ready"


def test_a_change_reaches_the_one_that_is_named(served_as):
    """Also as a job, whose address has the name."""
    client = served_as()
    new = {"id": "quillmere", "title": "Quillmere", "text": "A village."}
    assert client.post("/v1/kb/films/documents", json=new).status_code == 201
    assert client.get("/v1/documents/quillmere").status_code == 404

    job = client.post(
        "/v1/kb/films/documents:upload?name=x.jsonl",
        data=json.dumps({**new, "id": "x"}) + "\n",
        content_type="application/x-ndjson",
    )

    address = job.headers["Location"]
    assert address.startswith("/v1/kb/films/jobs/") and job.json["address"] == address
    wait_until(lambda: client.get(address).json["finished_at"])
    assert client.get("/v1/kb/films/documents/x").status_code == 200
    assert client.get("/v1/jobs").json["jobs"] == []


def test_each_has_keys_of_its_own(served_as, tmp_path):
    """A key of one opens no other, and does not tell of them."""
    client = served_as(require_key=True)
    token = KeyFile(tmp_path / "films" / "api-keys.json").create("x", "read")[1]
    headers = {"Authorization": f"Bearer {token}"}

    found = {path: client.get(path, headers=headers).status_code for path in ("/v1/kb", "/v1/kb/news", "/v1/kb/films")}

    assert found == {"/v1/kb": 401, "/v1/kb/news": 401, "/v1/kb/films": 200}
    assert client.get("/v1/kb/films", headers=headers).json["served"] == ["films"]
    assert "news" not in client.get("/kb/films/", headers=headers).text


def test_the_page_of_each_stays_there(served_as):
    """Every link of it has the name; the pages lead to each other."""
    client = served_as()
    assert client.get("/kb/films").headers["Location"] == "/kb/films/"
    pages = [
        "/",
        "/?q=Paris&k=1",
        "/documents",
        "/document?id=paris",
        "/entity?id=paris",
        "/annotate",
        "/fill",
        "/jobs",
        "/status",
        "/docs",
    ]
    for path in [*pages, "/compare?q=Paris"]:
        page = client.get(f"/kb/films{path}")
        assert page.status_code == 200, path
        for attribute in ("href", "action", "src"):
            for address in [each.split('"')[0] for each in page.text.split(f' {attribute}="')[1:]]:
                assert address.startswith(("/kb/films/", "#", "http")) or address == "/kb/news/", (path, address)
    page = client.get("/kb/films/").text
    assert 'href="/kb/news/"' in page and '<a href="/kb/films/" aria-current="true">films' in page
    assert 'href="/kb/films/"' in client.get("/").text
    assert client.get("/kb/films/openapi.json").json["servers"] == [{"url": "/kb/films"}]
    sent = client.post("/kb/films/documents", data={"title": "New", "text": "Some text."})
    assert sent.headers["Location"].startswith("/kb/films/document?")


@pytest.mark.parametrize("given", [["a=x", "a=y"], ["x/a", "y/a"], ["A=x", "b=y"], ["x/Großes", "y"]])
def test_names_are_told_apart_and_can_stand_in_an_address(given):
    """One alone needs none."""
    with pytest.raises(InvalidOptionError, match="NAME=PATH"):
        named_paths(given)
    assert len(named_paths(["/x/Großes"])) == 1


def test_a_file_of_keys_is_of_one(built_kb):
    """With several each has its own."""
    kbs = [NamedPath("a", built_kb), NamedPath("b", built_kb)]
    with pytest.raises(InvalidOptionError, match="--key-file"):
        serve_kbs(kbs, ServiceSettings(key_file=built_kb / "keys"))


def test_the_command_serves_several_and_stops(kb_path, tmp_path):
    """As it does one."""
    other = shutil.copytree(kb_path, tmp_path / "other")
    with serving(f"news={kb_path}", "--kb", str(other)) as server:
        server.started()
        found = [server.request("GET", f"/v1/kb/{name}")[0] for name in ("news", "other", "third")]
        assert found == [200, 200, 404]
        assert server.stop() == 0
