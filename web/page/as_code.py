"""The same request as code: curl and Python, both against the JSON API of this service."""

from __future__ import annotations

import json
import pprint
import shlex
from typing import Any

from kbengine.errors import TaskInputError
from web.page.asking import OPTION_NAMES, Asking, marked_text

KEY_VARIABLE = "KBENGINE_KEY"
"""The environment variable that the examples take the API key from."""


def request_body(asking: Asking) -> dict[str, Any]:
    """Return the body that asks the API for the same; options that have their default are left out."""
    body: dict[str, Any] = {}
    match asking.task:
        case "question":
            body["text"] = asking.q
        case "slot-filling":
            body |= {"subject": asking.subject, "relation": asking.relation}
        case "entity-linking":
            body |= _linking_body(asking)
        case "dialogue":
            body["turns"] = list(asking.turns)
    defaults = Asking()
    options = {name: getattr(asking, name) for name in OPTION_NAMES}
    return body | {name: value for name, value in options.items() if value != getattr(defaults, name)}


def curl_code(asking: Asking, base: str, *, needs_key: bool = False) -> str:
    """Return a shell command; every argument is quoted, whatever the text holds."""
    body = json.dumps(request_body(asking), ensure_ascii=False)
    lines = [f"curl -s {shlex.quote(_address(asking, base))}", "-H 'Content-Type: application/json'"]
    if needs_key:
        lines.append(f'-H "Authorization: Bearer ${KEY_VARIABLE}"')
    return " \\\n  ".join([*lines, f"-d {shlex.quote(body)}"])


def python_code(asking: Asking, base: str, *, needs_key: bool = False) -> str:
    """Return a program that needs nothing but Python and prints the answers."""
    body = pprint.pformat(request_body(asking), width=88, sort_dicts=False)
    headers = '{"Content-Type": "application/json"}'
    if needs_key:
        headers = f'{{"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["{KEY_VARIABLE}"]}}'
    answers = "result"
    lines = [
        "import json",
        *(["import os"] if needs_key else []),
        "from urllib.request import Request, urlopen",
        "",
        f"body = {body}",
        f"headers = {headers}",
        f"request = Request({_address(asking, base)!r}, json.dumps(body).encode(), headers)",
        "with urlopen(request) as response:",
        f"    {answers} = json.load(response)",
        f'for answer in {answers}["answers"]:',
        '    print(answer["rank"], answer["text"], "|", answer["document"]["title"])',
    ]
    return "\n".join(lines)


def _address(asking: Asking, base: str) -> str:
    return f"{base.rstrip('/')}/v1/{asking.task}"


def _linking_body(asking: Asking) -> dict[str, Any]:
    try:
        marked = marked_text(asking.text)
    except TaskInputError:
        return {"text": asking.text}
    spans = [[span.start, span.end] for span in marked.mentions]
    return {"text": marked.text} | ({"span": spans[0]} if len(spans) == 1 else {"spans": spans})
