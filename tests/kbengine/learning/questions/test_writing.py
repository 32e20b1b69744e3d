"""Question files: KILT rows with exact places, whole or not at all, taken up where they were interrupted."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from kbengine.build.builder import CorpusOptions
from kbengine.corpus.document import CorpusDocument, CorpusPassage
from kbengine.errors import CorpusError, CorruptError, InvalidOptionError
from kbengine.inputs import Dialogue, Mention, Question, Slot
from kbengine.learning.questions import writing
from kbengine.learning.questions.cloze import ClozeOptions, ClozeSource
from kbengine.learning.questions.generated import GeneratedQuestion
from kbengine.learning.questions.generation import QuestionsOptions, generate_questions
from kbengine.learning.questions.rows import kilt_row
from kbengine.span import Span
from kbengine.text_form import text_of
from tests.kbengine.learning.questions.pages import EMPTY, HARROW, SELLA, write_pages
from tests.tiny_reader import write_tiny_reader
from tests.tiny_t5 import write_tiny_t5


def rows_of(path: Path) -> list[dict]:
    """Return the rows of a file."""
    data = path.read_bytes()
    return [json.loads(line) for line in (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()]


class InterruptedRunError(Exception):
    """What the test throws where a person would press Ctrl-C."""


class Interrupting(ClozeSource):
    """The cloze generator, interrupted at the n-th chunk."""

    def __init__(self, n_chunks: int) -> None:
        super().__init__(ClozeOptions())
        self.n_left = n_chunks

    def questions(self, documents: Sequence[CorpusDocument]) -> list[list[GeneratedQuestion]]:
        """Return the questions, or stop."""
        if self.n_left == 0:
            raise InterruptedRunError
        self.n_left -= 1
        return super().questions(documents)


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """A knowledge source of five pages."""
    copies = [CorpusDocument(f"harrow-{i}", HARROW.title, passages=HARROW.passages) for i in range(2)]
    return write_pages(tmp_path / "pages.jsonl", HARROW, EMPTY, SELLA, *copies)


def test_rows_name_the_characters_of_the_paragraph(pages: Path, tmp_path: Path) -> None:
    """`text[paragraph][start:end]` is the answer, or for a mention the page's name; ids are unique."""
    written = generate_questions(CorpusOptions((pages,)), tmp_path / "cloze.jsonl", QuestionsOptions())
    texts = {page["wikipedia_id"]: page["text"] for page in map(json.loads, pages.read_text("utf-8").splitlines())}
    rows = rows_of(tmp_path / "cloze.jsonl")

    assert len(rows) == written.report.kept > 10 and len({row["id"] for row in rows}) == len(rows)
    for row in rows:
        (output,) = row["output"]
        (place,) = output["provenance"]
        assert place["start_paragraph_id"] == place["end_paragraph_id"]
        paragraph = texts[place["wikipedia_id"]][place["start_paragraph_id"]]
        found = paragraph[place["start_character"] : place["end_character"]]
        assert found == output["answer"] and row["input"].strip()
        assert row["meta"]["dataset"] == "cloze"
        assert ("[SEP]" in row["input"]) == (row["meta"]["kind"] in ("slot", "relation"))
        assert ("[START_ENT]" in row["input"]) == (row["meta"]["kind"] == "mention")
    assert {place.get("section") for row in rows for place in row["output"][0]["provenance"]} >= {"Keepers"}


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (Question("who built it?"), "who built it?"),
        (Slot("Port Sella", "river"), "Port Sella [SEP] river"),
        (Mention.from_parts("seen from ", "Sella", " by night"), "seen from [START_ENT] Sella [END_ENT] by night"),
        (Mention.from_parts("", "Sella", " by night"), "[START_ENT] Sella [END_ENT] by night"),
        (Dialogue(("hello", "and?")), "hello\nand?"),
    ],
)
def test_queries_become_kilt_inputs(query, text: str) -> None:
    """As the tasks read them."""
    assert text_of(query) == text


def test_offsets_count_in_the_paragraph_when_the_passage_is_a_part_of_it() -> None:
    """A very long paragraph is stored in parts; its row speaks of the whole."""
    passage = CorpusPassage(2, "built by Emil Sand", None, 100_000)
    document = CorpusDocument("long", "Long", passages=(passage,))
    question = GeneratedQuestion("q", Question("who"), document, passage, Span(9, 18), "question", "name", "cloze")

    row = json.loads(json.dumps(kilt_row(question)))

    place = row["output"][0]["provenance"][0]
    assert (place["start_character"], place["end_character"]) == (100_009, 100_018)
    assert "section" not in place


