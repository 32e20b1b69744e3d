"""Queries over HTTP: every task, the same envelope, the same answers however they are asked."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from adapters.tasks.answerer import AnswerOptions
from kbengine.encoders.checkpoint import read_checkpoint
from kbengine.encoders.deltas import DELTA, ParameterOptions
from kbengine.encoders.model import query_weights
from kbengine.encoders.tuned_encoders import store_tuned
from kbengine.inputs import Question, Slot
from kbengine.learning.verdicts.initial import VerdictModelOptions, initial_verdict_model
from kbengine.verdicts.judge import Judge
from kbengine.verdicts.verdict import VERDICTS
from storage.tuned_files import delete_tuned
from tests.tiny_reader import write_tiny_reader
from web.engine import EngineOptions
from web.models.answers import AnswerEnvelope, BatchAnswer

TEXT = "Marie Curie was born in Warsaw, which is not Paris."
REQUESTS = {
    "question": {"text": "Who conducted research on radioactivity?"},
    "slot-filling": {"subject": "Marie Curie", "relation": "occupation"},
    "entity-linking": {"text": TEXT, "span": [0, 11]},
    "dialogue": {"turns": ["I like rivers.", "The Amazon is one.", "Which forest is there?"]},
    "search": {"text": "rainforest"},
}


def without_times(answer):
    """Return the answer without what differs from call to call."""
    return {name: value for name, value in answer.items() if name not in ("timings_ms", "cached")}


@pytest.mark.parametrize("task", REQUESTS)
def test_every_task_answers_with_the_one_envelope(shared, task):
    """Answers come with evidence whose offsets are those of the stored text."""
    response = shared.post(f"/v1/{task}", {**REQUESTS[task], "k": 3, "explain": True})

    assert response.status_code == 200, response.text
    answer = AnswerEnvelope.model_validate(response.json)
    assert answer.task == task and answer.status == "answered" and 1 <= len(answer.answers) <= 3
    knowledge_base = shared.engine.knowledge_base
    assert (answer.generation, answer.model.encoder) == (knowledge_base.generation, knowledge_base.encoder.name)
    for each in answer.answers:
        for place in each.evidence:
            assert place.passage.text[place.span[0] : place.span[1]] == place.text
            parts = place.parts
            assert parts.start + parts.end + parts.passage + parts.lexical + parts.name == pytest.approx(
                place.score, abs=1e-4
            )
    assert {"encode", "total", "queue"} <= set(answer.timings_ms)
    assert ("answer" in answer.timings_ms) == (task != "search")


def test_the_answer_is_that_of_the_python_api(shared):
    """HTTP adds nothing and leaves nothing out."""
    over_http = shared.post("/v1/slot-filling", {**REQUESTS["slot-filling"], "k": 4}).json
    (direct,) = shared.engine.ask([Slot("Marie Curie", "occupation")], AnswerOptions(k=4))

    wanted = direct.to_json()
    del wanted["encoder"], wanted["timings_ms"]
    assert {name: value for name, value in over_http.items() if name in wanted} == json.loads(json.dumps(wanted))


def test_a_marked_mention_is_the_one_at_its_span(shared):
    """Both ways of giving a mention have the same answers; the offsets are those of the text without marks."""
    marked = shared.post("/v1/entity-linking", {"text": f"[START_ENT] Marie Curie [END_ENT]{TEXT[11:]}"}).json
    spanned = shared.post("/v1/entity-linking", REQUESTS["entity-linking"]).json

    assert marked["mention"] == [0, 11]
    assert without_times(marked) == without_times(spanned)


def test_several_spans_are_answered_like_a_batch(shared):
    """Each mention has the answer that it has alone, under its place in the list."""
    paris = [TEXT.index("Paris"), TEXT.index("Paris") + 5]
    response = shared.post("/v1/entity-linking", {"text": TEXT, "spans": [[0, 11], paris]})

    outcomes = BatchAnswer.model_validate(response.json)
    assert [each.id for each in outcomes.items] == ["0", "1"]
    alone = shared.post("/v1/entity-linking", {"text": TEXT, "span": paris}).json
    assert without_times(response.json["items"][1]["answer"]) == without_times(alone)


def test_a_batch_keeps_order_and_ids_and_answers_as_one_by_one(shared):
    """What cannot be asked has a status and a problem of its own."""
    queries = [
        {"task": "question", "id": "q", **REQUESTS["question"]},
        {"task": "entity-linking", "id": "no mention", "text": "nothing is marked"},
        {"task": "search", **REQUESTS["search"]},
        {"task": "slot-filling", "id": "unknown", "subject": "Paris", "relation": "P999999999"},
        {"task": "dialogue", "id": "d", **REQUESTS["dialogue"]},
        {"task": "question", "id": "invisible", "text": "\u200b"},
    ]
    response = shared.post("/v1/batch", {"queries": queries})

    outcome = BatchAnswer.model_validate(response.json)
    assert [each.id for each in outcome.items] == ["q", "no mention", "2", "unknown", "d", "invisible"]
    assert [each.status for each in outcome.items] == [200, 400, 200, 400, 200, 400]
    problems = [each.problem.code for each in outcome.items if each.problem is not None]
    assert problems == ["bad_task_input", "unknown_relation", "empty_query"]
    assert not outcome.partial
    for i, task in ((0, "question"), (2, "search"), (4, "dialogue")):
        alone = shared.post(f"/v1/{task}", REQUESTS[task]).json
        assert without_times(response.json["items"][i]["answer"]) == without_times(alone)


def test_a_batch_without_time_says_so_for_each(make_service):
    """The whole is answered; it is partial."""
    service = make_service(deadline_s=0.001)
    items = [{"task": "question", "text": f"question {n}"} for n in range(64)]
    response = service.post("/v1/batch", {"queries": items})

    assert response.status_code == 200 and response.json["partial"]
    late = [item for item in response.json["items"] if item["status"] == 504]
    assert late and all(item["problem"]["code"] == "deadline_exceeded" for item in late)


def test_a_query_without_time_is_answered_504(make_service):
    """The problem has its own code."""
    response = make_service(deadline_s=0.001).post("/v1/question", REQUESTS["question"])

    assert response.status_code == 504 and response.json["code"] == "deadline_exceeded"


def test_an_answer_has_a_tag_under_which_it_is_not_sent_again(service):
    """Until something changes: then the tag is another, and so is the answer."""
    first = service.post("/v1/question", REQUESTS["question"])
    again = service.post("/v1/question", REQUESTS["question"], If_None_Match=first.headers["ETag"])
    service.post("/v1/documents", {"id": "new", "title": "Radioactivity", "text": "Radioactivity is a process."})
    changed = service.post("/v1/question", REQUESTS["question"], If_None_Match=first.headers["ETag"])

    assert again.status_code == 304 and again.data == b""
    assert again.headers["ETag"] == first.headers["ETag"]
    assert changed.status_code == 200 and changed.headers["ETag"] != first.headers["ETag"]


def test_equal_requests_are_answered_from_the_cache_and_others_are_not(service):
    """Defaults written out are the same request; any other option is another one."""
    first = service.post("/v1/question", REQUESTS["question"]).json
    second = service.post("/v1/question", {**REQUESTS["question"], "k": 10, "explain": False}).json
    other = service.post("/v1/question", {**REQUESTS["question"], "k": 9}).json

    assert (first["cached"], second["cached"], other["cached"]) == (False, True, False)
    assert without_times(first) == without_times(second)
    assert second["timings_ms"] == first["timings_ms"]


def test_a_change_is_in_the_next_answer_however_often_it_is_asked(service):
    """No stale answer comes from the cache."""
    body = {"text": "zebra", "k": 50, "unit": "passage"}
    for n in range(40):
        service.post("/v1/search", body)
        service.post("/v1/documents", {"id": "zebra", "title": f"Zebra {n}", "text": f"A zebra has {n} stripes."})
        answer = service.post("/v1/search", body).json
        texts = [place["passage"]["text"] for each in answer["answers"] for place in each["evidence"]]
        assert f"A zebra has {n} stripes." in texts, n
        assert answer["cached"] is False
    service.client.delete("/v1/documents/zebra")
    answer = service.post("/v1/search", body).json
    assert not any("zebra" in json.dumps(each).lower() for each in answer["answers"])


def test_answers_do_not_depend_on_what_is_asked_beside_them(shared):
    """Alone and among thirty others the scores agree to the last digits that are shown."""
    requests = [
        Question(f"Who was the {word} person?") for word in ["first", "last", "great", "old", "moist", "french"]
    ]
    alone = [shared.engine.ask([request], AnswerOptions(k=5))[0] for request in requests]
    together = shared.engine.ask(requests * 5, AnswerOptions(k=5))

    for one, many in zip(alone * 5, together, strict=True):
        assert [each.text for each in one.answers] == [each.text for each in many.answers]
        assert [each.score for each in one.answers] == pytest.approx([each.score for each in many.answers], abs=1e-4)


def test_a_kilt_file_is_answered_line_by_line(shared):
    """In order and under the records' own ids; what cannot be asked is blank."""
    records = [
        {"id": 7, "input": "Marie Curie [SEP] occupation"},
        {"id": "bad", "input": "no separator"},
        {"id": "p", "input": "Paris [SEP] country"},
    ]
    body = "".join(json.dumps(record) + "\n" for record in records)
    response = shared.client.post(
        "/v1/kilt/slot-filling?pages=5", data=body, content_type="application/x-ndjson", buffered=True
    )

    assert response.status_code == 200 and response.mimetype == "application/x-ndjson"
    lines = [json.loads(line) for line in response.text.split("\n") if line]
    assert [line["id"] for line in lines] == [7, "bad", "p"]
    assert lines[0]["output"][0]["answer"] and lines[1]["output"] == [{"answer": "", "provenance": []}]
    assert len(lines[0]["output"][0]["provenance"]) == 5


