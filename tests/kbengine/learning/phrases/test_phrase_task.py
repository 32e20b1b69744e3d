"""The losses of a batch against numpy: what is compared with what, and what is left out as another right answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from kbengine.encoders.encoder import Encoder, PassageText
from kbengine.errors import InvalidOptionError
from kbengine.inputs import Question
from kbengine.learning.loop.processes import Processes
from kbengine.learning.loop.task import Position
from kbengine.learning.phrases.batches import Collator
from kbengine.learning.phrases.phrase_task import LossOptions, PhraseTask
from kbengine.learning.phrases.prepared import prepare, text_key, window_of
from kbengine.span import Span
from tests.kbengine.learning.phrases.small_training import example, examples, tokenizer
from tests.tiny_encoder import tiny_config, tiny_model, tiny_tokenizer_json

CPU = Processes("cpu")
OFF = LossOptions(single=0, negative=0, negatives="golds", pre_batches=0, filter=0, passage=0, distillation=1)
"""Nothing but a loss that these tests replace."""


def task_of(given, options, *, with_negatives=False, teacher=None, architecture="shared-query"):
    """Return the task of these examples with the tiny model."""
    config = tiny_config(architecture)
    data = prepare(given, tokenizer(), config, with_negatives=with_negatives)
    return PhraseTask(tiny_model(config), data, tokenizer(), options, teacher=teacher)


def only(**options):
    """Return options with a weight of 1 for what is named and 0 for the other losses."""
    return replace(OFF, **({"distillation": 0} | options))


def parts(task, indices=None, epoch=0):
    """Return the losses of a batch as numbers."""
    batch = task.collate(list(range(task.n_examples)) if indices is None else indices, epoch=epoch)
    return {name: part.item() for name, part in task.losses(batch, Position(), CPU).parts.items()}


def encoded(task):
    """Return the vectors of a batch of all examples as numpy arrays, and the batch."""
    batch = task.collate(list(range(task.n_examples)), epoch=0)
    with torch.no_grad():
        states = task.model.passage_states(batch.passages.ids, batch.passages.is_token).numpy()
        queries = [each.numpy() for each in task.model.query_vectors(batch.queries.ids, batch.queries.is_token)]
    return batch, states, queries


def cross_entropy(logits, gold):
    """Return −log softmax at the gold column of one row."""
    shifted = logits - logits.max()
    return float(np.log(np.exp(shifted).sum()) - shifted[gold])


def test_the_batch_marks_the_answer_by_its_tokens():
    """Gold positions hold the wordpieces of the answer; title and special tokens are no text."""
    batch = Collator(prepare(examples(), tokenizer(), tiny_config()), tokenizer(), max_passage_tokens=64, seed=0).batch(
        [0, 4], epoch=0
    )
    for row, answer in enumerate(("Paris", "one hundred degrees")):
        begin, end = batch.gold_start[row], batch.gold_end[row]
        assert batch.passages.ids[row, begin : end + 1].tolist() == tokenizer().ids([answer])[0]
        title = len(tokenizer().ids([examples()[[0, 4][row]].title])[0])
        assert not batch.passages.is_text[row, : title + 2].any() and batch.passages.is_text[row, title + 2]
        assert batch.answer_keys[row] == text_key(answer.lower())


def test_single_passage_loss_is_over_the_tokens_of_the_own_passage():
    """Eq. 5-6 by numpy over the text tokens of each row."""
    task = task_of(examples(), only(single=1))
    batch, states, (start, end, _) = encoded(task)
    expected = []
    for row in range(len(states)):
        text = np.flatnonzero(batch.passages.is_text[row].numpy())
        for query, gold in ((start[row], batch.gold_start[row]), (end[row], batch.gold_end[row])):
            expected.append(cross_entropy(states[row, text] @ query, text.tolist().index(int(gold))))

    assert parts(task)["single"] == pytest.approx(np.mean(expected), rel=1e-4)


def test_in_batch_negatives_are_the_golds_of_the_other_rows():
    """Eq. 8 by numpy; rows with the same answer string are no negatives of each other."""
    same = example(3, id="again", query=Question("which city"), answers=(Span(49, 54),))  # Paris, as in row 0
    task = task_of([*examples()[:3], same], only(negative=1))
    batch, states, (start, end, _) = encoded(task)
    rows = np.arange(4)
    first, last = states[rows, batch.gold_start.numpy()], states[rows, batch.gold_end.numpy()]
    expected = []
    for row in rows:
        columns = [column for column in rows if column == row or {column, row} != {0, 3}]
        expected.append(cross_entropy(first[columns] @ start[row], columns.index(row)))
        expected.append(cross_entropy(last[columns] @ end[row], columns.index(row)))

    assert parts(task)["negative"] == pytest.approx(np.mean(expected), rel=1e-4)


def test_negatives_over_all_tokens_leave_out_what_is_right_elsewhere():
    """Every text token of the batch but: the answer's words in other passages, and copies of the own passage."""
    copy = example(0, id="copy", query=Question("the river is"), answers=(Span(34, 39),))
    task = task_of([*examples(), copy], only(negative=1, negatives="tokens"))
    batch, states, (start, end, _) = encoded(task)
    B = len(states)
    ids, is_text = batch.passages.ids.numpy(), batch.passages.is_text.numpy()
    expected = []
    for row in range(B):
        answer = ids[row, batch.gold_start[row] : batch.gold_end[row] + 1].tolist()
        for query, gold, edge in ((start[row], batch.gold_start[row], 0), (end[row], batch.gold_end[row], -1)):
            columns = []
            for other in range(B):
                for t in np.flatnonzero(is_text[other]).tolist():
                    begin = t if edge == 0 else t - len(answer) + 1
                    says_the_same = begin >= 0 and ids[other, begin : begin + len(answer)].tolist() == answer
                    is_copy = other != row and {row, other} == {0, 8}
                    if (other, t) == (row, int(gold)) or not (says_the_same or is_copy):
                        columns.append((other, t))
            logits = np.array([states[o, t] @ query for o, t in columns])
            expected.append(cross_entropy(logits, columns.index((row, int(gold)))))

    assert parts(task)["negative"] == pytest.approx(np.mean(expected), rel=1e-4)


