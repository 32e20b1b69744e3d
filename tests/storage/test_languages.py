"""Words are stemmed by the rules of their document's language, and found in any spelling that a query has for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from storage.languages import language_of, stem
from storage.postings import build_postings, merge_postings
from storage.reader import KBReader
from storage.terms import plain_words, query_terms, terms_of, title_terms
from storage.writer import KBWriter
from tests.storage.small_world import make_document, make_settings


@pytest.mark.parametrize(
    ("language", "texts"),
    [
        ("de", ["In den Häusern", "Das Haus", "eines Hauses"]),
        ("fr", ["Les études", "une étude"]),
        ("ru", ["рождённый", "рождённые", "рождённого"]),
        ("en", ["The composers", "composer"]),
    ],
)
def test_forms_of_a_word_are_one_term(language: str, texts: list[str]) -> None:
    """In the language that they are of."""
    assert len({terms_of(text, language)[-1] for text in texts}) == 1


def test_words_in_a_language_without_rules_are_stemmed_as_english() -> None:
    """As all were before there were languages."""
    assert terms_of("Köpekler evlerinde", "vi") == terms_of("Köpekler evlerinde")
    assert stem("composers") == "compos"


@pytest.mark.parametrize(
    "text", ["L’étude d'un été", "Straße 3½ in STRASSBURG", "東京 Haus ﬁn", "The Who", "", "İstanbul"]
)
@pytest.mark.parametrize("language", ["en", "de", "fr", "tr"])
def test_terms_are_folded_in_every_language(text: str, language: str) -> None:
    """Small letters without accents, whatever the stemmer makes of them."""
    for term in terms_of(text, language):
        assert plain_words(term) == [term]


def test_a_query_has_the_stems_of_all_languages_of_documents() -> None:
    """Each once, the English ones first."""
    assert query_terms("Häusern") == ["hausern"]
    assert query_terms("Häusern", ["de"]) == ["hausern", "haus"]
    assert query_terms("Haus", ["de"]) == ["haus"]


def test_titles_are_stemmed_as_texts_are() -> None:
    """Their names as wholes stay as they are."""
    assert title_terms("Häuser", "de") == ["\x01title:haus", "\x01name:hauser"]


@pytest.mark.parametrize(("named", "code"), [("de-AT", "de"), ("nb_NO", "no"), (3, "en"), ("", "en")])
def test_a_language_is_what_the_field_says(named: object, code: str) -> None:
    """Without its region; English where there is none."""
    assert language_of({"language": named}) == code


@pytest.fixture
def kb(tmp_path: Path) -> Path:
    """A German document, a French and an English one."""
    path = tmp_path / "kb"
    texts = {
        "de": "Hier stehen alte Häuser am Wasser",
        "fr": "Il aimait les études",
        "en": "the old houses of the town",
    }
    with KBWriter.create(path, make_settings()) as writer:
        for language, text in texts.items():
            document = make_document(language, text, title=f"Page {language}")
            writer.add([replace(document, meta={"language": language})])
    return path


def test_documents_are_found_by_other_forms_of_their_words(kb: Path) -> None:
    """Of the language that each is in."""
    with KBReader.open(kb) as reader:
        snapshot = reader.snapshot()
        assert snapshot.words.languages == ("de", "fr")
        for query, found in (("im Haus", 0), ("eine Etude", 1), ("a house", 2)):
            scores = snapshot.lexical_scores(query)
            assert scores.argmax() == found
            assert scores[found] > 0


def test_what_is_not_there_any_more_is_not_asked_for(kb: Path) -> None:
    """A knowledge base whose last German document was deleted is searched without German stems."""
    with KBWriter.open(kb) as writer:
        writer.delete(["de"])
        with KBReader.open(kb) as reader:
            assert reader.snapshot().words.languages == ("fr",)
        writer.compact()
    with KBReader.open(kb) as reader:
        assert reader.snapshot().words.languages == ("fr",)


def test_merging_keeps_what_each_language_says() -> None:
    """Postings of several segments merge as ever."""
    parts = [build_postings([("", "alte Häuser")], ["de"]), build_postings([("", "old houses")])]
    both = build_postings([("", "alte Häuser"), ("", "old houses")], ["de", "en"])
    merged = merge_postings(parts, [part.passage_lengths > 0 for part in parts])
    assert merged.terms.tolist() == both.terms.tolist()
    assert merged.posting_passages[:].tolist() == both.posting_passages[:].tolist()
