"""One way to ask: command line, Python, HTTP and page give the same answers, scores and probabilities."""

from __future__ import annotations

import html
import io
import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from flask.testing import FlaskClient

from adapters.commands.query import query
from adapters.tasks.calibration import SETTING
from adapters.tasks.confidence import FEATURES, Confidence, Logistic
from kbengine import Dialogue, KnowledgeBase, Mention, Question, Slot
from kbengine.inputs import TASKS
from tests.adapters.calibrations import calibration, settings_with
from web.app import create_app
from web.engine import Engine
from web.settings import ServiceSettings

TURNS = ("I will have a free day in Lincoln.", "Go up the tower of the State Capitol.", "Was it always called Lincoln?")
ASKED = {
    "question": (
        Question("What was the programming language Java called at first?"),
        ["What was the programming language Java called at first?"],
        {"text": "What was the programming language Java called at first?"},
        {"task": "question", "q": "What was the programming language Java called at first?"},
    ),
    "slot-filling": (
        Slot("Frida Kahlo", "P26"),
        ["--subject", "Frida Kahlo", "--relation", "P26"],
        {"subject": "Frida Kahlo", "relation": "P26"},
        {"task": "slot-filling", "subject": "Frida Kahlo", "relation": "P26"},
    ),
    "own wording": (
        Slot("Frida Kahlo", "painter that X married"),
        ["--subject", "Frida Kahlo", "--relation", "painter that X married"],
        {"subject": "Frida Kahlo", "relation": "painter that X married"},
        {"task": "slot-filling", "subject": "Frida Kahlo", "relation": "painter that X married"},
    ),
    "backwards": (
        Slot.backwards("place of birth", "Warsaw"),
        ["--relation", "place of birth", "--object", "Warsaw"],
        {"relation": "place of birth", "object": "Warsaw"},
        {"task": "slot-filling", "relation": "place of birth", "object": "Warsaw"},
    ),
    "entity-linking": (
        Mention("From Lincoln to Omaha.", (5, 12)),
        ["--text", "From Lincoln to Omaha.", "--span", "5:12"],
        {"text": "From Lincoln to Omaha.", "span": [5, 12]},
        {"task": "entity-linking", "text": "From [START_ENT] Lincoln [END_ENT] to Omaha."},
    ),
    "dialogue": (
        Dialogue(TURNS),
        [part for turn in TURNS for part in ("--turn", turn)],
        {"turns": list(TURNS)},
        {"task": "dialogue", "turn": list(TURNS)},
    ),
}
SETTINGS = {
    "plain": {"k": 10},
    "other unit": {"unit": "passage", "k": 4},
    "more": {"k": 25, "effort": "high"},
    "unread": {"read": 0, "k": 5},
    "read more": {"read": 8, "k": 5},
}


@pytest.fixture(scope="module")
def folder(module_demo_kb) -> Path:
    """The bundled knowledge base, with probabilities for every task."""
    with KnowledgeBase.open(module_demo_kb) as knowledge_base:
        engine, n = knowledge_base.engine, len(FEATURES)
        models = [Logistic(tuple(0.05 * (-1.0) ** i for i in range(n)), -1.0)] * 2
        confidence = Confidence((0.0,) * n, (10.0,) * n, *models)
        encoders = {task: engine.encoder_for(task=task).fingerprint for task in TASKS}
        fitted = [calibration(task, encoder=encoders[task], confidence=confidence) for task in TASKS]
        engine.set_setting(SETTING, settings_with(*fitted)[SETTING])
    return module_demo_kb


@pytest.fixture(scope="module")
def python(folder):
    """The knowledge base, open in Python."""
    with KnowledgeBase.open(folder) as knowledge_base:
        yield knowledge_base


@pytest.fixture(scope="module")
def client(folder, tmp_path_factory) -> FlaskClient:
    """A client of the service on a copy of it."""
    engine = Engine.open(Path(shutil.copytree(folder, tmp_path_factory.mktemp("served") / "demo-kb")))
    yield create_app(ServiceSettings(), engine, log_stream=io.StringIO()).test_client()
    engine.close()


def facts(answers: list[dict]) -> list[tuple[str, float, float]]:
    """Text, score and probability of each answer."""
    return [(each["text"], each["score"], each["probability"]) for each in answers]


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("name", ASKED)
def test_all_four_ways_answer_alike(name, settings, folder, python, client) -> None:
    """Texts, scores and probabilities, to the last digit that each way shows."""
    asked, arguments, body, parameters = ASKED[name]
    task = parameters["task"]

    by_python = python.ask(asked, **settings).to_json()["answers"]
    by_http = client.post(f"/v1/{task}", json={**body, **settings}).json["answers"]
    page = client.get("/", query_string={**parameters, **settings}).text

    wanted = facts(by_python)
    assert wanted
    if not settings.keys() & {"unit", "read"}:
        assert all((probability is None) == (name == "backwards") for _, _, probability in wanted)
    assert facts(by_http) == wanted
    # A command opens everything anew: every task and every setting by command, but not each with each.
    turn = list(ASKED).index(name) + list(SETTINGS.values()).index(settings)
    if settings == SETTINGS["plain"] or turn % 3 == 0:
        given = [part for key, value in settings.items() for part in (f"--{key}" if key != "k" else "-k", str(value))]
        done = CliRunner().invoke(query, ["--kb", str(folder), "--json", *given, *arguments])
        assert facts(json.loads(done.stdout)["answers"]) == wanted
    assert shown(page) == [
        (f"{score:.1f}", None if probability is None else f"{100 * probability:.0f} %")
        for _, score, probability in wanted
    ]
    words = " ".join(html.unescape(re.sub("<[^>]*>", "", page)).split())
    assert " ".join(wanted[0][0].split()) in words


def test_a_plain_search_is_the_same_in_python_and_over_http(python, client) -> None:
    """With the weights of questions."""
    text = "a slide guitar score for a film"
    by_python = [(hit.text, hit.score) for hit in python.search(text, k=5).hits]
    found = client.post("/v1/search", json={"text": text, "k": 5}).json["answers"]
    assert [(each["text"], each["score"]) for each in found] == by_python
    assert by_python[0][1] == python.ask(text, k=1).answers[0].score


@pytest.mark.parametrize("weights", [{"lexical": 0.0}, {"phrase": 0.5, "sparse": 1.0}])
def test_weights_left_out_are_the_tasks_own_at_every_door(weights, folder, python, client) -> None:
    """Over HTTP as in Python and on the command line."""
    asked, arguments, body, _ = ASKED["slot-filling"]
    wanted = facts(python.ask(asked, k=3, weights=weights).to_json()["answers"])
    assert facts(client.post("/v1/slot-filling", json={**body, "k": 3, "weights": weights}).json["answers"]) == wanted
    given = [part for name, value in weights.items() for part in ("--weight", f"{name}={value}")]
    done = CliRunner().invoke(query, ["--kb", str(folder), "--json", "-k", "3", *given, *arguments])
    assert facts(json.loads(done.stdout)["answers"]) == wanted


def shown(page: str) -> list[tuple[str, str | None]]:
    """Score and probability of each answer, as the page shows them."""
    found = []
    for part in page.split('<div class="answer__score">')[1:]:
        probability = re.search(r"Probability </span>([0-9]+ %)", part.split("answer__number")[0])
        score = re.search(r"Score </span>([-0-9.]+)", part)
        found.append((score[1], None if probability is None else probability[1]))
    return found
