"""The standard's own JSON schemas, which come with the tests."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from jsonschema import Draft7Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT4, DRAFT7

SCHEMAS = Path(__file__).parent / "schemas"
SWAGGER = "http://swagger.io/v2/schema.json"
BASE = "https://reconciliation-api.github.io/specs/0.2/schemas/"


def _registry() -> Registry[Any]:
    found = {
        BASE + path.name: Resource.from_contents(json.loads(path.read_text("utf-8")), DRAFT7)
        for path in SCHEMAS.glob("*.json")
    }
    swagger = files("openapi_spec_validator") / "resources" / "schemas" / "v2.0" / "schema.json"
    found[SWAGGER] = Resource.from_contents(json.loads(swagger.read_text("utf-8")), DRAFT4)
    return Registry().with_resources(found.items())


def check(name: str, value: Any) -> None:
    """Raise ValidationError unless the value is what the schema of this name describes."""
    schema = json.loads((SCHEMAS / f"{name}.json").read_text("utf-8"))
    Draft7Validator({**schema, "$id": BASE + f"{name}.json"}, registry=_registry()).validate(value)