def test_other_right_answers_of_the_row_are_no_negatives():
    """Two accepted answers: each epoch draws one of them, the other is outside the softmax."""
    both = example(0, answers=(Span(25, 30), Span(14, 20)))
    task = task_of([both], only(single=1))
    drawn = {int(task.collate([0], epoch=epoch).gold_start[0]) for epoch in range(8)}
    assert len(drawn) == 2
    batch, states, (start, end, _) = encoded(task)
    text = set(np.flatnonzero(batch.passages.is_text[0].numpy()).tolist())
    expected = []
    for query, gold in ((start[0], int(batch.gold_start[0])), (end[0], int(batch.gold_end[0]))):
        (other,) = drawn - {int(batch.gold_start[0])}  # both answers are single tokens
        columns = sorted(text - {other})
        expected.append(cross_entropy(states[0, columns] @ query, columns.index(gold)))

    assert parts(task)["single"] == pytest.approx(np.mean(expected), rel=1e-4)


def test_another_accepted_answer_of_the_row_is_no_negative_wherever_it_stands():
    """Row 0 accepts Paris and France and draws one; Paris, the gold phrase of row 1, is right for it all the same."""
    both = example(0, answers=(Span(25, 30), Span(15, 21)))
    paris = example(3, query=Question("which city"), answers=(Span(49, 54),))
    task = task_of([both, paris], only(negative=1))
    epoch = next(e for e in range(8) if task.collate([0], epoch=e).answer_keys[0] == text_key("france"))
    batch = task.collate([0, 1], epoch=epoch)
    with torch.no_grad():
        states = task.model.passage_states(batch.passages.ids, batch.passages.is_token).numpy()
        start, end, _ = (each.numpy() for each in task.model.query_vectors(batch.queries.ids, batch.queries.is_token))

    assert [set(row) - {0} for row in batch.accepted_keys.tolist()] == [
        {text_key("paris"), text_key("france")},
        {text_key("paris")},
    ]
    width = batch.passages.ids.shape[1]
    assert [0, width + int(batch.gold_start[1])] in batch.right_start.T.tolist()
    assert [0, width + int(batch.gold_end[1])] in batch.right_end.T.tolist()
    first, last = states[[0, 1], batch.gold_start.numpy()], states[[0, 1], batch.gold_end.numpy()]
    of_row_1 = [cross_entropy(first @ start[1], 1), cross_entropy(last @ end[1], 1)]  # France is wrong for it
    assert parts(task, epoch=epoch)["negative"] == pytest.approx(sum(of_row_1) / 4, rel=1e-4)


