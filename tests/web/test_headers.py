"""What browsers are told and what is refused of them: policies, origins, hosts."""

from __future__ import annotations

import pytest

from web.settings import ServiceSettings

BODY = {"text": "Paris", "k": 1}
PATHS = ("/livez", "/v1/kb", "/nowhere", "/openapi.json", "/metrics")


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_has_its_security_headers(shared, path):
    """Errors too."""
    headers = shared.client.get(path).headers

    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
    assert "Authorization" in headers["Vary"]


def test_a_request_id_is_kept_when_it_is_sane_and_made_otherwise(shared):
    """What could break a log line or a header is not repeated."""
    sent = shared.client.get("/livez", headers={"X-Request-ID": "job-17.a:b_c"}).headers["X-Request-ID"]
    made = [
        shared.client.get("/livez", headers={"X-Request-ID": bad}).headers["X-Request-ID"]
        for bad in ("", "a b", "x" * 129, '"><script>', "é")
    ]

    assert sent == "job-17.a:b_c"
    assert all(len(each) == 32 and each.isalnum() for each in made) and len(set(made)) == len(made)


def test_a_trace_is_passed_on(shared):
    """W3C traceparent, when it is one."""
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

    assert shared.client.get("/livez", headers={"traceparent": trace}).headers["traceparent"] == trace
    assert "traceparent" not in shared.client.get("/livez", headers={"traceparent": "x"}).headers


def test_no_other_origin_is_allowed_by_default(shared):
    """No CORS header, and a change sent by another page is refused."""
    asked = shared.client.options(
        "/v1/question", headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    )
    sent = shared.post("/v1/question", BODY, Origin="https://evil.example")

    assert not any(name.startswith("Access-Control") for name, _ in asked.headers)
    assert sent.status_code == 403 and sent.json["code"] == "forbidden"
    assert not any(name.startswith("Access-Control") for name, _ in sent.headers)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://localhost"}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://localhost.evil.example"}, 403),
    ],
)
def test_a_change_may_come_from_here_or_from_no_page(shared, headers, status):
    """Programs send no origin; the browser tells which page sent a request."""
    response = shared.client.post("/v1/search", json=BODY, headers=headers)

    assert response.status_code == status


def test_a_listed_origin_is_allowed(make_service):
    """With what a page needs, and for the API only."""
    service = make_service(cors_origins=("https://app.example",))
    origin = {"Origin": "https://app.example"}
    asked = service.client.options(
        "/v1/question",
        headers={
            **origin,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization, content-type",
        },
    )
    sent = service.post("/v1/question", BODY, **origin)
    other = service.client.get("/v1/kb", headers={"Origin": "https://evil.example"})
    outside = service.client.get("/livez", headers=origin)

    assert asked.headers["Access-Control-Allow-Origin"] == "https://app.example"
    assert "authorization" in asked.headers["Access-Control-Allow-Headers"].lower()
    assert sent.status_code == 200
    assert sent.headers["Access-Control-Allow-Origin"] == "https://app.example"
    assert "etag" in sent.headers["Access-Control-Expose-Headers"].lower()
    assert "Origin" in sent.headers["Vary"]
    assert "Access-Control-Allow-Origin" not in other.headers
    assert "Access-Control-Allow-Origin" not in outside.headers


def test_a_listed_origin_asks_first_without_a_key(make_service):
    """A browser sends no key with its question whether it may send one."""
    service = make_service(cors_origins=("https://app.example",), require_key=True)
    asked = service.client.options(
        "/v1/question", headers={"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    )

    assert asked.status_code == 200 and "Access-Control-Allow-Origin" in asked.headers


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8080", 200),
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("kb.internal", 200),
        ("evil.example", 403),
        ("evil.example:8080", 403),
    ],
)
def test_without_keys_only_names_of_this_machine_are_answered(make_service, host, status):
    """A name that was made to lead here (DNS rebinding) is refused."""
    service = make_service(allowed_hosts=("kb.internal",))
    response = service.client.get("/v1/kb", headers={"Host": host})

    assert response.status_code == status
    if status != 200:
        assert response.mimetype == "application/problem+json" and "--allow-host" in response.json["detail"]


def test_with_keys_any_name_is_answered(make_service):
    """The key is what protects then."""
    service = make_service(require_key=True)

    assert service.client.get("/livez", headers={"Host": "kb.example"}).status_code == 200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"port": -1}, "port"),
        ({"port": 65_536}, "port"),
        ({"threads": 1}, "threads"),
        ({"queue_size": 0}, "queue_size"),
        ({"max_batch": 0}, "max_batch"),
        ({"dispatchers": 0}, "dispatchers"),
        ({"deadline_s": 0.0}, "deadline_s"),
        ({"deadline_s": float("nan")}, "deadline_s"),
        ({"drain_s": -1.0}, "drain_s"),
        ({"cache_entries": -1}, "cache_entries"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, message):
    """With the value seen and the values wanted."""
    with pytest.raises(Exception, match=rf"{message} is .*, wanted"):
        ServiceSettings(**options)
