"""The spaCy component, found by its name as any other."""

from __future__ import annotations

import pytest
import spacy
from spacy.tokens import DocBin

from adapters.knowledge_base import KnowledgeBase
from adapters.spacy_linker import NIL
from kbengine import Mention
from kbengine.errors import InvalidOptionError, StateError
from tests.test_docs import ROOT, run_examples

TEXTS = ["Marie Curie worked in Paris.", "Nobody is named here.", "The Amazon rainforest is not in Paris."]
PATTERNS = [
    {"label": "PERSON", "pattern": "Marie Curie"},
    {"label": "GPE", "pattern": "Paris"},
    {"label": "LOC", "pattern": "Amazon rainforest"},
]


def pipeline(kb, **config):
    """Return a pipeline that finds entities by patterns and links them."""
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns(PATTERNS)
    nlp.add_pipe("kbengine_linker", config={"kb": str(kb), **config})
    return nlp


@pytest.fixture(scope="module")
def nlp(built_kb):
    """A pipeline that links whatever is best."""
    made = pipeline(built_kb)
    yield made
    made.get_pipe("kbengine_linker").close()


def test_entities_get_the_ids_of_their_documents(nlp, built_kb, encoder):
    """Those that `ask` gives, and keep their labels."""
    doc = nlp(TEXTS[0])
    with KnowledgeBase.open(built_kb, encoder=encoder) as kb:
        wanted = [kb.ask(Mention(doc.text, (each.start_char, each.end_char)), k=1).best for each in doc.ents]

    assert [each.label_ for each in doc.ents] == ["PERSON", "GPE"]
    assert [each.kb_id_ for each in doc.ents] == [each.document.doc_id for each in wanted]
    assert doc.ents[0].kb_id_ == "marie-curie"
    assert doc.ents[0]._.kb_link["title"] == "Marie Curie"
    assert doc.ents[0]._.kb_link["probability"] == wanted[0].probability
    assert doc[0].ent_kb_id_ == "marie-curie" and doc[2].ent_kb_id_ == ""


def test_a_stream_is_linked_as_its_texts_alone(nlp):
    """In order, texts without entities too."""
    docs = list(nlp.pipe(TEXTS * 2, batch_size=4))

    assert [doc.text for doc in docs] == TEXTS * 2
    assert [ids(doc) for doc in docs] == [ids(nlp(text)) for text in TEXTS] * 2


def ids(doc):
    """Return the entities' places and ids."""
    return [(each.start, each.end, each.kb_id_) for each in doc.ents]


def test_what_is_not_probable_enough_is_nil(bases):
    """As with spaCy's own linker."""
    nlp = pipeline(bases / "demo-kb", threshold=1.0)
    doc = nlp(TEXTS[0])

    assert [each.kb_id_ for each in doc.ents] == [NIL, NIL]
    assert doc.ents[0]._.kb_link is None
    nlp.get_pipe("kbengine_linker").close()


def test_entities_that_have_an_id_keep_it(nlp):
    """An earlier component knew."""
    doc = nlp.make_doc(TEXTS[0])
    doc.set_ents([spacy.tokens.Span(doc, 0, 2, label="PERSON", kb_id="Q7186")])

    assert nlp.get_pipe("kbengine_linker")(doc).ents[0].kb_id_ == "Q7186"


def test_texts_without_entities_get_those_that_are_found(bases):
    """By the names of the knowledge base, if that is wanted."""
    nlp = spacy.blank("en")
    nlp.add_pipe("kbengine_linker", config={"kb": str(bases / "demo-kb"), "find": True})
    doc = nlp("Marie Curie was born in Warsaw.")

    assert [each.text for each in doc.ents] == ["Marie Curie", "Warsaw"]
    assert doc.ents[0].kb_id_ == "marie-curie" and doc.ents[0].label_ == "NAME"
    nlp.get_pipe("kbengine_linker").close()


def test_a_pipeline_and_its_texts_are_written_and_read_again(nlp, tmp_path):
    """The path of the knowledge base goes with it; links go with the texts."""
    nlp.to_disk(tmp_path / "pipeline")
    again = spacy.load(tmp_path / "pipeline")
    doc = nlp(TEXTS[0])
    read = next(DocBin(store_user_data=True, docs=[doc]).from_bytes(
        DocBin(store_user_data=True, docs=[doc]).to_bytes()
    ).get_docs(again.vocab))  # fmt: skip

    assert ids(again(TEXTS[0])) == ids(doc) == ids(read)
    assert read.ents[0]._.kb_link == doc.ents[0]._.kb_link
    assert ids(spacy.blank("en").from_bytes(nlp.to_bytes())(TEXTS[1])) == []
    again.get_pipe("kbengine_linker").close()


def test_a_process_forked_from_one_that_linked_is_told(nlp):
    """Rather than left hanging."""
    linker = nlp.get_pipe("kbengine_linker")
    nlp(TEXTS[0])
    opened_by, linker._opened_by = linker._opened_by, -1
    try:
        with pytest.raises(StateError, match="before the process was forked"):
            nlp(TEXTS[0])
    finally:
        linker._opened_by = opened_by


def test_without_a_knowledge_base_there_is_no_component():
    """And it is told how to give one."""
    with pytest.raises(InvalidOptionError, match="has no knowledge base; give its directory"):
        spacy.blank("en").add_pipe("kbengine_linker")


def test_the_examples_of_the_page_run(bases, tmp_path, monkeypatch):
    """As a reader would type them."""
    run_examples(ROOT / "docs" / "how-to" / "spacy.md", bases, tmp_path, monkeypatch)
