"""Fusion weights of a task: a search for the parts of the scores, then every pair of weights offline.

The phrase weight is 1; the passage and the lexical weight go over a grid. A pair is judged by the mean, over the files,
of page R-precision; where answers are phrases, of its mean with KILT-EM of the best phrase. Passage and lexical scores
are the same for all phrases of a passage, so the parts of each passage's best phrase are all that the ranking needs.
The sparse weight says which phrase of a passage is best: with sparse rows there is one search for each of a few. The
name weight is tried at a few values as well, where anything has a name.

The optimum is flat and a few hundred rows are few, so the pair is chosen from means over neighbouring grid points, and
taken only when it is better than the weights in use on rows that it was not chosen from, by more than chance gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbengine.corpus.normalise import norm
from kbengine.search.query import Weights
from kbengine.search.results import Hit

PASSAGE_WEIGHTS = (0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.5, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 80.0, 100.0)
LEXICAL_WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0)
SPARSE_WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0)
"""Tried where sparse rows are stored; beside half of the dense score, as heads are trained by default, they weigh 2."""
NAME_WEIGHTS = (0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0)
"""Tried where a passage found is named as asked."""
SEEN_WITH = Weights(phrase=1.0, passage=30.0, lexical=1.0, name=20.0)
"""The weights of the search but the sparse one: which passages are seen depends on them a little."""
SEEN_PASSAGES = 200
"""Passages of each record that are ranked anew under every pair."""
FITTED = ("passage", "lexical", "sparse", "name")
FOLDS = 5
STANDARD_ERRORS = 1.645
"""How many of them the gain must be: a gain by chance alone is as large one time in twenty."""

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class Candidates:
    """The passages found for one record, unweighted.

    Attributes:
        phrase: float32 (n,), start and end product of the passage's best phrase, the weighted sparse ones included.
        passage: float32 (n,), cosine of the passage.
        lexical: float32 (n,), BM25.
        name: float32 (n,), how surely the passage or its document is named as asked.
        pages: int64 (n,), the page of each passage, numbered within the record.
        is_answer: bool (n,), whether the best phrase equals a gold answer after normalisation.
        evidence: for each gold output the numbers of its pages among the found (the missing ones are negative).
    """

    phrase: Float32
    passage: Float32
    lexical: Float32
    name: Float32
    pages: NDArray[np.int64]
    is_answer: NDArray[np.bool_]
    evidence: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Judged:
    """The figures of one file's records at every pair of weights, each float32 (records, pairs).

    Attributes:
        rprec: Page R-precision.
        em: Whether the best phrase is an answer; None where answers are no phrases.
        kilt_em: The same with all pages right.
    """

    rprec: Float32
    em: Float32 | None
    kilt_em: Float32 | None

    @property
    def objective(self) -> Float32:
        """Return what is maximised: R-precision, or its mean with KILT-EM."""
        return self.rprec if self.kilt_em is None else (self.rprec + self.kilt_em) * np.float32(0.5)


@dataclass(frozen=True)
class WeightFit:
    """The outcome of fitting a task's weights.

    Attributes:
        weights: What is to be used from now on: the best ones, or those in use when these are as good.
        adopted: Whether they are the best ones.
        report: Figures before and after, for people.
    """

    weights: Weights
    adopted: bool
    report: Mapping[str, Any]


def candidates_of(
    hits: Sequence[Hit], *, seen_with: Weights, gold_answers: frozenset[str], gold_pages: Sequence[Sequence[str]]
) -> Candidates:
    """Return the parts of the hits' scores with the weights of the search taken out again.

    Args:
        hits: passages, searched with `explain`.
        seen_with: the weights of that search, none of them 0.
        gold_answers: the record's.
        gold_pages: the page ids of each of its gold outputs.
    """
    numbers: dict[str, int] = {}
    wanted = {norm(answer) for answer in gold_answers}
    parts: list[tuple[float, float, float, float]] = []
    pages: list[int] = []
    is_answer: list[bool] = []
    for hit in hits:
        if hit.parts is None:
            raise AssertionError("fitting needs the parts of the scores: search with explain=True")
        of_phrase = hit.parts.start + hit.parts.end + hit.parts.sparse
        parts.append((of_phrase, hit.parts.passage, hit.parts.lexical, hit.parts.name))
        pages.append(numbers.setdefault(hit.document.doc_id, len(numbers)))
        is_answer.append(bool(wanted) and norm(hit.phrase_text) in wanted)
    scores = np.asarray(parts, dtype=np.float32).reshape(-1, 4)
    evidence = tuple(
        tuple(numbers.get(page, -1 - i) for i, page in enumerate(dict.fromkeys(ids))) for ids in gold_pages
    )
    return Candidates(
        phrase=scores[:, 0] / np.float32(seen_with.phrase),
        passage=scores[:, 1] / np.float32(seen_with.passage),
        lexical=scores[:, 2] / np.float32(seen_with.lexical),
        name=scores[:, 3] / np.float32(seen_with.name),
        pages=np.asarray(pages, dtype=np.int64),
        is_answer=np.asarray(is_answer, dtype=np.bool_),
        evidence=tuple(pages for pages in evidence if pages),
    )


def judge(found: Sequence[Candidates], pairs: Float32, *, with_answers: bool) -> Judged:
    """Return page R-precision and KILT-EM of every record under every pair of weights.

    Args:
        found: the candidates of each record.
        pairs: float32 (pairs, 2), passage and lexical weight.
        with_answers: whether the best phrase is the answer, so that KILT-EM counts.
    """
    rprec = np.zeros((len(found), len(pairs)), dtype=np.float32)
    em, kilt_em = np.zeros_like(rprec), np.zeros_like(rprec)
    for i, each in enumerate(found):
        if len(each.phrase) and each.evidence:
            rprec[i], em[i] = _judge_record(each, pairs)
            kilt_em[i] = em[i] * (rprec[i] == 1)
    return Judged(rprec, em, kilt_em) if with_answers else Judged(rprec, None, None)


def fit_weights(
    searched: Mapping[float, Mapping[str, Sequence[Candidates]]], current: Weights, *, phrases: bool, seed: int = 13
) -> WeightFit:
    """Return the weights for a task from the candidates of its files' records.

    Args:
        searched: by sparse weight, the one in use among them, the candidates of each file's records, by the file's
            name; the files count alike.
        current: the weights in use.
        phrases: whether answers are phrases; a file of which no best phrase is ever right is judged by pages alone.
        seed: of the folds.
    """
    pairs, in_use = grid(current)[:-1], grid(current)[-1:]
    in_use_name = current.name / (current.phrase or 1.0)
    named = any(each.name.any() for files in searched.values() for found in files.values() for each in found)
    others = [(sparse, name) for sparse in sorted(searched) for name in (NAME_WEIGHTS if named else (in_use_name,))]
    judged = {}
    for name in searched[current.sparse]:
        with_answers = phrases and any(each.is_answer.any() for files in searched.values() for each in files[name])
        parts = [
            judge(_with_names(searched[sparse][name], weight), pairs, with_answers=with_answers)
            for sparse, weight in others
        ]
        now_found = _with_names(searched[current.sparse][name], in_use_name)
        parts.append(judge(now_found, in_use, with_answers=with_answers))
        judged[name] = _side_by_side(parts)
    tried = np.concatenate([*(_beside(pairs, *each) for each in others), _beside(in_use, current.sparse, in_use_name)])
    objectives = [each.objective for each in judged.values()]
    now = len(tried) - 1  # the weights in use are the last
    best = _best_pair(objectives)
    held_out = _held_out(objectives, seed)
    before = [each[:, now] for each in objectives]
    after = [_chosen(each, pairs_of) for each, pairs_of in zip(objectives, held_out, strict=True)]
    differences = [b - a for a, b in zip(before, after, strict=True)]
    gain = float(np.mean([each.mean() for each in differences]))
    error = float(np.sqrt(sum(each.var() / len(each) for each in differences)) / len(differences))
    adopted = gain > STANDARD_ERRORS * error
    chosen = best if adopted else now
    weights = replace(current, phrase=1.0, **dict(zip(FITTED, tried[chosen].tolist(), strict=True)))
    report = {
        "before": _weights_json(tried[now]),
        "best": _weights_json(tried[best]),
        "adopted": adopted,
        "objective": {"before": _percent(_macro(objectives)[now]), "best": _percent(_macro(objectives)[best])},
        "held_out": {
            "before": _percent(np.mean([each.mean() for each in before])),
            "after": _percent(np.mean([each.mean() for each in after])),
            "gain": _percent(gain),
            "standard_error": _percent(error),
        },
        "files": {
            name: {
                "before": _figures(each, now),
                "after": _figures(each, chosen),
                "held_out": _figures(each, pairs_of),
            }
            for (name, each), pairs_of in zip(judged.items(), held_out, strict=True)
        },
    }
    return WeightFit(weights if adopted else current, adopted, report)


def grid(current: Weights) -> Float32:
    """Return all pairs of passage and lexical weight, float32 (pairs, 2); the last is the one in use.

    Weights count relative to the phrase weight, which is 1 in every pair.
    """
    pairs = [(passage, lexical) for passage in PASSAGE_WEIGHTS for lexical in LEXICAL_WEIGHTS]
    phrase = current.phrase or 1.0
    return np.asarray([*pairs, (current.passage / phrase, current.lexical / phrase)], dtype=np.float32)


def _with_names(found: Sequence[Candidates], weight: float) -> list[Candidates]:
    """Return the candidates with their weighted name part in that of the phrase: both are as they are in every pair."""
    return [replace(each, phrase=each.phrase + np.float32(weight) * each.name) for each in found]


def _beside(pairs: Float32, sparse: float, name: float) -> Float64:
    """Return the pairs with a sparse and a name weight beside each, float64 (pairs, 4), in the order of `FITTED`."""
    return np.column_stack([pairs.astype(np.float64), np.full(len(pairs), sparse), np.full(len(pairs), name)])


def _judge_record(each: Candidates, pairs: Float32) -> tuple[Float32, NDArray[np.bool_]]:
    """Return R-precision, float32 (pairs,), and whether the best phrase is right, bool (pairs,)."""
    scores = each.phrase + pairs[:, :1] * each.passage + pairs[:, 1:] * each.lexical  # (pairs, n)
    first = scores.argmax(axis=1)
    if max(len(pages) for pages in each.evidence) == 1:
        right_pages = [pages[0] for pages in each.evidence]
        return np.isin(each.pages[first], right_pages).astype(np.float32), each.is_answer[first]
    order = np.argsort(-scores, axis=1, kind="stable")
    rprec = np.zeros(len(pairs), dtype=np.float32)
    for j, ranked in enumerate(each.pages[order].tolist()):
        top = list(dict.fromkeys(ranked))
        rprec[j] = max(len(set(top[: len(pages)]) & set(pages)) / len(pages) for pages in each.evidence)
    return rprec, each.is_answer[first]


def _held_out(objectives: Sequence[Float32], seed: int) -> list[Int64]:
    """Return by file the pair chosen for each record from the other folds, int64 (records,)."""
    generator = np.random.default_rng(seed)
    folds = [generator.permutation(len(each)) % FOLDS for each in objectives]
    chosen = [np.zeros(len(each), dtype=np.int64) for each in objectives]
    for fold in range(FOLDS):
        kept = [each[of != fold] for each, of in zip(objectives, folds, strict=True)]
        best = _best_pair([each for each in kept if len(each)])
        for pairs_of, of in zip(chosen, folds, strict=True):
            pairs_of[of == fold] = best
    return chosen


def _chosen(values: Float32, pairs_of: int | Int64) -> Float32:
    """Return each record's value at the pair, the same one or its own, float32 (records,)."""
    chosen: Float32 = values[np.arange(len(values)), pairs_of]
    return chosen


