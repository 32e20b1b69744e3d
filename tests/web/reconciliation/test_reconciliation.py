"""The Reconciliation Service API: every answer follows the standard's own schemas, whatever is sent."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from jsonschema import ValidationError

from tests.web.reconciliation.standard import check

CITY = {"id": "ulm", "title": "Ulm", "text": "Ulm lies on the Danube.", "meta": {"type": "city", "people": 128_928}}
TOWN = {
    "id": "ulm-2",
    "title": "Ulm (Arkansas)",
    "text": "Ulm was settled by people from Germany.",
    "meta": {"type": ["town", "place"], "open": True, "area": 1.5},
}


@pytest.fixture(scope="module")
def typed(shared):
    """A service whose knowledge base has documents with types."""
    assert shared.post("/v1/documents", {"documents": [CITY, TOWN]}).status_code == 201
    return shared


def reconcile(service, batch, **how):
    """Return what comes back for a batch, checked; queries are those of the standard's schema."""
    check("reconciliation-query-batch", batch)
    response = service.client.post("/reconcile", data={"queries": json.dumps(batch)}, **how)
    assert response.status_code == 200, response.text
    check("reconciliation-result-batch", response.json)
    assert list(response.json) == sorted(batch) or set(response.json) == set(batch)
    return {name: each["result"] for name, each in response.json.items()}


def extend(service, ids, *properties):
    """Return the rows of a data extension, checked."""
    asked = {"ids": ids, "properties": list(properties)}
    check("data-extension-query", asked)
    response = service.client.post("/reconcile", data={"extend": json.dumps(asked)})
    assert response.status_code == 200, response.text
    check("data-extension-response", response.json)
    assert [each["id"] for each in response.json["meta"]] == [each["id"] for each in properties]
    return response.json["rows"]


def test_the_schemas_are_used():
    """A wrong value is noticed."""
    with pytest.raises(ValidationError):
        check("manifest", {"versions": ["0.1"], "name": "x", "identifierSpace": "http://x", "schemaSpace": "http://y"})


@pytest.mark.parametrize("keyed", [False, True])
def test_the_manifest_follows_the_standard(make_service, kb_path, keyed):
    """With keys it says how to send one."""
    service = make_service(require_key=keyed)
    headers = {}
    if keyed:
        from web.keys import KeyFile

        headers["Authorization"] = f"Bearer {KeyFile(kb_path / 'api-keys.json').create('tool', 'read')[1]}"
    manifest = service.client.get("/reconcile", headers=headers).json
    check("manifest", manifest)
    assert ("authentication" in manifest) == keyed
    assert manifest["view"]["url"] == "http://localhost/document?id={{id}}"


def test_addresses_of_the_manifest_lead_somewhere(shared):
    """View, preview, suggestions, proposals."""
    manifest = shared.client.get("/reconcile").json
    templates = [manifest["view"]["url"], manifest["preview"]["url"]]
    for address in (each.replace("{{id}}", quote("a/b c", safe="")) for each in templates):
        assert shared.client.get(address).status_code == 200, address
    services = [*manifest["suggest"].values(), manifest["extend"]["propose_properties"]]
    for each in services:
        address = each["service_url"] + each["service_path"]
        assert shared.client.get(address, query_string={"prefix": "p", "type": "document"}).status_code == 200, address


def test_names_are_matched_by_form_and_by_address(typed):
    """An exact name of one document is sure; both ways answer the same."""
    batch = {"q0": {"query": "Marie Curie", "limit": 2}, "q1": {"query": "Paris", "type": "document"}}
    found = reconcile(typed, batch)
    assert [(found[name][0]["id"], found[name][0]["match"]) for name in batch] == [
        ("marie-curie", True),
        ("paris", True),
    ]
    assert len(found["q0"]) == 2 and not found["q0"][1]["match"]
    assert found["q0"][0]["description"] and found["q0"][0]["score"] == 100
    got = typed.client.get("/reconcile", query_string={"queries": json.dumps(batch)}).json
    assert {name: each["result"] for name, each in got.items()} == found


def test_an_id_is_found_too(typed):
    """As the standard expects."""
    best = reconcile(typed, {"a": {"query": "a/b c"}})["a"][0]
    assert (best["id"], best["name"], best["match"], best["score"]) == ("a/b c", "Knowledge base", True, 100)


def test_types_decide_what_may_be_found(typed):
    """One of several, all of several, none; a type that no document has finds nothing."""
    found = reconcile(
        typed,
        {
            "city": {"query": "Ulm", "type": "type=city"},
            "any": {"query": "Ulm", "type": ["type=city", "type=nowhere"], "type_strict": "any"},
            "all": {"query": "Ulm", "type": ["type=town", "type=place"], "type_strict": "all"},
            "both": {"query": "Ulm", "type": ["type=city", "type=town"], "type_strict": "all"},
            "should": {"query": "Ulm", "type": "type=city", "type_strict": "should"},
            "unknown": {"query": "Ulm", "type": "Q515"},
            "quoted": {"query": "Ulm", "type": "type=o'city"},
        },
    )
    ids = {name: [each["id"] for each in results] for name, results in found.items()}
    assert ids["city"] == ids["any"] == ["ulm"] and ids["all"] == ["ulm-2"]
    assert ids["both"] == ids["unknown"] == ids["quoted"] == [] and len(ids["should"]) > 2
    assert {"id": "type=city", "name": "city"} in found["city"][0]["type"]


