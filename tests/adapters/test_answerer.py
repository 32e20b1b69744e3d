"""Requests to answers: units, evidence, several tasks at once, probabilities, thresholds and no-answer."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from adapters.errors import UnknownRelationError
from adapters.tasks.answerer import Answerer, AnswerOptions
from adapters.tasks.confidence import FEATURES
from adapters.tasks.defaults import TASK_WEIGHTS
from kbengine.errors import EmptyQueryError, InvalidOptionError, StateError, TaskInputError
from kbengine.inputs import Dialogue, Mention, Question, Slot
from kbengine.search.query import SomeWeights, Weights
from kbengine.span import Span
from kbengine.text_form import mentions_of
from tests.adapters.calibrations import calibration, constant, settings_with
from tests.adapters.fake_knowledge_base import UNASKABLE
from tests.adapters.scripted_knowledge_base import Place, ScriptedKnowledgeBase

BORN = "Ulm lies on the Danube. Ada Thorne was born there (in 1879). Its minster is tall."
OTHER = "The painter Ada Thorne left Ulm early."
WORLD = [
    Place("Ada Thorne", BORN, "Ulm", start=9.0, passage=0.5, lexical=1.0, passage_id=1),
    Place("(in 1879)", BORN, "Ulm", start=8.0, passage=0.5, lexical=1.0, passage_id=1),
    Place("ADA THORNE", OTHER.replace("Ada Thorne", "ADA THORNE"), "Bonn", start=8.5, passage=0.4, passage_id=2),
    Place("painter", OTHER, "Kiel", start=3.0, passage=0.1, passage_id=3),
]
REQUESTS = [
    Question("Who was born in Ulm?"),
    Slot("Ulm", "P17"),
    Mention("Born in Ulm.", Span(8, 11)),
    Dialogue(["Hi.", "Who was born in Ulm?"]),
]


def world(_: str) -> list[Place]:
    """The same places for every query."""
    return WORLD


def many(_: str) -> list[Place]:
    """A hundred places that say the same, and behind them thirty different ones."""
    same = [Place("same", f"the same {i}", f"S{i}", start=1000.0 - i, passage_id=i + 1) for i in range(100)]
    return same + [Place(f"w{i}", f"it is w{i} here", f"W{i}", start=500.0 - i, passage_id=200 + i) for i in range(30)]


def answers(script=world, *requests, **options):
    """What the scripted knowledge base answers."""
    return Answerer(ScriptedKnowledgeBase(script)).answer(requests, AnswerOptions(**options))


def test_times_tell_what_making_answers_took() -> None:
    """The stage `answer` is what the whole call took beyond the search; the total has both."""
    (found,) = answers(world, REQUESTS[0])
    searched_ms = 1.0  # by the scripted knowledge base, whatever it took
    assert found.timings_ms["answer"] == max(0.0, found.timings_ms["total"] - searched_ms)


def test_a_question_gets_phrases_grouped_with_their_places() -> None:
    """Text as stored, the best place first; every place with its characters, sentence and provenance."""
    (found,) = answers(world, REQUESTS[0])
    assert (found.task, found.status, found.reason, found.generation) == ("question", "answered", None, 1)
    assert [(each.rank, each.text, each.unit) for each in found.answers] == [
        (1, "Ada Thorne", "phrase"),
        (2, "in 1879", "phrase"),
        (3, "painter", "phrase"),
    ]
    best = found.best
    assert best is found.answers[0]
    assert (best.document.title, best.support) == ("Ulm", {"places": 2, "passages": 2, "documents": 2})
    assert [each.text for each in best.evidence] == ["Ada Thorne", "ADA THORNE"]
    place = best.evidence[0]
    assert BORN[place.sentence.start : place.sentence.end] == "Ada Thorne was born there (in 1879)."
    assert (place.provenance.start_character, place.provenance.end_character) == (place.span.start, place.span.end)
    assert place.parts is None and best.probability is None


def test_slots_are_answered_as_questions_are() -> None:
    """Several objects, ranked."""
    (found,) = answers(world, REQUESTS[1])
    assert (found.task, [each.text for each in found.answers]) == ("slot-filling", ["Ada Thorne", "in 1879", "painter"])


def test_a_mention_gets_documents_and_stays_known() -> None:
    """Titles with candidates; the span of the mention comes back."""
    first, second = answers(world, *mentions_of("Ulm and Bonn", [(0, 3), (8, 12)]), k=2)
    assert (first.mention, second.mention) == (Span(0, 3), Span(8, 12))
    assert [(each.text, each.unit) for each in first.answers] == [("Ulm", "document"), ("Bonn", "document")]
    assert first.best is not None and first.best.evidence[0].text == "Ada Thorne"


def test_a_dialogue_gets_documents_with_grounding_sentences() -> None:
    """The sentence around the best phrase is what the answer stands on."""
    (found,) = answers(world, REQUESTS[3])
    assert found.best is not None
    assert (found.best.text, found.best.evidence[0].text) == ("Ulm", "Ada Thorne was born there (in 1879).")


def test_a_document_shows_several_passages_but_not_all() -> None:
    """Its five best."""
    places = [Place("x", f"x {i}", "Ulm", start=float(i), passage_id=i + 1) for i in range(9)]
    (found,) = answers(lambda _: places, REQUESTS[3])
    assert [each.passage.text for each in found.answers[0].evidence] == ["x 8", "x 7", "x 6", "x 5", "x 4"]


@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("unit", ["phrase", "passage", "document"])
def test_the_unit_can_be_changed_for_every_task(request_, unit) -> None:
    """What the text is follows the unit."""
    (found,) = answers(world, request_, unit=unit)
    wanted = {"phrase": "Ada Thorne", "passage": BORN, "document": "Ulm"}
    assert (found.answers[0].text, found.answers[0].unit) == (wanted[unit], unit)


def test_tasks_are_mixed_in_one_call_and_answered_as_alone() -> None:
    """One result per request in order; one search for all."""
    knowledge_base = ScriptedKnowledgeBase(world)
    answerer = Answerer(knowledge_base)
    together = answerer.answer(REQUESTS)
    assert knowledge_base.asked == [(4, 10)]
    assert together == [answerer.answer([request])[0] for request in REQUESTS]
    assert [each.task for each in together] == ["question", "slot-filling", "entity-linking", "dialogue"]
    assert answerer.answer([]) == []


def test_each_task_is_searched_with_its_own_weights_and_can_have_others() -> None:
    """The lexical part counts for the slot as the slot's weights say."""
    slot, dialogue = answers(world, REQUESTS[1], REQUESTS[3], explain=True)
    for found in (slot, dialogue):
        weights = TASK_WEIGHTS[found.task]
        parts = found.answers[0].evidence[0].parts
        assert parts.lexical == weights.lexical and parts.passage == 0.5 * weights.passage
        assert sum((parts.start, parts.end, parts.passage, parts.lexical)) == pytest.approx(found.answers[0].score)
    (other,) = answers(world, REQUESTS[1], weights=Weights(1, 0, 0))
    assert other.answers[0].score == 9.0


