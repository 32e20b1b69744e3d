"""REL's API under /rel: its request files, its answers; NIF without its library."""

from __future__ import annotations

import importlib.util

import pytest

TEXT = "They say that Marie Curie never saw the Amazon rainforest. 🙂 Paris she did."


def test_mentions_that_are_given_are_linked(shared):
    """As REL's README sends them, and as GERBIL does; offsets count code points."""
    spans = [[14, 11], [61, 5]]
    rows = shared.post("/rel", {"text": TEXT, "spans": spans}).json
    as_gerbil = [{"start": start, "length": length} for start, length in spans]
    assert shared.post("/rel", {"text": TEXT, "spans": as_gerbil, "tagger": "ner-fast"}).json == rows
    assert [row[:4] for row in rows] == [[14, 11, "Marie Curie", "Marie_Curie"], [61, 5, "Paris", "Paris"]]
    assert all(row[5:] == [0.0, "NULL"] for row in rows)


def test_mentions_are_found_where_none_are_given(shared):
    """Those that annotating links."""
    rows = shared.post("/rel", {"text": TEXT, "spans": []}).json
    found = shared.post("/v1/annotate", {"text": TEXT, "unlinked": False}).json["annotations"]
    assert [[row[0], row[0] + row[1]] for row in rows] == [each["span"] for each in found]
    assert [row[4] for row in rows] == [each["link"]["probability"] for each in found]
    assert shared.post("/rel", {"text": TEXT}).json == rows
    assert shared.post("/rel", {"text": " "}).json == []


def test_the_status_is_rels(shared):
    """For badges."""
    assert shared.client.get("/rel").json == {"schemaVersion": 1, "label": "status", "message": "up", "color": "green"}


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"spans": []}, 422),
        ({"text": 7}, 422),
        ({"text": TEXT, "spans": [[1]]}, 422),
        ({"text": TEXT, "spans": [["0", "4"]]}, 422),
        ({"text": TEXT, "spans": [[0, 0]]}, 400),
        ({"text": TEXT, "spans": [[-1, 4]]}, 400),
        ({"text": TEXT, "spans": [[70, 40]]}, 400),
        ({"text": TEXT, "spans": [{"start": 0}]}, 400),
        ({"text": TEXT, "spans": [[0, 4]] * 1001}, 422),
        ({"text": "[START_ENT] Paris", "spans": [[0, 11]]}, 400),
    ],
)
def test_what_is_no_request_is_refused(shared, sent, status):
    """With a problem document; REL says 400 and an empty list, which looks like a text without entities."""
    response = shared.post("/rel", sent)
    assert response.status_code == status, response.text
    assert response.mimetype == "application/problem+json"


@pytest.mark.skipif(importlib.util.find_spec("rdflib") is not None, reason="for where rdflib is missing")
def test_nif_without_its_library_says_what_to_install(shared):
    """It is no fault of the client's."""
    response = shared.client.post("/nif", data=b"x")
    assert response.status_code == 501 and "pip install rdflib" in response.json["detail"]