def test_known_values_decide_between_namesakes(typed):
    """What the document says, in its text or a field, speaks for it; without a name they are asked for."""
    known = [{"pid": "P17", "v": "Germany"}, {"pid": "field:area", "v": 1.5}, {"pid": "P999999999", "v": ["x", True]}]
    found = reconcile(
        typed,
        {
            "with": {"query": "Ulm", "properties": known},
            "without": {"query": "Ulm"},
            "values only": {"properties": [{"pid": "field:open", "v": True}]},
            "relation": {"properties": [{"pid": "P17", "v": {"id": "x", "name": "Germany"}}], "limit": 3},
        },
    )

    def one(name, doc_id):
        return next(each for each in found[name] if each["id"] == doc_id)

    features = {each["id"]: each["value"] for each in one("with", "ulm-2")["features"]}
    assert features["P17"] == features["field:area"] == 1 and features["P999999999"] == 0
    assert one("with", "ulm-2")["score"] > one("without", "ulm-2")["score"]
    assert found["relation"] and not any(each["match"] for each in found["relation"])


def test_blank_names_have_no_candidates(typed):
    """An empty cell is no error, nor are marks of our own."""
    found = reconcile(typed, {"a": {"query": " "}, "b": {"query": "[START_ENT] Paris [END_ENT]", "limit": 1}})
    assert found["a"] == [] and found["b"][0]["id"] == "paris"


def test_one_query_that_cannot_be_asked_spoils_no_other(typed):
    """It has no candidates, and says why."""
    batch = {"a": {"query": "Paris"}, "b": {"properties": [{"pid": "P999999999", "v": "x"}]}}
    answer = typed.client.post("/reconcile", data={"queries": json.dumps(batch)}).json
    check("reconciliation-result-batch", answer)
    assert answer["a"]["result"] and answer["b"]["result"] == []
    assert answer["b"]["problem"]["code"] == "unknown_relation"


@pytest.mark.parametrize(
    ("form", "status", "said"),
    [
        ({"queries": "{"}, 400, "'queries' is not JSON"),
        ({"queries": ""}, 400, "'queries' is empty"),
        ({"queries": "[]"}, 422, ""),
        ({"queries": '{"q": {}}'}, 422, "neither a query nor a property"),
        ({"queries": '{"q": {"query": 7}}'}, 422, "/q/query"),
        ({"queries": '{"q": {"query": "x", "limit": 0}}'}, 422, "/q/limit"),
        ({"queries": '{"q": {"query": "x", "type_strict": "maybe"}}'}, 422, "type_strict"),
        ({"queries": '{"q": {"query": "x", "properties": [{"pid": "P19"}]}}'}, 422, "/q/properties/0/v"),
        ({"queries": json.dumps({str(i): {"query": "x"} for i in range(65)})}, 413, "65 queries, at most 64"),
        ({"queries": json.dumps({"q": {"query": "x" * 16_001}})}, 422, "16000"),
        ({"extend": "null"}, 422, ""),
        ({"extend": '{"ids": ["paris"]}'}, 422, "/properties"),
        ({"extend": '{"ids": ["paris"], "properties": [{"id": "P999999999"}]}'}, 400, "P999999999 is not among"),
        ({"extend": '{"ids": ["paris"], "properties": [{"id": "P19", "settings": {"limit": "x"}}]}'}, 422, "limit"),
        (
            {"extend": json.dumps({"ids": ["p"] * 200, "properties": [{"id": "P17"}, {"id": "P18"}, {"id": "P19"}]})},
            413,
            "600 cells, at most 512",
        ),
    ],
)
def test_what_is_no_request_is_refused(typed, form, status, said):
    """With a problem document: the standard leaves the form of errors to the service."""
    response = typed.client.post("/reconcile", data=form)
    assert response.status_code == status, response.text
    assert response.mimetype == "application/problem+json" and said in response.json["detail"]


def test_tables_are_extended_by_slots_and_fields(typed):
    """Unknown ids have empty cells; numbers are numbers."""
    wanted = [
        {"id": name} for name in ("field:people", "field:type", "field:open", "field:title", "occupation", "field:x")
    ]
    rows = extend(typed, ["ulm", "ulm-2", "nowhere"], *wanted)
    assert rows["ulm"]["field:people"] == [{"int": 128_928}] and rows["ulm-2"]["field:people"] == []
    assert rows["ulm-2"]["field:type"] == [{"str": "town"}, {"str": "place"}]
    assert rows["ulm-2"]["field:open"] == [{"str": "true"}] and rows["ulm"]["field:title"] == [{"str": "Ulm"}]
    assert rows["ulm"]["occupation"] and all(each == [] for each in rows["nowhere"].values())


