"""Where phrases begin and end, in every unit: no stray punctuation, one sentence, more than stop words."""

from __future__ import annotations

import numpy as np
import pytest

from kbengine.inputs import Question
from kbengine.search.boundaries import Place, bounded_spans, may_be_shown, says_something, trimmed_span
from kbengine.search.query import Query, SearchOptions, Weights
from kbengine.search.searcher import Searcher
from kbengine.span import Span
from storage.alias_records import NewAlias
from storage.reader import KBReader
from storage.records import NewDocument
from storage.writer import KBWriter
from tests.kbengine.synthetic_kb import WordEncoder, random_document, synthetic_settings


@pytest.mark.parametrize(
    ("phrase", "trimmed"),
    [
        ("Ulm.", "Ulm"),
        (" Ulm, ", "Ulm"),
        ("(1879)", "1879"),
        ("1879)", "1879"),
        ('"Heroes"', "Heroes"),
        ("“Heroes”", "Heroes"),
        ('"Heroes', "Heroes"),
        ("– Ulm;", "Ulm"),
        ("U.S.", "U.S."),
        ("Washington, D.C.", "Washington, D.C."),
        ("Martin Luther King Jr.", "Martin Luther King Jr."),
        ("Malcolm X.", "Malcolm X"),
        ("Java (island)", "Java (island)"),
        ('"Weird Al" Yankovic', '"Weird Al" Yankovic'),
        ("Yahoo!", "Yahoo!"),
        ("-40 °C", "-40 °C"),
        ("'s-Hertogenbosch", "'s-Hertogenbosch"),
        ("C++", "C++"),
        ("$5", "$5"),
        ("50%", "50%"),
        ("…", ""),
        (".", ""),
        ("", ""),
    ],
)
def test_an_answer_has_no_stray_punctuation_but_keeps_its_own(phrase: str, trimmed: str) -> None:
    """Ends are cleaned of what belongs to the sentence, not of what belongs to the name."""
    text = f"<{phrase}>"
    span = trimmed_span(text, Span(1, 1 + len(phrase)))
    assert text[span.start : span.end] == trimmed


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A knowledge base whose titles and aliases are stop words and titles with marks of sentence ends."""
    path = tmp_path_factory.mktemp("boundaries") / "kb"
    rng = np.random.default_rng(1)
    documents = [
        NewDocument(doc_id=str(i), title=title, passages=random_document(rng, str(i), n_passages=1).passages)
        for i, title in enumerate(["It (novel)", "The Who", "Mamma Mia! Here We Go Again", "While", "us"])
    ]
    with KBWriter.create(path, synthetic_settings()) as writer:
        writer.add(documents)
        writer.add_aliases([("1", NewAlias("Them"))])
    with KBReader.open(path) as opened:
        yield opened


def bounded(reader: KBReader, text: str, phrase: str, title: str = "Elsewhere") -> str | None:
    """The phrase of a text as it may be shown."""
    start = text.index(phrase)
    (span,) = bounded_spans(reader, [Place(title, text, Span(start, start + len(phrase)))])
    return None if span is None else text[span.start : span.end]


@pytest.mark.parametrize(
    ("text", "phrase", "shown"),
    [
        ("He was born in Warsaw. Marie went on.", "Warsaw. Marie", "Warsaw"),
        ("He died in Warsaw. Marie Curie lived.", "in Warsaw. Marie Curie", "Marie Curie"),
        ("It cost 5 dollars. 7 came.", "5 dollars. 7", "5 dollars"),
        ("She wore Chanel No. 5 often.", "Chanel No. 5", "Chanel No. 5"),
        ("He left the U.S. Army then.", "U.S. Army", "U.S. Army"),
        ("There Mr. Smith went.", "Mr. Smith", "Mr. Smith"),
        ("The novel by J. R. R. Tolkien sold.", "J. R. R. Tolkien", "J. R. R. Tolkien"),
        ("He wrote vol. 3 of it.", "vol. 3", "vol. 3"),
        ("He lived in Washington, D.C. for long.", "Washington, D.C.", "Washington, D.C."),
        ("They saw Who's Afraid of Virginia Woolf? in 1966.", "Virginia Woolf? in 1966", "Virginia Woolf? in 1966"),
        (
            "The film Mamma Mia! Here We Go Again was seen.",
            "Mamma Mia! Here We Go Again",
            "Mamma Mia! Here We Go Again",
        ),
        ("They cried Help! Everybody Out was not heard.", "Help! Everybody Out", "Everybody Out"),
        ("Ulm (Germany), he said.", "Ulm (Germany),", "Ulm (Germany)"),
    ],
)
def test_no_phrase_crosses_the_end_of_a_sentence(reader, text: str, phrase: str, shown: str) -> None:
    """It is cut to the sentence that holds most of it; abbreviations and known titles end none."""
    assert bounded(reader, text, phrase) == shown


@pytest.mark.parametrize(
    ("text", "phrase", "title", "shown"),
    [
        ("He said that it was.", "it", "Elsewhere", None),
        ("King wrote It in 1986.", "It", "Elsewhere", "It"),
        ("It was late.", "It", "Elsewhere", None),
        ("It is by King.", "It", "It (novel)", "It"),
        ("The Who played.", "The Who", "Elsewhere", "The Who"),
        ("The Who played.", "The", "Elsewhere", None),
        ("They saw Them live.", "Them", "Elsewhere", "Them"),
        ("They saw Her live.", "Her", "Elsewhere", None),
        ("They asked us then.", "us", "Elsewhere", None),
        ("Loops while it runs.", "while", "While", None),
        ("of the", "of the", "Elsewhere", None),
        ("Answer no to it.", "no", "Elsewhere", "no"),
        ("There were one or two.", "one", "Elsewhere", "one"),
        ("The operator += adds.", "+=", "Elsewhere", "+="),
        ("Mary's dog", "'s", "Elsewhere", None),
        ("東京は日本の首都です。", "東京", "Elsewhere", "東京"),
        ("In May he left.", "May", "Elsewhere", "May"),
        ("?!", "?!", "Elsewhere", None),
    ],
)
def test_stop_words_are_an_answer_where_they_are_a_name(
    reader, text: str, phrase: str, title: str, shown: str | None
) -> None:
    """A title or an alias, letter for letter; the capital of a sentence's first word tells nothing."""
    assert bounded(reader, text, phrase, title) == shown