def _best_pair(objectives: Sequence[Float32]) -> int:
    """Return the weights with the best macro, as a mean with their neighbours on the grid: a lone peak is noise."""
    shape = (len(PASSAGE_WEIGHTS), len(LEXICAL_WEIGHTS))
    values = _macro(objectives)[:-1].reshape(-1, *shape)  # a grid for each sparse and name weight
    padded = np.pad(values, ((0, 0), (1, 1), (1, 1)), mode="edge")
    smooth = sum(padded[:, i : i + shape[0], j : j + shape[1]] for i in range(3) for j in range(3)) / 9
    return int(np.argmax(smooth))


def _side_by_side(parts: Sequence[Judged]) -> Judged:
    def joined(values: Sequence[Float32 | None]) -> Float32 | None:
        known = [each for each in values if each is not None]
        return np.hstack(known) if known else None

    return Judged(
        np.hstack([each.rprec for each in parts]),
        joined([each.em for each in parts]),
        joined([each.kilt_em for each in parts]),
    )


def _macro(objectives: Sequence[Float32]) -> Float64:
    macro: Float64 = np.mean([each.mean(axis=0, dtype=np.float64) for each in objectives], axis=0)
    return macro


def _figures(judged: Judged, pairs_of: int | Int64) -> dict[str, float]:
    named = {"Rprec": judged.rprec, "em": judged.em, "KILT-em": judged.kilt_em}
    return {name: _percent(_chosen(each, pairs_of).mean()) for name, each in named.items() if each is not None}


def _weights_json(weights: Float64) -> dict[str, float]:
    return {name: round(value, 4) for name, value in zip(FITTED, weights.tolist(), strict=True)}


def _percent(share: float | np.floating[Any]) -> float:
    return round(100 * float(share), 2)
