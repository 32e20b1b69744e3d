"""Commands that ask a running service: the same as asking the directory, without a model, and errors that help."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner
from werkzeug.serving import make_server

from adapters.commands.annotate import annotate
from adapters.commands.profile import profile
from adapters.commands.query import query
from kbengine.terminal.maintenance_commands import info
from web.keys import KeyFile

ROOT = Path(__file__).parent.parent.parent
ASKED = {
    "question": (query, ["Where was Marie Curie born?", "-k", "2", "--explain"]),
    "slot": (query, ["--subject", "Marie Curie", "--relation", "P19", "--weight", "lexical=2"]),
    "backwards": (query, ["--relation", "P19", "--object", "Paris"]),
    "mention": (query, ["--text", "They were in Paris.", "--span", "13:18"]),
    "mentions": (query, ["--text", "Marie Curie was in Paris.", "--span", "0:11", "--span", "19:24"]),
    "dialogue": (query, ["--turn", "I like science.", "--turn", "Who was Marie Curie?", "--unit", "passage"]),
    "annotate": (annotate, ["Marie Curie was in Paris with Quillmere.", "--threshold", "0"]),
    "profile": (profile, ["Marie Curie", "--relations", "3", "--threshold", "0"]),
    "unknown": (profile, ["Curiosity of Marie"]),
    "one relation": (profile, ["--id", "marie-curie", "--relation", "P19"]),
}


@pytest.fixture(scope="module")
def address(shared):
    """The address of the module's service."""
    server = make_server("127.0.0.1", 0, shared.app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def without_times(text: str) -> list[dict]:
    """JSON lines, or the lines of a text, without what differs from call to call."""
    return [json.loads(line) | {"timings_ms": {}} for line in text.splitlines()]


@pytest.mark.parametrize("name", ASKED)
def test_a_service_answers_as_its_directory_does(name, address, module_kb, monkeypatch, encoder):
    """As JSON and as text; the text's last line holds times."""
    from kbengine.encoders.encoder import Encoder

    monkeypatch.setattr(Encoder, "load", classmethod(lambda cls, *_, **__: encoder))
    command, arguments = ASKED[name]
    here = CliRunner().invoke(command, ["--kb", str(module_kb), "--json", *arguments])
    monkeypatch.setenv("KBENGINE_URL", address)
    there = CliRunner().invoke(command, ["--json", *arguments])
    assert here.exit_code == there.exit_code == 0, here.output + there.output
    assert without_times(there.stdout) == without_times(here.stdout)
    assert CliRunner().invoke(command, arguments).exit_code == 0


def test_the_facts_of_a_service_are_those_of_its_knowledge_base(address, module_kb, monkeypatch):
    """But for where it is."""
    here = json.loads(CliRunner().invoke(info, ["--kb", str(module_kb), "--json"]).stdout)
    monkeypatch.setenv("KBENGINE_URL", address)
    there = json.loads(CliRunner().invoke(info, ["--json"]).stdout)
    assert there == here | {"path": address}


def test_asking_a_service_imports_neither_model_nor_database(address):
    """So the command is there at once."""
    code = (
        "import sys; from kbengine.cli import main\n"
        "for line in ('query --json Who?', 'annotate Paris', 'profile Paris --json', 'info'):\n"
        "    main(line.split())\n"
        "heavy = {'torch', 'numpy', 'onnxruntime', 'faiss', 'sqlalchemy', 'pydantic', 'flask'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        env={"KBENGINE_URL": address, "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr


def test_a_directory_that_is_typed_counts_more_than_the_service(module_kb, monkeypatch):
    """And one of the environment less."""
    monkeypatch.setenv("KBENGINE_URL", "http://127.0.0.1:9")
    assert CliRunner().invoke(info, ["--kb", str(module_kb), "--json"]).exit_code == 0
    monkeypatch.setenv("KBENGINE_KB", str(module_kb))
    assert CliRunner().invoke(info, ["--json"]).exit_code == 1
    monkeypatch.delenv("KBENGINE_URL")
    assert CliRunner().invoke(info, ["--json"]).exit_code == 0
    monkeypatch.delenv("KBENGINE_KB")
    missing = CliRunner().invoke(info, [])
    assert missing.exit_code == 2 and "--kb" in missing.output and "KBENGINE_URL" in missing.output


@pytest.mark.parametrize(
    ("url", "said", "status"),
    [
        ("http://127.0.0.1:9", "there is no service at http://127.0.0.1:9", 1),
        ("localhost:8080", "wanted an address such as", 2),
    ],
)
def test_a_service_that_is_not_there_is_told_of(url, said, status, monkeypatch):
    """With what to do."""
    monkeypatch.setenv("KBENGINE_URL", url)
    done = CliRunner().invoke(query, ["Who?"])
    assert done.exit_code == status and said in done.output


@pytest.mark.parametrize(
    ("command", "arguments", "said"),
    [
        (query, ["Who?", "--device", "cpu"], "--device is the service's own choice"),
        (query, ["Who?", "--max-phrase-tokens", "3"], "--max-phrase-tokens"),
        (query, ["Who?", "-k", "0"], "k: "),
        (query, ["Who?", "--where", "and and"], "says: "),
        (query, ["--subject", "Paris", "--relation", "P99999"], "P99999"),
        (annotate, ["Paris", "--encoder", "x"], "--encoder"),
        (annotate, ["Paris", "--threshold", "2"], "threshold"),
        (profile, ["--id", "nowhere"], "no document 'nowhere'"),
    ],
)
def test_what_a_service_refuses_is_a_mistake_in_what_was_asked(command, arguments, said, address, monkeypatch):
    """Exit status 2 with its words."""
    monkeypatch.setenv("KBENGINE_URL", address)
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 2 and said in done.output, done.output


def test_a_key_is_sent_and_missed_by_name(make_service, kb_path, monkeypatch):
    """KBENGINE_KEY, as the service's own examples call it."""
    token = KeyFile(kb_path / "api-keys.json").create("reader", "read")[1]
    server = make_server("127.0.0.1", 0, make_service(require_key=True).app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        monkeypatch.setenv("KBENGINE_URL", f"http://127.0.0.1:{server.server_port}/")
        refused = CliRunner().invoke(info, [])
        monkeypatch.setenv("KBENGINE_KEY", token)
        let_in = CliRunner().invoke(info, ["--json"])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert refused.exit_code == 1 and "set KBENGINE_KEY" in refused.output
    assert let_in.exit_code == 0, let_in.output