@pytest.mark.parametrize(
    ("text", "phrase", "title", "is_shown"),
    [
        ("Joe Hisaishi wrote it.", "hi", "Elsewhere", False),
        ("Joe Hisaishi wrote it.", "Hisai", "Elsewhere", False),
        ("Joe Hisaishi wrote it.", "Joe Hisaishi", "Elsewhere", True),
        ("The Javanese live there.", "Java", "Java", False),
        ("A Polish-born chemist.", "Polish", "Elsewhere", True),
        ("It weighs 500km.", "500", "Elsewhere", True),
        ("In 1986 it came.", "19", "Elsewhere", False),
        ("Vitamin B12 helps.", "B", "Elsewhere", False),
        ("Müller's book.", "Müller", "Elsewhere", True),
        ("東京都は日本の首都です。", "東京", "Elsewhere", True),
        ("서울은 수도이다.", "서울", "Elsewhere", True),
        ("กรุงเทพมหานครเป็นเมืองหลวง", "กรุงเทพ", "Elsewhere", True),
        ("हिन्दी भाषा", "हिन", "Elsewhere", False),
        ("हिन्दी भाषा", "हिन्दी", "Elsewhere", True),
    ],
)
def test_a_piece_of_a_word_is_no_answer(reader, text: str, phrase: str, title: str, is_shown: bool) -> None:
    """Not even where it is a title; where words have no blanks between them every character may end one."""
    assert bounded(reader, text, phrase, title) == (phrase if is_shown else None)


def test_places_are_bounded_together_as_alone(reader) -> None:
    """Names are looked up once for all."""
    texts = [("He was born in Warsaw. Marie", "Warsaw. Marie"), ("King wrote It.", "It"), ("And it was.", "it")]
    places = [Place("x", text, Span(text.index(phrase), text.index(phrase) + len(phrase))) for text, phrase in texts]
    assert bounded_spans(reader, places) == [bounded_spans(reader, [place])[0] for place in places]
    assert bounded_spans(reader, []) == []