@pytest.mark.parametrize(
    ("body", "code"),
    [("", "bad_record"), ("not json\n", "bad_record"), ('{"input": "no id"}\n', "bad_record")],
)
def test_a_kilt_body_without_a_record_is_refused(shared, body, code):
    """Before anything is answered."""
    response = shared.client.post("/v1/kilt/question", data=body, content_type="application/x-ndjson")

    assert response.status_code == 400 and response.json["code"] == code


def test_kilt_files_are_answered_by_pages_alone_where_that_is_wanted(shared):
    """Claims: the answer stays blank; two steps are for questions."""
    asked = {"data": '{"id": 1, "input": "Warsaw is a city."}\n', "content_type": "application/x-ndjson"}
    response = shared.client.post("/v1/kilt/question?answer=pages&steps=2", **asked, buffered=True)
    refused = shared.client.post("/v1/kilt/dialogue?steps=2", **asked)

    (output,) = json.loads(response.text)["output"]
    assert output["answer"] == "" and len(output["provenance"]) == 5
    assert refused.status_code == 400 and "only questions take two" in refused.json["detail"]


def test_kilt_knows_the_four_tasks(shared):
    """Any other is no address."""
    response = shared.client.post("/v1/kilt/fact-checking", data="{}", content_type="application/x-ndjson")

    assert response.status_code == 404