def test_pre_batch_negatives_come_after_the_warmup_from_the_last_batches_only():
    """C = 1: the second batch has the golds of the first as further columns, and they survive a checkpoint."""
    options = only(negative=1, pre_batches=1, pre_batch_warmup=0.5)
    task = task_of(examples(), options)
    plain = task_of(examples(), only(negative=1))
    first, second = [0, 1, 2, 3], [4, 5, 6, 7]
    task.begin_epoch(0, 2)
    assert parts(task, first) == parts(plain, first) and task.extra_state() == {}
    task.begin_epoch(1, 2)
    assert parts(task, first) == parts(plain, first)
    with_columns = parts(task, second)["negative"]

    assert with_columns > parts(plain, second)["negative"]
    vectors = [each for each in task.extra_state().values() if each.ndim == 2]
    assert len(vectors) == 2 and all(v.shape == (4, 32) and not v.requires_grad for v in vectors)
    again = task_of(examples(), options)
    again.begin_epoch(1, 2)
    parts(again, first)
    resumed = task_of(examples(), options)
    resumed.load_extra_state(again.extra_state())
    resumed.begin_epoch(1, 2)
    assert parts(resumed, second)["negative"] == with_columns


def test_mined_passages_are_columns_by_their_best_token():
    """One more column a mined passage; a row's own gold passage is none even when it was mined for another row."""
    far = replace(example(0), negatives=("The band toured Europe.",), negative_titles=("Band",))
    own = replace(example(1), negatives=("The band toured Europe.",))
    plain = task_of([far, own], only(negative=1))
    task = task_of([far, own], only(negative=1, hard_negatives=True), with_negatives=True)
    batch, states, (start, end, _) = encoded(task)
    with torch.no_grad():
        mined = task.model.passage_states(batch.negatives.ids, batch.negatives.is_token).numpy()
    rows = np.arange(2)
    first, last = states[rows, batch.gold_start.numpy()], states[rows, batch.gold_end.numpy()]
    expected = []
    for golds, query in ((first, start), (last, end)):
        for row in rows:
            tokens = [mined[m][batch.negatives.is_text[m].numpy()] for m in range(2)]
            columns = np.concatenate([golds @ query[row], [(each @ query[row]).max() for each in tokens]])
            expected.append(cross_entropy(columns, row))

    assert parts(task)["negative"] == pytest.approx(np.mean(expected), rel=1e-4)
    assert parts(task)["negative"] > parts(plain)["negative"]