def test_search_goes_on_until_there_are_enough_distinct_answers() -> None:
    """A hundred places that agree are one answer; those of the first round speak for it, however many are asked for."""
    knowledge_base = ScriptedKnowledgeBase(lambda text: many(text) if text == "many" else world(text))
    found = Answerer(knowledge_base).answer([Question("many"), Question("few")], AnswerOptions(k=20))
    assert [each.text for each in found[0].answers] == ["same", *(f"w{i}" for i in range(19))]
    assert found[0].answers[0].support["passages"] == 50
    assert len(found[1].answers) == 3
    assert knowledge_base.asked == [(2, 20)]


def test_nothing_found_is_no_answer() -> None:
    """With its reason, and no answers."""
    (found,) = answers(lambda _: [], REQUESTS[0])
    assert (found.status, found.reason, found.answers, found.best) == ("no_answer", "nothing_found", (), None)


def test_many_turns_are_told_as_truncated() -> None:
    """Although the encoder never saw the oldest."""
    (short,) = answers(world, REQUESTS[3])
    (long,) = answers(world, Dialogue([f"turn {i}" for i in range(300)]))
    assert (short.truncated, long.truncated) == (False, True)


def calibrated(*stored, script=world, told=None) -> Answerer:
    """An answerer over a knowledge base that holds calibrations."""
    knowledge_base = ScriptedKnowledgeBase(script)
    knowledge_base.settings = settings_with(*stored)
    return Answerer(knowledge_base, notice=(lambda _: None) if told is None else told.append)


