"""Features of answers and the probabilities made of them."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from adapters.tasks.confidence import FEATURES, MAX_LEAD, Confidence, Logistic, features_of, shares_of
from adapters.tasks.grouping import Group, groups_of, searched_unit
from adapters.tasks.queries import task_query
from kbengine.search.query import Query, Unit, Weights
from tests.adapters.calibrations import constant
from tests.adapters.scripted_knowledge_base import Place, ScriptedKnowledgeBase

PLACES = [
    Place("Ada Thorne", "Ada Thorne was born in Ulm.", "Ulm", start=9.0, passage=0.5, lexical=1.0, passage_id=1),
    Place("Ada Thorne", "The painter Ada Thorne.", "Ada Thorne (painter)", start=8.0, passage_id=2),
    Place("Ulm", "They left Ulm.", "Bonn", start=7.0, passage_id=3),
]
WEIGHTS = Weights(phrase=1.0, passage=2.0, lexical=1.0)


def row(query: Query, unit: Unit, rank: int = 1, places=PLACES) -> dict[str, float]:
    """The features of one answer, by name."""
    asked = replace(query, unit=searched_unit(unit), weights=WEIGHTS)
    (result,) = ScriptedKnowledgeBase(lambda _: places).search([asked], k=50)
    features = features_of(asked, unit, groups_of(unit, result.hits))
    return dict(zip(FEATURES, features[rank - 1].tolist(), strict=True))


def test_features_of_the_best_phrase() -> None:
    """Hand-computed: parts, lead, share, support, words; the third document is all the background there is."""
    found = row(task_query("question", "Who was born there?"), "phrase")
    assert (found["phrase"], found["passage"]) == (9.0, 1.0)
    assert found["lead"] == found["above"] == 11.0 - 7.0
    share = (1 + math.exp(-3)) / (1 + math.exp(-3) + math.exp(-4))
    assert found["share"] == pytest.approx(math.log(share / (1 - share)))
    assert found["passages"] == found["documents"] == pytest.approx(math.log(3))
    assert (found["named"], found["echo"], found["words"]) == (0.0, 0.0, pytest.approx(math.log(3)))


def test_features_of_another_answer() -> None:
    """Its lead is negative: over the best one."""
    found = row(task_query("question", "Who?"), "phrase", rank=2)
    assert (found["lead"], found["phrase"], found["passages"]) == (-4.0, 7.0, pytest.approx(math.log(2)))


@pytest.mark.parametrize(
    ("text", "words"), [("7 November 1867", 1), ("1867", 1), ("Albert Einstein", 2), ("14 million", 1), ("9 to 5", 1)]
)
def test_numbers_beside_words_do_not_make_an_answer_long(text: str, words: int) -> None:
    """A date is one thing, and right as often as a name of one word."""
    (place, *_) = PLACES
    found = row(task_query("question", "When?"), "phrase", places=[replace(place, text=text, phrase=text)])
    assert found["words"] == pytest.approx(math.log1p(words))


def test_how_an_answer_is_written_counts() -> None:
    """As a name or not, and whether the name goes on beside it."""
    place = Place("Ulm", "They met Ada Thorne in a shed.", "Ada Thorne", start=9.0)
    for phrase, proper, cut in (("Ada Thorne", 1.0, 0.0), ("Thorne", 1.0, 1.0), ("a shed", 0.0, 0.0)):
        found = row(task_query("question", "Where?"), "phrase", places=[replace(place, phrase=phrase)])
        assert (found["proper"], found["cut"]) == (proper, cut)


def test_an_answer_that_repeats_the_query_is_an_echo() -> None:
    """As whole words, without case."""
    assert row(task_query("question", "Who was born in ULM?"), "phrase", rank=2)["echo"] == 1.0
    assert row(task_query("question", "Who was born in Ulmen?"), "phrase", rank=2)["echo"] == 0.0
    assert row(task_query("slot-filling", "Ada Thorne [SEP] place of birth"), "phrase")["echo"] == 1.0


def test_a_document_called_as_asked_is_named() -> None:
    """The mention or subject without qualifier; for questions and dialogues the title as words of the text."""
    painter = "Ada Thorne (painter)"
    linked = task_query("entity-linking", "of [START_ENT] Ada Thorne [END_ENT]")
    by_title = {title: row(linked, "document", rank)["named"] for rank, title in enumerate(("Ulm", painter, "Bonn"), 1)}
    assert by_title == {"Ulm": 0.0, painter: 1.0, "Bonn": 0.0}
    assert row(task_query("slot-filling", "Ulm [SEP] painter"), "phrase")["named"] == 1.0
    assert row(task_query("dialogue", "I like Ada Thorne.\nYes!"), "document", 2)["named"] == 1.0
    assert row(task_query("question", "Where is Ulmen?"), "phrase")["named"] == 0.0
    assert row(linked, "document")["echo"] == row(linked, "document")["words"] == 0.0


def test_the_background_begins_a_few_documents_behind() -> None:
    """However many documents there are: the mean of the sixth to twentieth."""
    places = [Place("Ulm", f"Ulm {i}.", f"Page {i}", start=100.0 - i, passage_id=i) for i in range(40)]
    found = row(task_query("question", "Where?"), "phrase", places=places)
    assert found["above"] == 100.0 - sum(100.0 - i for i in range(5, 20)) / 15


def test_words_asked_that_stand_in_the_place_cover_it() -> None:
    """Of a name all its words; of a question those that look like names, else all; rarer ones count more."""
    slot = task_query("slot-filling", "Ada Thorne [SEP] place of birth")
    assert [row(slot, "phrase", rank)["subject"] for rank in (1, 2)] == [1.0, 0.0]
    question = task_query("question", "Was the painter Ada Thorne born in Bonn?")
    assert row(question, "phrase")["subject"] == pytest.approx(2 / 3)
    assert row(question, "phrase", rank=2)["subject"] == pytest.approx(1 / 3)
    lower = task_query("question", "who was born there")
    assert (row(lower, "phrase")["subject"], row(lower, "phrase", rank=2)["subject"]) == (1.0, 0.0)
    # Of three places one has "left" and two have "thorne": what is rarer weighs more.
    assert row(task_query("question", "Was Thorne left?"), "phrase", rank=2)["covered"] > 0.5
    assert row(task_query("dialogue", "I like Ada Thorne.\nBorn in Ulm?"), "document")["covered"] == 1.0


def test_an_alias_is_as_good_as_the_name() -> None:
    """A document that goes by the name asked is named, and its subject is there."""
    asked = replace(task_query("slot-filling", "Old Ada [SEP] place of birth"), weights=WEIGHTS)
    (result,) = ScriptedKnowledgeBase(lambda _: PLACES).search([asked], k=50)
    groups = groups_of("phrase", result.hits)
    names = [FEATURES.index(name) for name in ("named", "subject")]
    assert features_of(asked, "phrase", groups)[0, names].tolist() == [0.0, 0.5]
    assert features_of(asked, "phrase", groups, {groups[0].hits[0].document.doc_id})[0, names].tolist() == [1.0, 1.0]


def test_a_lone_answer_leads_by_the_most() -> None:
    """And its share is not infinite."""
    found = row(task_query("question", "Who?"), "phrase", places=PLACES[:1])
    assert found["lead"] == MAX_LEAD
    assert math.isfinite(found["share"])
    assert features_of(task_query("question", "Who?"), "phrase", []).shape == (0, len(FEATURES))


def test_shares_sum_to_one() -> None:
    """Over all answers; far apart ones do not overflow."""
    (result,) = ScriptedKnowledgeBase(lambda _: [replace(p, start=900 * p.start) for p in PLACES]).search(
        [task_query("question", "?")], k=9
    )
    groups: list[Group] = groups_of("phrase", result.hits)
    assert sum(shares_of(groups)) == pytest.approx(1.0)


def test_the_best_answer_has_a_model_of_its_own() -> None:
    """By numpy: standardised features, logistic function; probabilities never rise."""
    n = len(FEATURES)
    generator = np.random.default_rng(3)
    mean, scale, features = generator.normal(size=n), generator.uniform(1, 2, size=n), generator.normal(size=(4, n))
    best = Logistic(tuple(generator.normal(size=n)), 0.3)
    others = Logistic(tuple(generator.normal(size=n)), -0.2)
    found = Confidence(tuple(mean), tuple(scale), best, others).probabilities(features)
    wanted = []
    for i, each in enumerate(features):
        model = best if i == 0 else others
        z = sum((x - m) / s * c for x, m, s, c in zip(each, mean, scale, model.coefficients, strict=True))
        wanted.append(min([1 / (1 + math.exp(-z - model.intercept)), *wanted]))
    assert found == pytest.approx(wanted)
    assert found == sorted(found, reverse=True)


def test_answers_are_as_probable_as_that_there_is_one() -> None:
    """Every probability is that of an answer at all times that of this one."""
    n = len(FEATURES)
    plain = Confidence((0.0,) * n, (1.0,) * n, constant(0.8), constant(0.5))
    confidence = replace(plain, answerable=constant(0.25))
    assert confidence.probabilities(np.zeros((2, n))) == pytest.approx([0.2, 0.125])
    assert confidence.answerable_probability(np.zeros((2, n))) == pytest.approx(0.25)
    assert plain.answerable_probability(np.zeros((2, n))) == 1.0
    assert plain.answerable_probability(np.zeros((0, n))) == 0.0


def test_no_answers_have_no_probabilities() -> None:
    """Nothing found is not an error."""
    n = len(FEATURES)
    confidence = Confidence((0.0,) * n, (1.0,) * n, constant(0.5), constant(0.5))
    assert confidence.probabilities(np.zeros((0, n))) == []


def test_coefficients_are_json_and_come_back() -> None:
    """With the names of the features, which must be those of this version."""
    n = len(FEATURES)
    confidence = Confidence((0.5,) * n, (2.0,) * n, constant(0.7), constant(0.2))
    for each in (confidence, replace(confidence, answerable=constant(0.9))):
        assert Confidence.from_json(json.loads(json.dumps(each.to_json()))) == each
    value = confidence.to_json()
    with pytest.raises(ValueError, match="features"):
        Confidence.from_json({**value, "features": ["score"]})
    with pytest.raises(ValueError, match="one number for each"):
        Confidence.from_json({**value, "mean": [1.0]})