def test_passage_loss_leaves_out_the_same_passage_again():
    """Cosines of pooled vectors over the temperature; two questions on one passage are not each other's negatives."""
    copy = example(0, id="copy", query=Question("the river is"), answers=())
    task = task_of([*examples()[:3], copy], only(passage=1, passage_temperature=0.1))
    batch, states, (_, _, pooled) = encoded(task)
    mask = batch.passages.is_token.numpy()[..., None]
    means = (states * mask).sum(axis=1) / mask.sum(axis=1)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    expected = []
    for row in range(4):
        columns = [column for column in range(4) if column == row or {column, row} != {0, 3}]
        expected.append(cross_entropy(means[columns] @ pooled[row] / 0.1, columns.index(row)))

    assert parts(task)["passage"] == pytest.approx(np.mean(expected), rel=1e-4)


def test_distillation_compares_with_the_teacher_over_the_text_tokens_only():
    """A teacher that is the student itself costs nothing; another one something; rows without one do not count."""
    task = task_of(examples(), only(single=1))
    batch, states, (start, end, _) = encoded(task)
    teacher = []
    for row in range(len(states)):
        text = batch.passages.is_text[row].numpy()
        teacher.append(tuple((states[row, text] @ q[row]).astype(np.float16) for q in (start, end)))
    student = parts(task_of(examples(), only(distillation=1), teacher=teacher))["distillation"]
    flat = [(np.zeros_like(s), np.zeros_like(e)) for s, e in teacher]
    other = parts(task_of(examples(), only(distillation=1), teacher=flat))["distillation"]
    none = parts(task_of(examples(), only(distillation=1), teacher=[None] * 8))["distillation"]

    assert abs(student) < 1e-4 < other and none == 0


def test_similarity_keeps_the_shares_that_another_model_gives_the_passages():
    """KL(other ‖ model) over the batch's passages by numpy; a model is like itself."""
    config, other = tiny_config(), tiny_model(tiny_config(), seed=1)
    data = prepare(examples()[:3], tokenizer(), config)
    options = only(similarity=1, passage_temperature=0.2)
    task = PhraseTask(tiny_model(config), data, tokenizer(), options, similar_to=other)
    itself = PhraseTask(tiny_model(config), data, tokenizer(), options, similar_to=tiny_model(config))
    shares = []
    for model in (other, task.model):
        encoder = Encoder.from_model(model, tiny_tokenizer_json(), device="cpu", dtype="float32")
        passages = encoder.encode_passages([PassageText(e.title, e.passage) for e in examples()[:3]])
        queries = encoder.encode_queries([e.query for e in examples()[:3]])
        logits = queries.passage @ np.stack([each.passage_vector for each in passages]).T / 0.2
        shares.append(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True))
    expected = (shares[0] * np.log(shares[0] / shares[1])).sum(axis=1).mean()

    assert parts(task)["similarity"] == pytest.approx(expected, rel=1e-3)
    assert abs(parts(itself)["similarity"]) < 1e-6
    assert not any(parameter.requires_grad for parameter in other.parameters())


def test_unanswerable_questions_are_negatives_only_or_point_to_cls():
    """No phrase loss with "skip"; with "cls" position 0 is their gold phrase, in the softmax of every row."""
    given = [example(0), example(1, answers=(), answerable=False)]
    skipped = task_of(given, only(single=1))
    assert parts(skipped)["single"] == pytest.approx(parts(task_of(given[:1], only(single=1)))["single"], rel=1e-5)
    task = task_of(given, only(single=1, no_answer="cls"))
    batch, states, (start, end, _) = encoded(task)
    expected = []
    for row in range(2):
        columns = [0, *np.flatnonzero(batch.passages.is_text[row].numpy()).tolist()]
        for query, gold in ((start[row], batch.gold_start[row]), (end[row], batch.gold_end[row])):
            expected.append(cross_entropy(states[row, columns] @ query, columns.index(int(gold))))
    assert batch.gold_start[1] == 0
    assert parts(task)["single"] == pytest.approx(np.mean(expected), rel=1e-4)