def test_many_callers_at_once_have_each_its_own_answer(make_service):
    """Sixteen at a time, tasks and options mixed: the same as one after the other."""
    service = make_service(cache_entries=0)
    asked = []
    for n in range(80):
        text = f"Person {n} was born in Paris, said Marie Curie to caller {n}."
        span = [0, len(f"Person {n}")]
        asked += [
            ("/v1/entity-linking", {"text": text, "span": span, "k": 1 + n % 3}),
            ("/v1/question", {"text": f"Who was caller {n}?", "k": 1 + n % 2, "explain": n % 2 == 0}),
        ]
    alone = [without_times(service.post(path, body).json) for path, body in asked]
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda each: without_times(service.post(*each).json), asked))

    for (path, body), one, many in zip(asked, alone, together, strict=True):
        assert one["mention"] == many["mention"] == body.get("span"), path
        assert [each["text"] for each in one["answers"]] == [each["text"] for each in many["answers"]], body
        assert one["query_tokens"] == many["query_tokens"]


def test_a_tuned_encoder_is_asked_for_by_name(service):
    """It may appear and be replaced while the service runs; answers name it, and kept ones are not mixed up."""
    assert service.post("/v1/question", {"text": "who", "encoder": "linker"}).status_code == 404
    assert service.post("/v1/question", {"text": "who", "encoder": "../x"}).status_code == 422
    seen = []
    for size in (0.5, -1.0):
        store_constant(service.engine.knowledge_base, size)
        bodies = [service.post("/v1/question", {"text": "who", "encoder": "linker"}).json for _ in range(2)]
        assert [body["cached"] for body in bodies] == [False, True]
        assert {body["model"]["encoder"] for body in bodies} == {"linker"}
        seen.append(bodies[1]["model"]["fingerprint"])
    plain = service.post("/v1/question", {"text": "who"}).json
    assert plain["model"]["encoder"] == service.engine.knowledge_base.encoder.name

    assert len({*seen, plain["model"]["fingerprint"]}) == 3
    delete_tuned(service.engine.knowledge_base.path, "linker")
    gone = service.post("/v1/search", {"text": "who", "encoder": "linker"})
    assert (gone.status_code, gone.json["code"]) == (404, "unknown_encoder")


def store_constant(knowledge_base, size):
    """Store the encoder "linker", whose start head's weights are moved by a constant."""
    base = query_weights(read_checkpoint(knowledge_base.encoder.directory).weights)
    heads = {DELTA + name: torch.full_like(each, size) for name, each in base.items() if "start_head" in name}
    options = ParameterOptions("heads")
    store_tuned(knowledge_base.path, "linker", heads, base=knowledge_base.encoder, options=options, tasks=(), report={})


def test_claims_of_kilt_files_are_judged_where_there_is_a_model(make_service, shared, tmp_path):
    """The verdict and the pages; a service without a model says what is missing."""
    initial = initial_verdict_model(VerdictModelOptions(init=str(write_tiny_reader(tmp_path / "reader"))))
    Judge.from_model(initial.model, initial.tokenizer_json, device="cpu").save(tmp_path / "model")
    judging = make_service(options=EngineOptions(verdict=tmp_path / "model"))
    asked = {"data": '{"id": 1, "input": "Warsaw is a city."}\n', "content_type": "application/x-ndjson"}
    response = judging.client.post("/v1/kilt/question?answer=verdict", **asked, buffered=True)
    plain = judging.client.post("/v1/kilt/question?answer=pages", **asked, buffered=True)
    refused = shared.client.post("/v1/kilt/question?answer=verdict", **asked)

    (output,), (pages,) = (json.loads(each.text)["output"] for each in (response, plain))
    assert output["answer"] in VERDICTS and output["provenance"] == pages["provenance"] and pages["answer"] == ""
    assert refused.status_code == 400 and "train verdict" in refused.json["detail"]
