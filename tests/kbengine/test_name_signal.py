"""The name signal: what a name means and where it is said, scored alike in a small and in a large knowledge base."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from kbengine.inputs import Mention, Slot
from kbengine.search.meanings import (
    BARE_IN_TEXT,
    COMMON_MEANING_SCORE,
    COMMON_WORD_SCORE,
    FORM_SCORES,
    PLACE_IN_TEXT,
    meanings_of,
    named_by,
    writing_it_small,
)
from kbengine.search.name_signal import begins_sentence
from kbengine.search.query import Query, SearchOptions, Weights
from kbengine.search.query_vectors import LexicalScores
from kbengine.search.sayings import Sought, sayings_of
from kbengine.search.searcher import Searcher
from kbengine.search.shard_requests import Look, Saying
from kbengine.search.shards import LocalSource
from kbengine.search.term_statistics import count
from kbengine.search.verbatim import OTHER_SCORE, READ_PASSAGES, passages_saying, sayers_of
from storage.alias_records import NewAlias
from storage.reader import KBReader
from storage.records import NewDocument
from storage.text_scores import TextScores
from storage.writer import KBWriter
from tests.kbengine.synthetic_kb import WordEncoder, passages_of, synthetic_settings

NAMED = Weights(phrase=1.0, passage=2.0, lexical=0.5, name=50.0)


DOCUMENTS = {
    "town": ("Reading", "Reading is a town on the Thames.", "Trains stop at Reading for Bristol."),
    "process": ("Reading (process)", "By reading we learn what is written.", "Children learn reading at school."),
    "element": ("Mercury (element)", "Mercury is a metal."),
    "planet": ("Mercury (planet)", "Mercury is near the Sun."),
    "lincoln": ("Lincoln", "Lincoln was a president."),
    "nebraska": ("Lincoln, Nebraska", "Lincoln is a capital."),
    "washington": ("Washington, D.C.", "Washington is a capital, too."),
    "state": ("Washington (state)", "Washington is a state."),
    "acdc": ("AC/DC", "A band of five."),
    "c": ("C", "A language."),
    "cplusplus": ("C++", "Another language."),
    "kahlo": ("Frida Kahlo", "Frida Kahlo painted herself."),
    "rivera": ("Diego Rivera", "He married Frida KAHLO twice.", "Kahlo and her sister Frida lived there."),
    "house": ("Blue House", "Here Frida Kahlo was born.", "Magdalena Carmen has a garden."),
    "lodz": ("Łódź", "A city of mills."),
}
ALIASES = (
    ("kahlo", NewAlias("Magdalena Carmen")),
    ("house", NewAlias("Casa Azul")),
    ("rivera", NewAlias("The Painter", prior=0.25)),
)


def make(path, *, more=0):
    """Write the knowledge base, with so many documents more that are about none of it."""
    with KBWriter.create(path, synthetic_settings()) as writer:
        writer.add(NewDocument(doc_id=i, title=t, passages=passages_of(*texts)) for i, (t, *texts) in DOCUMENTS.items())
        others = (
            NewDocument(doc_id=f"other-{i}", title=f"Kelp {i}", passages=passages_of(f"Kelp of reef {i}."))
            for i in range(more)
        )
        if more:
            writer.add(others)
        writer.add_aliases(ALIASES)
    return path


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Of a handful of documents."""
    return make(tmp_path_factory.mktemp("names") / "small")


@pytest.fixture(scope="module")
def larger(tmp_path_factory):
    """The same among fifty times as many."""
    return make(tmp_path_factory.mktemp("names") / "larger", more=600)


def meanings(path, name, *, in_text=True, is_inside=False):
    """The score of each document that the name can mean, by its id."""
    with KBReader.open(path) as reader:
        shards = LocalSource(reader).shards(None)
        scope = shards.scope(None)
        query = Query(input=Mention(name, (0, len(name))), names=((name, 1.0),))
        statistics = count(shards, scope, [query], [NAMED])
        small = partial(writing_it_small, shards, scope, statistics)
        found = meanings_of(statistics, name, in_text=in_text, is_inside=is_inside, writing_small=small)
        if not in_text:
            assert found == meanings_of(named_by(reader, name), name, in_text=False)
        documents = reader.documents(list(found))
        return {documents[number].doc_id: score for number, score in found.items()}


