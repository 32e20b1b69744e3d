"""Many shards answer as one knowledge base does, bit for bit: hits, scores, their parts, order and rounds."""

from __future__ import annotations

import dataclasses
import itertools
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.annotating.usage import Usage
from adapters.profiles.naming import meaning_of
from adapters.tasks.queries import query_of
from kbengine.encoders.encoder import QueryVectors
from kbengine.errors import StateError
from kbengine.inputs import Dialogue, Mention, Question, Slot, TaskInput
from kbengine.search import candidate_round
from kbengine.search.known_names import KnownNames
from kbengine.search.query import EFFORTS, STRATEGIES, UNITS, Query, SearchOptions
from kbengine.search.searcher import Searcher
from kbengine.search.shard_directories import ShardDirectories
from kbengine.search.shard_requests import CountRequest
from storage import snapshot
from storage.reader import KBReader
from storage.verify import verify
from tests.kbengine.sharded_world import World, common_settings
from tests.kbengine.synthetic_kb import WORDS, D, VectorEncoder
from tests.kbengine.test_readings import WordReader

ASKED: tuple[TaskInput, ...] = (
    Question("amber heron quartz of the fjord"),
    Question("nectar"),
    Slot("Frida Kahlo", "place of birth"),
    Slot("The Painter", "spouse"),
    Slot("das blaue Haus", "Tiere im Fjord"),
    Slot("Lincoln", "capital"),
    Mention("They say Magdalena Carmen was here.", (9, 25)),
    Mention("He was born in Reading in spring.", (15, 22)),
    Mention("He was reading it.", (7, 14)),
    Mention("Mercury is hot.", (0, 7)),
    Dialogue(("Do you know the blue house?", "I like amber and opal.", "Who lived there with Frida?")),
)
N_SHARDS = {"exact": (1, 4), "exact-4": (2,), "opq-fastscan": (2, 7), "opq-fastscan with passages": (1, 2, 4)}
"""Shards before the addition: all of 1, 2, 4 and 7 are tried in a quick run, each with each in a slow one."""


class AnyEncoder(VectorEncoder):
    """Vectors drawn from what is asked, whatever it is."""

    def encode_queries(self, inputs: Sequence[TaskInput], *, truncate: bool = False) -> QueryVectors:
        """Return three vectors for each."""
        stacked = np.stack(
            [np.random.default_rng(zlib.crc32(repr(each).encode())).normal(size=(3, D)) for each in inputs]
        ).astype(np.float32)
        passage = stacked[:, 2] / np.linalg.norm(stacked[:, 2], axis=1, keepdims=True)
        n = len(inputs)
        return QueryVectors(stacked[:, 0], stacked[:, 1], passage, np.full(n, 3), np.zeros(n, dtype=np.bool_))


@pytest.fixture(scope="module", params=list(N_SHARDS))
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    """One knowledge base with everything: int8 vectors or codes that are all looked at, or that are sought by codes."""
    folder = tmp_path_factory.mktemp("made") / request.param
    folder.mkdir()
    made = World(folder, common_settings(folder, request.param))
    made.write_one()
    return made


@pytest.fixture(scope="module")
def one(world: World) -> Iterator[KBReader]:
    """The knowledge base that holds everything."""
    with KBReader.open(world.one) as opened:
        yield opened


@pytest.fixture(scope="module")
def many(world: World) -> Iterator[dict[int, ShardDirectories]]:
    """The same in shards, by their number before the addition."""
    opened = {n: world.shards(n) for n in N_SHARDS[world.folder.name]}
    yield opened
    for each in opened.values():
        each.close()


def searcher(source: KBReader | ShardDirectories) -> Searcher:
    """What searches it, with a reader that likes amber."""
    return Searcher(source, AnyEncoder(), lambda: WordReader("amber", {"Frida Kahlo": 2.0}))


def outcome(source: KBReader | ShardDirectories, queries: Sequence[Query], options: SearchOptions, **more: Any) -> Any:
    """All of the results that does not tell of time or generation."""
    results = searcher(source).search(queries, options, **more)
    return [(each.hits, each.round_ends, each.lexical_factor, each.n_query_tokens) for each in results]