def test_calibrated_answers_have_probabilities() -> None:
    """Of tasks that are calibrated, for their own unit and weights."""
    answerer = calibrated(calibration("question"))
    question, slot = answerer.answer(REQUESTS[:2])
    assert [each.probability for each in question.answers] == pytest.approx([0.6, 0.2, 0.2])
    assert [each.probability for each in slot.answers] == [None, None, None]
    for options in (AnswerOptions(unit="document"), AnswerOptions(weights=Weights(1, 0, 0))):
        assert answerer.answer(REQUESTS[:1], options)[0].answers[0].probability is None
    own = AnswerOptions(unit="phrase", weights=TASK_WEIGHTS["question"])
    assert answerer.answer(REQUESTS[:1], own)[0].answers[0].probability == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("stored", "asked", "threshold", "reason"),
    [
        (None, None, None, None),
        (None, 0.5, 0.5, None),
        (None, 0.7, 0.7, "below_threshold"),
        (0.7, None, 0.7, "below_threshold"),
        (0.7, 0.0, None, None),
        (0.7, 0.5, 0.5, None),
        (0.5, None, 0.5, None),
        (0.5, 0.7, 0.7, "below_threshold"),
    ],
)
def test_the_threshold_of_the_request_goes_before_the_stored_one(stored, asked, threshold, reason) -> None:
    """None takes the stored, 0 answers always; the candidates come with a no-answer."""
    answerer = calibrated(calibration("question", best=0.6, threshold=stored))
    (found,) = answerer.answer(REQUESTS[:1], AnswerOptions(threshold=asked))
    assert (found.threshold, found.reason) == (threshold, reason)
    assert found.status == ("answered" if reason is None else "no_answer")
    assert (found.best is None) == (reason is not None)
    assert len(found.answers) == 3


@pytest.mark.parametrize(
    ("asked", "reason"), [(None, "unanswerable"), (0.0, None), (0.1, None), (0.5, "below_threshold")]
)
def test_what_the_knowledge_base_does_not_hold_is_refused(asked, reason) -> None:
    """Unless the request has a threshold: then that alone decides."""
    confidence = replace(calibration("question", best=0.6).confidence, answerable=constant(0.4))
    answerer = calibrated(calibration("question", confidence=confidence, answerable_threshold=0.45))
    (found,) = answerer.answer(REQUESTS[:1], AnswerOptions(threshold=asked))
    assert (found.reason, found.answerable) == (reason, pytest.approx(0.4))
    assert found.answers[0].probability == pytest.approx(0.24)
    assert found.to_json()["answerable"] == found.answerable


def test_nothing_found_goes_before_below_the_threshold() -> None:
    """There is no candidate to name."""
    (found,) = calibrated(calibration("question", threshold=0.9), script=lambda _: []).answer(REQUESTS[:1])
    assert (found.reason, found.answers) == ("nothing_found", ())


