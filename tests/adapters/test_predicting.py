"""Predicting KILT files: batches, resuming, and every kind of bad record."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from adapters.errors import RecordError, SubmissionError
from adapters.kilt.lint import lint
from adapters.kilt.predicting import PredictOptions, predict_file, task_of_file
from adapters.kilt.scoring import score_files
from adapters.tasks.defaults import MAX_INPUT_CHARS
from kbengine.errors import InvalidOptionError
from kbengine.search.query import Weights
from tests.adapters.calibrations import calibration, settings_with
from tests.adapters.fake_knowledge_base import UNASKABLE, UNKNOWN, FakeKnowledgeBase, predictions, write_lines

GOOD = {"id": "good", "input": "Who was born in Ulm?"}


def questions(n: int) -> list[dict[str, object]]:
    """As many good records."""
    return [{"id": f"q{i}", "input": f"Who was born in Ulm in {i}?"} for i in range(n)]


def predict(lines, tmp_path, *, kb=None, task="question", name="nq-dev-kilt.jsonl", **options):
    """Report, submission and the errors told, of predicting the lines."""
    inputs = write_lines(tmp_path / name, lines)
    told: list[RecordError] = []
    out = tmp_path / "out"
    out.mkdir(exist_ok=True)
    report = predict_file(
        kb or FakeKnowledgeBase(), inputs, out, task=task, options=PredictOptions(**options), notice=told.append
    )
    return report, out / name, told


def test_a_submission_has_one_record_each_under_its_conventional_name(tmp_path) -> None:
    """Ids are echoed, ten distinct pages come best first, and lint finds nothing."""
    report, path, _ = predict([*questions(3), {"id": 7, "input": "a number as id"}], tmp_path)
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["q0", "q1", "q2", 7]
    assert predictions(path)["q1"] == ("Albert Einstein", [str(page) for page in range(5, 15)])
    assert (report.answered, report.abstained, report.refused, report.skipped_done) == (4, 0, 0, 0)
    assert report.path == path
    assert report.generations == {7}
    assert lint(path, tmp_path / "nq-dev-kilt.jsonl").findings == ()


def test_gzipped_inputs_give_a_plain_submission(tmp_path) -> None:
    """The name loses its .gz."""
    inputs = tmp_path / "trex-dev-kilt.jsonl.gz"
    inputs.write_bytes(gzip.compress(b'{"id": 1, "input": "Ulm [SEP] country"}\n'))
    (tmp_path / "out").mkdir()
    report = predict_file(FakeKnowledgeBase(), inputs, tmp_path / "out")
    assert (report.path.name, report.task, report.answered) == ("trex-dev-kilt.jsonl", "slot-filling", 1)


def test_records_are_searched_in_batches_for_documents(tmp_path) -> None:
    """Whole batches and the rest; long queries are cut rather than refused."""
    kb = FakeKnowledgeBase()
    report, _, _ = predict(
        [*questions(5), {"id": "long", "input": "word " * 99}], tmp_path, kb=kb, batch_size=4, pages=6
    )
    assert kb.batches == [4, 2]
    assert {query.unit for query in kb.queries} == {"document"}
    assert (kb.options["k"], kb.options["truncate"]) == (6, True)
    assert report.truncated == 1


def test_the_size_of_batches_does_not_change_the_submission(tmp_path) -> None:
    """One at a time or all at once, with bad records between."""
    lines = [*questions(3), {"id": "bad", "input": " "}, {"id": "odd", "input": UNASKABLE}, *questions(6)[3:]]
    texts = []
    for size in (1, 2, 3, 100):
        _, path, _ = predict(lines, tmp_path, batch_size=size, overwrite=True)
        texts.append(path.read_text())
    assert len(set(texts)) == 1
    assert list(predictions(path)) == ["q0", "q1", "q2", "bad", "odd", "q3", "q4", "q5"]


def test_nothing_found_is_an_abstention(tmp_path) -> None:
    """A blank answer without pages, counted."""
    report, path, told = predict([GOOD, {"id": "u", "input": UNKNOWN}], tmp_path)
    assert predictions(path)["u"] == ("", [])
    assert (report.answered, report.abstained, report.refused, told) == (1, 1, 0, [])


def test_answers_below_a_threshold_are_left_blank_and_counted(tmp_path) -> None:
    """Only when a threshold is given, whatever is stored; the pages stay."""
    kb = FakeKnowledgeBase()
    kb.settings = settings_with(calibration("question", best=0.6, threshold=0.9))
    lines = [GOOD, {"id": "u", "input": UNKNOWN}]
    pages = [str(page) for page in range(5, 15)]
    for threshold, answer in ((None, "Albert Einstein"), (0.0, "Albert Einstein"), (0.5, "Albert Einstein"), (0.7, "")):
        report, path, _ = predict(lines, tmp_path, kb=kb, threshold=threshold, overwrite=True)
        assert predictions(path) == {"good": (answer, pages), "u": ("", [])}
        below = int(not answer)
        assert (report.answered, report.abstained, report.below_threshold) == (1 - below, 1 + below, below)
        assert report.facts()["below_threshold"] == below


def test_a_threshold_without_probabilities_is_refused_before_anything_is_made(tmp_path) -> None:
    """The remedy is named."""
    with pytest.raises(InvalidOptionError, match="kbengine calibrate"):
        predict([GOOD], tmp_path, threshold=0.5)
    assert list((tmp_path / "out").iterdir()) == []


def test_fitted_weights_are_used_for_submissions(tmp_path) -> None:
    """As for every other way of asking."""
    kb = FakeKnowledgeBase()
    kb.settings = settings_with(calibration("question", weights=Weights(1, 7, 3), weights_fitted=True))
    predict([GOOD], tmp_path, kb=kb)
    assert [query.weights for query in kb.queries] == [Weights(1, 7, 3)]


BAD_INPUTS = [
    ("question", {"id": "bad"}, "no_input"),
    ("question", {"id": "bad", "input": "  "}, "blank_input"),
    ("question", {"id": "bad", "input": 5}, "input_not_text"),
    ("question", {"id": "bad", "input": "x" * (1 << 20)}, "input_too_long"),
    ("question", {"id": "bad", "input": UNASKABLE}, "empty_query"),
    ("slot-filling", {"id": "bad", "input": "Ulm country"}, "bad_task_input"),
    ("slot-filling", {"id": "bad", "input": "Ulm [SEP] P99999"}, "unknown_relation"),
    ("slot-filling", {"id": "bad", "input": "Ulm [SEP] "}, "bad_task_input"),
    ("slot-filling", {"id": "bad", "input": "Ulm [SEP] country [SEP] river"}, "bad_task_input"),
    ("entity-linking", {"id": "bad", "input": "no mark"}, "bad_task_input"),
    ("entity-linking", {"id": "bad", "input": "[START_ENT] a [END_ENT] [START_ENT] b [END_ENT]"}, "bad_task_input"),
    ("entity-linking", {"id": "bad", "input": "in [START_ENT] Ulm"}, "bad_task_input"),
    ("entity-linking", {"id": "bad", "input": "in [END_ENT] Ulm [START_ENT]"}, "bad_task_input"),
    ("entity-linking", {"id": "bad", "input": "in [START_ENT]  [END_ENT] Ulm"}, "bad_task_input"),
]
GOOD_INPUTS = {
    "question": "Who?",
    "slot-filling": "Ulm [SEP] country",
    "entity-linking": "in [START_ENT] Ulm [END_ENT]",
}


@pytest.mark.parametrize(("task", "record", "problem"), BAD_INPUTS)
def test_a_bad_record_with_an_id_is_named_and_left_blank(tmp_path, task, record, problem) -> None:
    """File, line and id are in the message; the others are answered; the submission is accepted."""
    good = {"id": "good", "input": GOOD_INPUTS[task]}
    report, path, told = predict([good, record, {**good, "id": "last"}], tmp_path, task=task)
    assert predictions(path)["bad"] == ("", [])
    assert list(predictions(path)) == ["good", "bad", "last"]
    assert (report.answered, report.refused, report.blank) == (2, 1, 1)
    (error,) = told
    assert error.problem == problem
    assert str(error).startswith(f"{tmp_path / 'nq-dev-kilt.jsonl'}:2: ")
    assert "'bad'" in str(error)
    assert "; " in str(error)
    assert len(str(error)) < 1000
    assert lint(path, tmp_path / "nq-dev-kilt.jsonl").accepted


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"input": "Who?"}, "no_id"),
        ({"id": " ", "input": "Who?"}, "bad_id"),
        ({"id": True, "input": "Who?"}, "bad_id"),
        ({"id": None, "input": "Who?"}, "bad_id"),
        ({"id": "good", "input": "twice"}, "duplicate_id"),
        ('{"id": "x", "input": "cut o', "broken_json"),
        ("[]", "not_an_object"),
        ("", "blank_line"),
        (b'{"id": "x", "input": "caf\xe9"}', "wrong_encoding"),
    ],
)
def test_a_line_without_an_id_of_its_own_is_named_and_left_out(tmp_path, line, problem) -> None:
    """What cannot be written under an id is not written at all."""
    report, path, told = predict([GOOD, line], tmp_path)
    assert [error.problem for error in told] == [problem]
    assert (told[0].line, report.refused, report.blank) == (2, 1, 0)
    assert list(predictions(path)) == ["good"]


def test_an_id_whose_first_record_was_refused_is_not_used_again(tmp_path) -> None:
    """One record per id, whichever of the two was bad."""
    _, path, told = predict([{"id": "a", "input": ""}, {"id": "a", "input": "Who?"}, GOOD, {"id": "good"}], tmp_path)
    assert [(error.line, error.problem) for error in told] == [(1, "blank_input"), (2, "duplicate_id"), (4, "no_input")]
    assert [answer for answer, _ in predictions(path).values()] == ["", "Albert Einstein"]


def test_files_in_another_encoding_are_named_line_by_line(tmp_path) -> None:
    """UTF-16 has no readable record at all, so there is nothing to submit."""
    inputs = tmp_path / "nq-dev-kilt.jsonl"
    inputs.write_bytes('{"id": 1, "input": "Who?"}\n'.encode("utf-16"))
    told: list[RecordError] = []
    with pytest.raises(SubmissionError, match="no record with an id"):
        predict_file(FakeKnowledgeBase(), inputs, tmp_path / "out.jsonl", notice=told.append)
    assert told[0].problem == "wrong_encoding"
    assert "iconv" in str(told[0])
    assert not (tmp_path / "out.jsonl").exists()


def test_a_long_dialogue_is_answered_and_named(tmp_path) -> None:
    """300 turns: the newest are read, the user is told."""
    turns = "\n".join(f"turn number {i}" for i in range(300))
    report, path, told = predict([{"id": "d", "input": turns}], tmp_path, task="dialogue")
    assert predictions(path)["d"][0] == 'Albert Einstein was born there ("in 1879").'
    assert (report.answered, report.refused) == (1, 0)
    assert [(error.problem, error.line) for error in told] == [("too_many_turns", 1)]
    assert "300 turns" in str(told[0])


@pytest.mark.parametrize("bad", [{"id": "b", "input": ""}, {"id": "b", "input": UNASKABLE}, "{", {"input": "x"}])
def test_strict_stops_at_the_first_bad_record(tmp_path, bad) -> None:
    """The error names the line; there is no file under the target's name."""
    with pytest.raises(RecordError, match=":2: "):
        predict([GOOD, bad, *questions(2)], tmp_path, strict=True)
    assert not (tmp_path / "out" / "nq-dev-kilt.jsonl").exists()


