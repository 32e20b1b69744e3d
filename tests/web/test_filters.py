"""Filters over the fields of documents, asked for in every way: command line, Python, HTTP and page."""

from __future__ import annotations

import gzip
import json

import pytest
from click.testing import CliRunner

from adapters.commands.kilt import predict
from adapters.commands.query import query
from adapters.tasks.answerer import Answerer, AnswerOptions
from kbengine.errors import InvalidOptionError
from kbengine.inputs import Dialogue, Mention, Question, Slot
from kbengine.knowledge_base import KnowledgeBase
from kbengine.span import Span
from tests.tiny_encoder import SENTENCES

WHERE = "source = 'manual' and tags = 'long'"
ASKED = "who discovered radium"


@pytest.fixture
def fields(service):
    """The service with the fields of its documents: two manuals, one of them long, a feed, and two without any."""
    metas = {
        "amazon": {"source": "manual", "date": "2020-02-01", "tags": ["long", "new"]},
        "paris": {"source": "manual", "date": "2019-02-01", "tags": ["short"]},
        "marie-curie": {"source": "feed", "date": "2021-02-01", "tags": ["long"]},
    }
    documents = [
        {"id": doc_id, "title": doc_id.title(), "text": [SENTENCES[i], SENTENCES[i + 1]], "meta": meta}
        for i, (doc_id, meta) in enumerate(metas.items())
    ]
    assert service.post("/v1/documents", {"documents": documents}).status_code == 201
    return service


def documents_of(answer):
    """The ids of the documents that the places of an answer stand in."""
    return {place["document"]["id"] for each in answer["answers"] for place in each["evidence"]}


def test_every_way_of_asking_filters_alike(fields, encoder):
    """The same answers, scores and fields from HTTP, Python, the command line's code and the page's twin."""
    body = {"text": ASKED, "where": WHERE, "k": 5}
    http = fields.post("/v1/question", body).json
    with KnowledgeBase.open(fields.engine.knowledge_base.path, encoder) as knowledge_base:
        python = Answerer(knowledge_base).answer([Question(ASKED)], AnswerOptions(k=5, where=WHERE))[0].to_json()
        hits = knowledge_base.search(ASKED, k=5, where=WHERE).hits
    page = fields.client.get("/answers.json", query_string={"q": ASKED, "k": 5, "where": WHERE}).json

    assert documents_of(http) == {"amazon"}
    assert http["answers"] == python["answers"] == page["answers"]
    assert {hit.document.doc_id for hit in hits} == {"amazon"} and len(hits) == 5
    assert http["answers"][0]["document"]["meta"]["tags"] == ["long", "new"]


@pytest.mark.parametrize("effort", ["normal", "exact"])
@pytest.mark.parametrize("strategy", ["dense", "dfs", "sfs", "hybrid"])
@pytest.mark.parametrize("unit", ["phrase", "sentence", "passage", "document"])
def test_only_what_passes_is_found_in_any_way(shared, effort, strategy, unit):
    """All that there is comes back when fewer pass than are wanted."""
    body = {"text": ASKED, "where": "id in ('paris', 'band')", "effort": effort, "strategy": strategy, "unit": unit}
    answer = shared.post("/v1/search", body | {"k": 50}).json

    assert documents_of(answer) == {"paris", "band"}
    assert len(answer["answers"]) == 2 or unit in ("phrase", "sentence")


@pytest.mark.parametrize(
    "asked",
    [
        Slot("Marie Curie", "place of birth"),
        Mention("It is Paris in spring.", Span(6, 11)),
        Dialogue(("I love rivers.", "Which one is long?")),
    ],
)
def test_every_task_takes_a_filter(shared, asked):
    """Names and titles that do not pass are found by no signal."""
    answers = shared.engine.ask([asked], AnswerOptions(k=5, where="id = 'amazon' or id = 'band'"))

    assert documents_of(answers[0].to_json()) <= {"amazon", "band"} and answers[0].answers


def test_nothing_that_passes_is_no_answer(shared):
    """With its reason, not an error."""
    answer = shared.post("/v1/question", {"text": ASKED, "where": "id = 'nobody'"}).json

    assert (answer["status"], answer["reason"], answer["answers"]) == ("no_answer", "nothing_found", [])


