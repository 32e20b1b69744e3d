"""Cards of entities: which document a name means, what is asked, and what is shown of the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapters.errors import UnknownRelationError
from adapters.profiles.profiler import ProfileOptions, Profiler
from adapters.profiles.value_model import FEATURES, ValueModel, features_of, value_model
from adapters.tasks.answers import Answer, Evidence, TaskAnswer
from adapters.tasks.provenance import PageProvenance
from kbengine.errors import InvalidOptionError, UnknownDocumentError
from kbengine.inputs import Slot
from kbengine.search.results import DocumentRef, PassageRef
from kbengine.span import Span
from storage.alias_records import NewAlias, NewLink
from storage.reader import KBReader
from storage.writer import KBWriter
from tests.storage.small_world import make_document, make_settings

ANN = "Ann Lee was a Ruritanian painter. She was born in Ulm in 1950, some say 1951."
PLAIN = ValueModel((1.0, 0.0, 0.0, 0.0, 0.0, 0.0), 0.0)
"""The answer's own probability."""


@pytest.fixture(scope="module")
def reader(tmp_path_factory) -> Any:
    """A few documents with names and links."""
    path = Path(tmp_path_factory.mktemp("profiles") / "kb")
    ann = replace(
        make_document("ann", ANN, title="Ann Lee"),
        aliases=(NewAlias("Anna Lee"), NewAlias("The painter of Ulm"), NewAlias("Lee")),
        links=(NewLink("Ulm", "ulm"), NewLink("the town", "Ulm", by_title=True, count=2), NewLink("x", "nowhere")),
    )
    bea = replace(
        make_document("bea", "Bea admired Ann Lee.", title="Bea"),
        links=(NewLink("Ann Lee", "ann", count=3), NewLink("Bea", "bea")),
    )
    others = [
        make_document("ulm", "Ulm is a town.", title="Ulm"),
        replace(make_document("river", "The Lee is a river.", title="River Lee"), aliases=(NewAlias("Lee"),)),
        make_document("paris-city", "Paris is a city.", title="Paris"),
        make_document("paris-film", "Paris is a film.", title="Paris (film)"),
    ]
    with KBWriter.create(path, make_settings()) as writer:
        writer.add([ann, bea, *others])
    with KBReader.open(path) as opened:
        yield opened


def answer(*texts: tuple[str, float | None], page: str = "ann", passage: str = ANN) -> TaskAnswer:
    """What is said to a slot: texts of the passage with their probabilities."""
    answers = []
    for rank, (text, probability) in enumerate(texts, start=1):
        start = passage.index(text)
        place = Evidence(
            DocumentRef(page, page, None),
            PassageRef(1, 2, passage),
            Span(start, start + len(text)),
            Span(0, len(passage)),
            1.0,
            None,
            PageProvenance(page),
        )
        answers.append(Answer(rank, text, "phrase", 1.0, probability, (place,)))
    return TaskAnswer("slot-filling", "answered", None, tuple(answers), None, 7, "f", 5, False, answerable=0.9)


def profiler(reader: KBReader, says: Mapping[str, TaskAnswer], asked: list[Slot] | None = None) -> Profiler:
    """A profiler whose slots are answered by relation; what is not scripted has no answer."""

    def ask(slots: Sequence[Any], _: Any) -> list[TaskAnswer]:
        if asked is not None:
            asked.extend(slots)
        return [says.get(slot.relation, answer()) for slot in slots]

    return Profiler(reader, ask, model=PLAIN)


def test_a_card_has_names_description_values_and_their_places(reader) -> None:
    """Of what is probable, in the order of what is usual."""
    asked: list[Slot] = []
    card = profiler(reader, {"P19": answer(("Ulm", 0.9), ("Ruritanian", 0.1))}, asked).profile("Ann Lee")

    assert card.status == "found" and card.entity.doc_id == "ann"
    assert card.entity.description == "Ann Lee was a Ruritanian painter."
    assert {each.name for each in card.names} == {"Anna Lee", "The painter of Ulm", "Lee"}
    assert {each.subject for each in asked} == {"Ann Lee"} and len(asked) == len(card.asked) == 16
    (fact,) = card.facts
    assert (fact.relation_id, fact.relation, fact.is_sure) == ("P19", "place of birth", True)
    (value,) = fact.values
    assert (value.text, value.probability, value.entity.doc_id) == ("Ulm", pytest.approx(0.9), "ulm")
    assert value.evidence.text == "Ulm" and value.evidence.document.doc_id == "ann"
    assert card.generation == 7


def test_what_is_unsure_is_said_to_be_and_what_is_improbable_left_out(reader) -> None:
    """By the thresholds of a half and of the options."""
    says = {"P19": answer(("Ulm", 0.3)), "P27": answer(("Ruritanian", 0.1))}
    card = profiler(reader, says).profile("Ann Lee")
    assert [(each.relation_id, each.is_sure) for each in card.facts] == [("P19", False)]
    everything = profiler(reader, says).profile("Ann Lee", ProfileOptions(threshold=0))
    assert {each.relation_id for each in everything.facts} == {"P19", "P27"}


def test_the_entitys_own_names_are_no_values(reader) -> None:
    """Whatever the relation."""
    card = profiler(reader, {"P26": answer(("Ann Lee", 0.9), ("Ulm", 0.6))}).profile("Ann Lee")
    assert [value.text for fact in card.facts for value in fact.values] == ["Ulm"]