def check(one: KBReader, many: dict[int, ShardDirectories], asked: Sequence[TaskInput], **options: Any) -> None:
    """Compare everything."""
    queries = [query_of(each) for each in asked]
    wanted = outcome(one, queries, SearchOptions(explain=True, **options))
    for n, shards in many.items():
        assert outcome(shards, queries, SearchOptions(explain=True, **options)) == wanted, n


@pytest.mark.parametrize(("effort", "read"), [("low", 0), ("normal", 4), ("high", 0), ("exact", 4)])
def test_all_tasks_are_answered_alike(one, many, effort, read):
    """With every effort, read or not; all at once, as a batch."""
    check(one, many, ASKED, effort=effort, read=read, k=10)


@pytest.mark.parametrize(
    ("unit", "k"), [("phrase", 30), ("phrase", 400), ("sentence", 30), ("passage", 1), ("document", 400)]
)
def test_all_units_are_found_alike(one, many, unit, k):
    """One answer, some, and more than there are, which takes several rounds."""
    check(one, many, (ASKED[0], ASKED[2], ASKED[9]), unit=unit, k=k)


@pytest.mark.parametrize(
    ("strategy", "where"),
    [
        ("dense", "half = 1"),
        ("dfs", None),
        ("sfs", None),
        ("sfs", "kind = 'doc' and half = 0"),
        ("hybrid", "half = 1"),
        ("hybrid", "kind = 'no'"),
    ],
)
def test_all_strategies_and_filters_agree(one, many, strategy, where):
    """Filters that let much, little and nothing pass."""
    check(one, many, (ASKED[0], ASKED[4], ASKED[9]), strategy=strategy, where=where, k=20)


@pytest.mark.parametrize("where", ["half = 1", "kind = 'doc'", "kind = 'lat'"])
def test_filters_that_leave_much_agree(one, many, where, monkeypatch):
    """Where more rows pass than are looked at one by one, tokens, and passages if these are indexed, are sought."""
    for scanned in (5, 40, 200):
        monkeypatch.setattr(snapshot, "SCANNED_ROWS", scanned)
        monkeypatch.setattr(candidate_round, "SCANNED_ROWS", scanned)
        check(one, many, (ASKED[0], ASKED[2]), where=where, k=20)
        check(one, many, ASKED[:1], where=where, nprobe=1, k=5)


def test_an_index_of_passages_is_looked_into(world, one, many):
    """With few lists other passages are found than among all: and the same in one knowledge base and in shards."""
    has_index = world.folder.name.endswith("with passages")
    assert one.snapshot().scans_all("passages") is not has_index
    for shards in many.values():
        for each in shards.opened:
            assert each.records.reader.snapshot().scans_all("passages") is not has_index
    for database in world.folder.glob("shard-*/kb.sqlite"):
        assert verify(database.parent).ok
    queries = AnyEncoder().encode_queries(ASKED).passage
    few, every = (one.snapshot().search_passages(queries, 3, nprobe=n)[1] for n in (1, 1_000))
    assert (few != every).any() == has_index


@pytest.mark.slow
def test_everything_agrees_with_everything(world, one):
    """Each number of shards, effort, unit, strategy and filter with each other."""
    for n in (1, 2, 4, 7):
        with world.shards(n) as opened:
            for effort, unit, strategy in itertools.product(EFFORTS, UNITS, STRATEGIES):
                for where, k, read in ((None, 10, 3), ("half = 1", 100, 0)):
                    options = {
                        "effort": effort,
                        "unit": unit,
                        "strategy": strategy,
                        "where": where,
                        "k": k,
                        "read": read,
                    }
                    check(one, {n: opened}, ASKED, **options)