def said(path, name, *, limit=READ_PASSAGES):
    """The score of each passage that says the name, by document and paragraph."""
    with KBReader.open(path) as reader:
        snapshot = reader.snapshot()
        shards = LocalSource(reader).shards(None)
        found = sayings_of(shards, shards.scope(None), [Sought(name, limit, None)])[0][0]
        passages, documents = reader.passages_with_documents(snapshot.passage_ids[found.passages])
        places = {number: (documents[each.document_id].doc_id, each.ordinal) for number, each in passages.items()}
        ids = snapshot.passage_ids[found.passages].tolist()
        return {places[each]: score for each, score in zip(ids, found.scores.tolist(), strict=True)}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Frida Kahlo", {"kahlo": 1.0}),
        ("FRIDA KAHLO", {"kahlo": FORM_SCORES["case"]}),
        ("frida kahlo", {"kahlo": FORM_SCORES["case"]}),
        ("Casa Azul", {"house": 1.0}),
        ("Lodz", {"lodz": FORM_SCORES["accent"]}),
        ("Łódź", {"lodz": 1.0}),
        ("AC DC", {"acdc": FORM_SCORES[None]}),
        ("Lincoln, Nebraska", {"nebraska": 1.0}),
        ("Nobody", {}),
        ("!!!", {}),
    ],
)
def test_a_name_of_one_document_counts_alike_at_any_size(small, larger, name, expected):
    """Fully when it is spelt so, less in another form; however many other documents there are."""
    assert meanings(small, name) == pytest.approx(expected)
    assert meanings(larger, name) == pytest.approx(expected)


def test_a_name_of_several_counts_less_for_each(small):
    """By its share: equal without more knowledge, the whole title before one with a qualifier, a prior as it is."""
    mercury, lincoln, painter = (meanings(small, name, in_text=False) for name in ("Mercury", "Lincoln", "The Painter"))

    assert set(mercury) == {"element", "planet"} and mercury["element"] == mercury["planet"] < 1
    assert 0 < lincoln["nebraska"] < lincoln["lincoln"] < 1
    assert 0 < painter["rivera"] < mercury["element"]


def test_a_qualifier_says_that_the_name_alone_mostly_means_something_else(small):
    """In running text a document that has it only so is hardly meant; beside a whole title it is another meaning."""
    asked, in_text = meanings(small, "Mercury", in_text=False), meanings(small, "Mercury")

    assert in_text == pytest.approx({doc_id: BARE_IN_TEXT * score for doc_id, score in asked.items()})
    assert meanings(small, "Lincoln") == meanings(small, "Lincoln", in_text=False)


def test_a_qualifier_after_a_comma_is_the_place_written_in_full(small):
    """The name alone is what such a place is called; one in brackets tells meanings apart."""
    asked, in_text = meanings(small, "Washington", in_text=False), meanings(small, "Washington")

    assert in_text == pytest.approx(
        {"washington": PLACE_IN_TEXT * asked["washington"], "state": BARE_IN_TEXT * asked["state"]}
    )


def test_a_name_that_differs_in_signs_alone_counts_less(small):
    """C++ is not C, though both are one word to the full text."""
    found = meanings(small, "C++")

    assert found["cplusplus"] > found["c"]


def test_a_common_word_is_told_from_a_name_by_its_use(small):
    """A lower-case word hardly means a document that writes it with a capital letter; the capital one means both."""
    as_word, as_name = meanings(small, "reading"), meanings(small, "Reading")

    assert as_name["town"] > as_name["process"]
    assert as_word["process"] > as_word["town"]
    assert as_word["town"] == pytest.approx(COMMON_WORD_SCORE * FORM_SCORES["case"] * as_name["town"])


def test_a_capital_letter_inside_a_sentence_is_rarely_what_is_written_small(small):
    """Not where every word may have one, nor where no other document has the name."""
    anywhere, inside = meanings(small, "Reading"), meanings(small, "Reading", is_inside=True)

    assert inside == pytest.approx({**anywhere, "process": COMMON_MEANING_SCORE * anywhere["process"]})
    assert meanings(small, "Children", is_inside=True) == meanings(small, "Children")
    assert meanings(small, "READING", is_inside=True) == meanings(small, "READING")


def test_a_sentence_begins_after_a_full_stop_or_a_quotation_mark():
    """Blanks, brackets and quotation marks between do not matter; a comma does not end one."""
    begins = ("", "He came. ", 'He came! ("', "One\n", "Note: ", "- ")
    inside = ("She lives in ", "He, ", "in (", 'the "')
    assert [begins_sentence(left) for left in (*begins, *inside)] == [True] * 6 + [False] * 4


