"""Retrieval scores of the KILT evaluator for one record: R-precision and the evidence-set rank.

A rank key names the grain: `("wikipedia_id",)` is pages, `("wikipedia_id", "section")` sections and
`("wikipedia_id", "start_paragraph_id", "end_paragraph_id")` paragraphs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from adapters.kilt.records import Output, TaskRecord
from kbengine.corpus.normalise import norm

PAGE_KEYS: tuple[str, ...] = ("wikipedia_id",)
PARAGRAPH_KEYS: tuple[str, ...] = ("wikipedia_id", "start_paragraph_id", "end_paragraph_id")
DEFAULT_KS: tuple[int, ...] = (1, 5, 10, 20)


@dataclass(frozen=True, slots=True)
class RetrievalScores:
    """Retrieval outcome of one record, from which every measure at any k follows.

    `true_positions` are the places in the rank (from 0) where an evidence set was completed; `answer_at`,
    `entity_at` and `both_at` the first raw provenance entry (from 0) whose text holds a gold answer, a gold title,
    or both, looked for in the first `context_depth` entries only.
    """

    rprec: float
    n_evidence_sets: int
    true_positions: tuple[int, ...]
    answer_at: int | None
    entity_at: int | None
    both_at: int | None
    entity_in_input: int

    def precision(self, k: int) -> float:
        """Completed evidence sets in the first k places, over k however short the list is."""
        return self._completed(k) / k if self.n_evidence_sets else 0.0

    def recall(self, k: int) -> float:
        """Completed evidence sets in the first k places, over all evidence sets."""
        return self._completed(k) / self.n_evidence_sets if self.n_evidence_sets else 0.0

    def success_rate(self, k: int) -> int:
        """1 when an evidence set is completed in the first k places, else 0."""
        return int(self._completed(k) > 0)

    def measures(self, ks: Sequence[int]) -> dict[str, float]:
        """Return every official measure by its official name, in its order; recall and success for k > 1 only."""
        values: dict[str, float] = {"Rprec": self.rprec, "entity_in_input": self.entity_in_input}
        for k in ks:
            values[f"precision@{k}"] = self.precision(k)
            values[f"answer_in_context@{k}"] = _within(self.answer_at, k)
            values[f"answer_and_ent_in_context@{k}"] = _within(self.both_at, k)
            values[f"entity_in_context@{k}"] = _within(self.entity_at, k)
            if k > 1:
                values[f"recall@{k}"] = self.recall(k)
                values[f"success_rate@{k}"] = self.success_rate(k)
        return values

    def _completed(self, k: int) -> int:
        return sum(position < k for position in self.true_positions)


def retrieval_scores(
    guess: TaskRecord, gold: TaskRecord, *, rank_keys: Sequence[str] = PAGE_KEYS, context_depth: int = 20
) -> RetrievalScores:
    """Retrieval scores of a guess with exactly one output element against its gold record.

    Args:
        guess: the submission's record; its first output element is ranked.
        gold: the record with the same id.
        rank_keys: provenance fields that identify a piece of evidence.
        context_depth: how many provenance texts are searched for answers and titles: the largest k asked for.
    """
    output = guess.outputs[0]
    ids = evidence_ids(output, rank_keys)
    true_positions, n_sets = _rank(ids, gold.outputs, rank_keys)
    answer_at, entity_at, both_at = _first_contexts(guess, gold, context_depth)
    return RetrievalScores(
        rprec=r_precision(ids, gold.outputs, rank_keys),
        n_evidence_sets=n_sets,
        true_positions=true_positions,
        answer_at=answer_at,
        entity_at=entity_at,
        both_at=both_at,
        entity_in_input=_entity_in_input(gold),
    )


def evidence_ids(output: Output, rank_keys: Sequence[str]) -> list[str]:
    """Distinct joined ids of an output element in order; entries that lack a rank key are left out."""
    keys = (entry.key(rank_keys) for entry in output.provenance)
    return list(dict.fromkeys(key for key in keys if key is not None))


def r_precision(ids: Sequence[str], gold_outputs: Sequence[Output], rank_keys: Sequence[str]) -> float:
    """Return the best, over gold output elements, of the share of its R ids among the first R guessed ids."""
    best = 0.0
    for output in gold_outputs:
        gold_ids = set(evidence_ids(output, rank_keys))
        if gold_ids:
            found = sum(guessed in gold_ids for guessed in ids[: len(gold_ids)])
            best = max(best, found / len(gold_ids))
    return best


def _rank(ids: Sequence[str], gold_outputs: Sequence[Output], rank_keys: Sequence[str]) -> tuple[tuple[int, ...], int]:
    """Return positions of completed evidence sets in the rank, and the number of distinct evidence sets.

    Each set holds one place, that of its last id seen; a place that was given up closes, so later ones move up.
    """
    if not ids:
        return (), 0
    distinct = dict.fromkeys(
        frozenset(entry.partial_key(rank_keys) for entry in output.provenance)
        for output in gold_outputs
        if output.has_provenance
    )
    remaining = [set(evidence) for evidence in distinct]
    # serial number → completed; a set's unfinished place is taken out again when the set's next id comes.
    rank: dict[int, bool] = {}
    placeholders: dict[int, int] = {}
    serial = 0
    for guessed in ids:
        holders = [number for number, evidence in enumerate(remaining) if guessed in evidence]
        for number in holders:
            rank.pop(placeholders.pop(number, -1), None)
            remaining[number].remove(guessed)
            if remaining[number]:
                placeholders[number] = serial
            rank[serial] = not remaining[number]
            serial += 1
        if not holders:
            rank[serial] = False
            serial += 1
    return tuple(place for place, completed in enumerate(rank.values()) if completed), len(remaining)


def _first_contexts(guess: TaskRecord, gold: TaskRecord, depth: int) -> tuple[int | None, int | None, int | None]:
    entries = guess.outputs[0].provenance[:depth]
    if not any("text" in entry.fields for entry in entries):
        return None, None, None
    answers = [norm(answer) for answer in gold.answers()]
    titles = [norm(title) for title in gold.titles()]
    answer_at: int | None = None
    entity_at: int | None = None
    for position, entry in enumerate(entries):
        if "text" not in entry.fields:
            continue
        text = entry.fields["text"]
        if not isinstance(text, str):
            raise guess.error(
                f"`text` of provenance entry {position + 1} is not a string",
                "text_not_text",
                "write the passage as a string, or leave `text` out",
            )
        context = norm(text)
        has_answer = any(answer in context for answer in answers)
        has_entity = any(title in context for title in titles)
        if has_answer and answer_at is None:
            answer_at = position
        if has_entity and entity_at is None:
            entity_at = position
        if has_answer and has_entity:
            return answer_at, entity_at, position
    return answer_at, entity_at, None


def _entity_in_input(gold: TaskRecord) -> int:
    text = norm(gold.input)
    return int(any(norm(title) in text for title in gold.titles()))


def _within(position: int | None, k: int) -> int:
    return int(position is not None and position < k)


def mean_measures(scores: Sequence[RetrievalScores], ks: Sequence[int]) -> Mapping[str, float]:
    """Return each measure summed in order and divided once by the number of records, as the official code does."""
    sums = dict.fromkeys(_EMPTY.measures(ks), 0.0)
    for score in scores:
        for name, value in score.measures(ks).items():
            sums[name] += value
    return {name: value / len(scores) for name, value in sums.items()} if scores else sums


_EMPTY = RetrievalScores(0.0, 0, (), None, None, None, 0)
