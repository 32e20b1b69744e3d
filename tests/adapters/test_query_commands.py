"""The commands `query` and `calibrate` on the bundled corpus, as people and programs call them."""

from __future__ import annotations

import json
import sys
from importlib.resources import files
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from adapters.commands.answer_text import support_text, why_none
from adapters.commands.calibrate import calibrate
from adapters.commands.query import query
from adapters.errors import MissingExtraError, UnknownRelationError
from adapters.tasks.answerer import Answerer, AnswerOptions
from benchmarks import refusing
from kbengine.errors import InvalidOptionError, TaskInputError
from kbengine.inputs import Question
from kbengine.knowledge_base import KnowledgeBase
from kbengine.terminal.demonstration import demo_queries
from kbengine.text_form import input_of
from tests.adapters.fake_knowledge_base import write_lines

CORPUS = Path(str(files("kbengine") / "demo" / "corpus.jsonl"))
TEXT = "They drove from Lincoln to Omaha across Nebraska."


@pytest.fixture(scope="module")
def kb(module_demo_kb: Path) -> Path:
    """The bundled corpus as a knowledge base."""
    return module_demo_kb


def run(command: click.Command, *arguments: object, exit_code: int = 0, stdin: str | None = None):
    """What a command printed: stdout and stderr."""
    result = CliRunner().invoke(command, [str(each) for each in arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == exit_code, result.output
    return result


def answered(kb: Path, *arguments: object) -> list[dict]:
    """The JSON lines of a query."""
    return [json.loads(line) for line in run(query, "--kb", kb, "--json", *arguments).stdout.splitlines()]


@pytest.mark.parametrize("command", [query, calibrate])
def test_every_command_has_an_example_in_its_help(command) -> None:
    """The example begins as it is typed."""
    assert f"kbengine {command.name} " in run(command, "--help").stdout


def test_a_slot_is_asked_by_fields_or_text_by_name_or_id(kb) -> None:
    """Four ways, one answer."""
    found = [
        answered(kb, "--task", "slot-filling", "Marie Curie [SEP] place of birth"),
        answered(kb, "--task", "slot-filling", "Marie Curie [SEP] P19"),
        answered(kb, "--subject", "Marie Curie", "--relation", "P19"),
        answered(kb, "--subject", "Marie Curie", "--relation", "place of birth", "--task", "slot-filling"),
    ]
    for (record,) in found:
        assert (record["task"], record["status"], record["answers"][0]["text"]) == (
            "slot-filling",
            "answered",
            "Warsaw",
        )
        assert record["answers"] == found[0][0]["answers"]
    assert found[2][0]["query"] == "Marie Curie [SEP] P19"


def test_mentions_are_asked_by_spans_or_marks(kb) -> None:
    """Several mentions of one text give one line each, in order; a marked one gets the same answer."""
    lincoln, omaha = answered(kb, "--text", TEXT, "--span", "16:23", "--span", "27:32", "-k", 3)
    assert [(each["query"], each["mention"]) for each in (lincoln, omaha)] == [
        ("Lincoln", [16, 23]),
        ("Omaha", [27, 32]),
    ]
    marked = TEXT.replace("Lincoln", "[START_ENT] Lincoln [END_ENT]")
    (same,) = answered(kb, "--task", "entity-linking", marked, "-k", 3)
    assert [each["text"] for each in same["answers"]] == [each["text"] for each in lincoln["answers"]]
    assert "Lincoln" in lincoln["answers"][0]["text"] and lincoln["answers"][0]["unit"] == "document"
    text = run(query, "--kb", kb, TEXT, "--span", "16:23", "--span", "27:32").stdout
    assert "» Lincoln  [16:23]" in text and "» Omaha  [27:32]" in text


def test_a_dialogue_is_asked_by_turns_or_lines(kb) -> None:
    """A shell's plain quotes have `\\n` for a new line."""
    turns = answered(kb, "--turn", "I love Kafka.", "--turn", "Did he publish much?")
    lines = answered(kb, "--task", "dialogue", "I love Kafka.\\nDid he publish much?")
    assert turns == [{**lines[0], "timings_ms": turns[0]["timings_ms"]}]
    assert turns[0]["answers"][0]["document"]["title"] == "Franz Kafka"


def test_answers_are_the_same_alone_and_in_a_batch(kb) -> None:
    """Texts, places and scores, for all tasks at once."""
    requests = [input_of(each["task"], each["input"]) for each in demo_queries()]
    with KnowledgeBase.open(kb) as knowledge_base:
        answerer = Answerer(knowledge_base)
        together = answerer.answer(requests, AnswerOptions(k=3))
        for request, among in list(zip(requests, together, strict=True))[::5]:
            (alone,) = answerer.answer([request], AnswerOptions(k=3))
            assert [each.text for each in alone.answers] == [each.text for each in among.answers]
            assert [each.score for each in alone.answers] == pytest.approx(
                [each.score for each in among.answers], abs=1e-3
            )
            assert alone.answers[0].evidence[0].span == among.answers[0].evidence[0].span
    assert all(len(each.answers) == 3 for each in together)


def test_questions_that_the_documents_do_not_answer_are_refused(kb) -> None:
    """A fifth of those that benchmarks/refusing.py asks; what comes nearest is there all the same."""
    with KnowledgeBase.open(kb) as knowledge_base:
        refused = refusing.ask(knowledge_base, [Question(text) for text in refusing.unanswerable()[::5]])
        answers = refusing.ask(knowledge_base, [Question(text) for text, _ in refusing.answerable()[::5]])
        (nonsense,) = refusing.ask(knowledge_base, [Question("asdkjh qweoiu")])
    assert sum(each.reason == "unanswerable" for each in refused) >= 0.85 * len(refused)
    assert sum(each.status == "no_answer" for each in answers) <= 0.03 * len(answers) + 1
    assert (nonsense.reason, len(nonsense.answers)) == ("unanswerable", 1)
    assert "seems to hold no answer" in run(query, "--kb", kb, "asdkjh qweoiu").stdout
    assert answered(kb, "--threshold", 0, "asdkjh qweoiu")[0]["status"] == "answered"


def test_people_see_score_support_and_places(kb) -> None:
    """And the parts of the score when asked."""
    text = run(query, "--kb", kb, "--subject", "Marie Curie", "--relation", "spouse", "-k", 1, "--explain").stdout
    assert "Pierre Curie" in text and "marie-curie ¶" in text and "+ lexical" in text
    with KnowledgeBase.open(kb) as knowledge_base:
        (found,) = Answerer(knowledge_base).answer([input_of("slot-filling", "Marie Curie [SEP] spouse")])
    supported = next(each for each in found.answers if len(each.evidence) > 1)
    assert support_text(supported).startswith("in ") and "also " in support_text(supported)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to ask"),
        (["--subject", "Ulm"], "both --subject and --relation"),
        (["--object", "Ulm"], "--object and --relation"),
        (["--relation", "country"], "--object and --relation"),
        (["--subject", "Ulm", "--object", "Germany", "--relation", "country"], "both given"),
        (["--text", TEXT, "--span", "ten:12"], "wanted START:END"),
        (["--span", "1:2"], "nothing to ask"),
        (["a text", "--text", "another"], "given twice"),
        (["a text", "--turn", "another"], "leave one of them out"),
        (["--turn", "a", "--subject", "b", "--relation", "c"], "different tasks"),
        (["--turn", "a", "--task", "question"], "leave one out"),
    ],
)
def test_options_that_contradict_each_other_are_a_usage_error(tmp_path, arguments, message) -> None:
    """Before the knowledge base is opened."""
    assert message in run(query, "--kb", tmp_path / "none", *arguments, exit_code=2).stderr


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["--text", TEXT, "--span", "16:230"], TaskInputError, "not within the text of 49 characters"),
        (["--text", TEXT, "--span", "16:16"], TaskInputError, "is empty"),
        (["--subject", "Ulm", "--relation", "P99999"], UnknownRelationError, "P99999"),
        (["--object", "Ulm", "--relation", "P19", "--threshold", "0.5"], InvalidOptionError, "have no probabilities"),
        (["Who?", "--threshold", "0.5", "--unit", "document"], InvalidOptionError, "about phrases"),
    ],
)
def test_what_cannot_be_asked_is_named(kb, arguments, error, message) -> None:
    """Spans beyond the text, unknown relations, thresholds without probabilities."""
    with pytest.raises(error, match=message):
        run(query, "--kb", kb, *arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no file to fit on"),
        (["--show", "--reset"], "stand alone"),
        (["nq-dev-kilt.jsonl", "--show"], "stand alone"),
        (["nq-dev-kilt.jsonl", "trex-dev-kilt.jsonl"], "one task at a time"),
    ],
)
def test_calibrate_names_options_that_contradict_each_other(kb, arguments, message) -> None:
    """Exit code 2."""
    assert message in run(calibrate, "--kb", kb, *arguments, exit_code=2).stderr


def test_an_answer_below_the_threshold_says_so_in_words(kb) -> None:
    """Nothing found has other words."""
    with KnowledgeBase.open(kb) as knowledge_base:
        (found,) = Answerer(knowledge_base).answer([input_of("question", "Who?")], AnswerOptions(k=1))
    nothing = type(found)(**{**vars(found), "status": "no_answer", "reason": "nothing_found", "answers": ()})
    assert "holds nothing" in why_none(nothing)


def test_calibrating_without_its_library_says_so_before_it_searches(kb, tmp_path, monkeypatch) -> None:
    """The command that installs it is named; nothing is stored."""
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    record = {"id": 1, "input": "x", "output": [{"answer": "y", "provenance": [{"wikipedia_id": "1"}]}]}
    with pytest.raises(MissingExtraError, match="pip install scikit-learn"):
        run(calibrate, write_lines(tmp_path / "nq-dev-kilt.jsonl", [record]), "--kb", kb)
    shown = run(calibrate, "--show", "--kb", kb).stdout
    assert shown.count("ships with the encoder") == 4 and "generation" not in shown