def test_a_subject_in_lower_case_is_no_common_word(small):
    """Nobody asks for a relation of a word by accident."""
    assert meanings(small, "reading", in_text=False)["town"] > meanings(small, "reading")["town"]


def test_passages_say_a_name_word_for_word(small, larger):
    """In any case; not where its words stand apart, nor where a title has them."""
    expected = {("kahlo", 1): 1.0, ("rivera", 1): 1.0, ("house", 1): 1.0}

    assert said(small, "Frida Kahlo") == said(larger, "frida kahlo") == pytest.approx(expected)
    assert said(small, "Frida Rivera") == said(small, "The") == said(small, "") == {}


def test_no_more_passages_are_looked_into_than_allowed(larger):
    """Those that were not count by the share of those that were and did."""
    read = []

    class Counting(KBReader):
        def passage_texts(self, passage_ids):
            read.extend(passage_ids)
            return super().passage_texts(passage_ids)

    with Counting.open(larger) as reader:
        snapshot = reader.snapshot()
        numbers = np.arange(snapshot.n_passages)
        order = LexicalScores(TextScores(numbers, numbers.astype(np.float32)), None, snapshot.words)
        found = sayers_of(snapshot, Saying("Kelp", 10, None), order, is_alone=True)
        looked = passages_saying(reader, snapshot, Look("Kelp", True, found.first.numbers))

    assert len(read) == 10 and max(read) == int(snapshot.passage_ids[-1])
    assert len(found.passages) == 600 and looked.all()
    assert len(said(larger, "kelp of", limit=10)) == 600
    assert said(larger, "reef kelp", limit=10) == {}


def slot_parts(path, subject, **options):
    """The name part of each passage found for a slot."""
    query = Query(input=Slot(subject, "place"), names=((subject, 1.0),), said=((subject, 1.0),), weights=NAMED)
    with KBReader.open(path) as reader:
        options = SearchOptions(k=100, unit="passage", explain=True, **options)
        hits = Searcher(reader, SlotEncoder()).search([query], options)[0].hits
        return {(hit.document.doc_id, hit.passage.ordinal): hit.parts.name for hit in hits if hit.parts.name}


class SlotEncoder(WordEncoder):
    """Reads a slot or mention as random vectors."""

    def encode_queries(self, inputs, *, truncate=False):
        """Return vectors drawn from what is asked."""
        return super().encode_queries([type("Asked", (), {"text": repr(each)})() for each in inputs])


def test_a_subject_counts_where_it_is_said_and_where_it_is_the_title(larger):
    """Both are candidates, whatever the vectors are near to; what it is called else counts a little less."""
    parts = slot_parts(larger, "Frida Kahlo")

    full = [("kahlo", 1), ("rivera", 1), ("house", 1)]
    assert parts == pytest.approx(dict.fromkeys(full, 50.0) | {("house", 2): 50.0 * OTHER_SCORE})


def test_an_alias_just_added_finds_its_document(larger, tmp_path):
    """With the next query, and no other document by it."""
    copy = make(tmp_path / "kb", more=50)
    mention = Mention("I read about Zanzor yesterday.", (13, 19))
    query = Query(input=mention, names=(("Zanzor", 1.0),), weights=NAMED, unit="document")
    with KBReader.open(copy) as reader, KBWriter.open(copy) as writer:
        searcher = Searcher(reader, SlotEncoder())
        assert not searcher.search([query], SearchOptions(k=1, explain=True))[0].hits[0].parts.name
        writer.add_aliases([("other-7", NewAlias("Zanzor"))])
        first = searcher.search([query], SearchOptions(k=1, explain=True))[0].hits[0]

    assert (first.document.doc_id, first.parts.name) == ("other-7", pytest.approx(50.0))


def test_names_count_once(small):
    """In the lexical part where they have no weight of their own, as titles' words do; else in their own part."""
    query = Query(input=Slot("Frida Kahlo", "place"), names=(("Frida Kahlo", 1.0),), weights=NAMED, unit="document")
    with KBReader.open(small) as reader:
        searcher = Searcher(reader, SlotEncoder())
        own, lexical = (
            searcher.search([query], SearchOptions(k=20, explain=True, weights=weights))[0].hits
            for weights in (NAMED, Weights(phrase=1.0, passage=2.0, lexical=0.5))
        )

    assert {hit.document.doc_id for hit in own if hit.parts.name} == {"kahlo"}
    assert not any(hit.parts.lexical for hit in own)
    assert {hit.document.doc_id for hit in lexical if hit.parts.lexical} == {"kahlo"}