def test_names_are_known_letter_for_letter(reader) -> None:
    """Titles with or without their qualifier, and aliases; nothing that only begins so."""
    asked = ["It", "it", "It (novel)", "The Who", "The", "Them", "them", "Mamma Mia!", "While", "%", ""]
    assert reader.known_names(asked) == {"It", "It (novel)", "The Who", "Them", "While"}


class SentenceEncoder(WordEncoder):
    """Asked, it likes one word best as a start and another as an end."""

    max_phrase_tokens = 6

    def encode_queries(self, inputs, *, truncate=False):
        """Take the first word as what a phrase begins with, the second as what it ends with."""
        encoded = super().encode_queries(inputs)
        for i, each in enumerate(inputs):
            first, last = each.text.split()
            encoded.start[i] = self._encode(first).vectors[0]
            encoded.end[i] = self._encode(last).vectors[0]
        return encoded


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    """Documents of several sentences, each word a token."""
    from storage.records import NewPassage

    encoder = SentenceEncoder()
    texts = [
        "Warsaw is old. Paris became hers later.",
        "The Danube is long. Of it the Rhine knows nothing.",
        "Here the amber lies. Nothing else.",
    ]
    documents = []
    for i, text in enumerate(texts):
        encoded = encoder._encode(text)
        passage = NewPassage(
            ordinal=1,
            text=text,
            vectors=encoded.vectors,
            token_ordinals=np.arange(len(encoded.vectors), dtype=np.uint32),
            starts=encoded.starts,
            ends=encoded.ends,
            filter_logits=encoded.filter_logits,
            passage_vector=encoded.passage_vector,
            n_tokens=len(encoded.vectors),
        )
        documents.append(NewDocument(doc_id=str(i), title=f"Title {i}", passages=(passage,)))
    path = tmp_path_factory.mktemp("sentences") / "kb"
    with KBWriter.create(path, synthetic_settings()) as writer:
        writer.add(documents)
    with KBReader.open(path) as opened:
        yield Searcher(opened, encoder)


PHRASES_ALONE = Weights(phrase=1.0, passage=0.0, lexical=0.0)


@pytest.mark.parametrize("unit", ["phrase", "sentence", "passage", "document"])
@pytest.mark.parametrize("asked", ["Warsaw Paris", "old became", "The Of", "the the", "it it"])
def test_every_unit_shows_a_phrase_that_may_be_shown(sentences, unit, asked: str) -> None:
    """However much better one over the end of a sentence, or one of stop words, would score."""
    (found,) = sentences.search([Query(Question(asked))], SearchOptions(k=50, unit=unit, weights=PHRASES_ALONE))

    assert found.hits
    for hit in found.hits:
        assert may_be_shown(Place(hit.document.title, hit.passage.text, hit.phrase))
    assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)


def test_a_phrase_over_two_sentences_gives_way_to_the_best_within(sentences) -> None:
    """The start or the end that scored so well stays, with the score of what is shown."""
    options = SearchOptions(k=3, weights=PHRASES_ALONE, explain=True)
    (found,) = sentences.search([Query(Question("Warsaw Paris"))], options)

    hit = found.hits[0]
    assert "Warsaw" in hit.text or "Paris" in hit.text
    assert hit.parts is not None and hit.parts.start + hit.parts.end == pytest.approx(hit.score, abs=1e-4)


def test_the_number_of_answers_asked_for_is_found_among_those_that_may_be_shown(sentences) -> None:
    """What is left out is made up for."""
    everything = sentences.search([Query(Question("the the"))], SearchOptions(k=50, weights=PHRASES_ALONE))[0].hits
    for k in range(1, len(everything) + 1):
        (found,) = sentences.search([Query(Question("the the"))], SearchOptions(k=k, weights=PHRASES_ALONE))
        assert list(found.hits) == list(everything[:k])


def test_words_that_say_nothing() -> None:
    """Stop words alone, or nothing but a contraction's end."""
    assert [says_something(phrase) for phrase in ("of the", "'s", "", "The", "the Rhine", "C", "++", "no")] == [
        False,
        False,
        False,
        False,
        True,
        True,
        True,
        True,
    ]
