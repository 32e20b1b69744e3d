"""Tuning from rows to an encoder that answers: it learns what was planted, resumes exactly, leaves the index alone."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch

from kbengine.build.reindexing import ReindexOptions, reindex
from kbengine.corpus.normalise import norm
from kbengine.encoders.deltas import ParameterOptions
from kbengine.encoders.tuned_encoders import base_checkpoint
from kbengine.encoders.tuned_info import tuned_infos
from kbengine.errors import EncoderError, EncoderMismatchError, InvalidOptionError, TrainingDataError
from kbengine.knowledge_base import KnowledgeBase
from kbengine.learning.loop.processes import join_processes
from kbengine.learning.loop.task import Evaluation, Position
from kbengine.learning.tuning.candidates import CandidateSource
from kbengine.learning.tuning.options import TuningOptions
from kbengine.learning.tuning.query_side import QuerySide
from kbengine.learning.tuning.rows import TuningRow
from kbengine.learning.tuning.task import TuningTask
from kbengine.learning.tuning.tuning import TUNING_FILE, prepare, run_directory, tune
from kbengine.search.query import Query, SearchOptions, Weights
from tests.kbengine.learning.tuning.tuning_world import PLANTED, fast_options, open_world, planted_rows
from tests.tiny_encoder import SENTENCES

PHRASES = Weights(1, 0, 0)


def right_documents(searcher) -> Evaluation:
    """How many of the planted questions find their document first."""
    found = searcher.search([row.query for row in planted_rows()], SearchOptions(k=1, weights=PHRASES))
    right = sum(result.hits[0].document.doc_id == doc_id for result, (_, _, doc_id) in zip(found, PLANTED, strict=True))
    return Evaluation(float(right), {"right": float(right)})


@pytest.mark.parametrize(
    ("architecture", "parameters"), [("shared-query", "full"), ("shared-query", "lora"), ("three-tower", "lora")]
)
def test_a_tuned_encoder_finds_what_was_planted(tmp_path, architecture, parameters) -> None:
    """Less than half of the documents are found before, by chance, and all are after, by the same index."""
    with open_world(tmp_path, architecture=architecture) as knowledge_base:
        untuned = [hit.text for hit in knowledge_base.search(PLANTED[0][0], k=5).hits]
        options = fast_options(loss="doc", parameters=ParameterOptions(parameters))

        done = tune(knowledge_base, planted_rows(), "finder", options, score=right_documents)

        assert done.info is not None and done.report.best_score == len(PLANTED)
        assert done.report.first_score is not None and done.report.first_score < len(PLANTED) / 2
        for text, _, doc_id in PLANTED:
            result = knowledge_base.search(text, encoder="finder", weights=PHRASES, k=1)
            assert result.hits[0].document.doc_id == doc_id
            assert result.encoder == done.info.fingerprint
        assert done.facts()["last_epoch"] == {"planted": {"seen": 5, "without_right_candidate": 0}}
        plain = knowledge_base.search(PLANTED[0][0], k=5)
        assert [hit.text for hit in plain.hits] == untuned
        assert plain.encoder == knowledge_base.encoder.fingerprint
        assert json.loads((done.run / TUNING_FILE).read_text())["stored"] is True
        assert (done.run / "report.json").exists()


def test_heads_learn_and_weigh_little(tmp_path) -> None:
    """By phrases; the passage vectors of queries stay to the bit."""
    with open_world(tmp_path) as knowledge_base:
        options = fast_options(loss="doc", parameters=ParameterOptions("heads"), epochs=15)
        done = tune(knowledge_base, planted_rows(), "heads", options, score=right_documents)

        tuned = knowledge_base.encoder_for("heads")
        queries = [row.query.input for row in planted_rows()]
        before, after = (each.encode_queries(queries) for each in (knowledge_base.encoder, tuned))
        assert done.report.best_score is not None and done.report.best_score >= 2
        assert (before.passage == after.passage).all() and not (before.start == after.start).any()
        assert done.info is not None and done.info.n_bytes < 10_000


def test_l_phrase_teaches_the_answer(tmp_path) -> None:
    """Tuned on one row, its answer comes first; punctuation beside it does not count."""

    def answered(searcher) -> Evaluation:
        result = searcher.search([planted_rows()[0].query], SearchOptions(k=1, weights=PHRASES))[0]
        return Evaluation(float(norm(result.hits[0].text) == "tokyo"), {})

    with open_world(tmp_path) as knowledge_base:
        assert answered(knowledge_base.searcher()).score == 0

        done = tune(knowledge_base, planted_rows()[:1], "answers", fast_options(epochs=30), score=answered)

        assert done.report.best_score == 1
        hits = knowledge_base.search(PLANTED[0][0], encoder="answers", weights=PHRASES, k=1).hits
        assert norm(hits[0].text) == "tokyo"


def test_an_interrupted_tuning_resumes_to_the_same_encoder(tmp_path) -> None:
    """The same fingerprint as without interruption, with a retrieving copy that is older than the weights."""
    options = fast_options(loss="doc", refresh_steps=3, epochs=6, kl=0.1, l2=0.01)
    prints = []
    for stops in (False, True):
        with open_world(tmp_path / str(stops)) as knowledge_base:
            if stops:
                asked = iter([False] * 3 + [True])
                with pytest.raises(KeyboardInterrupt):
                    tune(knowledge_base, planted_rows(), "t", options, stop=lambda asked=asked: next(asked))
                assert tuned_infos(knowledge_base.path) == []
            done = tune(knowledge_base, planted_rows(), "t", options, resume=stops)
            assert done.info is not None
            prints.append(done.info.fingerprint)
            assert done.without_right["planted"]["seen"] == 5

    assert prints[0] == prints[1]


def test_the_total_is_the_weighted_sum_of_its_parts(tmp_path) -> None:
    """Closeness costs nothing at the start, and what its definition says after a step away."""
    with open_world(tmp_path) as knowledge_base:
        options = fast_options(loss="doc", passage=0.5, l2=2.0, kl=3.0)
        side = QuerySide(base_checkpoint(knowledge_base.encoder).model(), options.parameters)
        prepared = prepare(planted_rows(), knowledge_base.encoder, options)
        source = CandidateSource(knowledge_base.searcher(), top_k=50, retrieval="both", loss="doc")
        task = TuningTask(side, knowledge_base.encoder, prepared.rows, prepared.ids, source, options)
        batch = task.collate(range(5), epoch=0)

        start = task.losses(batch, Position(), join_processes("cpu"))
        with torch.no_grad():
            for parameter in side.parameters():
                parameter += 0.01
        moved = task.losses(batch, Position(step=1), join_processes("cpu"))

    assert start.parts["kl"].item() == pytest.approx(0, abs=1e-5) and start.parts["l2"].item() == 0
    assert moved.parts["kl"].item() > 0
    assert moved.parts["l2"].item() == pytest.approx(1e-4 * sum(p.numel() for p in side.parameters()), rel=1e-4)
    for terms in (start, moved):
        parts = {name: value.item() for name, value in terms.parts.items()}
        expected = parts["doc"] + 0.5 * parts["passage_vector"] + 2 * parts["l2"] + 3 * parts["kl"]
        assert terms.total.item() == pytest.approx(expected, rel=1e-5)
        assert parts["with_right_candidate"] == 1


def test_fused_scores_are_half_with_either_end(tmp_path) -> None:
    """The sum of the halves is what a search ranks by; the lexical part has no gradient, the vectors have."""
    with open_world(tmp_path) as knowledge_base:
        options = fast_options(loss="doc", passage=0.0, scores="fused")
        side = QuerySide(base_checkpoint(knowledge_base.encoder).model(), options.parameters)
        rows = planted_rows()[:1]
        prepared = prepare(rows, knowledge_base.encoder, options)
        source = CandidateSource(knowledge_base.searcher(), top_k=50, retrieval="fused", loss="doc")
        task = TuningTask(side, knowledge_base.encoder, prepared.rows, prepared.ids, source, options)

        def loss(scores):
            task.options = dataclasses.replace(options, scores=scores)
            return task.losses(task.collate([0], epoch=0), Position(), join_processes("cpu"))

        terms = loss("fused")
        mean = (loss("phrase").total.item() + terms.total.item()) / 2
        assert loss("both").total.item() == pytest.approx(mean, rel=1e-5)
        encoded = knowledge_base.encoder.encode_queries([rows[0].query.input])
        found = source.find(rows, encoded)
        weights = rows[0].query.weights
        phrases = found.start[0] @ encoded.start[0] + found.end[0] @ encoded.end[0]
        cosines = found.passage[0] @ encoded.passage[0]
        scores = weights.phrase * phrases + weights.passage * cosines[found.passage_of[0]] + found.lexical[0]
    right = found.is_right[0]
    expected = torch.logsumexp(torch.tensor(scores), 0) - torch.logsumexp(torch.tensor(scores[right]), 0)
    assert terms.total.item() == pytest.approx(expected.item(), rel=1e-3, abs=1e-5)
    terms.total.backward()
    assert any(parameter.grad.any() for parameter in side.parameters() if parameter.grad is not None)


@pytest.mark.parametrize(("kind", "drop_vectors"), [("exact", False), ("ivf-sq4", True), ("opq4", True)])
def test_tuning_learns_on_every_kind_of_index(tmp_path, kind, drop_vectors) -> None:
    """Also where quantised vectors are all there is: candidates are what the index decodes."""
    with open_world(tmp_path) as knowledge_base:
        encoder = knowledge_base.encoder
        # A product quantiser wants 256 vectors.
        knowledge_base.add([{"id": f"r{i}", "title": "", "text": text[::-1]} for i, text in enumerate(SENTENCES)])
    reindex(tmp_path / "kb", ReindexOptions(ann={"kind": kind}, drop_vectors=drop_vectors), out=tmp_path / "other")
    with KnowledgeBase.open(tmp_path / "other", encoder) as knowledge_base:
        source = CandidateSource(knowledge_base.searcher(), top_k=50, retrieval="dense", loss="doc")
        encoded = encoder.encode_queries([row.query.input for row in planted_rows()])
        found = source.find(planted_rows(), encoded)
        scores = (found.start[0] @ encoded.start[0] + found.end[0] @ encoded.end[0])[found.is_phrase[0]]
        # Of the candidates some are never shown, pieces of words for one: what is shown is among them.
        best = knowledge_base.search(PLANTED[0][0], k=1, weights=PHRASES).hits[0]
        assert np.isclose(scores, best.score, rtol=1e-4).any()
        assert best.score <= scores.max() * (1 + 1e-4)

        done = tune(knowledge_base, planted_rows(), "finder", fast_options(loss="doc"), score=right_documents)

        assert done.report.best_score is not None and done.report.best_score >= 3


def test_the_start_is_kept_when_nothing_beats_it(tmp_path) -> None:
    """Nothing is stored, and the facts say so."""
    with open_world(tmp_path) as knowledge_base:
        done = tune(
            knowledge_base, planted_rows(), "t", fast_options(epochs=1), score=lambda searcher: Evaluation(0.0, {})
        )

        assert done.info is None
        assert done.facts()["stored"] is False
        assert tuned_infos(knowledge_base.path) == []


def test_rows_that_cannot_teach_are_counted(tmp_path) -> None:
    """By file and reason; those without a right candidate by file."""
    rows = [
        *planted_rows(),
        TuningRow("no-answer", "other", "question", Query.question("where"), doc_ids=frozenset(("1",))),
        TuningRow("blank", "other", "question", Query.question("\u200b"), answers=frozenset(("x",))),
        TuningRow("nowhere", "third", "question", Query.question("where"), answers=frozenset(("not in the text",))),
    ]
    with open_world(tmp_path) as knowledge_base:
        done = tune(knowledge_base, rows, "t", fast_options(epochs=1))

    assert done.unusable == {"other": {"no answer text": 1, "empty_query": 1}}
    assert done.rows == {"planted": 5, "third": 1}
    assert done.without_right["third"] == {"seen": 1, "without_right_candidate": 1}


def test_rows_without_any_right_candidate_leave_nothing_behind(tmp_path) -> None:
    """Steps along rounding errors are not stored as an encoder, without a development score either."""
    rows = [TuningRow("a", "f", "question", Query.question("where"), answers=frozenset(("not in the text",)))]
    with open_world(tmp_path) as knowledge_base:
        done = tune(knowledge_base, rows, "t", fast_options(epochs=2))

        assert done.info is None and not done.taught
        assert tuned_infos(knowledge_base.path) == []


def test_what_cannot_be_begun_is_refused(tmp_path) -> None:
    """A name in use, a bad name, no usable row, an encoder of no directory, another run's directory."""
    from kbengine.encoders.encoder import Encoder
    from kbengine.errors import TrainingError
    from tests.tiny_encoder import tiny_config, tiny_model, tiny_tokenizer_json

    with open_world(tmp_path) as knowledge_base:
        tune(knowledge_base, planted_rows(), "t", fast_options(epochs=1))
        with pytest.raises(EncoderError, match="--overwrite"):
            tune(knowledge_base, planted_rows(), "t", fast_options(epochs=1))
        with pytest.raises(InvalidOptionError, match="name"):
            tune(knowledge_base, planted_rows(), "../t", fast_options(epochs=1))
        with pytest.raises(TrainingDataError, match="no gold passage"):
            tune(
                knowledge_base,
                [TuningRow("x", "f", "question", Query.question("y"))],
                "u",
                fast_options(loss="passage"),
            )
        with pytest.raises(TrainingError, match="holds a run"):
            tune(knowledge_base, planted_rows(), "t", fast_options(epochs=1), overwrite=True)
        assert run_directory(knowledge_base.path, "t").is_dir()
    unsaved = Encoder.from_model(tiny_model(tiny_config()), tiny_tokenizer_json(), device="cpu", dtype="float32")
    with (
        KnowledgeBase.open(tmp_path / "kb", unsaved) as knowledge_base,
        pytest.raises(EncoderMismatchError, match="no directory"),
    ):
        tune(knowledge_base, planted_rows(), "u", fast_options(epochs=1))


@pytest.mark.parametrize(
    "options",
    [
        {"loss": "all"},
        {"retrieval": "none"},
        {"mixing": "any"},
        {"top_k": 0},
        {"refresh_steps": 0},
        {"kl": -1.0},
        {"l2": float("nan")},
        {"passage_temperature": 0.0},
        {"dropout": 1.0},
        {"rows_per_epoch": 0},
    ],
)
def test_options_have_ranges(options) -> None:
    """Told with name and value."""
    with pytest.raises(InvalidOptionError, match=next(iter(options))):
        TuningOptions(**options)
