"""The container definition: linted, and as careful as the documentation says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from kbengine.cli import cli

ROOT = Path(__file__).parent.parent.parent
DOCKERFILE = ROOT / "Dockerfile"


@pytest.fixture(scope="module")
def instructions():
    """The last stage's instructions, continued lines joined, comments left out."""
    text = "\n".join(line for line in DOCKERFILE.read_text().split("\n") if not line.startswith("#"))
    lines = [line.strip() for line in text.replace("\\\n", " ").split("\n") if line.strip()]
    stages = [i for i, line in enumerate(lines) if line.startswith("FROM")]
    return [line.partition(" ")[::2] for line in lines[stages[-1] :]]


def test_hadolint_finds_nothing():
    """No rule is switched off."""
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([str(hadolint), str(DOCKERFILE)], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_pytorch_is_the_build_for_processors_unless_asked_otherwise():
    """The index is an argument of the build; the pinned version without a local part lets its builds in."""
    text = DOCKERFILE.read_text()

    assert "ARG PYTORCH_INDEX=https://download.pytorch.org/whl/cpu\n" in text
    assert '--extra-index-url "$PYTORCH_INDEX" --constraint constraints.txt ".${EXTRAS}"' in text
    assert 'ARG EXTRAS=""\n' in text, "none unless asked for"
    assert re.search(r"^torch==[\d.]+$", (ROOT / "constraints.txt").read_text(), re.M)


def test_it_serves_as_a_user_without_rights(instructions):
    """Not root, and what comes after does not change that."""
    names = [name for name, _ in instructions]
    user = dict(instructions)["USER"]

    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    assert not {"RUN", "COPY", "ADD"} & set(names[names.index("USER") :])


def test_it_serves_beyond_loopback_so_that_a_key_is_needed(instructions):
    """The command is one that exists, on the port that is exposed and asked for health."""
    facts = dict(instructions)
    command = json.loads(facts["CMD"])
    serve = cli.get_command(click.Context(cli), command[0])
    options = {option for parameter in serve.params for option in parameter.opts}
    port = next(parameter.default for parameter in serve.params if "--port" in parameter.opts)

    assert json.loads(facts["ENTRYPOINT"]) == ["kbengine"]
    assert command[command.index("--host") + 1] == "0.0.0.0"
    assert {each for each in command if each.startswith("--")} <= options
    assert facts["EXPOSE"] == str(port)
    assert f"http://127.0.0.1:{port}/livez" in facts["HEALTHCHECK"]


def test_the_health_check_is_a_program_that_runs(instructions):
    """It fails where nothing answers, instead of crashing on its own syntax."""
    command = json.loads(dict(instructions)["HEALTHCHECK"].partition("CMD ")[2])
    code = command[2].replace(":8080", ":1")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode != 0 and "URLError" in done.stderr


def test_no_secret_and_no_test_gets_into_the_image():
    """What is copied is an allow-list; keys lie in the knowledge base, which is a volume."""
    copied = re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE.read_text(), re.M)
    ignored = (ROOT / ".dockerignore").read_text().split("\n")

    assert {word for line in copied for word in line.split()[:-1]} == {
        "pyproject.toml",
        "constraints.txt",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "storage",
        "kbengine",
        "adapters",
        "web",
    }
    assert {".git", "tests", "demo-kb"} <= set(ignored)