def test_a_value_that_is_one_documents_name_is_that_document(typed):
    """Others are texts."""
    found = typed.client.post("/v1/slot-filling", json={"subject": "Ulm", "relation": "country", "k": 10}).json
    best = found["answers"][0]["text"]
    assert extend(typed, ["ulm"], {"id": "country"})["ulm"]["country"] == [{"str": best}]
    other = {"id": "other", "title": best, "text": "Something else is told here."}
    assert typed.post("/v1/documents", other).status_code == 201
    assert extend(typed, ["ulm"], {"id": "country"})["ulm"]["country"] == [{"id": "other", "name": best}]
    assert typed.client.delete("/v1/documents/other").status_code == 200


def test_settings_show_where_a_value_is_from(typed):
    """An empty field of the dialog is none."""
    settings = {"threshold": "", "limit": 1}
    shown = {
        show: extend(typed, ["ulm"], {"id": "country", "settings": {**settings, "show": show}})["ulm"]["country"]
        for show in ("value", "sentence", "document", "probability")
    }
    assert shown["value"][0]["str"] in shown["sentence"][0]["str"]
    assert set(shown["document"][0]) == {"id", "name"} and shown["probability"] == []  # the tiny encoder has none


@pytest.mark.parametrize(
    ("kind", "prefix", "wanted"),
    [
        ("entity", "mar", "marie-curie"),
        ("entity", "a/b c", "a/b c"),
        ("entity", "rainforest", "amazon"),
        ("property", "place of b", "P19"),
        ("property", "p19", "P19"),
        ("property", "born in", "P19"),
        ("property", "birth", "P569"),
        ("property", "peo", "field:people"),
        ("property", "what nobody asks", "what nobody asks"),
        ("type", "ci", "type=city"),
        ("type", "", "document"),
    ],
)
def test_suggestions(typed, kind, prefix, wanted):
    """By the first letters of names and ids, ten at a time."""
    schema = {"entity": "entities", "property": "properties", "type": "types"}[kind]
    found = []
    for cursor in (0, 10, 20):
        answer = typed.client.get(f"/reconcile/suggest/{kind}", query_string={"prefix": prefix, "cursor": cursor}).json
        check(f"suggest-{schema}-response", answer)
        assert len(answer["result"]) <= 10
        found += [each["id"] for each in answer["result"]]
    assert wanted in found and len(found) == len(set(found))


def test_properties_are_proposed(typed):
    """Fields first."""
    answer = typed.client.get("/reconcile/properties?type=document&limit=20").json
    check("data-extension-property-proposal", answer)
    ids = [each["id"] for each in answer["properties"]]
    assert len(ids) == 20 and ids[:2] == ["field:title", "field:url"] and "P19" in ids


def test_a_preview_may_be_framed_and_runs_nothing(typed):
    """Texts are shown as they are."""
    evil = {"id": "<b>", "title": "<script>x</script>", "text": "<img src=x onerror=y>", "url": "javascript:alert(1)"}
    assert typed.post("/v1/documents", evil).status_code == 201
    response = typed.client.get("/reconcile/preview", query_string={"id": "<b>"})
    assert response.mimetype == "text/html" and "X-Frame-Options" not in response.headers
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'self' http://localhost:*" in policy
    assert "<script" not in response.text and "<img" not in response.text and "javascript:" not in response.text
    assert typed.client.get("/reconcile/preview?id=nowhere").status_code == 404
    assert typed.client.delete("/v1/documents/<b>").status_code == 200


@pytest.mark.parametrize(
    ("settings", "origin", "status"),
    [
        ({}, "http://127.0.0.1:3333", 200),
        ({}, "http://localhost", 200),
        ({}, "https://evil.example", 403),
        ({}, "http://localhost.evil.example", 403),
        ({}, "null", 403),
        ({"cors_origins": ("https://bench.example",)}, "https://bench.example", 200),
        ({"require_key": True}, "https://anywhere.example", 401),
    ],
)
def test_pages_of_this_machine_and_listed_ones_may_ask(make_service, settings, origin, status):
    """Where keys are needed all pages, which have none; any page could read what it likes otherwise."""
    service = make_service(**settings)
    headers = {"Origin": origin}
    sent = service.client.post("/reconcile", data={"queries": '{"q": {"query": "Paris"}}'}, headers=headers)
    asked = service.client.get("/reconcile", headers=headers)
    assert sent.status_code == status
    may = status != 403
    assert (sent.headers.get("Access-Control-Allow-Origin") == origin) == may
    assert (asked.headers.get("Access-Control-Allow-Origin") == origin) == may
    assert "Access-Control-Allow-Origin" not in service.client.get("/livez", headers=headers).headers
