"""Which relations a kind of thing usually has: the arithmetic by hand, and the table that ships."""

from __future__ import annotations

import math

import pytest

from adapters.profiles.usual_relations import SMOOTHING, UsualRelations, first_sentence, lead_words, usual_relations
from adapters.tasks.wording import relations
from recipes.usual_relations import count, pruned

TABLE = UsualRelations(
    10.0, {"P19": 5.0, "P175": 2.0}, {"painter": 4.0, "album": 2.0}, {"painter": {"P19": 4.0}, "album": {"P175": 2.0}}
)


def test_log_odds_are_those_of_naive_bayes_with_smoothing() -> None:
    """The prior, and for each known word how much likelier it is with the relation than without."""
    painter = math.log((4 + SMOOTHING * 0.4) / (5 + SMOOTHING) / 0.4)
    found = TABLE.log_odds(["painter", "unheard"])
    assert found["P19"] == pytest.approx(math.log(5 / 10) + painter)
    against = math.log((0 + SMOOTHING * 0.4) / (2 + SMOOTHING) / 0.4)
    assert found["P175"] == pytest.approx(math.log(2 / 10) + against)


def test_the_kind_decides_what_is_usual() -> None:
    """A painter was born somewhere, an album has a performer; of nothing the commonest relation is expected."""
    assert [relation for relation, _ in TABLE.most_usual("Ann was a painter.", 2)] == ["P19", "P175"]
    assert TABLE.most_usual("Blue is an album by Ann.", 1)[0][0] == "P175"
    assert TABLE.most_usual("", 1)[0][0] == "P19"


def test_words_are_those_of_the_first_sentence_in_small_letters() -> None:
    """Names and numbers say nothing, that there is a year does."""
    text = "Ann Lee (born 1950) is an American painter, 12 of whose works remain. She is an actress."
    assert lead_words(text) == {"0000", "born", "is", "an", "painter", "of", "whose", "works", "remain"}
    start, end = first_sentence("  Ulm is a town. It lies on the Danube.")
    assert "  Ulm is a town. It lies on the Danube."[start:end] == "Ulm is a town."
    assert first_sentence(" \n") == (0, 0)


def test_a_table_is_read_as_it_was_written() -> None:
    """The counts of words, relations and both."""
    assert UsualRelations.parse("".join(TABLE.lines()).splitlines()) == TABLE


def test_counts_are_weighted_sums_and_rare_words_are_left_out() -> None:
    """A page of which relations are only supposed counts as much as it is told."""
    table = count([((frozenset({"painter"}), {"P19": 1.0}), 1.0), ((frozenset({"painter", "odd"}), {"P19": 0.5}), 0.2)])
    assert (table.subjects, table.relations["P19"]) == (1.2, 1.1)
    assert table.words == {"painter": 1.2, "odd": 0.2} and table.together["odd"] == {"P19": 0.1}
    assert pruned(table, {"painter": 12, "odd": 1}) == UsualRelations(
        1.2, {"P19": 1.1}, {"painter": 1.2}, {"painter": {"P19": 1.1}}
    )


def test_the_table_that_ships_knows_people_albums_and_rivers() -> None:
    """What it names are relations that kbengine knows by id, and no word is a name."""
    table = usual_relations()
    assert set(table.relations) <= {each.id for each in relations()}
    assert all(word.islower() or word == "0000" for word in table.words)
    for text, wanted in (
        ("Ann Lee (born 1950) is an American film director and screenwriter.", {"P569", "P27"}),
        (
            "Blue Hour is the third studio album by the English band Lee, released in 2001.",
            {"P175", "P264", "P577"},
        ),
        ("The Lee is a river in the north of Ruritania.", {"P17", "P131"}),
    ):
        assert wanted <= {relation for relation, _ in table.most_usual(text, 16)}, text
