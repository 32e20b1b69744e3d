"""What the service tells of itself to a tool that adds it."""

from __future__ import annotations

from typing import Any

from adapters.reconciliation.extending import SHOWN
from adapters.reconciliation.kinds import DOCUMENT
from kbengine.version import __version__
from web.models.reconciliation import BATCH

PREVIEW_SIZE = {"width": 430, "height": 300}
SCHEMA_SPACE = "http://www.wikidata.org/prop/direct/"
"""Relations are known by Wikidata's ids of properties."""
_SHOWN_NAMES = {
    "value": "the value",
    "probability": "how probable it is",
    "sentence": "the sentence that says so",
    "document": "the document that says so",
}
SETTINGS: list[dict[str, Any]] = [
    {
        "name": "show",
        "label": "Show",
        "type": "select",
        "default": "value",
        "help_text": "What stands in the new column.",
        "choices": [{"value": each, "name": _SHOWN_NAMES[each]} for each in SHOWN],
    },
    {
        "name": "limit",
        "label": "Values at most",
        "type": "number",
        "default": 0,
        "help_text": "0 for all of them.",
    },
    {
        "name": "threshold",
        "label": "Probability",
        "type": "text",
        "default": "",
        "help_text": "From 0 to 1: what the best value has to reach. Empty: as the knowledge base was calibrated.",
    },
]


def manifest(name: str, root: str, *, needs_key: bool) -> dict[str, Any]:
    """Return the manifest of the knowledge base with this name, served at the address `root` (no slash at its end)."""
    here = f"{root}/reconcile"
    found: dict[str, Any] = {
        "versions": ["0.2"],
        "name": f"{name} (kbengine)",
        "identifierSpace": f"{root}/document?id=",
        "schemaSpace": SCHEMA_SPACE,
        "serviceVersion": __version__,
        "defaultTypes": [DOCUMENT.to_json()],
        "view": {"url": f"{root}/document?id={{{{id}}}}"},
        "preview": {"url": f"{here}/preview?id={{{{id}}}}", **PREVIEW_SIZE},
        "suggest": {
            each: {"service_url": here, "service_path": f"/suggest/{each}"} for each in ("entity", "property", "type")
        },
        "extend": {
            "propose_properties": {"service_url": here, "service_path": "/properties"},
            "property_settings": SETTINGS,
        },
        "batchSize": BATCH,
    }
    if needs_key:
        found["authentication"] = {"type": "basic", "description": "An API key as the password; any user name."}
    return found