def test_answers_grouped_by_a_key_agree(one, many):
    """Rounds go on until there are as many keys as wanted."""

    def key_of(_, hit):
        return hit.document.title[0]

    queries = [query_of(each) for each in ASKED[:3]]
    options = SearchOptions(k=12, unit="phrase")
    wanted = outcome(one, queries, options, key_of=key_of)
    for shards in many.values():
        assert outcome(shards, queries, options, key_of=key_of) == wanted


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(st.sampled_from([*WORDS, "Reading", "Kahlo", "it"]), min_size=1, max_size=6),
    unit=st.sampled_from(UNITS),
    k=st.integers(1, 60),
    longest=st.sampled_from([None, 1, 3]),
    nprobe=st.sampled_from([None, 1, 4]),
)
def test_whatever_is_asked_is_answered_alike(one, many, words, unit, k, longest, nprobe):
    """Any words, units, lengths and lists."""
    check(one, many, [Question(" ".join(words))], unit=unit, k=k, max_phrase_tokens=longest, nprobe=nprobe)


def test_compacting_a_shard_changes_nothing(world, one):
    """Dead documents do not count before they are forgotten, in one shard or in all of them."""
    with world.shards(3, compacted=(0, 2)) as some:
        check(one, {3: some}, ASKED, k=15, read=3)


def undated(documents):
    """Documents by key, whatever commit made them."""
    return {key: dataclasses.replace(each, born_generation=0) for key, each in documents.items()}


def test_records_of_all_shards_are_those_of_one(one, many):
    """What is looked up beside a search, by id and by name."""
    names = ["Magdalena Carmen", "the painter", "casa azul", "Reading", "doc-3", "Nobody", "Diego Rivera"]
    ids = ["kahlo", "doc-3", "doc-9", "late-1", "planet", "nobody"]
    for shards in many.values():
        found = shards.records
        assert undated(found.live_documents(ids)) == undated(one.live_documents(ids))
        assert found.ids_of(names) == one.ids_of(names)
        assert found.first_passages(ids) == one.first_passages(ids)
        assert found.alias_matches(names) == one.alias_matches(names)
        assert found.known_names(names) == one.known_names(names)
        assert found.list_aliases() == one.list_aliases()
        assert found.titled([*names, "!"], limit=2) == one.titled([*names, "!"], limit=2)
        n = one.n_passages_with("amber")
        assert found.n_passages_with("amber") == n > 9
        assert found.passages_with("amber", range(0, n, 3)) == one.passages_with("amber", range(0, n, 3))
        assert found.list_aliases(prefix="the", limit=1) == one.list_aliases(prefix="the", limit=1)
        for options in ({"limit": 500}, {"limit": 5, "after": "doc-16"}, {"title_prefix": "R"}, {"where": "half = 1"}):
            listed = [dict(enumerate(each.list_documents(**options))) for each in (found, one)]
            assert undated(listed[0]) == undated(listed[1])
        for document_id in [each.document_id for each in one.list_documents(limit=500)]:
            assert found.aliases_of(document_id, limit=9) == one.aliases_of(document_id, limit=9)
            assert found.passages_of_document(document_id) == one.passages_of_document(document_id)


def test_what_annotating_and_cards_ask_is_answered_alike(one, many):
    """Which names are known, how often a word is one, and what a name means."""
    names = ["Magdalena Carmen", "Casa Azul", "Reading", "reading", "Lincoln", "Diego Rivera", "Nobody", "Mercury"]
    for shards in many.values():
        known, wanted = KnownNames(shards.records), KnownNames(one)
        assert known.titled(names) == wanted.titled(names) and known.aliased(names) == wanted.aliased(names)
        for word in ("Reading", "Amber", "Magdalena Carmen", "It"):
            assert Usage(shards.records).share(word) == Usage(one).share(word)
        for name in (*names, "doc-3"):
            found, expected = meaning_of(shards.records, name), meaning_of(one, name)
            assert [each.doc_id for each in found.others] == [each.doc_id for each in expected.others]
            assert (found.is_known, found.document is None) == (expected.is_known, expected.document is None)
            if found.document is not None:
                assert undated({0: found.document}) == undated({0: expected.document})


def test_another_generation_is_refused_by_name(many: dict[int, ShardDirectories]):
    """A shard says which it holds."""
    shards = next(iter(many.values())).shards(None)
    (shard, *_) = shards.members
    scope = dataclasses.replace(shards.scope(None), generation=8)
    none = np.zeros(0, dtype=np.uint64)
    with pytest.raises(StateError, match="generation 8 is asked for, the shard holds 7"):
        shard.count(CountRequest(scope, none, none))