def test_the_filter_learns_from_answerable_rows_and_may_leave_the_encoder_alone():
    """The option cuts the gradient to the phrase encoder, not to the head."""
    for trains in (True, False):
        task = task_of(examples(), only(filter=1, filter_trains_encoder=trains))
        task.model.zero_grad()
        task.losses(task.collate([0, 1], epoch=0), Position(), CPU).total.backward()
        gradient = task.model.phrase_encoder.encoder.layer[0].output.dense.weight.grad
        assert task.model.filter_head.weight.grad.abs().sum() > 0
        assert (gradient is not None and gradient.abs().sum() > 0) == trains


def test_the_total_is_the_weighted_sum():
    """Eq. 9."""
    options = LossOptions(single=2, negative=3, filter=0.5, passage=0.25, pre_batches=0)
    task = task_of(examples(), options)
    terms = task.losses(task.collate([0, 1, 2], epoch=0), Position(), CPU)
    expected = sum(
        weight * terms.parts[name]
        for name, weight in (("single", 2), ("negative", 3), ("filter", 0.5), ("passage", 0.25))
    )

    assert terms.total.item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize("architecture", ["shared-query", "three-tower"])
def test_vectors_in_training_are_those_of_the_encoder(architecture):
    """Same tokens, same windows, same function: trainer in evaluation mode = Encoder.from_model."""
    task = task_of(examples(), only(single=1), architecture=architecture)
    batch, states, queries = encoded(task)
    encoder = Encoder.from_model(task.model, tiny_tokenizer_json(), device="cpu", dtype="float32")
    passages = encoder.encode_passages([PassageText(e.title, e.passage) for e in examples()])
    asked = encoder.encode_queries([e.query for e in examples()])
    for row, passage in enumerate(passages):
        np.testing.assert_allclose(states[row, batch.passages.is_text[row].numpy()], passage.vectors, atol=1e-4)
    np.testing.assert_allclose(queries[0], asked.start, atol=1e-4)
    np.testing.assert_allclose(queries[2], asked.passage, atol=1e-4)


def test_a_long_passage_is_trained_on_in_the_window_that_owns_the_answer():
    """The vectors trained are those that will be stored; answers longer than a phrase keep the passage loss."""
    words = " ".join(["the river is old and"] * 40) + " Paris " + " ".join(["the town is new and"] * 40)
    start = words.index("Paris")
    long = example(0, passage=words, answers=(Span(start, start + 5),))
    data = prepare([long, example(0, passage=words, answers=(Span(0, start),))], tokenizer(), tiny_config())
    gold = data.examples[0].golds[0]
    window = window_of(data.passages[0], gold, 64)
    batch = Collator(data, tokenizer(), max_passage_tokens=64, seed=0).batch([0, 1], epoch=0)

    assert window.own_begin <= gold.first < window.own_end and window.end - window.begin <= 64
    assert batch.passages.ids[0, batch.gold_start[0]].item() == tokenizer().ids(["Paris"])[0][0]
    assert batch.gold_start[1] == -1 and data.notes["answer longer than a phrase: passage loss alone"] == 1


def test_queries_that_cannot_be_read_are_left_out_and_counted():
    """One bad query among many."""
    data = prepare([example(0), example(1, query=Question(" ")), example(2)], tokenizer(), tiny_config())

    assert [each.number for each in data.examples] == [0, 2] and data.notes["query cannot be read: empty_query"] == 1


def test_options_that_contradict_each_other_are_refused():
    """No loss at all; distillation without a teacher; a value out of range."""
    with pytest.raises(InvalidOptionError, match="every loss has the weight 0"):
        LossOptions(single=0, negative=0, filter=0, passage=0)
    with pytest.raises(InvalidOptionError, match="no teacher"):
        task_of(examples(), LossOptions(distillation=1))
    with pytest.raises(InvalidOptionError, match="no model with passage vectors to be like"):
        task_of(examples(), LossOptions(similarity=1))
    with pytest.raises(InvalidOptionError, match="negatives is 'all', wanted one of none, golds, tokens"):
        LossOptions(negatives="all")
