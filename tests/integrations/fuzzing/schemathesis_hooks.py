"""What schemathesis cannot know by itself: how JSON lines are written."""

from __future__ import annotations

import json

import schemathesis


@schemathesis.serializer("application/x-ndjson", "application/jsonl")
def json_lines(context, value):
    """Return a line that its route takes, with the generated text in it; what is no text as it is."""
    if not value or not isinstance(value, str):
        return json.dumps(value).encode() if value else b""
    if context.case.operation.path == "/v1/documents":
        text = value.replace("\x00", " ")
        return json.dumps({"id": "generated", "title": "", "text": text}).encode()
    return json.dumps({"id": 1, "input": value}).encode()
