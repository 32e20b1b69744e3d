"""The scorer against the edge cases and expected values of the official evaluators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from adapters.errors import RecordError, SubmissionError
from adapters.kilt.retrieval import PAGE_KEYS, PARAGRAPH_KEYS
from adapters.kilt.scoring import RankingScores, Scores, score_files, score_retrieval_files
from storage.errors import InvalidOptionError

JsonRecord = dict[str, object]
WriteJsonl = Callable[[str, Iterable[JsonRecord]], Path]


def pages(*ids: object) -> list[JsonRecord]:
    """Provenance entries of pages."""
    return [{"wikipedia_id": page} for page in ids]


def output(answer: object = None, provenance: object = None) -> JsonRecord:
    """An output element; a part that is None is left out."""
    parts = {"answer": answer, "provenance": provenance}
    return {name: value for name, value in parts.items() if value is not None}


def record(*outputs: JsonRecord, id: object = 1, **more: object) -> JsonRecord:
    """A record with its outputs."""
    return {"id": id, "input": "where", "output": list(outputs), **more}


class Scorer:
    """Scores records by writing them to files first."""

    def __init__(self, write_jsonl: WriteJsonl) -> None:
        self._write = write_jsonl

    def files(self, gold: Sequence[JsonRecord], guess: Sequence[JsonRecord]) -> tuple[Path, Path]:
        return self._write("gold.jsonl", gold), self._write("guess.jsonl", guess)

    def one(self, gold: JsonRecord, guess: JsonRecord, **options: Sequence[int]) -> Scores:
        return score_files(*self.files([gold], [guess]), **options)

    def ranking(
        self, gold: JsonRecord, guess: JsonRecord, *, keys: Sequence[str] = PAGE_KEYS, ks: Sequence[int] = (1, 5)
    ) -> Mapping[str, float]:
        scores = score_retrieval_files(*self.files([gold], [guess]), ks=ks, rank_keys=keys)
        combined = score_files(*self.files([gold], [guess]), ks=ks, rank_keys=keys)
        assert combined.ranking == scores.measures  # both evaluators share one definition
        return scores.measures


@pytest.fixture
def scorer(write_jsonl: WriteJsonl) -> Scorer:
    """Scores records."""
    return Scorer(write_jsonl)


def values(scores: Scores) -> dict[str, float]:
    """All official scores in one dictionary."""
    return {**scores.kilt, **scores.downstream, **scores.retrieval}


def assert_scores(scores: Scores, expected: Mapping[str, float]) -> None:
    """Exactly these values among all scores."""
    seen = values(scores)
    assert {name: seen[name] for name in expected} == dict(expected)


ULM = record(output("Ulm", pages(5)))
ZEROS = dict.fromkeys(("accuracy", "em", "f1", "rougel", "KILT-accuracy", "KILT-em", "KILT-f1", "KILT-rougel"), 0.0)


@pytest.mark.parametrize(
    ("gold", "guess", "expected"),
    [
        pytest.param(
            record(output("Ulm", pages(5)), output("Berlin", pages(9))),
            record(output("Ulm", pages(9))),
            {"accuracy": 1, "KILT-accuracy": 1, "Rprec": 1, "recall@5": 0.5},
            id="page of another answer",
        ),
        pytest.param(
            ULM,
            record(output("ulm", pages(5))),
            {"accuracy": 0, "em": 1, "f1": 1, "rougel": 0, "KILT-em": 1, "KILT-accuracy": 0},
            id="letter case",
        ),
        pytest.param(
            record(output("the", pages(5))),
            record(output("a", pages(5))),
            {"em": 1, "f1": 0, "rougel": 0, "accuracy": 0},
            id="articles alone",
        ),
        pytest.param(
            record(output("None", pages(5))),
            {"id": 1, "output": [{"answer": None, "provenance": pages(5)}]},
            {"accuracy": 1},
            id="null is the text None",
        ),
        pytest.param(
            ULM,
            record(output("  ", pages(5))),
            {**ZEROS, "Rprec": 1, "recall@5": 1},
            id="blank answer",
        ),
        pytest.param(
            record(output(None, pages(5))),
            record(output("  ", pages(5))),
            {**ZEROS, "Rprec": 1, "recall@5": 1},
            id="blank answer and no gold answer",
        ),
        pytest.param(
            ULM,
            record(output("Ulm", pages(7, 7, 5))),
            {"Rprec": 0, "KILT-accuracy": 0, "KILT-em": 0, "recall@5": 1},
            id="repeated page",
        ),
        pytest.param(
            record(output("Ulm", pages(5, 6))),
            record(output("Ulm", pages(5, 7, 6))),
            {"Rprec": 0.5, "KILT-accuracy": 0, "recall@5": 1},
            id="two pages needed",
        ),
        pytest.param(
            record(output("Ulm", pages(5)), output("Ulm", [])),
            record(output("Ulm", pages(5))),
            {"Rprec": 1, "KILT-accuracy": 1, "recall@5": 0.5},
            id="empty evidence set counts",
        ),
        pytest.param(
            ULM,
            record(output("Ulm")),
            {"accuracy": 1, "em": 1, "Rprec": 0, "recall@5": 0, "KILT-accuracy": 0, "KILT-em": 0},
            id="no provenance key",
        ),
        pytest.param(
            ULM,
            record(output("Ulm", [{"title": "Ulm"}])),
            {"accuracy": 1, "em": 1, "Rprec": 0, "recall@5": 0, "KILT-accuracy": 0},
            id="no wikipedia_id",
        ),
        pytest.param(
            record(output("Ulm")),
            record(output("Ulm", pages(5))),
            {"Rprec": 0, "KILT-accuracy": 0, "recall@5": 0, "accuracy": 1},
            id="gold without provenance",
        ),
        pytest.param(
            record(output("Ulm", pages("5")), id=1),
            record(output("Ulm", pages(5)), id=" 1 "),
            {"accuracy": 1, "KILT-accuracy": 1},
            id="ids are compared as stripped text",
        ),
    ],
)
def test_edge_cases_score_as_officially(
    scorer: Scorer, gold: JsonRecord, guess: JsonRecord, expected: Mapping[str, float]
) -> None:
    """One row of the table of edge cases."""
    assert_scores(scorer.one(gold, guess), expected)


@pytest.mark.parametrize(
    ("gold", "guess", "problem", "file"),
    [
        pytest.param(record(output(None, pages(5))), record(output("x", pages(5))), "no_gold_answer", "gold"),
        pytest.param(record(output(5, pages(5))), record(output("5", pages(5))), "answer_not_text", "gold"),
        pytest.param(
            ULM,
            {"id": 1, "output": [{"answer": "Ulm", "provenance": None}]},
            "provenance_not_list",
            "guess",
        ),
        pytest.param(ULM, record(), "not_one_output", "guess"),
        pytest.param(ULM, record(output("Ulm"), output("Ulm")), "not_one_output", "guess"),
        pytest.param(ULM, record(output(None, pages(5))), "no_answer_key", "guess"),
        pytest.param(ULM, {"id": 1}, "no_output", "guess"),
        pytest.param({"id": 1, "output": []}, record(output("Ulm")), "no_gold", "gold"),
    ],
)
def test_what_stops_the_official_run_is_an_error_that_names_the_line(
    scorer: Scorer, gold: JsonRecord, guess: JsonRecord, problem: str, file: str
) -> None:
    """The official evaluator dies with a traceback; here file, line, id and remedy are named."""
    with pytest.raises(RecordError, match=rf"{file}\.jsonl:1: .*\(id '1'\); ") as caught:
        scorer.one(gold, guess)
    assert caught.value.problem == problem


def test_a_missing_prediction_is_an_error_and_an_extra_one_is_ignored(scorer: Scorer) -> None:
    """Every gold id needs a prediction; others do not matter."""
    gold = [record(output("Ulm", pages(5)), id=1), record(output("Ulm", pages(5)), id=2)]
    guess = [record(output("Ulm", pages(5)), id=number) for number in (3, 2, 1)]
    with pytest.raises(SubmissionError, match=r"no prediction for 1 of 2 gold ids \('2'; first on line 2"):
        score_files(*scorer.files(gold, guess[2:]))
    scores = score_files(*scorer.files(gold, guess))
    assert scores.n_ignored == 1
    assert scores.downstream["accuracy"] == 1


@pytest.mark.parametrize("side", [0, 1])
def test_a_repeated_id_is_an_error_in_either_file(scorer: Scorer, side: int) -> None:
    """Ids are unique in gold and guess, compared as stripped text."""
    files: list[list[JsonRecord]] = [[ULM], [ULM]]
    files[side].append({**ULM, "id": " 1 "})
    with pytest.raises(RecordError, match="already used on line 1"):
        score_files(*scorer.files(*files))


def test_the_retrieval_evaluator_wants_one_output_with_provenance(scorer: Scorer) -> None:
    """Separate answer elements are fine there, a missing `provenance` is not."""
    guess = record(output("Ulm"), output("Ulm", pages(5)), output("Neu-Ulm"))
    assert score_retrieval_files(*scorer.files([ULM], [guess])).measures["Rprec"] == 1
    with pytest.raises(RecordError, match="0 output elements have `provenance`"):
        score_retrieval_files(*scorer.files([ULM], [record(output("Ulm"))]))
    with pytest.raises(RecordError, match="2 output elements have `provenance`"):
        score_retrieval_files(*scorer.files([ULM], [record(output("U", pages(5)), output("V", pages(5)))]))


def test_a_set_is_ranked_where_its_last_page_stands(scorer: Scorer) -> None:
    """[2,7,8,9,10,1] for {1,2}: rank F,F,F,F,T, since the earlier placeholder is given up."""
    measures = scorer.ranking(record(output("x", pages(1, 2))), record(output("x", pages(2, 7, 8, 9, 10, 1))))
    assert measures["Rprec"] == 0.5
    assert measures["precision@1"] == 0
    assert measures["precision@5"] == 0.2
    assert measures["recall@5"] == 1
    assert measures["success_rate@5"] == 1


def test_one_page_may_serve_two_sets(scorer: Scorer) -> None:
    """[1,2,3] for {1,2} and {1,3}: rank T,T."""
    gold = record(output("x", pages(1, 2)), output("y", pages(1, 3)))
    measures = scorer.ranking(gold, record(output("x", pages(1, 2, 3))))
    assert (measures["Rprec"], measures["precision@1"], measures["precision@5"], measures["recall@5"]) == (1, 1, 0.4, 1)


def test_equal_sets_are_one(scorer: Scorer) -> None:
    """{1,2} and {2,1} are the same evidence."""
    gold = record(output("x", pages(1, 2)), output("y", pages(2, 1)))
    measures = scorer.ranking(gold, record(output("x", pages(1, 2))))
    assert (measures["precision@5"], measures["recall@5"]) == (0.2, 1)


def test_gold_that_lacks_a_rank_key_is_counted_but_never_found(scorer: Scorer) -> None:
    """A page-only set under section keys keeps recall at one half."""
    section = [{"wikipedia_id": "5", "section": "S"}]
    gold = record(output("x", pages("5")), output("x", section))
    measures = scorer.ranking(gold, record(output("x", section)), keys=("wikipedia_id", "section"))
    assert (measures["Rprec"], measures["precision@5"], measures["recall@5"]) == (1, 0.2, 0.5)


def test_answers_and_titles_are_looked_for_in_the_raw_passages(scorer: Scorer) -> None:
    """Substrings after normalisation: `art` is in `Cartoon`; both must be in one passage."""
    gold = record(output("art", [{"wikipedia_id": "1", "title": "Ulm"}]), input="the Ulm river")
    guess = record(
        output(
            "art",
            [
                {"wikipedia_id": "2", "text": "Cartoon"},
                {"wikipedia_id": "1", "text": "ulm"},
                {"wikipedia_id": "1", "text": "Art, in Ulm."},
            ],
        )
    )
    measures = scorer.ranking(gold, guess, ks=(1, 2, 3))
    assert [measures[f"answer_in_context@{k}"] for k in (1, 2, 3)] == [1, 1, 1]
    assert [measures[f"entity_in_context@{k}"] for k in (1, 2, 3)] == [0, 1, 1]
    assert [measures[f"answer_and_ent_in_context@{k}"] for k in (1, 2, 3)] == [0, 0, 1]
    assert measures["entity_in_input"] == 1
    assert measures["recall@2"] == 1


def test_a_passage_that_is_no_string_is_an_error(scorer: Scorer) -> None:
    """`text: null` stops the official evaluator too."""
    guess = record(output("Ulm", [{"wikipedia_id": "5", "text": None}]))
    with pytest.raises(RecordError, match="`text` of provenance entry 1 is not a string"):
        scorer.one(ULM, guess)


def test_gold_without_input_is_scored(scorer: Scorer) -> None:
    """The official code raises KeyError since 2021; a missing input is the empty text."""
    gold = {"id": 1, "output": [output("Ulm", pages(5))]}
    assert scorer.one(gold, record(output("Ulm", pages(5)))).kilt["KILT-accuracy"] == 1


def test_an_empty_gold_file_scores_zero(scorer: Scorer) -> None:
    """No record, no division."""
    assert set(values(score_files(*scorer.files([], []))).values()) == {0.0}


GOLD1 = [
    record(output("flood", pages("10")), id="a"),
    record(output("flood", pages("11")), id="b"),
    record(output("it was flood", pages("12")), id="c"),
]


class TestOfficialFixtures:
    """Expected values of the official tests, on fixtures of the same shape."""

    def test_guess1_1(self, scorer: Scorer) -> None:
        """One exact answer, one with an article, one on the wrong page."""
        guess = [
            record(output("flood", pages("10")), id="a"),
            record(output("a flood", pages("99")), id="b"),
            record(output("flood", pages("98")), id="c"),
        ]
        assert_scores(
            score_files(*scorer.files(GOLD1, guess)),
            {
                "KILT-em": 1 / 3,
                "KILT-f1": 1 / 3,
                "KILT-rougel": 0.3333333316666667,
                "em": 2 / 3,
                "f1": 0.8333333333333334,
                "rougel": 0.7222222178240741,
                "Rprec": 1 / 3,
                "recall@5": 1 / 3,
            },
        )

    def test_gold1_against_itself(self, scorer: Scorer) -> None:
        """Perfect, but for ROUGE-L, whose best is 0.999999995."""
        assert_scores(
            score_files(*scorer.files(GOLD1, GOLD1)),
            {
                "em": 1,
                "f1": 1,
                "KILT-em": 1,
                "KILT-f1": 1,
                "rougel": 0.999999995,
                "KILT-rougel": 0.999999995,
                "Rprec": 1,
                "recall@5": 1,
            },
        )

    @pytest.mark.parametrize("keys", [PAGE_KEYS, ("wikipedia_id", "section"), PARAGRAPH_KEYS])
    @pytest.mark.parametrize(
        ("guessed", "expected"),
        [
            (
                ("2", 5, "7", 33, 1, "9", 44, 88),
                {"Rprec": 1 / 2, "precision@1": 1, "precision@5": 2 / 5, "recall@5": 2 / 3, "success_rate@5": 1},
            ),
            ((5,), {"Rprec": 1, "precision@1": 1, "precision@5": 1 / 5, "recall@5": 1 / 3, "success_rate@5": 1}),
        ],
    )
    def test_gold2_at_every_grain(
        self, scorer: Scorer, keys: Sequence[str], guessed: Sequence[object], expected: Mapping[str, float]
    ) -> None:
        """The same values by page, by section and by paragraph when all fields agree."""

        def filled(entries: Sequence[object]) -> list[JsonRecord]:
            return [
                {"wikipedia_id": entry, "section": entry, "start_paragraph_id": entry, "end_paragraph_id": entry}
                for entry in entries
            ]

        gold = record(output("x", filled(("1", 2))), output("y", filled((5,))), output("z", filled(("7", "9", 11))))
        measures = scorer.ranking(gold, record(output("x", filled(guessed))), keys=keys)
        # Page 2 alone leaves {1, 2} a placeholder; page 1 completes the set and page 5 moves up to the first place.
        assert {name: measures[name] for name in expected} == expected


def test_gates_say_what_each_record_failed_at(scorer: Scorer) -> None:
    """Right answer on the wrong page, wrong answer on the right page, neither, both."""
    gold = [record(output("Ulm", pages(5)), id=number) for number in range(4)]
    answers = [("Ulm", 5), ("Ulm", 6), ("Bonn", 5), ("Bonn", 6)]
    guess = [record(output(answer, pages(page)), id=number) for number, (answer, page) in enumerate(answers)]
    scores = score_files(*scorer.files(gold, guess))
    assert [scored.gate() for scored in scores.records] == ["passed", "Rprec", "answer", "both"]
    assert scores.gates() == {"passed": 1, "answer": 1, "Rprec": 1, "both": 1}
    line = scores.records[1].to_json(scores.ks)
    assert (line["id"], line["guess_line"], line["failed_gate"], line["em"], line["Rprec"]) == ("1", 2, "Rprec", 1, 0)


def test_kilt_scores_use_pages_whatever_the_rank_keys(scorer: Scorer) -> None:
    """A right page with the wrong paragraph passes the KILT gate and fails the paragraph ranking."""
    gold = record(output("Ulm", [{"wikipedia_id": "5", "start_paragraph_id": 1, "end_paragraph_id": 1}]))
    guess = record(output("Ulm", [{"wikipedia_id": "5", "start_paragraph_id": 2, "end_paragraph_id": 2}]))
    scores = score_files(*scorer.files([gold], [guess]), rank_keys=PARAGRAPH_KEYS)
    assert (scores.kilt["KILT-accuracy"], scores.retrieval["Rprec"], scores.ranking["Rprec"]) == (1, 1, 0)


@pytest.mark.parametrize("options", [{"ks": [0, 5]}, {"ks": []}, {"rank_keys": []}])
def test_impossible_options_are_refused(scorer: Scorer, options: dict[str, Sequence[int]]) -> None:
    """Every k is positive, and there is at least one rank key."""
    with pytest.raises(InvalidOptionError, match="wanted; pass for example"):
        scorer.one(ULM, ULM, **options)


def test_thousands_of_records_are_scored(write_jsonl: WriteJsonl) -> None:
    """In another order than the gold ones."""
    n = 4_000
    gold = write_jsonl("gold.jsonl", (record(output("Ulm", pages(number)), id=number) for number in range(n)))
    guess = write_jsonl(
        "guess.jsonl", (record(output("Ulm", pages(number - number % 2)), id=number) for number in reversed(range(n)))
    )
    scores: Scores = score_files(gold, guess, ks=(1, 5))
    ranking: RankingScores = score_retrieval_files(gold, guess, ks=(1, 5))
    assert scores.downstream["accuracy"] == 1
    assert scores.kilt["KILT-accuracy"] == ranking.measures["Rprec"] == 0.5
