"""L_topic and L_hard: how well gold passages are told from other topics, and from near ones (EMNLP 2021, Figure 3).

All are the mean of −log of the gold passage's share in a softmax over itself and its negatives. L_topic's negatives
are the gold passages of the other questions. L_hard has one, as published: the gold passage without the sentence of
the answer. L_near's are the passages that BM25 ranks best for the question and that hold none of its answers. A
passage's score is that of its best phrase, or the cosine of passage vectors over the temperature that they were
trained with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kbengine.corpus.sentences import sentence_spans
from kbengine.encoders.encoder import Encoder, PassageText
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.data.mining import is_negative, query_text
from kbengine.learning.data.passage_index import IndexedPassage, PassageIndex
from kbengine.learning.reading.small_corpus import PhraseCorpus

Scores = Literal["phrase", "passage"]
Float64 = NDArray[np.float64]
N_NEGATIVES = 10
"""Negatives of each kind a question."""


@dataclass(frozen=True)
class Contrast:
    """Mean losses over the n questions that have negatives; lower is better; None without any.

    `hard` is over those of them whose gold passage has a sentence without the answer.
    """

    topic: float | None
    hard: float | None
    near: float | None
    n: int


def contrast(
    encoder: Encoder,
    examples: Sequence[TrainingExample],
    passages: Sequence[IndexedPassage],
    *,
    scores: Scores,
    temperature: float = 0.05,
    seed: int = 0,
) -> Contrast:
    """Return the losses of an encoder.

    Args:
        encoder: to score with.
        examples: questions with gold passages.
        passages: those among which near ones are looked for.
        scores: of phrases, or of passage vectors.
        temperature: of passage vectors.
        seed: of the choice of other topics.
    """
    usable = [example for example in examples if example.answers]
    near = near_negatives(usable, passages)
    random = np.random.default_rng(seed)
    topic: list[float] = []
    hard: list[float] = []
    close: list[float] = []
    for example, negatives in zip(usable, near, strict=True):
        others = [each for each in usable if (each.title, each.doc_id) != (example.title, example.doc_id)]
        if not others or not negatives:
            continue
        drawn = random.choice(len(others), size=min(N_NEGATIVES, len(others)), replace=False)
        topics = [PassageText(others[i].title, others[i].passage) for i in drawn]
        gold = PassageText(example.title, example.passage)
        rest = without_answer(example)
        compared = [gold, *topics, *negatives, *([] if rest is None else [rest])]
        logits = passage_scores(encoder, example, compared, scores, temperature)
        end_of_near = 1 + len(topics) + len(negatives)
        topic.append(negative_log_share(logits[: 1 + len(topics)]))
        close.append(negative_log_share(logits[[0, *range(1 + len(topics), end_of_near)]]))
        if rest is not None:
            hard.append(negative_log_share(logits[[0, end_of_near]]))
    return Contrast(*(float(np.mean(each)) if each else None for each in (topic, hard, close)), n=len(topic))


def without_answer(example: TrainingExample) -> PassageText | None:
    """Return the gold passage without the sentences in which an answer stands; None where nothing else is in it."""
    spans = sentence_spans(example.passage)
    kept = [
        example.passage[each.start : each.end]
        for each in spans
        if not any(each.start < answer.end and answer.start < each.end for answer in example.answers)
    ]
    return PassageText(example.title, " ".join(kept)) if kept else None


def negative_log_share(logits: Float64) -> float:
    """Return −log of the first one's share in the softmax."""
    return float(np.logaddexp.reduce(logits) - logits[0])


def passage_scores(
    encoder: Encoder, example: TrainingExample, passages: Sequence[PassageText], scores: Scores, temperature: float
) -> Float64:
    """Return a score for each passage, float64 (n,)."""
    encoded = encoder.encode_passages(passages)
    query = encoder.encode_queries([example.query], truncate=True)
    if scores == "passage":
        return np.array([float(each.passage_vector @ query.passage[0]) / temperature for each in encoded])
    corpus = PhraseCorpus(encoded, max_phrase_tokens=encoder.max_phrase_tokens)
    found = [corpus.best_in(i, query.start[0], query.end[0]) for i in range(len(encoded))]
    return np.array([-np.inf if phrase is None else phrase.score for phrase in found])


def near_negatives(examples: Sequence[TrainingExample], passages: Sequence[IndexedPassage]) -> list[list[PassageText]]:
    """Return for each question the best BM25 passages of other documents without its answers."""
    index = PassageIndex([passage.text for passage in passages])
    ranked = index.best([query_text(example.query) for example in examples], 10 * N_NEGATIVES)
    found = []
    for example, numbers in zip(examples, ranked, strict=True):
        near = [passages[i] for i in numbers]
        kept = [each for each in near if is_negative(example, each.doc_id, each.text, "bm25")]
        found.append([PassageText(each.title, each.text) for each in kept[:N_NEGATIVES]])
    return found
