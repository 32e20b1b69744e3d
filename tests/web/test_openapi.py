"""The OpenAPI document: valid and complete."""

from __future__ import annotations

import html
import importlib
import pkgutil
import re

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import BaseModel

from tests.web.test_keys import NEEDED
from web import models
from web.api_examples import EXAMPLES


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
    """Problems that it can end in (more in test_endings), security where a key is needed, ids for clients."""
    ids = []
    for methods in document["paths"].values():
        for operation in methods.values():
            ids.append(operation["operationId"])
            assert "405" not in operation["responses"], "an operation is a method: it takes it"
            needs_key = "scope" in operation["description"]
            assert operation["security"] == ([{}, {"ApiKey": []}] if needs_key else [])
            assert operation["summary"] and operation["tags"]
            assert ("401" in operation["responses"]) == needs_key
            problem = operation["responses"]["403"]["content"]["application/problem+json"]
            assert problem["schema"] == {"$ref": "#/components/schemas/ProblemBody"}
    assert len(ids) == len(set(ids))


def test_bodies_take_no_field_that_is_not_declared(document):
    """Neither requests nor answers."""
    for name, schema in document["components"]["schemas"].items():
        if schema.get("type") == "object" and "properties" in schema:
            assert schema["additionalProperties"] is False, name


def test_operations_are_called_as_they_read(document):
    """By a verb or the task, without the module they stand in."""
    ids = {operation["operationId"] for methods in document["paths"].values() for operation in methods.values()}

    assert {"question", "get_kb", "add_documents", "get_profile", "livez"} <= ids
    assert set(EXAMPLES) <= ids


def test_answers_that_have_a_tag_say_so(document):
    """With the header, the 304 and what asks for it."""
    for path in ("/v1/question", "/v1/search"):
        operation = document["paths"][path]["post"]
        assert "ETag" in operation["responses"]["200"]["headers"] and "304" in operation["responses"]
        assert "If-None-Match" in {each["name"] for each in operation["parameters"]}


def test_every_example_is_answered(service, document):
    """Sent as the document has it."""
    sent = set()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            contents = operation.get("requestBody", {}).get("content", {})
            for body in (each["example"] for each in contents.values() if "example" in each):
                response = service.client.open(path, method=method.upper(), json=body)
                assert response.status_code in (200, 201), (path, response.text)
                sent.add(operation["operationId"])
    assert sent == set(EXAMPLES)


def test_the_page_of_the_api_has_every_operation(shared, document):
    """With the command for each example."""
    page = html.unescape(shared.client.get("/docs").text)

    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert f"{method.upper()} {path}" in page and f'id="{operation["operationId"]}"' in page
    assert page.count("-d '{") >= len(EXAMPLES)


def test_each_name_of_a_schema_is_one_model():
    """Models are named without their modules in the document, so two of one name would become one."""
    named: dict[str, set[str]] = {}
    for module in pkgutil.iter_modules(models.__path__, f"{models.__name__}."):
        for name, each in vars(importlib.import_module(module.name)).items():
            if isinstance(each, type) and issubclass(each, BaseModel) and each.__module__.startswith(models.__name__):
                named.setdefault(name, set()).add(each.__module__)

    assert {name: places for name, places in named.items() if len(places) > 1} == {}
