"""Training rows of every format become examples with checked offsets; what cannot be used is counted by reason."""

from __future__ import annotations

import gzip
import json

import pytest

from kbengine.errors import TrainingDataError
from kbengine.inputs import Dialogue, Mention, Question, Slot
from kbengine.learning.data.places import checked_span, occurrences, title_occurrences
from kbengine.learning.data.reading import DataOptions, detect_data_format, read_training_files
from kbengine.span import Span

OSLO = "The harbour town was renamed twice. Its castle was built by a king around 1300."
PAGES = [
    {
        "wikipedia_id": "1",
        "wikipedia_title": "Akershus (castle)",
        "text": ["Akershus (castle)", "Section::::History.", OSLO, "Today Akershus is a museum."],
    },
    {"wikipedia_id": "2", "wikipedia_title": "Nowhere", "text": ["Nowhere", "A page without its name."]},
    {"wikipedia_id": "3", "wikipedia_title": "Empty", "text": ["Empty"]},
]


def write_lines(path, rows):
    """Return the path, which holds one JSON object a line, packed when its name ends in .gz."""
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def read_kilt(tmp_path, rows, **options):
    """Return what is read of KILT rows over PAGES."""
    pages = write_lines(tmp_path / "pages.jsonl.gz", PAGES)
    file = write_lines(tmp_path / "rows.train.jsonl", rows)
    return read_training_files([file], DataOptions(pages=(pages,), **options))


def kilt_row(id, text, *places, answer=None):
    """Return a KILT row with one output of these places: page, and perhaps paragraph, start and end."""
    names = ("wikipedia_id", "start_paragraph_id", "start_character", "end_character")
    provenance = [dict(zip(names, place, strict=False)) for place in places]
    for place in provenance:
        if "start_paragraph_id" in place:
            place["end_paragraph_id"] = place["start_paragraph_id"]
    return {"id": id, "input": text, "output": [{"answer": answer, "provenance": provenance}]}


def test_squad_gives_every_answer_once_and_impossible_questions_without_one(tmp_path):
    """v1.1 and v2.0; an offset that is off by a blank is mended, one that is wrong is counted."""
    qas = [
        {"id": "a", "question": "When?", "answers": [{"text": "1300", "answer_start": 74}] * 2},
        {"id": "b", "question": "Who?", "answers": [{"text": "king", "answer_start": 60}]},
        {"id": "c", "question": "Why?", "answers": [], "is_impossible": True},
        {"id": "d", "question": "What?", "answers": [{"text": "dragon", "answer_start": 3}]},
        {"id": "e", "question": " ", "answers": [{"text": "king", "answer_start": 61}]},
    ]
    value = {"version": "2.0", "data": [{"title": "Akershus_castle", "paragraphs": [{"context": OSLO, "qas": qas}]}]}
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(value))
    data = read_training_files([path])

    assert [each.id for each in data.examples] == ["a", "b", "c"]
    assert data.examples[0].answer_texts == ("1300",) and data.examples[1].answer_texts == ("king",)
    assert data.examples[0].title == "Akershus castle" and data.examples[0].query == Question("When?")
    assert not data.examples[2].answerable and data.examples[2].answers == ()
    assert data.report.unusable == {"answer not at its offset": 1, "no question": 1}
    assert data.report.files[0].rows_of["answer not at its offset"] == ["d"] and data.report.rows == 5


def test_kilt_answers_stand_at_their_offsets_or_are_found_by_string(tmp_path):
    """Exact offsets; none at all; an output that has only an answer, as Natural Questions has."""
    by_string = kilt_row("2", "Akershus [SEP] use", ("1",), answer="museum")
    bare = kilt_row("3", "Akershus [SEP] founder", ("1", 2))
    bare["output"].append({"answer": "a King"})
    data = read_kilt(
        tmp_path, [kilt_row("1", "Akershus [SEP] inception", ("1", 2, 74, 78), answer="1300"), by_string, bare]
    )

    assert data.examples[0].query == Slot("Akershus", "inception")
    assert [each.answer_texts for each in data.examples] == [("1300",), ("museum",), ("a king",)]
    assert data.examples[0].passage == OSLO and data.examples[0].doc_id == "1" and data.examples[0].source == "rows"


def test_a_mention_is_answered_by_the_title_where_it_stands_first_or_by_the_passage_alone(tmp_path):
    """The disambiguation is not looked for; a page that never names itself keeps the passage loss."""
    rows = [
        kilt_row("1", "We saw [START_ENT] the castle [END_ENT] today", ("1",), answer="Akershus (castle)"),
        kilt_row("2", "It lies in [START_ENT] nowhere [END_ENT]", ("2",), answer="Nowhere"),
    ]
    data = read_kilt(tmp_path, rows)

    assert data.examples[0].query == Mention.from_parts("We saw ", "the castle", " today")
    assert data.examples[0].passage == "Today Akershus is a museum." and data.examples[0].answers == (Span(6, 14),)
    assert data.examples[1].answers == () and data.examples[1].answerable
    assert data.report.files[0].notes == {"phrase not found: passage loss alone": 1}


