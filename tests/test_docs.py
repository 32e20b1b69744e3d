"""What README and documentation say is true: examples run and print what is shown, commands exist, links resolve."""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from werkzeug.serving import WSGIRequestHandler, make_server

from kbengine.cli import cli
from tests.test_cli import kbengine
from tests.tiny_reader import write_tiny_reader

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = {
    "quillmere.txt": "Quillmere\n\nQuillmere is a village on the river Tarn. Its mill was built in 1764 by Ada Thorne.",
    "harrowby.md": "# Harrowby\n\nThe lighthouse of Harrowby was designed by Emil Sand and lit in 1851.",
}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
VARIABLE = re.compile(r"KBENGINE_[A-Z]+(?:_[A-Z]+)*")
NEEDS = re.compile(r"^<!-- its examples need the extra (\w+) -->$", re.M)
NUMBER = re.compile(r"\d+\.\d+")


class Block(NamedTuple):
    """A block of code of a page."""

    language: str
    text: str


def blocks(page):
    """Return the blocks of a page, in order."""
    return [Block(*found) for found in BLOCK.findall(page.read_text(encoding="utf-8"))]


@pytest.fixture(scope="module")
def site():
    """The module that makes the site."""
    spec = importlib.util.spec_from_file_location("documentation_site", ROOT / "docs" / "site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(site, tmp_path_factory):
    """The folder of all pages as they go into the site, references generated."""
    folder = tmp_path_factory.mktemp("site") / "pages"
    site.write_pages(folder)
    return folder


@pytest.fixture(scope="module")
def bases(bundled_kb, tmp_path_factory):
    """A folder with the demo's knowledge base and one of two texts; to be copied."""
    folder = tmp_path_factory.mktemp("bases")
    texts = folder / "my-texts"
    texts.mkdir()
    for name, text in TEXTS.items():
        (texts / name).write_text(text, encoding="utf-8")
    assert kbengine("build", texts, "--kb", folder / "my-kb").returncode == 0
    shutil.copytree(bundled_kb, folder / "demo-kb")
    return folder


class Quiet(WSGIRequestHandler):
    """Says nothing about requests."""

    def log(self, *arguments):
        """Say nothing."""


class Session:
    """A reader who types the examples of one page, in a folder with the files that they name."""

    def __init__(self, folder, stack):
        self.folder = folder
        self.stack = stack
        self.names = {}
        self.port = None

    def served(self, text):
        """Return the text with the address of a service, which is started at the first need."""
        if "localhost:8080" not in text:
            return text
        if self.port is None:
            self.port = self.start()
        return text.replace("localhost:8080", f"127.0.0.1:{self.port}")

    def start(self):
        """Serve the knowledge base that the page is about."""
        from web.app import create_app
        from web.engine import Engine
        from web.settings import ServiceSettings

        engine = self.stack.enter_context(contextlib.closing(Engine.open(self.folder / self.kb)))
        app = create_app(ServiceSettings(), engine, log_stream=io.StringIO())
        server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.stack.callback(server.server_close)
        self.stack.callback(thread.join)
        self.stack.callback(server.shutdown)
        return server.port

    def run(self, command):
        """Return what a command prints; the program's own run in this process."""
        piped = re.fullmatch(r'echo "(.*)" \| (kbengine .*)', command)
        stdin, command = (piped[1] + "\n", piped[2]) if piped else ("", command)
        if command.startswith("kbengine "):
            done = kbengine(*shlex.split(command)[1:], stdin=stdin)
        else:
            done = subprocess.run(["bash", "-c", self.served(command)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, done.stderr)
        if command.startswith("curl "):
            answers = [json.loads(line) for line in done.stdout.split("\n") if line]
            assert answers and not any(isinstance(each.get("status"), int) for each in answers), (command, done.stdout)
        return done.stdout

    def execute(self, code, page):
        """Return what Python prints."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(self.served(code), page.name, "exec"), self.names)
        return printed.getvalue()


def same(printed, shown):
    """Tell whether what is printed is what is shown: … stands for anything, numbers may differ in their last places."""
    printed, shown = (" ".join(text.split()) for text in (printed, shown))
    pattern = "".join(
        r"(\d+\.\d+)" if NUMBER.fullmatch(part) else re.escape(part).replace("…", ".*")
        for part in re.split(r"(\d+\.\d+)", shown)
    )
    found = re.match(pattern, printed) if shown.endswith("…") else re.fullmatch(pattern, printed)
    numbers = [float(each) for each in NUMBER.findall(shown)]
    return found is not None and [float(each) for each in found.groups()] == pytest.approx(numbers, rel=0.02)


def typed(text):
    """Yield the commands of a console block with what is shown after each."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        lines = part.rstrip("\n").split("\n")
        command = [lines.pop(0)]
        while lines and (command[-1].endswith("\\") or lines[0].startswith(">")):
            command.append(lines.pop(0).removeprefix(">").removeprefix(" "))
        yield "\n".join(command).replace("\\\n", ""), "\n".join(lines)


def extra_of(page):
    """Return the extra that the examples of a page need; None when they need none."""
    found = NEEDS.search(page.read_text(encoding="utf-8"))
    return found[1] if found else None


@pytest.mark.parametrize(
    "page",
    [
        page
        for page in PAGES
        if extra_of(page) is None and any(block.language in ("console", "python") for block in blocks(page))
    ],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_examples_of_a_page_run_and_print_what_is_shown(page, bases, tmp_path, monkeypatch):
    """One after the other, as a reader would type them."""
    run_examples(page, bases, tmp_path, monkeypatch)


def test_examples_that_need_an_extra_are_run_by_its_tests():
    """Which name the page."""
    for page in PAGES:
        if extra := extra_of(page):
            tests = (ROOT / "tests" / "integrations" / extra).glob("test_*.py")
            assert any(f'"{page.name}"' in path.read_text(encoding="utf-8") for path in tests), page


def run_examples(page, bases, tmp_path, monkeypatch):
    """Run the examples of a page, and compare what they print with what is shown."""
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    text = page.read_text(encoding="utf-8")
    shutil.copytree(bases / "my-texts", tmp_path / "new-texts")
    shutil.copytree(bases / "demo-kb", tmp_path / "demo-kb")
    if "mkdir my-texts" not in text:
        shutil.copytree(bases / "my-texts", tmp_path / "my-texts")
    if "kbengine build my-texts" not in text:
        shutil.copytree(bases / "my-kb", tmp_path / "my-kb")
    corpus = (files("kbengine") / "demo" / "corpus.jsonl").read_bytes()
    (tmp_path / "pages.jsonl.gz").write_bytes(gzip.compress(corpus))
    write_tiny_reader(tmp_path / "my-reader")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    with contextlib.ExitStack() as stack:
        session = Session(tmp_path, stack)
        session.kb = "my-kb" if "serve --kb my-kb" in text else "demo-kb"
        printed = ""
        for language, code in blocks(page):
            if language == "python":
                printed = session.execute(code, page)
            elif language == "text" and printed:
                assert same(printed, code), printed
            elif language == "console":
                for command, shown in typed(code):
                    if command.startswith(("make ", "pip ", "python3 ", ". ")):
                        continue
                    printed = session.run(command)
                    if shown:
                        assert same(printed, shown), (command, printed)
            if language != "python":
                printed = ""


def described(text):
    """Yield the commands that a page names in blocks that are not run."""
    for language, code in BLOCK.findall(text):
        if language == "sh":
            for line in code.replace("\\\n", " ").split("\n"):
                if found := re.search(r"\bkbengine(?:\.cli)? (?!\.)(.*)", line):
                    yield shlex.split(found[1], comments=True)


def parsed(words):
    """Parse a command's words without running it, by the program's own parser."""
    context, command = click.Context(cli, info_name="kbengine"), cli
    while isinstance(command, click.Group):
        name, command, words = command.resolve_command(context, words)
        context = click.Context(command, info_name=name, parent=context)
    command.make_parser(context).parse_args(args=list(words))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_that_are_named_exist(page):
    """In blocks that are not run because they need data or hours, and as words of a sentence."""
    text = page.read_text(encoding="utf-8")
    for words in described(text):
        if words[:1] not in (["-m"], []) and not words[0].startswith("-"):
            try:
                parsed(words)
            except click.UsageError as e:
                pytest.fail(f"{' '.join(words)}: {e.format_message()}")
    names = set(cli.list_commands(click.Context(cli)))
    assert set(re.findall(r"`kbengine ([a-z]+)[ `]", text)) <= names


def test_extras_that_are_named_exist():
    """In commands to install."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for page in PAGES:
        assert set(re.findall(r"kbengine\[([a-z]+)\]", page.read_text(encoding="utf-8"))) <= set(extras), page


def test_every_command_and_option_is_in_the_reference(site, pages):
    """The reference of the command line."""
    reference = (pages / "reference" / "command-line.md").read_text(encoding="utf-8")
    for command, context in site.commands(cli, click.Context(cli, info_name="kbengine")):
        section = reference[reference.index(f"## {context.command_path}\n") :].split("\n## ")[0]
        assert command.help and " ".join(command.help.split("\n\n")[0].split()) in section, context.command_path
        for option in command.params:
            if isinstance(option, click.Option):
                assert all(f"`{name}`" in section for name in option.opts), (context.command_path, option.opts)


def test_every_error_is_in_the_reference(pages):
    """With what it means."""
    from web.problems import catalogue

    reference = (pages / "reference" / "errors.md").read_text(encoding="utf-8")
    assert all(f"| `{code}` |" in reference for code in catalogue())


def test_every_page_is_in_the_navigation(pages):
    """Decisions in their index."""
    listed = set(re.findall(r'"([\w/-]+\.md)"', (ROOT / "zensical.toml").read_text(encoding="utf-8")))
    index = pages / "decisions" / "README.md"
    decisions = set(re.findall(r"\]\((\d{4}[\w-]+\.md)\)", index.read_text(encoding="utf-8")))

    assert decisions == {each.name for each in index.parent.glob("[0-9]*.md")}
    assert {str(each.relative_to(pages)) for each in pages.rglob("*.md")} - listed == {
        f"decisions/{name}" for name in decisions
    }


def anchors(page):
    """Return the anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S), re.M)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", each).strip().lower()) for each in headings}


def broken(page):
    """Yield the links of a page that lead nowhere."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        file = (page.parent / path) if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            yield target


def test_links_of_the_site_lead_somewhere(pages):
    """To a page, a heading of it, a picture or figures."""
    assert {str(p.relative_to(pages)): found for p in pages.rglob("*.md") if (found := list(broken(p)))} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_in_the_repository_lead_somewhere(page):
    """Where pages are read as they are; headings that are generated are in the site only."""
    assert [link for link in broken(page) if not re.search(r"(command-line|http|errors|python)\.md#", link)] == []


def test_every_variable_of_the_environment_is_in_the_settings():
    """And no other."""
    code = [
        path
        for name in ("kbengine", "adapters", "web", "storage", "benchmarks", "tests")
        for path in ROOT.glob(f"{name}/**/*.py")
    ]
    read = {name for path in [*code, ROOT / "Makefile"] for name in VARIABLE.findall(path.read_text(encoding="utf-8"))}

    assert set(VARIABLE.findall((ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8"))) == read
