"""Reading the best passages: what the reader says decides between places, documents and the phrases found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from kbengine.encoders.encoder import Encoder, PassageText
from kbengine.errors import InvalidOptionError, StateError
from kbengine.inputs import Dialogue, Mention, Slot
from kbengine.reading.reader import Reader
from kbengine.reading.spans import PassageLogits
from kbengine.search.query import Forwards, Query, SearchOptions, SomeWeights
from kbengine.search.readings import MOST_BEHIND
from kbengine.search.searcher import Searcher
from storage.reader import KBReader
from tests.kbengine.small_kb import build_small_kb
from tests.tiny_encoder import SENTENCES, write_tiny_encoder
from tests.tiny_reader import write_tiny_reader

QUERY = Query.question("Which river crosses the city?")
HEAVY = SomeWeights(reader=1000.0)
"""The tiny encoder's scores are large and random: only a heavy weight shows what the reader says."""


@dataclass
class WordReader:
    """Likes one word, wherever it stands, and nothing else; relevance is that of a dictionary by title."""

    word: str
    relevance: dict[str, float]
    texts: tuple[str, ...] = ()
    config = SimpleNamespace(max_answer_tokens=10)

    def logits(self, queries, passages, *, truncate):
        """One token a word; the word's logits are 10, others' 0."""
        assert truncate and len(queries) == len(passages)
        self.texts += tuple(passage.text for passage in passages)
        return [self._of(passage) for passage in passages]

    def _of(self, passage):
        words, at = passage.text.split(" "), 0
        starts = []
        for word in words:
            starts.append(at)
            at += len(word) + 1
        liked = np.array([10.0 if word.strip(".,;?") == self.word else 0.0 for word in words], dtype=np.float32)
        starts_at = np.array(starts, dtype=np.int32)
        ends_at = starts_at + np.array([len(word.rstrip(".,;?")) for word in words], dtype=np.int32)
        return PassageLogits(liked, liked, 5.0, self.relevance.get(passage.title, 0.0), starts_at, ends_at)


