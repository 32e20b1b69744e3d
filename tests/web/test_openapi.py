"""The OpenAPI document: valid and complete."""

from __future__ import annotations

import re

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.web.test_keys import NEEDED

PROBLEMS = {"400", "404", "405", "413", "415", "422", "429", "500", "503", "504", "507"}


@pytest.fixture(scope="module")
def document(shared):
    """The document as a client fetches it."""
    return shared.client.get("/openapi.json").json


def test_the_document_is_valid_openapi_3_1(document):
    """As the specification's own schema says."""
    assert document["openapi"].startswith("3.1")
    OpenAPIV31SpecValidator(document).validate()


def test_every_route_is_in_the_document_and_nothing_else(document):
    """But for the document itself; the web page's routes are no API."""
    wanted = {
        (method.lower(), re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule))
        for method, rule in NEEDED
        if rule != "/openapi.json"
    }

    assert {(method, path) for path, methods in document["paths"].items() for method in methods} == wanted


def test_every_operation_names_its_problems_its_scope_and_itself(document):
    """Problem documents for every status, security where a key is needed, ids for generated clients."""
    ids = []
    for methods in document["paths"].values():
        for operation in methods.values():
            ids.append(operation["operationId"])
            assert set(operation["responses"]) >= PROBLEMS
            needs_key = "scope" in operation["description"]
            assert operation["security"] == ([{}, {"ApiKey": []}] if needs_key else [])
            assert operation["summary"] and operation["tags"]
            problem = operation["responses"]["400"]["content"]["application/problem+json"]
            assert problem["schema"] == {"$ref": "#/components/schemas/ProblemBody"}
    assert len(ids) == len(set(ids))


def test_bodies_take_no_field_that_is_not_declared(document):
    """Neither requests nor answers."""
    for name, schema in document["components"]["schemas"].items():
        if schema.get("type") == "object" and "properties" in schema:
            assert schema["additionalProperties"] is False, name
