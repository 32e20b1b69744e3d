"""Tables: every row comes back, what is there stays, what is missing is asked for, an interruption loses nothing."""

from __future__ import annotations

import csv

import pytest

from adapters.errors import TableError, UnknownRelationError
from adapters.filling.filler import NOTE, FillOptions
from adapters.filling.filling import fill_file, fill_rows
from adapters.filling.opening import open_table
from adapters.filling.table import format_of, text_of
from kbengine.errors import InvalidOptionError
from kbengine.inputs import Mention, Slot
from tests.adapters.filling.scripted import Scripted

NAMES = FillOptions(subject="name", relations=("P19", "spouse"))


@pytest.fixture
def kb():
    """What answers."""
    return Scripted()


def filled(kb, rows, options=NAMES):
    """The rows, filled."""
    return fill_rows(rows, kb.filler(options), options)


def table(tmp_path, text, name="t.csv"):
    """A file of this text."""
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(path):
    """The rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_how_much_is_read_is_said_for_all_queries(kb):
    """0 reads nothing, which is fast; a number that is none is refused before anything is asked."""
    assert FillOptions("name", read=0).answer_options.read == 0
    with pytest.raises(InvalidOptionError, match="read is -1, wanted"):
        FillOptions("name", read=-1)


def test_a_name_gets_its_document_and_what_is_wanted_of_it(kb):
    """Value, probability, document and sentence of each relation."""
    (row,) = filled(kb, [{"name": "Marie Curie"}])

    assert row == {
        "name": "Marie Curie",
        "name id": "marie",
        "name title": "Marie Curie",
        "name probability": 0.9,
        "P19": "Warsaw",
        "P19 probability": 0.9,
        "P19 document": "marie",
        "P19 evidence": "She said: Warsaw.",
        "spouse": "Pierre Curie",
        "spouse probability": 0.9,
        "spouse document": "marie",
        "spouse evidence": "She said: Pierre Curie.",
        NOTE: None,
    }


def test_cells_that_hold_something_stay_and_are_not_asked_for(kb):
    """Of relations and of ids."""
    (row,) = filled(kb, [{"name": "Marie Curie", "P19": "here", "name id": "ada", "own": 1}])

    assert (row["P19"], row["P19 evidence"], row["name id"], row["own"]) == ("here", None, "ada", 1)
    assert kb.asked == [Slot("Ada Lovelace", "spouse")]


def test_what_cannot_be_filled_is_said(kb):
    """An empty name, no answer, a request that cannot be asked: the row comes back."""
    options = FillOptions(subject="name", relations=("P19", "too long"))
    empty, unknown, known = filled(kb, [{"name": " "}, {"name": "Nobody"}, {"name": "Ada Lovelace"}], options)

    assert empty[NOTE] == "name: is empty"
    assert unknown[NOTE].startswith("name, P19: the knowledge base seems to hold no answer; too long: ")
    assert (known["P19"], known[NOTE]) == ("London", "too long: it has 99 tokens")
    (row,) = filled(kb, [{"name": "Ada Lovelace", "who": "nobody"}], FillOptions("name", ("P19",), ids="who"))
    assert (row["P19"], row[NOTE]) == ("London", "who: there is no document 'nobody'")


def test_a_context_says_who_is_meant(kb):
    """The linked document's title is asked about; the name is marked where it stands in the context."""
    options = FillOptions("name", ("P19",), context="text")
    first, second = filled(
        kb, [{"name": "Curie", "text": "Marie Curie worked."}, {"name": "Mme", "text": "Marie"}], options
    )

    assert first["P19"] == second["P19"] == "Warsaw"
    assert kb.asked[:2] == [Mention("Marie Curie worked.", (6, 11)), Mention("Mme, Marie", (0, 3))]


def test_several_values_of_a_cell_and_no_evidence(kb):
    """Parted by a semicolon."""
    (row,) = filled(kb, [{"name": "Marie Curie"}], FillOptions("name", ("spouse",), values=3, evidence=False))

    assert row["spouse"] == "Pierre Curie; Jacques Curie" and "spouse evidence" not in row