@pytest.mark.parametrize(
    ("stored", "options", "message"),
    [
        ((), {}, "no calibration of the task.*kbengine calibrate"),
        ((calibration("question"),), {"unit": "document"}, "about phrases"),
        ((calibration("question"),), {"weights": Weights(1, 2, 3)}, "own weights"),
    ],
)
def test_a_threshold_without_probabilities_is_refused(stored, options, message) -> None:
    """It would have to be left unheeded."""
    with pytest.raises(InvalidOptionError, match=message):
        calibrated(*stored).answer(REQUESTS[:1], AnswerOptions(threshold=0.5, **options))
    assert calibrated(*stored).answer(REQUESTS[:1], AnswerOptions(threshold=0.0, **options))[0].status == "answered"


def test_the_number_of_answers_does_not_change_the_probability() -> None:
    """What follows the best answer is looked at, wanted or not."""
    confidence = calibration("question").confidence
    of_rivals = {"lead", "above", "share", "passages", "documents", "covered"}
    lead = type(confidence.best)(tuple(float(name in of_rivals) for name in FEATURES), 0.0)
    answerer = calibrated(
        calibration("question", confidence=type(confidence)(confidence.mean, confidence.scale, lead, lead))
    )
    one, three = (answerer.answer(REQUESTS[:1], AnswerOptions(k=k))[0].answers for k in (1, 3))
    assert one == three[:1]
    assert 0 < one[0].probability < 1


def test_a_stored_calibration_is_read_anew_after_a_commit() -> None:
    """Fitted weights, too; without a commit nothing is read."""
    knowledge_base = ScriptedKnowledgeBase(world)
    answerer = Answerer(knowledge_base)
    assert answerer.answer(REQUESTS[:1])[0].answers[0].probability is None
    fitted = calibration("question", weights=Weights(1, 0, 0), weights_fitted=True)
    ((key, value),) = settings_with(fitted).items()
    knowledge_base.set_setting(key, value)
    (found,) = answerer.answer(REQUESTS[:1])
    assert found.answers[0].probability == pytest.approx(0.6)
    assert found.answers[0].score == 9.0
    assert [each.hits[0].score for each in answerer.pages(REQUESTS[:1])] == [9.0]
    reads: list[str] = []
    knowledge_base.setting = reads.append
    answerer.answer(REQUESTS[:1])
    assert reads == []


def test_a_calibration_stored_during_the_search_begins_it_anew() -> None:
    """No answer mixes old weights and new probabilities; other commits do not disturb."""
    knowledge_base = ScriptedKnowledgeBase(world)
    ((key, value),) = settings_with(calibration("question")).items()

    def store() -> None:
        knowledge_base.on_search = lambda: knowledge_base.set_setting("other", 1)
        knowledge_base.set_setting(key, value)

    knowledge_base.on_search = store
    (found,) = Answerer(knowledge_base).answer(REQUESTS[:1])
    assert found.answers[0].probability == pytest.approx(0.6)
    assert len(knowledge_base.asked) == 2


def test_endless_recalibration_is_an_error() -> None:
    """Rather than an endless call."""
    knowledge_base = ScriptedKnowledgeBase(world)
    thresholds = iter(range(1000))

    def store() -> None:
        ((key, value),) = settings_with(calibration("question", threshold=next(thresholds) / 1000)).items()
        knowledge_base.set_setting(key, value)

    knowledge_base.on_search = store
    with pytest.raises(StateError, match="try again"):
        Answerer(knowledge_base).answer(REQUESTS[:1])


def test_a_calibration_of_another_encoder_is_not_used_and_named_once() -> None:
    """Neither its weights nor its probabilities."""
    told: list[str] = []
    answerer = calibrated(
        calibration("question", encoder="a" * 64, weights=Weights(1, 0, 0), weights_fitted=True), told=told
    )
    for _ in range(2):
        (found,) = answerer.answer(REQUESTS[:1])
        assert found.answers[0].probability is None and found.answers[0].score > 9.0
        answerer._knowledge_base.generation += 1
    assert len(told) == 1 and "fitted with encoder aaaaaaaaaaaa" in told[0] and "kbengine calibrate" in told[0]