def test_the_same_call_writes_the_same_bytes(pages: Path, tmp_path: Path) -> None:
    """Compressed too; nothing else is left in the folder."""
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        generate_questions(CorpusOptions((pages,)), tmp_path / "out" / name, QuestionsOptions())

    assert (tmp_path / "out" / "a.jsonl.gz").read_bytes() == (tmp_path / "out" / "b.jsonl.gz").read_bytes()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.jsonl.gz", "b.jsonl.gz"]


def test_an_interrupted_run_goes_on_where_it_stopped(pages: Path, tmp_path: Path, monkeypatch) -> None:
    """The rows and the counts are those of a run that was not interrupted; there is no file before the end."""
    monkeypatch.setattr(writing, "CHUNK_DOCUMENTS", 1)
    corpus, out = CorpusOptions((pages,)), tmp_path / "cloze.jsonl"
    whole = generate_questions(corpus, tmp_path / "whole.jsonl", QuestionsOptions())
    answers = QuestionsOptions().answers
    for n_chunks in (1, 2):
        with pytest.raises(InterruptedRunError):
            writing.write_questions(corpus, out, Interrupting(n_chunks), answers, request={"a": 1})
        assert not out.exists()

    resumed = writing.write_questions(corpus, out, Interrupting(99), answers, request={"a": 1})

    assert resumed.resumed and not whole.resumed
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert resumed.report == whole.report and resumed.facts()["documents"] == 5
    assert not list(tmp_path.glob("*.partial*"))


def test_an_unfinished_run_is_not_mixed_with_another(pages: Path, tmp_path: Path, monkeypatch) -> None:
    """Other options, a damaged state or lost rows stop with the way out."""
    monkeypatch.setattr(writing, "CHUNK_DOCUMENTS", 1)
    corpus, out = CorpusOptions((pages,)), tmp_path / "cloze.jsonl"
    answers = QuestionsOptions().answers
    with pytest.raises(InterruptedRunError):
        writing.write_questions(corpus, out, Interrupting(2), answers, request={"seed": 1})

    with pytest.raises(InvalidOptionError, match="seed = 1, now it is 2"):
        writing.write_questions(corpus, out, Interrupting(9), answers, request={"seed": 2})
    (tmp_path / "cloze.jsonl.partial").write_bytes(b"")
    with pytest.raises(Exception, match="shorter than"):
        writing.write_questions(corpus, out, Interrupting(9), answers, request={"seed": 1})
    (tmp_path / "cloze.jsonl.partial.json").write_text("{")
    with pytest.raises(CorruptError, match="begin anew"):
        writing.write_questions(corpus, out, Interrupting(9), answers, request={"seed": 1})


def test_a_file_that_is_there_is_kept_unless_overwriting_is_asked_for(pages: Path, tmp_path: Path) -> None:
    """And a corpus that cannot be read leaves it as it was."""
    out = tmp_path / "cloze.jsonl"
    out.write_text("mine")

    with pytest.raises(InvalidOptionError, match="--overwrite"):
        generate_questions(CorpusOptions((pages,)), out, QuestionsOptions())
    with pytest.raises(CorpusError):
        generate_questions(CorpusOptions((tmp_path / "none",)), out, QuestionsOptions(), overwrite=True)
    assert out.read_text() == "mine"
    generate_questions(CorpusOptions((pages,)), out, QuestionsOptions(), overwrite=True)
    assert rows_of(out)


def test_a_model_and_a_reader_make_a_filtered_file(pages: Path, tmp_path: Path) -> None:
    """What the reader refuses is counted and not written."""
    from kbengine.learning.questions.generate import GenerateOptions
    from kbengine.learning.questions.round_trip import RoundTripOptions

    model = GenerateOptions(max_question_tokens=5, beams=1)
    of_model = {"generator": str(write_tiny_t5(tmp_path / "t5")), "device": "cpu", "model": model}
    reader = write_tiny_reader(tmp_path / "reader")
    every = generate_questions(CorpusOptions((pages,)), tmp_path / "all.jsonl", QuestionsOptions(**of_model))
    none = RoundTripOptions(min_probability=1.0)
    strict = QuestionsOptions(**of_model, reader=reader, round_trip=none)
    refused = generate_questions(CorpusOptions((pages,)), tmp_path / "none.jsonl", strict)

    assert len(rows_of(tmp_path / "all.jsonl")) == every.report.questions > 0
    assert rows_of(tmp_path / "none.jsonl") == []
    assert refused.report.refused == refused.report.questions == every.report.questions