def test_questions_get_answers_and_equal_ones_are_asked_once(kb):
    """In a column of that name."""
    rows = filled(kb, [{"q": "Who?"}, {"q": "Who?"}, {"q": "Why?"}], FillOptions(question="q"))

    assert [row["answer"] for row in rows] == ["Nobody", "Nobody", None] and len(kb.asked) == 2


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"subject": "a", "question": "b"},
        {"question": "a", "relations": ("P19",)},
        {"subject": "a", "values": 0},
        {"subject": "a", "relations": ("x", "x")},
    ],
)
def test_options_that_do_not_go_together_are_refused(options):
    """Before anything is asked."""
    with pytest.raises(InvalidOptionError):
        FillOptions(**options)
    with pytest.raises(UnknownRelationError):
        FillOptions("a", ("P99999999",))


def test_a_file_is_filled_and_an_interruption_costs_one_batch(kb, tmp_path):
    """What was noted is not asked again; the table appears at the end, whole."""
    names = ["Marie Curie", "Ada Lovelace"] * 15
    path, out = (
        table(tmp_path, "name,n\n" + "".join(f"{name},{n}\n" for n, name in enumerate(names))),
        tmp_path / "o.csv",
    )
    kb.breaks_after = 10
    with pytest.raises(KeyboardInterrupt):
        fill_file(path, out, kb.filler(NAMES), NAMES)
    partial = tmp_path / "o.csv.partial"
    assert not out.exists() and partial.exists()
    partial.write_bytes(partial.read_bytes() + b'{"cut')  # as a power cut leaves it
    with pytest.raises(TableError, match="another table"):
        fill_file(path, out, kb.filler(NAMES), FillOptions("name", ("P19",)))
    kb.breaks_after = None
    said = []

    report = fill_file(path, out, kb.filler(NAMES), NAMES, progress=lambda *done: said.append(done))

    assert (report.rows, report.linked, report.asked, report.filled) == (30, 30, 60, 45)
    assert 0 < report.resumed < 30 and said[0] == (report.resumed, 30) and said[-1] == (30, 30)
    rows = read(out)
    assert [(row["name"], row["n"]) for row in rows] == [(name, str(n)) for n, name in enumerate(names)]
    assert [row["P19"] for row in rows] == ["Warsaw", "London"] * 15
    assert not partial.exists() and sorted(each.name for each in tmp_path.iterdir()) == ["o.csv", "t.csv"]
    with pytest.raises(TableError, match="there already"):
        fill_file(path, out, kb.filler(NAMES), NAMES)


def test_cells_of_text_tables_come_back_as_they_were(kb, tmp_path):
    """Quotes, line breaks, delimiters, blanks; rows that end early."""
    text = '\ufeffname;note\nAda Lovelace;" a ""b""\nc; "\n"Marie Curie"\n'
    path = table(tmp_path, text)
    fill_file(path, tmp_path / "o.tsv", kb.filler(NAMES), NAMES)

    found = open_table(tmp_path / "o.tsv")
    assert [row[:2] for row in found.rows()] == [("Ada Lovelace", ' a "b"\nc; '), ("Marie Curie", "")]
    assert format_of(tmp_path / "x.TAB") == "tsv" and text_of(3.0) == "3"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no header"),
        ("a,,b\n", "column 2 has no name"),
        ("a,a\n", "two columns are called 'a'"),
        ("a,b\n1,2,3\n", "row 2: has 3 cells"),
        (b"a,b\n\xff\xfe,1\n", "no UTF-8"),
        ('a,b\n"x"y,1\n', "line 2"),
    ],
)
def test_a_table_that_cannot_be_read_says_where_and_what_to_do(tmp_path, text, says):
    """Before anything is asked."""
    with pytest.raises(TableError, match=says):
        open_table(table(tmp_path, text))


def test_a_column_that_is_not_there_is_named_with_those_that_are(kb, tmp_path):
    """And a kind of file that is not known."""
    with pytest.raises(TableError, match=r"no column 'name' .* wanted one of 'a', 'b'"):
        NAMES.check(open_table(table(tmp_path, "a,b\n")))
    with pytest.raises(TableError, match="no known kind"):
        open_table(table(tmp_path, "a", "t.doc"))
