"""The reader is trained on what it should say: answers where they stand, no answer where there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from kbengine.encoders.tokenization import TextTokens, token_span
from kbengine.errors import InvalidOptionError, TrainingDataError
from kbengine.inputs import Mention
from kbengine.learning.loop.loop import train
from kbengine.learning.loop.options import LoopOptions, OptimizerOptions
from kbengine.learning.loop.processes import Processes
from kbengine.learning.loop.task import Position
from kbengine.learning.reading.evaluation import evaluate_reading
from kbengine.learning.reading.losses import (
    SpanScores,
    marginal_loss,
    relevance_loss,
    shared_span_loss,
    span_loss,
    span_scores,
)
from kbengine.learning.reading.training import ReaderBatch, ReaderTask, ReaderTrainingOptions
from kbengine.reading.model import build_cross_encoder
from kbengine.reading.reader import Reader
from kbengine.span import Span
from tests.tiny_encoder import SENTENCES, tiny_tokenizer_json
from tests.tiny_reader import tiny_reader_config
from tests.toy_reading import toy_examples

TOKENIZER = tiny_tokenizer_json()
NO_NEGATIVES = ReaderTrainingOptions(negative_fraction=0, untitled_fraction=0)
LEARN = LoopOptions(
    epochs=12, batch_size=16, device="cpu", dtype="float32", optimizer=OptimizerOptions(learning_rate=3e-3)
)


@pytest.fixture(autouse=True)
def one_thread():
    """Tiny matrices: more threads than one only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def new_task(examples, dev=(), *, options=None, max_tokens=96, dropout=0.0):
    """Return a task with an untrained tiny reader, always the same one."""
    torch.manual_seed(0)
    model = build_cross_encoder(tiny_reader_config(max_tokens=max_tokens), dropout=dropout)
    return ReaderTask(model, TOKENIZER, examples, dev, options=options)


def marked(batch: ReaderBatch, row: int) -> tuple[list[int], list[int]]:
    """Return where a row's answers begin and end."""
    return tuple(each[row].nonzero().flatten().tolist() for each in (batch.is_start, batch.is_end))  # type: ignore[return-value]


def test_a_toy_task_is_learned_and_kept(tmp_path: Path) -> None:
    """Loss falls, unseen questions are answered, those without answer left alone, and the files say the same."""
    examples, dev = (toy_examples(n, seed=n, with_unanswerable=True) for n in (300, 60))
    task = new_task(examples, dev, options=NO_NEGATIVES)
    report = train(task, LEARN, tmp_path / "run")
    assert report.first_loss is not None and report.last_loss is not None
    assert report.last_loss < report.first_loss / 3
    assert report.best_score is not None and report.best_score > 90
    reader = Reader.from_model(task.model, TOKENIZER, device="cpu", dtype="float32")
    reader.save(tmp_path / "reader", dtype="float32")
    unseen = toy_examples(60, seed=3, with_unanswerable=True)
    loaded = Reader.load(tmp_path / "reader", device="cpu", dtype="float32")
    scores = evaluate_reading(unseen, reader=loaded).scores["reader"]
    assert scores.em > 90 and scores.no_answer_em is not None and scores.no_answer_em > 90
    assert scores == evaluate_reading(unseen, reader=reader).scores["reader"]


def test_negatives_teach_which_passage_answers(tmp_path: Path) -> None:
    """After training with mined passages, the margin is positive on passages that answer and not on such ones."""
    mined = ("water boils at one hundred degrees", "light travels faster than sound in air , glass and water")
    examples = [replace(each, negatives=mined) for each in toy_examples(200, seed=1)]
    task = new_task(examples, options=ReaderTrainingOptions(negative_fraction=1, untitled_fraction=0))
    train(task, LEARN, tmp_path / "run")
    reader = Reader.from_model(task.model, TOKENIZER, device="cpu", dtype="float32")
    unseen = toy_examples(20, seed=2)
    queries = [each.query for each in unseen]
    good = reader.read(queries, [each.passage for each in unseen])
    bad = reader.read(queries, ["sound travels faster in water"] * len(unseen))
    assert sum(reading.margin > 0 for reading in good) > 15
    assert sum(reading.margin < 0 for reading in bad) > 15


