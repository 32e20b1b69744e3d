"""API keys: hashed at rest, shown once, refused when revoked or expired, and checked on every route."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from kbengine.errors import InvalidOptionError
from web.errors import KeyFileError, UnauthorizedError
from web.guards import access_of
from web.keys import ApiKey, KeyFile
from web.server import check_keys
from web.settings import ServiceSettings

TOKEN = re.compile(r"kbe_[0-9a-f]{12}_[A-Za-z0-9_-]{43}")


@pytest.fixture
def keys(tmp_path):
    """An empty file of keys."""
    return KeyFile(tmp_path / "keys.json")


def test_a_token_is_of_the_key_that_it_was_made_with(keys):
    """Also for another reader of the file."""
    key, token = keys.create("laptop", "write")

    assert TOKEN.fullmatch(token)
    assert keys.check(token) == key == KeyFile(keys.path).check(token)


def test_the_file_holds_no_secret_and_is_its_owners(keys):
    """Only a hash, readable by the user who runs the service."""
    _, token = keys.create("laptop", "read")

    secret = token.split("_", 2)[2]
    assert secret not in keys.path.read_text()
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600


@pytest.mark.parametrize("change", [lambda t: t[:-1], lambda t: t + "A", lambda t: t[:-1] + "é", lambda t: t.upper()])
def test_anything_but_the_token_is_refused(keys, change):
    """However near it is."""
    _, token = keys.create("laptop", "read")
    for wrong in (change(token), "", "kbe_", "kbe_000000000000_" + "A" * 43, "Bearer"):
        with pytest.raises(UnauthorizedError):
            keys.check(wrong)


def test_a_revoked_key_is_refused_at_once_by_whoever_reads_the_file(keys):
    """Without a restart."""
    running = KeyFile(keys.path)
    key, token = keys.create("laptop", "read")
    running.check(token)
    keys.revoke(key.id)

    with pytest.raises(UnauthorizedError):
        running.check(token)
    with pytest.raises(KeyFileError, match="no key"):
        keys.revoke(key.id)


def test_a_key_expires(keys):
    """At its time, to the second."""
    key = ApiKey("a" * 12, "x", "read", "0" * 64, "2026-01-01T00:00:00+00:00", "2026-02-01T00:00:00+00:00")

    assert not key.expired(datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC))
    assert key.expired(datetime(2026, 2, 1, tzinfo=UTC))
    with pytest.raises(InvalidOptionError, match="in the future"):
        keys.create("x", "read", expires_in=timedelta(0))


def test_scopes_include_those_before_them():
    """Admin may write and read, write may read."""
    allowed = {
        scope: [wanted for wanted in ("read", "write", "admin") if ApiKey("i", "n", scope, "h", "t").allows(wanted)]
        for scope in ("read", "write", "admin")
    }

    assert allowed == {"read": ["read"], "write": ["read", "write"], "admin": ["read", "write", "admin"]}


def test_keys_made_at_once_are_all_kept(keys):
    """By several processes: each change takes its turn."""
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: KeyFile(keys.path).create(f"k{n}", "read")[0].id, range(16)))

    assert sorted(key.id for key in keys.all()) == sorted(made)


def test_a_changed_bit_of_the_file_changes_no_key_unseen(keys):
    """Wherever it is: the file is refused, or every key is what it was (white space)."""
    for name in ("laptop", "worker"):
        keys.create(name, "read", expires_in=timedelta(days=1))
    before, data = keys.all(), keys.path.read_bytes()
    for position in range(0, len(data), 7):
        for bit in (0, 5):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            keys.path.write_bytes(damaged)
            with contextlib.suppress(KeyFileError):
                assert KeyFile(keys.path).all() == before, position


def test_a_file_without_checksum_is_read_and_gets_one(keys):
    """Of the version before."""
    key, token = keys.create("laptop", "write")
    stored = json.loads(keys.path.read_text())
    keys.path.write_text(json.dumps({"version": 1, "keys": stored["keys"]}))
    keys = KeyFile(keys.path)
    assert keys.check(token) == key
    keys.create("other", "read")
    assert json.loads(keys.path.read_text())["version"] == 2
    assert keys.check(token) == key


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"version": 3, "keys": []}', '{"version": 2, "keys": []}', '{"version": 1, "keys": [{"id": 1}]}'],
)
def test_a_file_that_holds_no_keys_is_refused(keys, text):
    """Rather than taken for an empty one."""
    keys.path.write_text(text)

    with pytest.raises(KeyFileError, match=r"keys\.json"):
        keys.all()


def test_beyond_loopback_a_key_is_needed_to_start(tmp_path):
    """On every address that others can reach."""
    for host in ("0.0.0.0", "::", "192.0.2.7", "kb.example"):
        settings = ServiceSettings(host=host)
        assert settings.needs_key
        with pytest.raises(InvalidOptionError, match="kbengine key create"):
            check_keys(tmp_path, settings)
    for host in ("127.0.0.1", "localhost", "::1", "127.8.8.8"):
        check_keys(tmp_path, ServiceSettings(host=host))
    KeyFile(tmp_path / "api-keys.json").create("x", "read")
    check_keys(tmp_path, ServiceSettings(host="0.0.0.0"))


EXAMPLES = {
    ("POST", "/v1/question"): {"json": {"text": "Paris", "k": 1}},
    ("POST", "/v1/search"): {"json": {"text": "Paris", "k": 1}},
    ("POST", "/v1/slot-filling"): {"json": {"subject": "Paris", "relation": "country"}},
    ("POST", "/v1/entity-linking"): {"json": {"text": "Paris", "span": [0, 5]}},
    ("POST", "/v1/dialogue"): {"json": {"turns": ["Paris"]}},
    ("POST", "/v1/batch"): {"json": {"queries": [{"task": "search", "text": "Paris"}]}},
    ("POST", "/v1/annotate"): {"json": {"text": "Paris"}},
    ("GET", "/v1/profile"): {"query_string": {"name": "Paris", "n_relations": 1}},
    ("POST", "/v1/profile"): {"json": {"name": "Paris", "n_relations": 1}},
    ("POST", "/v1/kilt/<task>"): {"data": '{"id": 1, "input": "x"}', "content_type": "application/x-ndjson"},
    ("POST", "/v1/documents"): {"json": {"id": "new", "title": "t", "text": "new"}},
    ("POST", "/v1/documents:upload"): {"data": b"{}", "content_type": "application/x-ndjson"},
    ("POST", "/v1/annotate:batch"): {"data": b"{}", "content_type": "application/x-ndjson"},
    ("POST", "/v1/fill"): {"data": b"q\n", "content_type": "text/csv", "query_string": {"question": "q"}},
    ("POST", "/v1/documents:delete"): {"json": {"ids": ["nowhere"]}},
    ("POST", "/v1/aliases"): {"json": {"document": "nowhere", "aliases": ["x"]}},
    ("POST", "/v1/aliases:delete"): {"json": {"document": "nowhere"}},
    ("POST", "/reconcile"): {"data": {"queries": "{}"}},
    ("GET", "/v1/aliases/matches"): {"query_string": {"name": "x"}},
    ("POST", "/v1/kb:export"): {"query_string": {"form": "sqlite"}},
}
NEEDED = {
    ("POST", "/v1/question"): "read",
    ("POST", "/v1/search"): "read",
    ("POST", "/v1/slot-filling"): "read",
    ("POST", "/v1/entity-linking"): "read",
    ("POST", "/v1/dialogue"): "read",
    ("POST", "/v1/batch"): "read",
    ("POST", "/v1/annotate"): "read",
    ("GET", "/v1/profile"): "read",
    ("POST", "/v1/profile"): "read",
    ("POST", "/v1/kilt/<task>"): "read",
    ("GET", "/v1/documents"): "read",
    ("GET", "/v1/documents/<path:doc_id>"): "read",
    ("GET", "/v1/aliases"): "read",
    ("GET", "/v1/aliases/matches"): "read",
    ("GET", "/v1/kb"): "read",
    ("GET", "/metrics"): "read",
    ("POST", "/v1/vector_stores/<store>/search"): "read",
    ("GET", "/v1/models"): "read",
    ("GET", "/v1/models/<path:model>"): "read",
    ("POST", "/v1/embeddings"): "read",
    ("GET", "/rel"): "public",
    ("POST", "/rel"): "read",
    ("POST", "/nif"): "read",
    ("GET", "/reconcile"): "read",
    ("POST", "/reconcile"): "read",
    ("GET", "/reconcile/suggest/entity"): "read",
    ("GET", "/reconcile/suggest/property"): "read",
    ("GET", "/reconcile/suggest/type"): "read",
    ("GET", "/reconcile/properties"): "read",
    ("GET", "/reconcile/preview"): "read",
    ("POST", "/v1/documents"): "write",
    ("POST", "/v1/documents:delete"): "write",
    ("POST", "/v1/documents:upload"): "write",
    ("POST", "/v1/annotate:batch"): "read",
    ("POST", "/v1/fill"): "read",
    ("POST", "/v1/kb:export"): "read",
    ("GET", "/v1/jobs"): "read",
    ("GET", "/v1/jobs/<job_id>"): "read",
    ("DELETE", "/v1/jobs/<job_id>"): "read",
    ("GET", "/v1/jobs/<job_id>/result"): "read",
    ("DELETE", "/v1/documents/<path:doc_id>"): "write",
    ("POST", "/v1/aliases"): "write",
    ("POST", "/v1/aliases:delete"): "write",
    ("GET", "/v1/feedback"): "write",
    ("POST", "/v1/feedback"): "write",
    ("POST", "/v1/feedback:delete"): "write",
    ("POST", "/v1/kb:verify"): "admin",
    ("POST", "/v1/kb:backup"): "admin",
    ("GET", "/livez"): "public",
    ("GET", "/readyz"): "public",
    ("GET", "/openapi.json"): "public",
    ("GET", "/problems/<code>"): "public",
}


def api_routes(app):
    """Return (method, rule) of every route of the API and of operation."""
    for rule in app.url_map.iter_rules():
        if rule.rule.startswith(
            ("/v1/", "/reconcile", "/rel", "/nif", "/livez", "/readyz", "/metrics", "/openapi", "/problems")
        ):
            for method in sorted(set(rule.methods) - {"HEAD", "OPTIONS"}):
                yield (method, rule.rule), app.view_functions[rule.endpoint]


def test_every_route_has_the_scope_that_is_written_here(shared):
    """A new route has to be entered in this table."""
    assert {route: access_of(view, route[0]) for route, view in api_routes(shared.app)} == NEEDED


def test_every_route_asks_for_its_scope_and_nothing_more(make_service, kb_path):
    """Routes × {none, read, write, admin, expired, revoked, wrong}."""
    service = make_service(require_key=True)
    keys = KeyFile(kb_path / "api-keys.json")
    tokens = {scope: keys.create(scope, scope)[1] for scope in ("read", "write", "admin")}
    gone, tokens["revoked"] = keys.create("gone", "admin")
    keys.revoke(gone.id)
    old, tokens["expired"] = keys.create("old", "admin", expires_in=timedelta(hours=1))
    stored = json.loads(keys.path.read_text())
    stored["keys"][-1]["expires_at"] = old.created_at
    keys.path.write_text(json.dumps({"version": 1, "keys": stored["keys"]}))  # of before there was a checksum
    tokens["wrong"] = tokens["admin"][:-2] + "AA"
    tokens["none"] = None
    order = ("public", "read", "write", "admin")
    for (method, rule), needed in NEEDED.items():
        path = rule.replace("<path:doc_id>", "nowhere").replace("<task>", "question").replace("<code>", "locked")
        path = path.replace("<job_id>", "nowhere")
        for who, token in tokens.items():
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            response = service.client.open(path, method=method, headers=headers, **EXAMPLES.get((method, rule), {}))
            if needed == "public" or (who in order and order.index(who) >= order.index(needed)):
                assert response.status_code not in (401, 403), (method, rule, who)
            elif who in order:
                assert (response.status_code, response.json["code"]) == (403, "forbidden"), (method, rule, who)
            else:
                assert (response.status_code, response.json["code"]) == (401, "unauthorized"), (method, rule, who)
                assert response.headers["WWW-Authenticate"].startswith("Bearer"), (method, rule, who)


def test_a_browser_may_send_the_key_as_a_password(make_service, kb_path):
    """Basic, whatever the user name."""
    service = make_service(require_key=True)
    _, token = KeyFile(kb_path / "api-keys.json").create("browser", "read")
    basic = base64.b64encode(f"me:{token}".encode()).decode()

    assert service.client.get("/v1/kb", headers={"Authorization": f"Basic {basic}"}).status_code == 200
    assert service.client.get("/v1/kb", headers={"Authorization": "Basic bWU6d3Jvbmc="}).status_code == 401


def test_no_secret_is_in_an_answer_the_log_or_the_meters(make_service, kb_path):
    """Not even of a key that is refused."""
    service = make_service(require_key=True)
    key, token = KeyFile(kb_path / "api-keys.json").create("canary", "admin")
    headers = {"Authorization": f"Bearer {token}"}
    refused = service.client.get("/v1/kb", headers={"Authorization": f"Bearer {token}x"}, buffered=True)
    answered = service.client.get("/v1/kb", headers=headers, buffered=True)
    meters = service.client.get("/metrics", headers=headers, buffered=True)

    secret = token.split("_", 2)[2]
    for told in (refused.text, answered.text, meters.text, service.log.getvalue()):
        assert secret not in told
    assert [event.get("key") for event in service.events()] == [None, key.id, key.id]
