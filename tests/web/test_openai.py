"""OpenAI's form of search, models and embeddings: fields, numbers, errors."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from kbengine.encoders.encoder import PassageText
from kbengine.inputs import Question

STORE = "/v1/vector_stores/kb/search"


def test_passages_come_back_as_the_search_has_them(shared, encoder):
    """Best first, with what they are from."""
    page = shared.post(STORE, {"query": "Marie Curie", "max_num_results": 3}).json
    found = shared.post("/v1/question", {"text": "Marie Curie", "unit": "passage", "k": 3}).json["answers"]
    assert page["object"] == "vector_store.search_results.page" and page["search_query"] == ["Marie Curie"]
    assert [each["content"][0]["text"] for each in page["data"]] == [each["text"] for each in found]
    assert [each["attributes"]["raw_score"] for each in page["data"]] == [each["score"] for each in found]
    scores = [each["score"] for each in page["data"]]
    assert scores == sorted(scores, reverse=True) and all(0 <= each < 1 for each in scores)
    best = page["data"][0]
    assert (best["file_id"], best["filename"]) == (found[0]["document"]["id"], found[0]["document"]["title"])


def test_several_queries_are_put_together(shared):
    """Each passage once."""
    queries = ["Marie Curie", "Amazon rainforest"]
    page = shared.post(STORE, {"query": queries, "max_num_results": 50}).json
    texts = [each["content"][0]["text"] for each in page["data"]]
    assert len(texts) == len(set(texts)) and {"marie-curie", "amazon"} <= {each["file_id"] for each in page["data"]}


def test_thresholds_leave_out_passages(shared):
    """Lower ones."""
    scores = [each["score"] for each in shared.post(STORE, {"query": "Paris"}).json["data"]]
    bar = (scores[0] + scores[-1]) / 2
    ranking = {"ranker": "auto", "score_threshold": bar}
    kept = shared.post(STORE, {"query": "Paris", "ranking_options": ranking}).json["data"]
    assert [each["score"] for each in kept] == [score for score in scores if score >= bar]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"type": "eq", "key": "lang", "value": "it's"}, {"one"}),
        ({"type": "ne", "key": "lang", "value": "de"}, {"one"}),
        ({"type": "gte", "key": "year", "value": 2001.5}, {"two"}),
        ({"type": "in", "key": "lang", "value": ["de", "fr"]}, {"two"}),
        ({"type": "nin", "key": "year", "value": [2002]}, {"one"}),
        ({"type": "eq", "key": "open", "value": True}, {"two"}),
        (
            {
                "type": "or",
                "filters": [
                    {"type": "eq", "key": "title", "value": "One"},
                    {"type": "and", "filters": [{"type": "lt", "key": "year", "value": 1}]},
                ],
            },
            {"one"},
        ),
    ],
)
def test_filters_are_those_of_fields(filtered, given, wanted):
    """Comparisons, and any combination of them."""
    page = filtered.post(STORE, {"query": "Paris", "filters": given}).json
    assert {each["file_id"] for each in page["data"]} == wanted


@pytest.fixture(scope="module")
def filtered(shared):
    """A service whose knowledge base has documents with fields."""
    new = [
        {"id": "one", "title": "One", "text": "Paris is one.", "meta": {"lang": "it's", "year": 2001}},
        {"id": "two", "title": "Two", "text": "Paris is two.", "meta": {"lang": "de", "year": 2002, "open": True}},
    ]
    assert shared.post("/v1/documents", {"documents": new}).status_code == 201
    return shared


def test_embeddings_are_the_vectors_of_passages_or_queries(shared, encoder):
    """Of length 1, as numbers or in base64."""
    texts = ["Paris is the capital of France.", "rainforest"]
    passages, queries = (model["id"] for model in shared.client.get("/v1/models").json["data"])
    assert queries == f"{passages}:query" and shared.client.get(f"/v1/models/{queries}").json["id"] == queries
    wanted = np.stack([each.passage_vector for each in encoder.encode_passages([PassageText("", t) for t in texts])])
    found = shared.post("/v1/embeddings", {"input": texts, "model": passages}).json
    assert np.allclose([each["embedding"] for each in found["data"]], wanted, atol=1e-6)
    assert found["usage"]["total_tokens"] > 10
    asked = encoder.encode_queries([Question(text) for text in texts]).passage
    coded = shared.post("/v1/embeddings", {"input": texts, "model": queries, "encoding_format": "base64"}).json
    vectors = [np.frombuffer(base64.b64decode(each["embedding"]), "<f4") for each in coded["data"]]
    assert np.allclose(vectors, asked, atol=1e-6)


@pytest.mark.parametrize(
    ("path", "sent", "status", "code", "param"),
    [
        (STORE, {"query": ""}, 422, "invalid_body", "query.constrained-str"),
        (STORE, {"query": "x", "max_num_results": 51}, 422, "invalid_body", "max_num_results"),
        (STORE, {"query": "x", "rewrite_query": True}, 422, "invalid_body", "rewrite_query"),
        (STORE, {"query": "x", "filters": {"type": "eq", "key": "nothing", "value": 1}}, 400, "invalid_option", None),
        (STORE, {"query": "x", "filters": {"type": "in", "key": "y", "value": 1}}, 400, "invalid_option", None),
        (STORE, {"query": "x", "filters": {"type": "eq", "key": 'a"b', "value": 1}}, 400, "invalid_option", None),
        (STORE, {"query": "word " * 600}, 400, "query_too_long", None),
        ("/v1/vector_stores/other/search", {"query": "x"}, 404, "not_found", None),
        ("/v1/embeddings", {"input": "x", "model": "gpt"}, 404, "unknown_encoder", None),
        ("/v1/embeddings", {"input": [[1, 2]], "model": "x"}, 422, "invalid_body", ...),
        ("/v1/embeddings", {"input": [], "model": "x"}, 422, "invalid_body", ...),
        ("/v1/embeddings", {"input": "x", "model": "tiny", "dimensions": 7}, 400, "invalid_option", None),
    ],
)
def test_errors_have_openais_form(shared, path, sent, status, code, param):
    """With codes of ours."""
    if sent.get("model") == "tiny":
        sent = {**sent, "model": shared.client.get("/v1/models").json["data"][0]["id"]}
    response = shared.post(path, sent)
    assert response.status_code == status, response.text
    assert response.mimetype == "application/problem+json" and response.json["code"] == code
    error = response.json["error"]
    assert error["code"] == code and error["message"] and error["type"].endswith("_error")
    assert param is ... or error["param"] == param


def test_what_never_reaches_a_view_has_that_form_too(shared, make_service):
    """A body that is no JSON; a missing key."""
    cut = shared.client.post(STORE, data="{", content_type="application/json")
    assert (cut.status_code, cut.json["error"]["code"]) == (400, "bad_request")
    refused = make_service(require_key=True).client.get("/v1/models")
    assert (refused.status_code, refused.json["error"]["type"]) == (401, "authentication_error")
    assert refused.headers["WWW-Authenticate"].startswith("Bearer")


def test_a_long_query_may_be_cut(shared):
    """When it is said."""
    assert shared.post(STORE, {"query": "word " * 600, "truncate": True}).status_code == 200