def test_targets_are_the_tokens_of_every_answer() -> None:
    """The marked tokens are the answers' own; candidates are [CLS] and the passage, never query, title or padding."""
    passage = "Paris is the capital of France; Paris"
    at = [Span(0, 5), Span(32, 37)]
    example = replace(toy_examples(1, seed=0)[0], passage=passage, answers=tuple(at), title="France")
    task = new_task([example, toy_examples(2, seed=0)[1]], options=NO_NEGATIVES)
    batch = task.collate([0, 1], epoch=0)
    inputs = task._inputs(example, "France", passage)[0]
    offset = len(inputs.head)
    tokens = inputs.tokens
    starts, ends = marked(batch, 0)
    assert [
        passage[tokens.starts[i - offset] : tokens.ends[j - offset]] for i, j in zip(starts, ends, strict=True)
    ] == [
        "Paris",
        "Paris",
    ]
    n = len(tokens.ids)
    assert batch.is_candidate[0].nonzero().flatten().tolist() == [0, *range(offset, offset + n)]


def test_what_does_not_answer_has_cls_as_its_target() -> None:
    """Unanswerable questions, and the negatives of answerable ones."""
    unanswerable = toy_examples(1, seed=0, with_unanswerable=True)[0]
    mined = replace(toy_examples(2, seed=0)[1], negatives=("light and glass",))
    task = new_task([unanswerable, mined], options=ReaderTrainingOptions(negative_fraction=1, untitled_fraction=0))
    batch = next(b for b in (task.collate([0, 1], epoch=epoch) for epoch in range(20)) if len(b.input_ids) == 3)
    assert marked(batch, 0) == ([0], [0])
    assert marked(batch, 1) != ([0], [0])
    assert marked(batch, 2) == ([0], [0])


def test_a_mined_passage_and_the_right_one_look_alike() -> None:
    """Mined passages have no title: the right passage is then read without one too, or titles would tell."""
    mined = replace(toy_examples(2, seed=0)[1], negatives=("light and glass",), title="Rainforest")
    task = new_task([mined], options=ReaderTrainingOptions(negative_fraction=1, untitled_fraction=0))
    title = task._tokenizer.ids(["Rainforest"])[0]
    batches = [task.collate([0], epoch=epoch) for epoch in range(20)]
    assert {len(batch.input_ids) for batch in batches} == {1, 2}  # no other page: half of the draws find nothing
    for batch in batches:
        titled = [title[0] in row.tolist() for row in batch.input_ids]
        assert titled == ([True] if len(batch.input_ids) == 1 else [False, False])


def test_what_is_only_ranked_is_always_seen_beside_others() -> None:
    """A mention alone with its page teaches nothing; of mined pages as many as are asked for."""
    mined = tuple(f"Page {n}." for n in range(6))
    toy = replace(
        toy_examples(1, seed=0)[0], answers=(), negatives=mined, negative_titles=("A", "B", "C", "D", "E", "F")
    )
    mention = replace(toy, query=Mention.from_parts("In ", "Lincoln", "."))
    task = new_task([mention], options=ReaderTrainingOptions(negative_fraction=0, n_ranked_negatives=3))
    sizes = {len(task.collate([0], epoch=epoch).input_ids) for epoch in range(20)}
    assert sizes == {1, 4}  # no other page to draw from: some draws find nothing


def test_some_passages_are_read_without_their_title() -> None:
    """Always, never, or sometimes; a negative then comes without one too."""
    examples = [replace(each, title="Rainforest") for each in toy_examples(4, seed=0)]
    for fraction, expected in ((0.0, {True}), (1.0, {False}), (0.5, {True, False})):
        task = new_task(examples, options=ReaderTrainingOptions(negative_fraction=0, untitled_fraction=fraction))
        title = task._tokenizer.ids(["Rainforest"])[0][0]
        rows = [row for epoch in range(6) for row in task.collate([0, 1, 2, 3], epoch=epoch).input_ids.tolist()]
        assert {title in row for row in rows} == expected


def test_long_passages_are_seen_where_the_answer_is_and_where_it_is_not() -> None:
    """The window with the answer has it marked; one without is a negative of its own page."""
    text = " ".join(SENTENCES)
    start = text.index("Tokyo")
    example = replace(toy_examples(1, seed=0)[0], passage=text, answers=(Span(start, start + 5),), title="")
    task = new_task([example], options=ReaderTrainingOptions(negative_fraction=1, untitled_fraction=0))
    seen = [task.collate([0], epoch=epoch) for epoch in range(20)]
    sizes = {len(batch.input_ids) for batch in seen}
    assert sizes == {1, 2}  # no other page to draw from: half of the draws find nothing
    tokyo = task._tokenizer.ids(["Tokyo"])[0]
    for batch in seen:
        starts, ends = marked(batch, 0)
        assert batch.input_ids[0, starts[0] : ends[0] + 1].tolist() == tokyo
        if len(batch.input_ids) == 2:
            assert marked(batch, 1) == ([0], [0])
            assert tokyo[0] not in batch.input_ids[1].tolist()