def test_a_dialogue_keeps_its_gold_paragraph(tmp_path):
    """The title's occurrence in it is the phrase; without one the paragraph as a whole is."""
    rows = [
        kilt_row("1", "Hello.\nWhat about castles?", ("1", 3, 0, 5), answer="I like it"),
        kilt_row("2", "When was it built?", ("1", 2, 0, 5), answer="Long ago"),
    ]
    data = read_kilt(tmp_path, rows)

    assert data.examples[0].query == Dialogue(("Hello.", "What about castles?"))
    assert data.examples[0].answer_texts == ("Akershus",)
    assert data.examples[1].query == Dialogue(("When was it built?",)) and data.examples[1].passage == OSLO
    assert data.examples[1].answers == ()


def test_rows_of_excluded_pages_and_broken_rows_are_counted_by_reason(tmp_path):
    """The rule about unseen pages is kept by the reader itself."""
    rows = [
        kilt_row("1", "Akershus [SEP] inception", ("1", 2, 74, 78), answer="1300"),
        kilt_row("2", "Nowhere [SEP] place", ("2",), answer="name"),
        kilt_row("3", "Nowhere [SEP]", ("1",), answer="name"),
        kilt_row("4", "Nowhere [SEP] x", answer="name"),
        kilt_row("5", "Nowhere [SEP] x", ("9",), answer="name"),
        kilt_row("6", "Nowhere [SEP] x", ("3",), answer="name"),
        kilt_row("7", "Nowhere [SEP] x", ("1", 2, 0, 4), answer="dragon"),
        kilt_row("8", "Nowhere [SEP] x", ("1",), answer="dragon"),
    ]
    data = read_kilt(tmp_path, rows, exclude=frozenset({"2"}))

    assert [each.id for each in data.examples] == ["1"]
    assert data.report.unusable == {
        "excluded page": 1,
        "input has not its task's form": 1,
        "no provenance": 1,
        "page not in the pages files": 1,
        "page without text": 1,
        "answer not in its paragraph": 1,
        "answer not on its page": 1,
    }


def test_several_gold_passages_become_several_examples_on_request(tmp_path):
    """One by default; the further ones get ids of their own."""
    row = kilt_row("1", "Akershus [SEP] use", ("1", 2, 58, 64), ("1", 3, 20, 26), answer=None)
    row["output"] = [
        {"answer": "a king", "provenance": [row["output"][0]["provenance"][0]]},
        {"answer": "museum", "provenance": [row["output"][0]["provenance"][1]]},
    ]

    assert [each.id for each in read_kilt(tmp_path, [row]).examples] == ["1"]
    both = read_kilt(tmp_path, [row], max_passages=2).examples
    assert [(each.id, each.answer_texts) for each in both] == [("1", ("a king",)), ("1#1", ("museum",))]


def test_natural_questions_lose_their_tags_and_keep_their_answers(tmp_path):
    """The simplified file: token offsets become characters of the text without HTML."""
    text = "<H1> Castles </H1> <P> The <B> old </B> castle was built by a king . </P>"
    short = [{"start_token": 13, "end_token": 14}]
    rows = [
        {
            "example_id": number,
            "question_text": "who built it",
            "document_text": text,
            "annotations": [{"long_answer": {"start_token": begin, "end_token": 16}, "short_answers": answers}],
        }
        for number, (begin, answers) in enumerate([(3, short), (3, []), (-1, short)])
    ]
    data = read_training_files([write_lines(tmp_path / "nq.jsonl.gz", rows)])

    assert data.examples[0].passage == "The old castle was built by a king ." and data.examples[0].title == "Castles"
    assert data.examples[0].answer_texts == ("king",) and data.examples[1].answers == ()
    assert data.report.unusable == {"no long answer": 1} and sum(data.report.files[0].notes.values()) == 1