def test_a_damaged_file_is_never_a_complete_submission(tmp_path) -> None:
    """A gzip that was cut off ends with an error, although its first records are good."""
    whole = gzip.compress("".join(json.dumps(record) + "\n" for record in questions(500)).encode())
    inputs = tmp_path / "nq-dev-kilt.jsonl.gz"
    inputs.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RecordError, match="gzip"):
        predict_file(FakeKnowledgeBase(), inputs, tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_an_interrupted_run_is_resumed_without_asking_again(tmp_path) -> None:
    """The file is the one that an undisturbed run writes; done records, blank ones too, are skipped."""
    lines = [{"id": "bad", "input": ""}, *questions(9)]
    _, path, _ = predict(lines, tmp_path, batch_size=2)
    undisturbed = path.read_text()
    path.unlink()

    kb = FakeKnowledgeBase()
    kb.fail_at_batch = 3
    with pytest.raises(KeyboardInterrupt):
        predict(lines, tmp_path, kb=kb, batch_size=2)
    assert not path.exists()

    kb.fail_at_batch = None
    report, _, told = predict(lines, tmp_path, kb=kb, batch_size=2, resume=True)
    assert path.read_text() == undisturbed
    assert kb.batches == [2, 2, 2, 2, 1]
    assert (report.skipped_done, report.answered, report.refused, told) == (7, 3, 0, [])


@pytest.mark.parametrize(("generation", "pages"), [(8, 10), (7, 11)])
def test_an_unfinished_file_of_other_settings_is_not_resumed(tmp_path, generation, pages) -> None:
    """Half a file from one knowledge base and half from another would be nobody's result."""
    kb = FakeKnowledgeBase()
    kb.fail_at_batch = 1
    with pytest.raises(KeyboardInterrupt):
        predict(questions(4), tmp_path, kb=kb, batch_size=2)
    changed = FakeKnowledgeBase(generation=generation)
    with pytest.raises(SubmissionError, match="was begun with"):
        predict(questions(4), tmp_path, kb=changed, batch_size=2, pages=pages, resume=True)


def test_a_finished_file_is_only_replaced_when_asked(tmp_path) -> None:
    """The second run is refused, with --overwrite it is not."""
    predict(questions(2), tmp_path)
    with pytest.raises(SubmissionError, match="overwrite"):
        predict(questions(2), tmp_path)
    report, _, _ = predict(questions(2), tmp_path, overwrite=True)
    assert report.answered == 2


def test_the_inputs_are_never_overwritten(tmp_path) -> None:
    """A submission has the inputs' name: their own directory is the wrong --out."""
    inputs = write_lines(tmp_path / "nq-dev-kilt.jsonl", [GOOD])
    with pytest.raises(InvalidOptionError, match="input file itself"):
        predict_file(FakeKnowledgeBase(), inputs, tmp_path, options=PredictOptions(overwrite=True))
    assert json.loads(inputs.read_text()) == GOOD


@pytest.mark.parametrize("out", ["no-such-directory", "answers.jsonl.gz"])
def test_names_that_cannot_be_a_submission_are_refused(tmp_path, out) -> None:
    """A directory that is missing is not taken for a file; compressed files are not accepted by the leaderboard."""
    inputs = write_lines(tmp_path / "nq-dev-kilt.jsonl", [GOOD])
    with pytest.raises(InvalidOptionError, match="jsonl"):
        predict_file(FakeKnowledgeBase(), inputs, tmp_path / out)
    assert [path.name for path in tmp_path.iterdir()] == ["nq-dev-kilt.jsonl"]


def test_a_missing_input_file_leaves_nothing_behind(tmp_path) -> None:
    """The error names the path; no unfinished file is made."""
    with pytest.raises(RecordError, match="nq-dev-kilt"):
        predict_file(FakeKnowledgeBase(), tmp_path / "nq-dev-kilt.jsonl", tmp_path / "out.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_progress_is_told_the_number_of_records(tmp_path) -> None:
    """The bar knows where the end is, bad records included."""

    class Counted:
        total, done = 0.0, 0.0

        def begin(self, what, total, unit):
            self.total = total

        def advance(self, amount, note=""):
            self.done += amount

    inputs = write_lines(tmp_path / "nq-dev-kilt.jsonl", [*questions(5), {"input": "x"}])
    counted = Counted()
    predict_file(FakeKnowledgeBase(), inputs, tmp_path / "out.jsonl", progress=counted)
    assert counted.total == counted.done == 6


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("trex-test_without_answers-kilt.jsonl", "slot-filling"),
        ("structured_zeroshot-dev-kilt.jsonl", "slot-filling"),
        ("docred.dev.jsonl.gz", "slot-filling"),
        ("fewrel.train.jsonl", "slot-filling"),
        ("aidayago2-dev-kilt.jsonl", "entity-linking"),
        ("cweb-dev-kilt.jsonl", "entity-linking"),
        ("el_wikilinks_easy.dev.jsonl.gz", "entity-linking"),
        ("wow-dev-kilt.jsonl", "dialogue"),
        ("inscit.dev.jsonl.gz", "dialogue"),
        ("hotpotqa-dev-kilt.jsonl", "question"),
        ("fever-dev-kilt.jsonl", "question"),
        ("selqa.dev.jsonl.gz", "question"),
    ],
)
def test_known_data_sets_tell_their_task(name, task) -> None:
    """By the conventional name of the file."""
    assert task_of_file(f"some/folder/{name}") == task


