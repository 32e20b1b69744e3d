"""The Python API on the bundled encoder: build, search, add, delete, and what is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from importlib.resources import files

import pytest

from adapters.tasks.queries import task_query
from kbengine.build.builder import CorpusOptions, add_corpus, build
from kbengine.build.checking import repair_kb, verify_kb
from kbengine.build.filtering import FilterOptions
from kbengine.encoders.encoder import Encoder
from kbengine.errors import (
    BuildIncompleteError,
    CorpusError,
    CorruptError,
    DuplicateDocumentError,
    EmptyQueryError,
    EncoderError,
    EncoderMismatchError,
    InvalidOptionError,
    KnowledgeBaseExistsError,
    NotAKnowledgeBaseError,
    QueryTooLongError,
    UnknownDocumentError,
)
from kbengine.knowledge_base import KnowledgeBase, KnowledgeBaseOptions

PAGES = ("basketball", "marie-curie", "lincoln-nebraska", "lincoln-england", "abraham-lincoln", "tokyo")
HALF = FilterOptions(keep_fraction=0.5)


@pytest.fixture(scope="module")
def encoder():
    """The bundled encoder in float32, so that numbers are the same on every processor."""
    return Encoder.load("minilm-phrase", dtype="float32")


def demo_pages(*slugs):
    """Return lines of the bundled corpus."""
    text = (files("kbengine") / "demo" / "corpus.jsonl").read_text(encoding="utf-8")
    return [line for line in text.split("\n") if line and json.loads(line)["_id"] in slugs]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A file of a few bundled pages."""
    path = tmp_path_factory.mktemp("corpus") / "pages.jsonl"
    path.write_text("\n".join(demo_pages(*PAGES)) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def kb_path(corpus, encoder, tmp_path):
    """A fresh knowledge base of them."""
    build(CorpusOptions((corpus,)), tmp_path / "kb", encoder=encoder, filter_options=HALF)
    return tmp_path / "kb"


def test_a_question_is_answered_with_the_exact_characters(kb_path, encoder):
    """The phrase, its document, paragraph and span are those of the stored text."""
    with KnowledgeBase.open(kb_path, encoder) as knowledge_base:
        hit = knowledge_base.search("In which city was the game of basketball invented?", k=1).hits[0]

    assert hit.text == "Springfield, Massachusetts"
    assert hit.document.doc_id == "basketball"
    assert hit.passage.text[hit.span.start : hit.span.end] == hit.text


@pytest.mark.parametrize(
    ("task", "text", "doc_id"),
    [
        ("slot-filling", "Marie Curie [SEP] place of birth", "marie-curie"),
        ("dialogue", "I will visit Nebraska.\nWas Lincoln always its capital?", "lincoln-nebraska"),
        ("entity-linking", "The [START_ENT] president [END_ENT] was shot at the theatre.", "abraham-lincoln"),
    ],
)
def test_each_task_finds_its_document(kb_path, encoder, task, text, doc_id):
    """The other tasks' inputs go through the same search."""
    with KnowledgeBase.open(kb_path, encoder) as knowledge_base:
        assert knowledge_base.search(task_query(task, text), k=1).hits[0].document.doc_id == doc_id


def test_an_added_document_is_found_at_once_and_a_deleted_one_never_again(kb_path, encoder):
    """From the very next query on, also in a second reader."""
    question = "When was the mill of Quillmere built?"
    with KnowledgeBase.open(kb_path, encoder) as knowledge_base, KnowledgeBase.open(kb_path, encoder) as other:
        text = "Quillmere is a village on the Tarn.\n\nIts mill was built in 1764 by two sisters."
        knowledge_base.add([{"id": "quillmere", "title": "Quillmere", "text": text}])
        assert [each.search(question, k=1).hits[0].text for each in (knowledge_base, other)] == ["1764", "1764"]
        assert other.search(question, k=1).hits[0].passage.ordinal == 2

        knowledge_base.delete(["quillmere"])
        for each in (knowledge_base, other):
            hits = each.search(question, k=100, unit="document").hits
            assert "quillmere" not in {hit.document.doc_id for hit in hits}


def test_adding_the_same_id_replaces_the_document(kb_path, encoder):
    """Only the newest text answers; with replace=False it is an error that changes nothing."""
    with KnowledgeBase.open(kb_path, encoder) as knowledge_base:
        for year in ("1764", "1892"):
            knowledge_base.add(
                [{"id": "q", "title": "Quillmere", "text": f"The mill of Quillmere was built in {year}."}]
            )
        with pytest.raises(DuplicateDocumentError, match="'q'"):
            knowledge_base.add([{"id": "q", "title": "Quillmere", "text": "Another text."}], replace=False)
        hits = knowledge_base.search("When was the mill of Quillmere built?", k=50, unit="passage").hits

    assert [hit.phrase_text for hit in hits if hit.document.doc_id == "q"] == ["1892"]


def test_an_operation_named_twice_is_done_once(kb_path, encoder):
    """A retry after a lost answer adds nothing and gives the same commit."""
    with KnowledgeBase.open(kb_path, encoder) as knowledge_base:
        document = {"id": "q", "title": "Quillmere", "text": "A village."}
        first = knowledge_base.add([document], op_id="request-1")
        again = knowledge_base.add([document], op_id="request-1")

        assert again == first
        assert knowledge_base.info().documents == len(PAGES) + 1


def test_several_threads_search_while_one_adds(kb_path, encoder):
    """Every answer is whole, and none fails."""
    failures = []

    def ask(knowledge_base):
        for _ in range(5):
            try:
                hit = knowledge_base.search("In which city was the game of basketball invented?", k=1).hits[0]
                assert hit.document.doc_id == "basketball"
            except Exception as e:
                failures.append(e)

    with KnowledgeBase.open(kb_path, encoder) as knowledge_base:
        threads = [threading.Thread(target=ask, args=(knowledge_base,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for i in range(5):
            knowledge_base.add([{"id": f"n{i}", "title": f"Note {i}", "text": f"Note number {i} about nothing."}])
        for thread in threads:
            thread.join()

    assert failures == []


def test_the_kept_fraction_is_the_one_asked_for_and_is_reported(corpus, encoder, tmp_path):
    """A third of the tokens makes a third of the vectors."""
    report = build(
        CorpusOptions((corpus,)), tmp_path / "kb", encoder=encoder, filter_options=FilterOptions(keep_fraction=0.3)
    )

    assert report.kept_fraction == pytest.approx(0.3, abs=0.01)
    with KnowledgeBase.open(tmp_path / "kb", encoder) as knowledge_base:
        assert knowledge_base.info().kept_fraction == pytest.approx(0.3, abs=0.01)


class Interrupted(KeyboardInterrupt):
    """Stands for Ctrl-C."""


class StoppingEncoder:
    """The real encoder, which is interrupted after some calls."""

    def __init__(self, encoder, calls):
        self._encoder, self._calls = encoder, calls

    def __getattr__(self, name):
        return getattr(self._encoder, name)

    def encode_passages(self, passages, **options):
        """Encode, or be interrupted."""
        if self._calls == 0:
            raise Interrupted
        self._calls -= 1
        return self._encoder.encode_passages(passages, **options)


def test_an_interrupted_build_answers_nothing_and_resumes(corpus, encoder, tmp_path, monkeypatch):
    """The same call goes on where it stopped; the result is that of a build in one go."""
    monkeypatch.setattr("kbengine.build.document_encoder.CHUNK_PASSAGES", 4)
    path = tmp_path / "kb"
    with pytest.raises(Interrupted):
        build(CorpusOptions((corpus,)), path, encoder=StoppingEncoder(encoder, 2), filter_options=HALF)
    with pytest.raises(BuildIncompleteError, match="kbengine build"):
        KnowledgeBase.open(path, encoder)
    with pytest.raises(InvalidOptionError, match="begun with"):
        build(CorpusOptions((corpus,)), path, encoder=encoder, filter_options=FilterOptions(keep_fraction=0.9))

    report = build(CorpusOptions((corpus,)), path, encoder=encoder, filter_options=HALF)

    assert report.resumed and 0 < report.documents < len(PAGES)
    with KnowledgeBase.open(path, encoder) as knowledge_base:
        assert knowledge_base.info().documents == len(PAGES)
        assert knowledge_base.search("Where was basketball invented?", k=1).hits[0].document.doc_id == "basketball"


def test_building_over_a_complete_knowledge_base_is_refused(kb_path, corpus, encoder):
    """Nothing is overwritten."""
    with pytest.raises(KnowledgeBaseExistsError, match="kbengine add"):
        build(CorpusOptions((corpus,)), kb_path, encoder=encoder, filter_options=HALF)


def test_an_empty_corpus_makes_no_directory(encoder, tmp_path):
    """The error comes before anything is written."""
    (tmp_path / "empty.jsonl").write_text("\n\n", encoding="utf-8")

    with pytest.raises(CorpusError):
        build(CorpusOptions((tmp_path / "empty.jsonl",)), tmp_path / "kb", encoder=encoder, filter_options=HALF)

    assert not (tmp_path / "kb").exists()


def test_a_corpus_is_added_with_the_filter_of_the_build(kb_path, encoder, tmp_path):
    """`add` uses the threshold that the build came to."""
    more = tmp_path / "more.jsonl"
    more.write_text("\n".join(demo_pages("python-snake", "reykjavik")), encoding="utf-8")

    report = add_corpus(CorpusOptions((more,)), kb_path, encoder=encoder)

    assert report.documents == 2 and 0.2 < report.kept_fraction < 0.8


@pytest.mark.parametrize(
    ("query", "error"), [("", EmptyQueryError), (" \t ", EmptyQueryError), ("why " * 60, QueryTooLongError)]
)
def test_queries_that_cannot_be_encoded_are_refused(kb_path, encoder, query, error):
    """Empty ones, and longer ones than the encoder takes unless cutting is asked for."""
    with KnowledgeBase.open(kb_path, encoder) as knowledge_base, pytest.raises(error):
        knowledge_base.search(query)


def test_a_long_query_is_cut_on_request_and_the_answer_says_so(kb_path, encoder):
    """Nothing is cut silently."""
    with KnowledgeBase.open(kb_path, encoder) as knowledge_base:
        result = knowledge_base.search("why " * 60 + "basketball?", truncate=True)

    assert result.truncated and result.hits


def test_deleting_an_unknown_document_changes_nothing(kb_path, encoder):
    """The error names it."""
    with KnowledgeBase.open(kb_path, encoder) as knowledge_base:
        with pytest.raises(UnknownDocumentError, match="nowhere"):
            knowledge_base.delete(["basketball", "nowhere"])
        assert knowledge_base.info().documents == len(PAGES)


def test_another_encoder_is_refused(kb_path, encoder):
    """Vectors of one encoder mean nothing to another."""

    class Other:
        d, name, fingerprint, passage_fingerprint = encoder.d, "other", "0" * 64, "1" * 64

    with pytest.raises(EncoderMismatchError, match="minilm-phrase"):
        KnowledgeBase.open(kb_path, Other())


def test_a_directory_that_is_no_knowledge_base_is_refused(encoder, tmp_path):
    """Missing or foreign: the error says which."""
    with pytest.raises(NotAKnowledgeBaseError):
        KnowledgeBase.open(tmp_path / "nowhere", encoder)
    with pytest.raises(NotAKnowledgeBaseError):
        KnowledgeBase.open(tmp_path, encoder)


def test_a_reader_that_is_not_there_is_missed_when_opening(kb_path, encoder):
    """Also where nothing is read by default: it would never be asked for, and nobody would know."""
    with pytest.raises(EncoderError, match="'/nowhere'"):
        KnowledgeBase.open(kb_path, encoder, options=KnowledgeBaseOptions(reader="/nowhere"))


WARMING = """
import sys
from pathlib import Path
from kbengine.knowledge_base import KnowledgeBase
with KnowledgeBase.open(Path(sys.argv[1])) as knowledge_base:
    opened = "numba" in sys.modules
    knowledge_base.warm_up()
    print(opened, "numba" in sys.modules)
"""


def test_warming_up_loads_what_the_first_query_would_wait_for_and_opening_does_not(kb_path):
    """A service warms up before it is ready; a command that only opens need not wait for machine code."""
    done = subprocess.run([sys.executable, "-c", WARMING, str(kb_path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_warming_up_loads_the_reader_where_it_reads_by_default(bundled_kb, tmp_path):
    """The first question of a service does not wait for it."""
    copy = shutil.copytree(bundled_kb, tmp_path / "kb")
    with KnowledgeBase.open(copy) as knowledge_base:
        assert knowledge_base.is_read_by_default and knowledge_base._cross_encoder is None
        knowledge_base.warm_up()
        assert knowledge_base._cross_encoder is not None


def test_warming_up_an_empty_knowledge_base_does_nothing(kb_path, encoder):
    """There is nothing to ask; a search after it answers with nothing."""
    with KnowledgeBase.open(kb_path, encoder) as knowledge_base:
        knowledge_base.delete([document.doc_id for document in knowledge_base.reader.list_documents()])
        knowledge_base.warm_up()
        assert knowledge_base.search("Who?").hits == ()


def test_a_document_with_unknown_keys_is_refused(kb_path, encoder):
    """A misspelt key would otherwise be lost."""
    with KnowledgeBase.open(kb_path, encoder) as knowledge_base, pytest.raises(CorpusError, match="'title'"):
        knowledge_base.add([{"id": "a", "name": "A", "text": "b"}])


def test_deep_verification_passes_and_a_flipped_byte_is_detected_named_and_repaired(kb_path, encoder):
    """From the stored text the same vectors are made again."""
    assert verify_kb(kb_path, deep=True, encoder=encoder).ok
    question = "In which city was the game of basketball invented?"
    with KnowledgeBase.open(kb_path, encoder) as knowledge_base:
        before = knowledge_base.search(question, k=5)
    segment = next((kb_path / "segments").glob("*.seg"))
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)

    with pytest.raises(CorruptError, match=segment.name):
        KnowledgeBase.open(kb_path, encoder)
    report = verify_kb(kb_path)
    assert not report.ok and any(segment.name in str(finding) for finding in report.findings)

    repair_kb(kb_path, encoder=encoder)

    assert verify_kb(kb_path, deep=True, encoder=encoder).ok
    with KnowledgeBase.open(kb_path, encoder) as knowledge_base:
        after = knowledge_base.search(question, k=5)
    assert [replace(hit) for hit in after.hits] == [replace(hit) for hit in before.hits]
