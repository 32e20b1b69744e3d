"""BM25 and a reader: which passages are read, which answer wins, what is written and scored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adapters.kilt.pipeline import BM25, PipelineOptions, run_pipeline
from adapters.kilt.records import read_guess
from adapters.kilt.scoring import score_files
from kbengine.encoders.encoder import Encoder, PassageText
from kbengine.errors import InvalidOptionError
from kbengine.inputs import Question, Slot
from kbengine.knowledge_base import KnowledgeBase
from kbengine.reading.reader import Reader, Reading
from kbengine.span import Span
from tests.adapters.fake_knowledge_base import PASSAGE, UNASKABLE, UNKNOWN, FakeKnowledgeBase
from tests.kbengine.small_kb import build_small_kb
from tests.tiny_encoder import write_tiny_encoder
from tests.tiny_reader import write_tiny_reader


class FakeReader:
    """Finds "1879" in the second passage it is given, surer than what it finds in the others; remembers its inputs."""

    def __init__(self) -> None:
        self.seen: list[tuple[object, PassageText]] = []

    def read(self, queries, passages, *, truncate=False):
        assert truncate
        self.seen += list(zip(queries, passages, strict=True))
        readings = []
        for i, passage in enumerate(passages):
            answer = "1879" if i % 3 == 1 else "the Danube."
            start = passage.text.index(answer)
            readings.append(Reading(Span(start, start + len(answer)), 5.0, -2.0 if i % 3 == 1 else 1.0 + i % 3, 0.5))
        return readings


def gold_file(path: Path, *inputs: str, answer: str = "1879", page: str = "6") -> Path:
    """Write a KILT file of these questions, all with one answer on one page."""
    records = [
        {"id": f"q{i}", "input": text, "output": [{"answer": answer, "provenance": [{"wikipedia_id": page}]}]}
        for i, text in enumerate(inputs)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def run(tmp_path: Path, gold: Path, *, options: PipelineOptions | None = None, reader: FakeReader | None = None):
    """Run the pipeline over the fakes; returns the report and the fakes."""
    knowledge_base, reader = FakeKnowledgeBase(), reader or FakeReader()
    report = run_pipeline(knowledge_base, reader, gold, tmp_path / "guess.jsonl", options=options)  # type: ignore[arg-type]
    return report, knowledge_base, reader


def test_the_surest_answer_wins_and_its_page_comes_first(tmp_path: Path) -> None:
    """Three passages read, all found pages named; the score is the official one."""
    gold = gold_file(tmp_path / "squad.dev.jsonl", "When was he born?")
    report, knowledge_base, reader = run(tmp_path, gold, options=PipelineOptions(top_k=3, passages=4))
    asked = ("unit", "weights", "k", "truncate")
    assert [knowledge_base.options[name] for name in asked] == ["passage", BM25, 4, True]
    assert reader.seen == [
        (Question("When was he born?"), PassageText(title, PASSAGE)) for title in ("Ulm", "Page 2", "Page 3")
    ]
    prediction = next(iter(read_guess(report.submission)))
    assert prediction.outputs[0].answer == "1879"
    assert [entry.fields["wikipedia_id"] for entry in prediction.outputs[0].provenance] == ["6", "5", "7", "8"]
    assert report.scores is not None and report.scores.official() == score_files(gold, report.submission).official()
    facts = report.facts()
    assert (facts["em"], facts["Rprec"], facts["KILT-em"], facts["passages_read"]) == (100, 100, 100, 3)


def test_every_record_gets_a_line(tmp_path: Path) -> None:
    """Also those that find nothing and those that cannot be asked."""
    gold = gold_file(tmp_path / "squad.dev.jsonl", "When?", UNKNOWN, UNASKABLE, "Who?")
    report, _, _ = run(tmp_path, gold)
    answers = {record.id: record.outputs[0].answer for record in read_guess(report.submission)}
    assert answers == {"q0": "1879", "q1": "", "q2": "", "q3": "1879"}
    assert (report.answered, report.abstained, report.refused) == (2, 2, 0)


def test_slots_are_read_as_slots_and_bad_ones_are_refused(tmp_path: Path) -> None:
    """The reader gets the query of the task; a record without its separator is left blank and counted."""
    gold = gold_file(tmp_path / "docred.dev.jsonl", "Albert Einstein [SEP] date of birth", "no separator")
    report, _, reader = run(tmp_path, gold, options=PipelineOptions(top_k=1, passages=1))
    assert [query for query, _ in reader.seen] == [Slot("Albert Einstein", "date of birth")]
    assert (report.answered, report.refused) == (1, 1)


def test_an_unsure_answer_may_be_left_blank(tmp_path: Path) -> None:
    """Its pages stay."""
    gold = gold_file(tmp_path / "squad.dev.jsonl", "When?")
    report, _, _ = run(tmp_path, gold, options=PipelineOptions(top_k=3, min_margin=8.0))
    prediction = next(iter(read_guess(report.submission)))
    assert prediction.outputs[0].answer == ""
    assert len(prediction.outputs[0].provenance) == 20
    assert (report.answered, report.abstained) == (0, 1)


def test_a_limit_takes_the_first_records(tmp_path: Path) -> None:
    """The scores are over these alone."""
    gold = gold_file(tmp_path / "squad.dev.jsonl", "When?", "Who?", "Where?")
    report, _, _ = run(tmp_path, gold, options=PipelineOptions(limit=2))
    assert report.scores is not None and report.scores.n_records == 2


def test_what_cannot_be_measured_is_refused(tmp_path: Path) -> None:
    """Tasks whose answers are no phrases; depths that contradict each other."""
    with pytest.raises(InvalidOptionError, match="entity-linking"):
        run(tmp_path, gold_file(tmp_path / "el_human.dev.jsonl", "[START_ENT] Ulm [END_ENT]"))
    for options in ({"top_k": 0}, {"top_k": 9, "passages": 5}, {"limit": 0}):
        with pytest.raises(InvalidOptionError):
            PipelineOptions(**options)


def test_a_real_knowledge_base_and_reader_give_a_scored_submission(tmp_path: Path) -> None:
    """End to end with tiny models: BM25 finds the page that shares the words."""
    encoder = Encoder.load(write_tiny_encoder(tmp_path / "encoder"), device="cpu", dtype="float32")
    build_small_kb(tmp_path / "kb", encoder)
    reader = Reader.load(write_tiny_reader(tmp_path / "reader"), device="cpu", dtype="float32")
    gold = gold_file(tmp_path / "squad.dev.jsonl", "When does water boil?", answer="one hundred degrees", page="9")
    (tmp_path / "out").mkdir()
    with KnowledgeBase.open(tmp_path / "kb", encoder) as knowledge_base:
        report = run_pipeline(knowledge_base, reader, gold, tmp_path / "out", options=PipelineOptions(top_k=1))
    assert report.submission == tmp_path / "out" / "squad.dev.jsonl"
    facts = report.facts()
    assert (facts["records"], facts["passages_read"], facts["Rprec"]) == (1, 1, 100)