def test_values_that_cannot_both_be_right_stand_side_by_side(reader) -> None:
    """Of a relation with one value; of others several values are all kept."""
    card = profiler(reader, {"P569": answer(("1950", 0.6), ("1951", 0.3))}).profile("Ann Lee")
    fact = card.fact("date of birth")
    assert fact.is_contradicted and [each.text for each in fact.values] == ["1950", "1951"]
    assert fact.values[0].contradicts == ("1951",)


def test_relations_of_ones_own_are_asked_instead_and_shown_however_unsure(reader) -> None:
    """By id, name or wording; each once."""
    asked: list[Slot] = []
    says = {"colour that X liked": answer(("Ulm", 0.05), ("town", 0.04), passage="The town of Ulm.")}
    options = ProfileOptions(relations=("place of birth", "colour that X liked", "place of birth"))
    card = profiler(reader, says, asked).profile("Ann Lee", options)
    assert [each.relation for each in asked] == ["place of birth", "colour that X liked"]
    assert card.asked == ("P19", "colour that X liked")
    (fact,) = card.facts
    assert (fact.relation_id, fact.relation, [each.text for each in fact.values]) == (
        None,
        "colour that X liked",
        ["Ulm"],
    )
    assert fact.values[0].probability == 0.05  # what the slot says at every other door
    with pytest.raises(UnknownRelationError, match="P99999"):
        profiler(reader, {}).profile("Ann Lee", ProfileOptions(relations=("P99999",)))


def test_without_probabilities_the_best_answer_is_shown_and_nothing_is_sure(reader) -> None:
    """Another encoder has no calibration."""
    card = profiler(reader, {"P19": answer(("Ulm", None), ("town", None), passage="Ulm, a town.")}).profile("Ann Lee")
    assert [(each.text, each.probability, each.is_sure) for each in card.facts[0].values] == [("Ulm", None, False)]


def test_related_are_answers_and_links_of_both_directions(reader) -> None:
    """Each document once, the entity itself never, targets that are not there neither."""
    found = profiler(reader, {}).profile("Ann Lee")
    assert [(each.entity.doc_id, each.kind) for each in found.related] == [("ulm", "links_to"), ("bea", "linked_from")]
    answered = profiler(reader, {"P19": answer(("Ulm", 0.9))}).profile("Ann Lee")
    assert [(each.entity.doc_id, each.kind, each.label) for each in answered.related] == [
        ("ulm", "answer", "place of birth"),
        ("bea", "linked_from", "linked from"),
    ]


@pytest.mark.parametrize("name", ["Ann Lee", "ann lee", "Anna Lee", " Ann  Lee ", "ann"])
def test_a_name_is_a_title_another_name_or_an_id(reader, name) -> None:
    """In any letter case."""
    assert profiler(reader, {}).profile(name).entity.doc_id == "ann"


def test_a_name_of_several_documents_gives_them_to_choose_from(reader) -> None:
    """With their first sentences."""
    card = profiler(reader, {}).profile("Lee")
    assert (card.status, card.entity, card.facts) == ("ambiguous", None, ())
    assert {(each.doc_id, each.description) for each in card.choices} == {
        ("ann", "Ann Lee was a Ruritanian painter."),
        ("river", "The Lee is a river."),
    }


def test_a_title_counts_more_than_one_with_a_qualifier_which_stays_a_choice(reader) -> None:
    """Paris is the city; the film can still be meant."""
    card = profiler(reader, {}).profile("Paris")
    assert card.entity.doc_id == "paris-city" and [each.doc_id for each in card.choices] == ["paris-film"]


def test_an_unknown_name_gives_similar_documents(reader) -> None:
    """By the beginning of titles and by words; none where no word is known."""
    card = profiler(reader, {}).profile("Ann Leeming, painter")
    assert card.status == "unknown" and "ann" in {each.doc_id for each in card.choices}
    assert profiler(reader, {}).profile("Zzyzx").choices == ()


def test_an_id_is_told_from_a_name(reader) -> None:
    """An id that is not there is an error, as everywhere."""
    assert profiler(reader, {}).profile_of("river").entity.title == "River Lee"
    with pytest.raises(UnknownDocumentError, match="nobody"):
        profiler(reader, {}).profile_of("nobody")


@pytest.mark.parametrize("options", [{"n_relations": 0}, {"n_relations": 65}, {"threshold": 1.5}, {"relations": ()}])
def test_options_out_of_range_are_refused(options) -> None:
    """With the value seen and the range."""
    with pytest.raises(InvalidOptionError, match="wanted"):
        ProfileOptions(**options)


def test_a_blank_name_is_refused(reader) -> None:
    """Rather than matched with everything."""
    with pytest.raises(InvalidOptionError, match="blank"):
        profiler(reader, {}).profile("  ")


def test_how_probable_a_value_is_follows_from_the_answer_and_how_usual_the_relation_is() -> None:
    """The model that ships counts both for the value."""
    model = value_model()
    base = features_of(0.5, 0.5, -3.0, behind=1.0, is_own=True, is_first=True)
    surer = features_of(0.9, 0.5, -3.0, behind=1.0, is_own=True, is_first=True)
    usual = features_of(0.5, 0.5, 0.0, behind=0.0, is_own=True, is_first=True)
    assert len(base) == len(FEATURES)
    assert model.probability(surer) > model.probability(base) < model.probability(usual)