def test_all_annotations_of_a_natural_question_count(tmp_path):
    """The long answer that most annotators name, with the short answers of all that stand in it; others on request."""
    text = "<P> The castle was built by a king . </P> <P> Some say a queen built it . </P>"
    first, second = {"start_token": 0, "end_token": 10}, {"start_token": 10, "end_token": 19}
    king, queen = {"start_token": 7, "end_token": 8}, {"start_token": 14, "end_token": 15}
    a_king = {"start_token": 6, "end_token": 8}
    annotations = [
        {"long_answer": {"start_token": -1, "end_token": -1}, "short_answers": []},
        {"long_answer": second, "short_answers": [queen]},
        {"long_answer": first, "short_answers": []},
        {"long_answer": first, "short_answers": [king]},
        {"long_answer": {"start_token": 0, "end_token": 9}, "short_answers": [a_king, king]},
    ]
    row = {"example_id": 7, "question_text": "who built it", "document_text": text, "annotations": annotations}
    path = write_lines(tmp_path / "nq.jsonl", [row])

    (example,) = read_training_files([path]).examples
    assert (example.id, example.passage) == ("7", "The castle was built by a king .")
    assert example.answer_texts == ("king", "a king")
    several = read_training_files([path], DataOptions(max_passages=2)).examples
    assert [(each.id, each.answer_texts) for each in several] == [("7", ("king", "a king")), ("7#1", ("queen",))]


def test_open_questions_take_the_first_context_with_an_answer_and_their_hard_negatives(tmp_path):
    """DPR's file of Natural Questions."""
    rows = [
        {
            "question": "who built it",
            "answers": ["a King"],
            "positive_ctxs": [{"title": "T", "text": "Nothing."}, {"title": "T", "text": OSLO, "passage_id": "7"}],
            "hard_negative_ctxs": [{"text": "Another castle.", "title": "Castles"}, {"text": "A third."}],
        },
        {"question": "why", "answers": ["x"], "positive_ctxs": []},
        {"question": "why", "answers": ["x"], "positive_ctxs": [{"title": "T", "text": "y"}]},
    ]
    path = tmp_path / "nq-train.json"
    path.write_text(json.dumps(rows))
    data = read_training_files([path])

    (example,) = data.examples
    assert (
        example.answer_texts == ("a king",)
        and example.negatives == ("Another castle.",)
        and example.negative_titles == ("Castles",)
        and example.doc_id == "7"
    )
    assert data.report.unusable == {"no positive context": 1, "answer in no positive context": 1}


def test_zero_shot_rows_are_slots_or_questions_and_may_have_no_answer(tmp_path):
    """The raw tab-separated file."""
    path = tmp_path / "train.0"
    path.write_text(
        "founder\tWho founded XXX?\tAkershus\tAkershus was founded by a king.\ta king\n"
        "founder\tWho founded XXX?\tAkershus\tAkershus is old.\n"
        "founder\tWho founded XXX?\tAkershus\tAkershus is old.\tdragon\nbroken\n"
    )
    data = read_training_files([path])
    asked = read_training_files([path], DataOptions(as_questions=True))

    assert [each.query for each in data.examples] == [Slot("Akershus", "founder")] * 2
    assert [each.answerable for each in data.examples] == [True, False]
    assert asked.examples[0].query == Question("Who founded Akershus?")
    assert data.report.unusable == {"answer not in its sentence": 1, "fewer than four fields": 1}


def test_files_that_cannot_be_read_say_what_was_wanted(tmp_path):
    """No format, no pages, a broken line, nothing usable."""
    (tmp_path / "x.txt").write_text("just some text\n")
    with pytest.raises(TrainingDataError, match=r"x\.txt: is no file of training rows; wanted SQuAD JSON"):
        detect_data_format(tmp_path / "x.txt")
    rows = write_lines(tmp_path / "rows.jsonl", [kilt_row("1", "a [SEP] b", ("9",), answer="c")])
    with pytest.raises(TrainingDataError, match="give the corpus with --pages"):
        read_training_files([rows])
    with pytest.raises(TrainingDataError, match=r"none of 1 rows can be used \(page not in the pages files: 1\)"):
        read_kilt(tmp_path, [kilt_row("1", "a [SEP] b", ("9",), answer="c")])
    rows.write_text(rows.read_text() + "{broken\n")
    with pytest.raises(TrainingDataError, match=r"rows\.jsonl:2: is not JSON"):
        read_training_files([rows], DataOptions(pages=(rows,)))


def test_places_in_a_text():
    """Whole words only; case as written first; blanks of any kind; titles without their disambiguation."""
    assert occurrences("Kings and a king, two KINGS", "king") == [Span(12, 16)]
    assert occurrences("two  KINGS\nagree", "kings agree") == [Span(5, 16)]
    assert occurrences("C++ is old", "C++") == [Span(0, 3)] and occurrences("text", " ") == []
    assert title_occurrences("Lincoln lies in Nebraska", "Lincoln, Nebraska") == [Span(0, 7)]
    assert title_occurrences("A film", "Film (medium)") == [Span(2, 6)]
    assert checked_span("in 1300.", 3, 8, "1300") == Span(3, 7) and checked_span("in 1300.", 90, 94, "1300") is None
    assert checked_span(" a ", 0, 3, None) == Span(1, 2) and checked_span("abc", 1, 1, None) is None