def test_filters_follow_every_change(fields):
    """What was added, replaced and deleted is found, or not, from the next query on."""
    ask = lambda: documents_of(fields.post("/v1/search", {"text": ASKED, "where": "source = 'manual'", "k": 50}).json)  # noqa: E731
    assert ask() == {"amazon", "paris"}
    fields.post("/v1/documents", {"id": "paris", "title": "Paris", "text": SENTENCES[3], "meta": {"source": "feed"}})
    assert ask() == {"amazon"}
    fields.post("/v1/documents", {"id": "new", "title": "New", "text": SENTENCES[4], "meta": {"source": "manual"}})
    assert ask() == {"amazon", "new"}
    fields.client.delete("/v1/documents/amazon")
    assert ask() == {"new"}


def test_a_kept_answer_is_that_of_its_own_filter(fields):
    """Entity tags differ, and so do the answers kept."""
    tags = [
        fields.post("/v1/question", {"text": ASKED, "where": where}).headers["ETag"]
        for where in (None, WHERE, "source = 'feed'", WHERE)
    ]
    again = fields.post("/v1/question", {"text": ASKED, "where": WHERE})
    unchanged = fields.post("/v1/question", {"text": ASKED, "where": WHERE}, If_None_Match=tags[1])

    assert len(set(tags)) == 3 and tags[1] == tags[3]
    assert again.json["cached"] is True and documents_of(again.json) == {"amazon"}
    assert unchanged.status_code == 304


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("sourc = 'manual'", "did you mean 'source'?"),
        ("date > 'soon'", "holds dates"),
        ("source = ", "the filter ends"),
        ("", "blank"),
    ],
)
def test_a_filter_that_cannot_be_asked_is_told_at_every_door(fields, encoder, where, said):
    """As a 400 with its code, an exception, and a notice on the page that keeps what was typed."""
    response = fields.post("/v1/question", {"text": ASKED, "where": where})
    assert (response.status_code, response.json["code"]) == (400, "invalid_option")
    assert said in response.json["detail"]
    batch = fields.post(
        "/v1/batch",
        {"queries": [{"task": "question", "text": ASKED, "where": where}, {"task": "question", "text": ASKED}]},
    ).json
    with (
        KnowledgeBase.open(fields.engine.knowledge_base.path, encoder) as knowledge_base,
        pytest.raises(InvalidOptionError, match=said.replace("?", ".")),
    ):
        knowledge_base.search(ASKED, where=where)
    assert [item["status"] for item in batch["items"]] == [400, 200]
    if where:
        page = fields.client.get("/", query_string={"q": ASKED, "where": where})
        assert page.status_code == 400 and said.partition("'")[0] in page.text


def test_the_page_takes_a_filter_and_shows_fields(fields):
    """In its box, beside the answers, in every link and in the examples of code."""
    page = fields.client.get("/", query_string={"q": ASKED, "where": WHERE}).text
    empty = fields.client.get("/", query_string={"q": ASKED, "where": "id = 'nobody'"}).text

    assert 'name="where" value="source = &#39;manual&#39; and tags = &#39;long&#39;"' in page
    assert "<dt>tags</dt><dd>long, new</dd>" in page and "<dt>Only where</dt>" in page
    assert "where=source" in page and "&#34;where&#34;" in page
    assert "Only documents where id = &#39;nobody&#39; were searched" in empty


def test_the_command_line_takes_a_filter(fields, tmp_path):
    """`query` names the fields it filtered by, `predict` answers from what passes alone."""
    questions = tmp_path / "questions.jsonl.gz"
    questions.write_bytes(gzip.compress(json.dumps({"id": "1", "input": ASKED}).encode()))
    shared = ["--kb", str(fields.engine.knowledge_base.path), "--where", WHERE]
    shown = CliRunner().invoke(query, [ASKED, *shared])
    as_json = CliRunner().invoke(query, [ASKED, *shared, "--json"])
    out = tmp_path / "out.jsonl"
    predicted = CliRunner().invoke(predict, [str(questions), *shared, "--task", "question", "--out", str(out)])

    assert shown.exit_code == as_json.exit_code == predicted.exit_code == 0, shown.output + predicted.output
    assert "date: 2020-02-01; source: manual; tags: long, new" in shown.output
    assert documents_of(json.loads(as_json.stdout)) == {"amazon"}
    assert {page["wikipedia_id"] for page in json.loads(out.read_text())["output"][0]["provenance"]} == {"amazon"}
