"""Make the documentation site: copy the pages, write the generated references into them, build with Zensical.

    python docs/site.py            the site in build/site; a broken link or anything from another host fails
    python docs/site.py --pages    only the pages, in build/pages

A page says where its generated part goes by a line `<!-- generated: NAME -->`; NAME is a key of `GENERATED`. Links into
`benchmarks/results`, which has measurements beside their figures, lead to the site's folder `results`.
"""

from __future__ import annotations

import argparse
import inspect
import io
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import click

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "build" / "pages"
SITE = ROOT / "build" / "site"
MARK = re.compile(r"^<!-- generated: ([a-z-]+) -->$", re.M)


def commands(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """Yield each command that does something, with its context; groups are walked through."""
    if not isinstance(command, click.Group):
        yield command, context
        return
    for name in command.list_commands(context):
        each = command.get_command(context, name)
        assert each is not None
        yield from commands(each, click.Context(each, info_name=name, parent=context))


def command_line() -> str:
    """Return every command: what it does, its examples, its options with their defaults."""
    from kbengine.cli import cli

    parts = []
    for command, context in commands(cli, click.Context(cli, info_name="kbengine")):
        usage = " ".join(command.collect_usage_pieces(context))
        prose, *examples = _help(command)
        parts += [f"## {context.command_path}", prose, f"```text\n{context.command_path} {usage}\n```", *examples]
        rows = [option for option in command.params if isinstance(option, click.Option)]
        parts.append("\n".join(["| option | default | meaning |", "| --- | --- | --- |", *map(_row, rows)]))
    return "\n\n".join(parts)


def _help(command: click.Command) -> Iterator[str]:
    """Yield the paragraphs of a help text; what follows "Example:" or "Examples:" becomes a block of code."""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        prose, _, code = re.sub(r"\x08\n", "", paragraph).partition("Example")
        if prose.strip():
            yield " ".join(prose.split())
        if code:
            lines = [line.strip() for line in code.partition(":")[2].split("\n") if line.strip()]
            yield "\n".join(["```sh", *lines, "```"])


def _row(option: click.Option) -> str:
    """Return the row of an option: its names, its default, what it means and what it may be."""
    names = [*option.opts, *option.secondary_opts]
    shown = ", ".join(f"`{name}`" for name in names)
    if not option.is_flag and not isinstance(option.type, click.Choice):
        shown += f" {(option.metavar or option.type.name).upper()}"
    meaning = option.help or ""
    if isinstance(option.type, click.Choice):
        meaning += " One of " + ", ".join(f"`{choice}`" for choice in option.type.choices) + "."
    if option.multiple and "repeated" not in meaning:
        meaning += " May be given several times."
    if isinstance(option.envvar, str) and option.envvar not in meaning:
        meaning += f" Environment: `{option.envvar}`."
    default = option.to_info_dict()["default"]
    if option.required:
        default = "required"
    elif option.is_flag and option.secondary_opts:
        default = f"`{option.opts[0] if default else option.secondary_opts[0]}`"
    else:
        default = "" if default in (None, False, (), []) else f"`{default}`"
    return f"| {shown} | {default} | {meaning.strip().replace('|', chr(92) + '|')} |"


def operations() -> str:
    """Return every operation of the HTTP API with its parameters and its body's fields, from the OpenAPI document."""
    document = openapi()
    parts = []
    for path, methods in sorted(document["paths"].items()):
        for method, operation in methods.items():
            summary = f"{operation['summary'].rstrip('.')}."
            parts += [f"## {method.upper()} {path}", f"{summary} {operation.get('description', '')}"]
            fields = [(p["name"], p["in"], p["schema"], p.get("description", "")) for p in operation["parameters"]]
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            for schema in _alternatives(document, body):
                needed = schema.get("required", ())
                for name, each in schema.get("properties", {}).items():
                    where = "body, required" if name in needed else "body"
                    row = (name, where, each, each.get("description", ""))
                    fields += [row] if row not in fields else []
            fields.sort(key=lambda field: "required" not in field[1])
            if fields:
                rows = [f"| `{name}` | {where} | {_type(schema)} | {what} |" for name, where, schema, what in fields]
                parts.append("\n".join(["| name | in | type | meaning |", "| --- | --- | --- | --- |", *rows]))
            answer = operation["responses"].get("200") or operation["responses"].get("202") or {}
            schema = next(iter(answer.get("content", {}).values()), {}).get("schema", {})
            if "$ref" in schema:
                parts.append(f"Answers {_type(schema)}.")
    parts.append("## Bodies of answers")
    for name, schema in document["components"]["schemas"].items():
        if _has_no_table(name):
            continue
        parts += [f"### {name}", schema.get("description", "").split("\n\n")[0]]
        rows = [f"| `{n}` | {_type(s)} | {s.get('description', '')} |" for n, s in schema.get("properties", {}).items()]
        if rows:
            parts.append("\n".join(["| field | type | meaning |", "| --- | --- | --- |", *rows]))
        else:
            parts.append(f"Is {_type(schema)}.")
    return "\n\n".join(parts)


def openapi() -> dict[str, Any]:
    """Return the OpenAPI document, from an app whose engine is a stand-in: no request reaches it."""
    from web.app import create_app
    from web.settings import ServiceSettings

    app = create_app(ServiceSettings(key_file=ROOT / "no-keys.json"), MagicMock(), log_stream=io.StringIO())
    with app.test_request_context():
        return dict(app.spec)


def _alternatives(document: Mapping[str, Any], schema: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    """Yield the object schemas that a body may have, references resolved."""
    if schema is None:
        return
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
    for each in schema.get("anyOf", schema.get("oneOf", ())):
        yield from _alternatives(document, each)
    if "properties" in schema:
        yield schema


def _has_no_table(name: str) -> bool:
    """Tell whether a schema is of a request, whose fields stand with its operation, or of any JSON."""
    return name.endswith(("Query", "Item", "JsonValue"))


def _type(schema: Mapping[str, Any]) -> str:
    """Return what a value may be, in words; a named schema as a link to its table."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"`{name}`" if _has_no_table(name) else f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(_type(each) for each in schema[key])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def errors() -> str:
    """Return every code with its meaning, the exit status of the command line, the status of the API, and its class."""
    import adapters.errors
    import kbengine.errors
    import web.errors
    from web.problems import catalogue

    classes = {
        each.code: each
        for module in (kbengine.errors, adapters.errors, web.errors)
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, kbengine.errors.KBError)
    }
    rows = []
    for code, entry in sorted(catalogue().items()):
        known = classes.get(code)
        shown = ("", "") if known is None else (known.exit_code, f"`{known.__name__}`")
        rows.append(f"| `{code}` | {shown[0]} | {entry['status']} | {shown[1]} | {entry['title']} |")
    return "\n".join(["| code | exit | HTTP | Python | meaning |", "| --- | --- | --- | --- | --- |", *rows])


def python() -> str:
    """Return a line for each public name, from which mkdocstrings makes its reference."""
    import kbengine

    public = [getattr(kbengine, name) for name in kbengine.__all__]
    return "\n\n".join(f"::: {each.__module__}.{each.__qualname__}" for each in public if isinstance(each, type))


GENERATED: Mapping[str, Callable[[], str]] = {
    "command-line": command_line,
    "operations": operations,
    "errors": errors,
    "python": python,
}


def filled(text: str) -> str:
    """Return a page with what is generated put in."""
    return MARK.sub(lambda mark: GENERATED[mark[1]](), text)


def write_pages(folder: Path = PAGES) -> None:
    """Write all pages of the site: those of `docs`, and those beside the measurements as `results`."""
    shutil.rmtree(folder, ignore_errors=True)
    skipped = shutil.ignore_patterns("*.py", "__pycache__")
    shutil.copytree(ROOT / "docs", folder, ignore=skipped)
    shutil.copytree(ROOT / "benchmarks" / "results", folder / "results")
    for path in folder.rglob("*.md"):
        text = filled(path.read_text(encoding="utf-8"))
        text = text.replace("../benchmarks/results/", "results/").replace("../../docs/", "../")
        path.write_text(text, encoding="utf-8")


def main() -> None:
    """Write the pages and build the site."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", action="store_true", help="only write the pages")
    options = parser.parse_args()
    write_pages()
    if options.pages:
        return
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    if code := subprocess.run(command, cwd=ROOT, check=False).returncode:
        raise SystemExit(code)
    for page in SITE.rglob("*.html"):
        if foreign := re.search(
            r"""<(?:script|img|link)[^>]+(?:src|href)=["']?https?:[^>]*""", page.read_text("utf-8")
        ):
            raise SystemExit(f"{page} takes something from elsewhere: {foreign[0]}")
    print(f"{SITE / 'index.html'}; with search: {sys.executable} -m http.server --directory {SITE} 8000")  # noqa: T201


if __name__ == "__main__":
    main()