class LikesAll(WordReader):
    """Likes every word, so that the longest span is the best."""

    def _of(self, passage):
        found = super()._of(passage)
        liked = np.linspace(2.0, 1.0, len(found.start)).astype(np.float32)
        return replace(found, start=liked, end=liked[::-1].copy())


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """The tiny encoder."""
    return Encoder.load(write_tiny_encoder(tmp_path_factory.mktemp("encoder") / "e"), device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def records(tmp_path_factory, encoder):
    """A knowledge base of ten sentences, open."""
    with KBReader.open(build_small_kb(tmp_path_factory.mktemp("kb") / "kb", encoder)) as opened:
        yield opened


def ask(records, encoder, reader, query=QUERY, **options):
    """The result with what the reader says."""
    searcher = Searcher(records, encoder, lambda: reader)
    given = {"k": 5, "read": 10, "explain": True, "weights": HEAVY, **options}
    return searcher.search([query], SearchOptions(**given))[0]


def test_the_word_that_the_reader_likes_comes_first_with_its_exact_place(records, encoder) -> None:
    """Characters are the word's; the parts sum to the score; token ids are those of its stored tokens or none."""
    found = ask(records, encoder, WordReader("Berlin", {}))
    best = found.hits[0]
    assert best.text == best.phrase_text == "Berlin"
    assert best.passage.text[best.span.start : best.span.end] == "Berlin"
    for hit in found.hits:
        assert hit.parts is not None
        assert sum(vars(hit.parts).values()) == pytest.approx(hit.score, rel=1e-5)
    was_found = any(hit.phrase == best.phrase for hit in ask(records, encoder, None, read=0, k=50).hits)
    # The heavy weight makes exact what a float32 sum of parts holds, but for less than the points behind.
    assert best.parts.reader == pytest.approx(1000.0 * (20.0 - 5.0) - (0.0 if was_found else MOST_BEHIND), abs=0.01)
    assert [hit.rank for hit in found.hits] == [1, 2, 3, 4, 5]


def test_no_place_is_longer_than_the_longest_phrase_asked_for(records, encoder) -> None:
    """The reader keeps to `max_phrase_tokens` as the search does."""
    found = ask(records, encoder, LikesAll("", {}), max_phrase_tokens=1, k=20)
    assert max(len(hit.phrase_text.split()) for hit in found.hits) == 1
    longer = ask(records, encoder, LikesAll("", {}), k=20)
    assert max(len(hit.phrase_text.split()) for hit in longer.hits) > 1


def test_loading_the_reader_is_no_part_of_the_time_of_a_query(records, encoder) -> None:
    """It is asked for before the clock runs, and not at all where nothing is read."""
    events = []

    def loaded():
        events.append("loaded")
        return WordReader("Paris", {})

    class Watched(Searcher):
        def _search(self, *arguments):
            events.append("searched")
            return super()._search(*arguments)

    Watched(records, encoder, loaded).search([QUERY], SearchOptions(read=3))
    assert events[:2] == ["loaded", "searched"]
    events.clear()
    Watched(records, encoder, loaded).search([QUERY], SearchOptions(read=0))
    assert events == ["searched"]


def test_what_was_not_read_counts_as_the_least_that_reading_gained(records, encoder) -> None:
    """With one passage read, the others keep their order and all get what the best place of that one gained."""
    plain, reader = ask(records, encoder, None, read=0, k=30), WordReader("nothing", {})
    found = ask(records, encoder, reader, read=1, k=30)
    assert len(reader.texts) == 1
    first = plain.hits[0].passage.passage_id
    unread = [hit.text for hit in found.hits if hit.passage.passage_id != first]
    assert unread == [hit.text for hit in plain.hits if hit.passage.passage_id != first][: len(unread)]
    (part,) = {hit.parts.reader for hit in found.hits if hit.passage.passage_id != first}
    best = max(hit.score for hit in found.hits if hit.passage.passage_id == first)
    assert part == pytest.approx(best - plain.hits[0].score, abs=1e-2)


@pytest.mark.parametrize("unit", ["sentence", "passage", "document"])
def test_longer_units_hold_the_word(records, encoder, unit) -> None:
    """The best one is where the word stands; each comes once."""
    found = ask(records, encoder, WordReader("Berlin", {}), unit=unit)
    assert found.hits[0].phrase_text == "Berlin"
    assert found.hits[0].document.title == "Page 6"
    assert len({(hit.document.doc_id, hit.span) for hit in found.hits}) == len(found.hits)


@pytest.mark.parametrize("asked", [Mention.from_parts("in ", "Paris", " then"), Dialogue(["I like the novel."])])
def test_documents_of_mentions_and_dialogues_are_ranked_by_relevance(records, encoder, asked) -> None:
    """The reader's favourite comes first when its weight is large; spans stay those that were found."""
    query = replace(QUERY, input=asked, unit="document")
    plain = ask(records, encoder, None, query, read=0, k=10)
    found = ask(records, encoder, WordReader("Berlin", {"Page 4": 100.0}), query, k=10)
    assert found.hits[0].document.title == "Page 4"
    phrases = {hit.document.doc_id: hit.phrase for hit in plain.hits}
    assert {hit.document.doc_id: hit.phrase for hit in found.hits} == phrases


def test_a_relation_asked_backwards_is_read_forwards(records, encoder) -> None:
    """Each document's title is the subject; how well the object is liked in its passage is the document's part."""
    asked = []

    class Listening(WordReader):
        def logits(self, queries, passages, *, truncate):
            asked.extend(zip(queries, passages, strict=True))
            return super().logits(queries, passages, truncate=truncate)

    query = replace(QUERY, unit="document", forwards=Forwards("capital", "Berlin"))
    found = ask(records, encoder, Listening("Berlin", {}), query, k=10)
    assert all(slot == Slot(passage.title, "capital") for slot, passage in asked)
    holds = [hit for hit in found.hits if "Berlin" in hit.passage.text]
    assert holds
    # Where the object does not stand nothing is said, which counts as the least that is said.
    assert [hit.parts.reader for hit in found.hits] == pytest.approx([1000.0 * (20.0 - 5.0)] * len(found.hits))


def test_neither_k_nor_batch_changes_what_is_read(records, encoder) -> None:
    """The shorter list begins the longer one; several queries at once get what each gets alone."""
    reader = WordReader("Paris", {})
    short, long = ask(records, encoder, reader, k=2), ask(records, encoder, reader, k=40)
    assert long.hits[:2] == short.hits
    other = Query.question("Who toured Europe?")
    options = SearchOptions(k=2, read=10, explain=True, weights=HEAVY)
    both = Searcher(records, encoder, lambda: reader).search([QUERY, other], options)
    assert [[hit.text for hit in each.hits] for each in both] == [
        [hit.text for hit in ask(records, encoder, reader, query, k=2).hits] for query in (QUERY, other)
    ]


def test_the_wording_for_the_reader_is_what_it_reads(records, encoder) -> None:
    """A query may have one of its own."""
    seen = []

    class Listening(WordReader):
        def logits(self, queries, passages, *, truncate):
            seen.extend(queries)
            return super().logits(queries, passages, truncate=truncate)

    wording = Query.question("another wording").input
    ask(records, encoder, Listening("Paris", {}), replace(QUERY, reading=wording), read=2)
    assert seen == [wording] * 2


def test_reading_is_off_without_a_weight_and_needs_a_reader(records, encoder) -> None:
    """A weight of 0 reads nothing; a number that is none is refused; so is reading without a reader."""
    reader = WordReader("Paris", {})
    ask(records, encoder, reader, weights=SomeWeights(reader=0.0))
    assert reader.texts == ()
    with pytest.raises(StateError, match="set read to 0"):
        Searcher(records, encoder).search([QUERY], SearchOptions(read=1))
    for wrong in (-1, 101, 1.5, True):
        with pytest.raises(InvalidOptionError, match="read is"):
            SearchOptions(read=wrong)


def test_a_real_reader_reads_whole_passages(records, encoder, tmp_path) -> None:
    """The tiny reader's best span of the passage is among the answers; with these weights it ends with a word."""
    reader = Reader.load(write_tiny_reader(tmp_path / "r", seed=3), device="cpu", dtype="float32")
    found = ask(records, encoder, reader, read=1, k=50)
    best = next(iter(ask(records, encoder, None, read=0).hits))
    passage = best.passage.text
    (reading,) = reader.read([QUERY.input], [PassageText(best.document.title, passage)])
    assert passage in SENTENCES
    assert any(hit.phrase == reading.span and hit.passage.text == passage for hit in found.hits)