def test_batches_depend_on_the_epoch_alone() -> None:
    """The same epoch gives the same batch, another one other negatives."""
    task = new_task(toy_examples(30, seed=1), options=ReaderTrainingOptions(negative_fraction=1, untitled_fraction=0))
    first, again, other = (task.collate([0, 1, 2], epoch=epoch) for epoch in (0, 0, 1))
    assert torch.equal(first.input_ids, again.input_ids)
    assert first.input_ids.shape != other.input_ids.shape or not torch.equal(first.input_ids, other.input_ids)


def test_the_loss_is_that_of_the_definition() -> None:
    """-log(P(right start)), summed over right places, softmax over the candidates alone; the mean of start and end."""
    logits = torch.tensor([[0.5, 1.0, -1.0, 2.0], [0.0, 3.0, 1.0, 9.0]])
    candidate = torch.tensor([[True, True, True, True], [True, True, True, False]])
    right = torch.tensor([[False, True, False, True], [True, False, False, False]])
    by_hand = (
        -(
            np.log((np.exp(1.0) + np.exp(2.0)) / np.exp([0.5, 1.0, -1.0, 2.0]).sum())
            + np.log(1 / np.exp([0.0, 3.0, 1.0]).sum())
        )
        / 2
    )
    assert marginal_loss(logits, candidate, right).item() == pytest.approx(by_hand, rel=1e-6)
    task = new_task(toy_examples(4, seed=1))
    terms = task.losses(task.collate([0, 1, 2, 3], epoch=0), Position(), Processes("cpu"))
    of_ends = (terms.parts["start"] + terms.parts["end"]).item() / 2
    of_spans = (of_ends + terms.parts["span"].item()) / 2
    assert terms.total.item() == pytest.approx(of_spans + terms.parts["relevance"].item())


def test_the_loss_of_spans_is_that_of_the_definition() -> None:
    """Every span of at most two tokens of the passage against no answer, by hand; a right one may be longer."""
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(3, 5, 2 + 2 * 3)).astype(np.float32)
    candidate = np.array([[1, 0, 1, 1, 1], [1, 0, 1, 1, 0], [1, 0, 1, 1, 1]], dtype=bool)
    answers = [(0, 3, 4), (0, 2, 2), (2, 2, 4)]

    def score(row: int, first: int, last: int) -> float:
        x = logits[row].astype(np.float64)
        return float(x[first, 0] + x[last, 1] + (x[first, 2:5] * x[last, 5:]).sum())

    by_hand = []
    for row in range(3):
        tokens = [token for token in range(1, 5) if candidate[row, token]]
        right = [(i, j) for r, i, j in answers if r == row]
        spans = {(i, j) for i in tokens for j in tokens if 0 <= j - i < 2} | set(right)
        no_answer = np.exp(float(logits[row, 0, 0]) + float(logits[row, 0, 1]))
        total = no_answer + sum(np.exp(score(row, *span)) for span in spans)
        kept = sum(np.exp(score(row, *span)) for span in right) if right else no_answer
        by_hand.append(-np.log(kept / total))
    spans = span_scores(torch.from_numpy(logits), torch.from_numpy(candidate), torch.tensor(answers), max_tokens=2)
    assert span_loss(spans).tolist() == pytest.approx(by_hand, rel=1e-5)


def test_spans_of_all_texts_of_a_query_compete() -> None:
    """The lead over no answer and half the relevance of each text's spans, by hand; a text alone costs nothing."""
    scores = torch.tensor([[3.0, 1.0, -torch.inf], [2.0, 0.0, 4.0], [1.0, 2.0, 3.0], [5.0, 5.0, 5.0]])
    is_right = torch.tensor([[False, True, False], [False] * 3, [True, False, False], [False] * 3])
    spans = SpanScores(scores, is_right, torch.tensor([0.5, 1.5, 7.0, 0.0]))
    relevance, group = torch.tensor([1.0, -2.0, 3.0, 4.0]), torch.tensor([0, 0, 1, 2])
    is_gold = torch.tensor([True, False, True, False])
    right = np.exp(1.0 - 0.5 + 0.5)
    first = np.exp(np.array([3.0, 1.0]) - 0.5 + 0.5).sum()
    second = np.exp(np.array([2.0, 0.0, 4.0]) - 1.5 - 1.0).sum()
    by_hand = -np.log(right / (first + second))
    assert shared_span_loss(spans, relevance, group, is_gold).item() == pytest.approx(by_hand, rel=1e-6)
    alone = SpanScores(scores[2:], is_right[2:], spans.no_answer[2:])
    assert shared_span_loss(alone, relevance[2:], group[2:], is_gold[2:]).item() == 0