def test_errors_name_the_place_of_the_request() -> None:
    """Alone there is no place to name."""
    good = Question("Who?")
    with pytest.raises(TaskInputError, match=r"^query 1: the subject is blank"):
        answers(world, good, Slot("", "country"))
    with pytest.raises(TaskInputError, match=r"^the subject is blank"):
        answers(world, Slot("", "country"))
    with pytest.raises(UnknownRelationError, match=r"^query 2: P99999"):
        answers(world, good, good, Slot("Ulm", "P99999"))
    with pytest.raises(EmptyQueryError, match="query 1"):
        answers(world, good, Question(UNASKABLE))


@pytest.mark.parametrize(
    "options",
    [
        {"k": 0},
        {"k": 1001},
        {"unit": "chapter"},
        {"effort": "much"},
        {"threshold": 1.5},
        {"threshold": -0.1},
        {"nprobe": 0},
    ],
)
def test_options_out_of_range_are_refused(options) -> None:
    """The message has the value seen."""
    with pytest.raises(InvalidOptionError, match=str(next(iter(options.values())))):
        AnswerOptions(**options)


def test_an_answer_is_json() -> None:
    """The same shape for every task; parts only when asked for."""
    plain, explained = (
        calibrated(calibration("question", threshold=0.5)).answer(REQUESTS[:1], AnswerOptions(k=1, explain=explain))[0]
        for explain in (False, True)
    )
    record = json.loads(json.dumps(plain.to_json()))
    assert {name: record[name] for name in ("task", "status", "reason", "threshold", "mention", "generation")} == {
        "task": "question",
        "status": "answered",
        "reason": None,
        "threshold": 0.5,
        "mention": None,
        "generation": 1,
    }
    (answer,) = record["answers"]
    assert (answer["text"], answer["document"]) == (
        "Ada Thorne",
        {"id": "ulm", "title": "Ulm", "url": None, "meta": {}},
    )
    assert answer["support"] == {"places": 2, "passages": 2, "documents": 2}
    place = answer["evidence"][0]
    assert place["passage"]["text"][slice(*place["span"])] == place["text"] == "Ada Thorne"
    assert place["provenance"]["wikipedia_id"] == "ulm"
    assert "parts" not in place
    parts = explained.to_json()["answers"][0]["evidence"][0]["parts"]
    assert sum(parts.values()) == pytest.approx(answer["score"])
    (linked,) = answers(world, REQUESTS[2])
    assert linked.to_json()["mention"] == [8, 11]


def test_pages_are_distinct_documents_best_first() -> None:
    """What a submission ranks: one hit a document, in the order of the document answers."""
    answerer = Answerer(ScriptedKnowledgeBase(world))
    for request in REQUESTS:
        (result,) = answerer.pages([request], AnswerOptions(k=5))
        documents = answerer.answer([request], AnswerOptions(unit="document"))[0].answers
        assert (
            [hit.document.title for hit in result.hits] == ["Ulm", "Bonn", "Kiel"] == [each.text for each in documents]
        )
    assert answerer.pages([]) == []


def test_a_lexical_weight_of_ones_own_takes_the_place_of_what_decides_about_a_talk() -> None:
    """Another weight does not, nor do the task's own weights."""
    asked = []

    class Seen(ScriptedKnowledgeBase):
        def search(self, queries, options, *, key_of=None):
            asked.extend(queries)
            return super().search(queries, options, key_of=key_of)

    for weights in (None, SomeWeights(passage=3.0), SomeWeights(lexical=0.75), TASK_WEIGHTS["dialogue"]):
        Answerer(Seen(world)).answer([REQUESTS[3]], AnswerOptions(weights=weights))

    assert [query.gate is None for query in asked] == [False, False, True, True]