@pytest.mark.parametrize("name", ["my-questions.jsonl", "-"])
def test_other_names_need_the_task(name) -> None:
    """The error names the choices."""
    with pytest.raises(InvalidOptionError, match=r"--task.*slot-filling"):
        task_of_file(name)


@pytest.mark.parametrize(
    "options",
    [
        {"pages": 4},
        {"pages": 1001},
        {"batch_size": 0},
        {"effort": "much"},
        {"threshold": 1.2},
        {"steps": 3},
        {"answer": "song"},
    ],
)
def test_options_out_of_range_are_refused(options) -> None:
    """The message has the value seen."""
    with pytest.raises(InvalidOptionError, match=str(next(iter(options.values())))):
        PredictOptions(**options)


def test_an_input_of_the_longest_length_is_taken(tmp_path) -> None:
    """The limit is the last length that is answered."""
    report, _, _ = predict([{"id": 1, "input": "x" * MAX_INPUT_CHARS}], tmp_path)
    assert report.answered == 1


def test_predicting_the_demo_corpus_scores_and_lints_clean(tmp_path) -> None:
    """From pages to scores with the real encoder, for every task of the bundled queries."""
    from kbengine.build.builder import CorpusOptions, build
    from kbengine.build.filtering import DEFAULT_FILTER
    from kbengine.encoders.encoder import Encoder
    from kbengine.knowledge_base import KnowledgeBase
    from kbengine.terminal.demonstration import demo_queries

    demo = Path(__file__).parents[2] / "kbengine" / "demo" / "corpus.jsonl"
    pages = demo.read_text(encoding="utf-8").split("\n")[:12]
    ids = {json.loads(page)["wikipedia_id"] for page in pages}
    encoder = Encoder.load("minilm-phrase")
    corpus = CorpusOptions((write_lines(tmp_path / "pages.jsonl", pages),))
    build(corpus, tmp_path / "kb", encoder=encoder, filter_options=DEFAULT_FILTER)
    with KnowledgeBase.open(tmp_path / "kb", encoder) as knowledge_base:
        for task in ("question", "slot-filling", "entity-linking", "dialogue"):
            gold = [
                query
                for query in demo_queries()
                if query["task"] == task and query["output"][0]["provenance"][0]["wikipedia_id"] in ids
            ]
            if not gold:
                continue
            inputs = write_lines(tmp_path / f"{task}.jsonl", gold)
            out = tmp_path / f"{task}-guess.jsonl"
            report = predict_file(knowledge_base, inputs, out, task=task)
            assert report.answered == len(gold)
            scores = score_files(inputs, out)
            assert scores.retrieval["Rprec"] > 0
            assert scores.retrieval["recall@5"] > 0.5
            assert scores.downstream["f1"] > 0
            findings = [finding.problem for finding in lint(out, inputs).findings]
            assert findings == ["file_name"]
