"""The same request as code: curl and Python, both against the JSON API of this service."""

from __future__ import annotations

import json
import pprint
import shlex

from web.page.search_form import SearchForm

KEY_VARIABLE = "KBENGINE_KEY"
"""The environment variable that the examples take the API key from."""


def curl_code(form: SearchForm, base: str, *, needs_key: bool = False) -> str:
    """Return a shell command; every argument is quoted, whatever the text holds."""
    body = json.dumps(form.body(), ensure_ascii=False)
    lines = [f"curl -s {shlex.quote(_address(form, base))}", "-H 'Content-Type: application/json'"]
    if needs_key:
        lines.append(f'-H "Authorization: Bearer ${KEY_VARIABLE}"')
    return " \\\n  ".join([*lines, f"-d {shlex.quote(body)}"])


def python_code(form: SearchForm, base: str, *, needs_key: bool = False) -> str:
    """Return a program that needs nothing but Python and prints the answers."""
    body = pprint.pformat(form.body(), width=88, sort_dicts=False)
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
        f"request = Request({_address(form, base)!r}, json.dumps(body).encode(), headers)",
        "with urlopen(request) as response:",
        f"    {answers} = json.load(response)",
        f'for answer in {answers}["answers"]:',
        '    print(answer["rank"], answer["text"], "|", answer["document"]["title"])',
    ]
    return "\n".join(lines)


def _address(form: SearchForm, base: str) -> str:
    return f"{base.rstrip('/')}/v1/{form.task}"