def test_shared_spans_are_a_loss_of_their_own() -> None:
    """It is there on request alone, counts with its weight and moves what is learned."""
    examples = [replace(each, negatives=("one text", "another text")) for each in toy_examples(4, seed=1)]
    totals = {}
    for weight in (0.0, 0.5, 1.0):
        options = ReaderTrainingOptions(negative_fraction=1, n_negatives=2, mined_weight=50, shared_spans=weight)
        task = new_task(examples, options=options)
        terms = task.losses(task.collate([0, 1, 2, 3], epoch=0), Position(), Processes("cpu"))
        assert ("shared" in terms.parts) == (weight > 0)
        totals[weight] = terms.total.item()
    assert totals[1.0] - totals[0.0] == pytest.approx(2 * (totals[0.5] - totals[0.0]), rel=1e-4)
    assert totals[1.0] > totals[0.0]


def test_relevance_competes_within_its_group() -> None:
    """-log softmax of the gold text among its group's, by hand; a text alone and a group without gold cost nothing."""
    relevance = torch.tensor([2.0, 1.0, 0.5, -3.0, 4.0, 7.0])
    group = torch.tensor([0, 0, 0, 1, 2, 2])
    is_gold = torch.tensor([False, True, False, True, False, False])
    by_hand = -np.log(np.exp(1.0) / np.exp([2.0, 1.0, 0.5]).sum())
    assert relevance_loss(relevance, group, is_gold).item() == pytest.approx(by_hand, rel=1e-6)
    assert relevance_loss(relevance[3:4], group[3:4], is_gold[3:4]).item() == 0


def test_mentions_and_dialogues_are_ranked_without_spans() -> None:
    """Their pages are the answer: the gold one competes with the mined ones, and nothing is pointed at."""
    mention = replace(toy_examples(1, seed=1)[0], query=Mention.from_parts("in ", "Paris", " then"), answers=())
    mention = replace(mention, negatives=("one text", "another text"), negative_titles=("One", "Two"))
    options = ReaderTrainingOptions(negative_fraction=1, n_negatives=2, untitled_fraction=0)
    task = new_task([mention] * 4, options=options)
    batch = task.collate([0, 1, 2, 3], epoch=0)
    assert not batch.is_read.any() and int(batch.is_gold.sum()) == 4 and len(batch.group) > 4
    assert set(task.losses(batch, Position(), Processes("cpu")).parts) == {"relevance"}


@pytest.mark.parametrize(("span", "expected"), [((0, 2), (0, 0)), ((3, 4), (1, 1)), ((1, 8), (0, 2)), ((2, 3), None)])
def test_characters_become_the_tokens_that_share_one_with_them(span: tuple[int, int], expected: object) -> None:
    """Also parts of a token; blanks between tokens are none."""
    tokens = TextTokens(*(np.array(values, np.int32) for values in ([5, 6, 7], [0, 3, 6], [2, 5, 9])))
    assert token_span(tokens, Span(*span)) == expected


def test_unusable_examples_and_options_are_refused() -> None:
    """Nothing to point at in all of them; shares beyond 1."""
    whole = replace(toy_examples(1, seed=0)[0], answers=())
    task = new_task([whole, *toy_examples(2, seed=0)])
    assert (task.n_left_out, task.n_examples) == (1, 2)
    with pytest.raises(TrainingDataError, match="none of 1 examples"):
        new_task([whole])
    with pytest.raises(InvalidOptionError, match="negative_fraction"):
        ReaderTrainingOptions(negative_fraction=1.5)


def test_the_fingerprint_tells_data_and_options_apart() -> None:
    """A run is resumed only with what it began with."""
    examples = toy_examples(4, seed=0)
    prints = {
        new_task(examples).fingerprint(),
        new_task(examples[:3]).fingerprint(),
        new_task(examples, toy_examples(2, seed=1)).fingerprint(),
        new_task(examples, options=NO_NEGATIVES).fingerprint(),
    }
    assert len(prints) == 4
    assert new_task(examples).fingerprint() == new_task(examples).fingerprint()
