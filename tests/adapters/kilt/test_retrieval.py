"""Retrieval scores against a step-by-step re-implementation of the definition."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from adapters.kilt.records import Output, Provenance, TaskRecord
from adapters.kilt.retrieval import PAGE_KEYS, PARAGRAPH_KEYS, RetrievalScores, mean_measures, retrieval_scores

_KEYS = st.sampled_from([PAGE_KEYS, ("wikipedia_id", "section"), PARAGRAPH_KEYS])
_ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "wikipedia_id": st.sampled_from(["1", "2", " 3 ", 1, 2, 3, None]),
        "section": st.sampled_from(["S", "T"]),
        "start_paragraph_id": st.sampled_from([1, "1", 2]),
        "end_paragraph_id": st.sampled_from([1, 2]),
    },
)
_LISTS = st.lists(_ENTRY, max_size=8)


def _record(lists: Sequence[Sequence[dict[str, object]] | None]) -> TaskRecord:
    outputs = tuple(
        Output(provenance=tuple(Provenance(entry) for entry in entries or ()), has_provenance=entries is not None)  # type: ignore[arg-type]
        for entries in lists
    )
    return TaskRecord("1", 1, "", outputs, "file", 1)


def _slow(
    guess: Sequence[dict[str, object]],
    gold: Sequence[Sequence[dict[str, object]] | None],
    keys: Sequence[str],
) -> tuple[float, list[bool], int]:
    """R-precision, the rank as a list of placed booleans, and the number of evidence sets."""

    def names(entries: Sequence[dict[str, object]]) -> list[str]:
        found: list[str] = []
        for entry in entries:
            if all(key in entry for key in keys):
                name = "+".join(str(entry[key]).strip() for key in keys)
                if name not in found:
                    found.append(name)
        return found

    guessed = names(guess)
    best = 0.0
    for entries in gold:
        wanted = names(entries or [])
        if wanted:
            best = max(best, sum(name in wanted for name in guessed[: len(wanted)]) / len(wanted))
    if not guessed:
        return best, [], 0
    sets: list[set[str]] = []
    for entries in gold:
        if entries is not None:
            evidence = {"+".join(str(entry[key]).strip() for key in keys if key in entry) for entry in entries}
            if evidence not in sets:
                sets.append(evidence)
    rank: list[bool | str] = []
    for name in guessed:
        found = False
        for number, evidence in enumerate(sets):
            if name in evidence:
                found = True
                if f"set {number}" in rank:
                    rank.remove(f"set {number}")
                evidence.remove(name)
                rank.append(f"set {number}" if evidence else True)
        if not found:
            rank.append(False)
    return best, [place is True for place in rank], len(sets)


@given(guess=_LISTS, gold=st.lists(st.one_of(st.none(), _LISTS), min_size=1, max_size=4), keys=_KEYS)
def test_any_ranking_equals_the_plain_definition(
    guess: list[dict[str, object]], gold: list[list[dict[str, object]] | None], keys: Sequence[str]
) -> None:
    """Rprec, precision, recall and success at several k."""
    scores = retrieval_scores(_record([guess]), _record(gold), rank_keys=keys)
    rprec, rank, n_sets = _slow(guess, gold, keys)
    assert scores.rprec == rprec
    for k in (1, 2, 3, 5, 20):
        completed = rank[:k].count(True)
        assert scores.precision(k) == completed / k
        assert scores.recall(k) == (completed / n_sets if n_sets else 0)
        assert scores.success_rate(k) == int(completed > 0)


def test_means_are_summed_in_order_and_divided_once() -> None:
    """0.1 three times over three records gives what the official loop gives, not what `fmean` gives."""
    scores = [RetrievalScores(0.1, 0, (), None, None, None, 0)] * 3
    assert mean_measures(scores, [1])["Rprec"] == (0.1 + 0.1 + 0.1) / 3


def test_recall_and_success_have_no_value_at_one() -> None:
    """The official evaluator reports them for k > 1 only, in this order."""
    scores = RetrievalScores(1.0, 1, (0,), 0, None, None, 1)
    assert list(scores.measures([1, 2])) == [
        "Rprec",
        "entity_in_input",
        "precision@1",
        "answer_in_context@1",
        "answer_and_ent_in_context@1",
        "entity_in_context@1",
        "precision@2",
        "answer_in_context@2",
        "answer_and_ent_in_context@2",
        "entity_in_context@2",
        "recall@2",
        "success_rate@2",
    ]
