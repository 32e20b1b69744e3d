"""The language of filters: what passes, against an evaluator in plain Python, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from storage.errors import InvalidOptionError, StateError
from storage.field_rows import known_fields
from storage.where_sql import matching_documents
from tests.storage.field_world import connect, store

DOCUMENTS: list[dict[str, Any]] = [
    {"source": "manual", "date": "2020-05-01", "tags": ["news", "long"], "pages": 3, "open": True},
    {"source": "feed", "date": "2019-12-31T23:59:59Z", "tags": [], "pages": 4.5, "open": False},
    {"source": 'it\'s a "scan"', "author": {"name": "Ann", "born": 1950}, "pages": "many"},
    {"lang": None, "title": "hidden by the column"},
]


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    """A database with `DOCUMENTS`, numbered from 1."""
    with connect() as connection:
        store(connection, DOCUMENTS)
        yield connection


@pytest.mark.parametrize(
    ("where", "passing"),
    [
        ("source = 'manual'", [1]),
        ("source != 'manual'", [2, 3]),
        ("SOURCE is null", None),
        ("source Is Not Null AND date IS NULL", [3]),
        ("date >= '2020-01-01'", [1]),
        ("date < '2020'", [2]),
        ("date between '2019-12' and '2020-05-01'", [1, 2]),
        ("date not between '2019-12' and '2020-01'", [1]),
        ("date like '2019%'", [2]),
        ("tags = 'news' and tags = 'long'", [1]),
        ("tags != 'news'", []),
        ("tags is null", [2, 3, 4]),
        ("pages > 3", [2]),
        ("pages = 3.0 or pages = 'many'", [1, 3]),
        ("pages <> 3", [2]),
        ("pages in (3, 'many')", [1, 3]),
        ("pages not in (3, 'many')", [2]),
        ("open = true", [1]),
        ("not open = true", [2]),
        ("open in (true, false)", [1, 2]),
        ("author.name = 'Ann'", [3]),
        ('"author"."name" = \'Ann\'', [3]),
        ('"author.born" = 1950', [3]),
        ("author.name like 'a__'", [3]),
        ("source = 'it''s a \"scan\"'", [3]),
        ("id = 'd2' or id in ('d4', 'd9')", [2, 4]),
        ("title = 'Title 1'", [1]),
        ("title = 'title 1'", []),
        ("title in ('Title 1', 'Title 3') and not id = 'd3'", [1]),
        ("title like 'title _'", [1, 2, 3, 4]),
        ("url is null", [2, 4]),
        ("url != 'https://example.org/1'", [3]),
        ("meta.title is not null", [4]),
        ("meta.source = 'feed'", [2]),
        ("source = 'manual' or source = 'feed' and pages > 100", [1]),
        ("(source = 'manual' or source = 'feed') and pages > 3", [2]),
        ("not (source = 'manual' and lang_or_not is null)", None),
    ],
)
def test_filter_passes_these_documents(connection: Connection, where: str, passing: list[int] | None) -> None:
    """Precedence, lists, nested names, columns, the third truth value; None: a field that no document has."""
    if passing is None:
        with pytest.raises(InvalidOptionError, match="no document has a field"):
            matching_documents(connection, where)
    else:
        assert matching_documents(connection, where).tolist() == passing


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("", "blank"),
        ("source", r"character 7: the filter ends, wanted .*LIKE"),
        ("source = ", "the filter ends, wanted a 'text'"),
        ('source = "manual"', "texts stand in single quotes"),
        ("source = 'manual", "no closing quote"),
        ("source = null", "'is null'"),
        ("source = 'manual'; drop table documents", r"character 18: there is '; drop"),
        ("source = 'a' source = 'b'", "character 14"),
        ("'news' in tags", "character 1: .*wanted .*a field's name"),
        ("pages = 3x", "character 9"),
        ("pages in ()", "character 11"),
        ("(pages = 3", r"wanted '\)'"),
        ("x" * 30_000, "at most 20,000"),
        (" and ".join(["pages = 3"] * 201), "more than 200 conditions"),
        ("not (pages = 3 and " * 25 + "pages = 3" + ")" * 25, "more than 20 deep"),
        ("sourc = 'manual'", r"no document has a field 'sourc'; fields are: author.born \(number\), .*mean 'source'"),
        ("source = 5", "field 'source' holds texts, 5 is a number; write texts and dates in single quotes"),
        ("author.born = '1950'", "holds numbers, '1950' is a text; write numbers without quotes"),
        ("open = 1", "holds true or false, 1 is a number"),
        ("open > false", "no order"),
        ("date = '1.5.2020'", r"holds dates, '1.5.2020' is none; write YYYY-MM-DD"),
        ("date > '2020-02-30'", "'2020-02-30' is none"),
        ("date in ('2020-01-01', 'soon')", "'soon' is none"),
        ("pages between 1 and 'many'", "between a number and a text"),
        ("id = 7", "id is a text and 7 is none"),
        ("source = '\ud800'", "surrogate"),
    ],
)
def test_filter_is_refused_with_what_was_seen_and_wanted(connection: Connection, where: str, message: str) -> None:
    """Each message names the value seen, what it could be, and what to write."""
    with pytest.raises(InvalidOptionError, match=message):
        matching_documents(connection, where)


def test_parentheses_and_negations_that_say_nothing_count_for_nothing(connection: Connection) -> None:
    """They take no depth: neither Python's recursion nor SQLite's limits are reached."""
    where = "(" * 5_000 + "not " * 500 + "pages = 3" + ")" * 5_000
    assert matching_documents(connection, where).tolist() == [1]


def test_many_values_fit_into_one_condition(connection: Connection) -> None:
    """`in` takes what the length of a filter allows."""
    listed = ", ".join(map(str, range(3_000)))
    assert matching_documents(connection, f"pages in ({listed})").tolist() == [1]


def test_knowledge_base_without_the_table_says_how_to_get_it() -> None:
    """An older revision answers everything but filters."""
    with connect() as connection:
        connection.exec_driver_sql("DROP TABLE fields")
        with pytest.raises(StateError, match="kbengine compact"):
            matching_documents(connection, "id = 'a'")


def test_fields_are_listed_with_the_types_of_their_values(connection: Connection) -> None:
    """A name with values of two types has both."""
    assert known_fields(connection) == {
        "author.born": ["number"],
        "author.name": ["text"],
        "date": ["date"],
        "open": ["boolean"],
        "pages": ["number", "text"],
        "source": ["text"],
        "tags": ["text"],
        "title": ["text"],
    }


# --- against an evaluator in plain Python: True, False, or None where a value is missing ------------------------------

NAMES = ["a", "b", "c", "d.e"]
TEXTS = ["", "x", "X", "xy", "ß", "%", "it's", "2020-01-01", "2020-01-02T10:00Z", "2020", "\U0001d54f", "\uffff"]
NUMBERS: list[int | float] = [-1, 0, 1, 1.0, 2.5, 1e300, 2**53 + 1, 2.0**53, 2**70, -0.0]
scalars = st.sampled_from([*TEXTS, *NUMBERS, True, False])
field_values = st.one_of(scalars, st.none(), st.lists(st.one_of(scalars, st.none()), max_size=3))
metas = st.fixed_dictionaries(
    {}, optional={"a": field_values, "b": field_values, "c": scalars, "d": st.fixed_dictionaries({"e": field_values})}
)
Evaluate = Callable[[dict[str, Any]], bool | None]


def values_of(meta: dict[str, Any], name: str) -> list[Any]:
    """The values of a document under a dotted name, without nulls."""
    value: Any = meta
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return [each for each in (value if isinstance(value, list) else [value]) if each is not None]


def same_kind(left: Any, right: Any) -> bool:
    """Whether two values can be compared at all."""
    kinds = [bool if isinstance(each, bool) else str if isinstance(each, str) else float for each in (left, right)]
    return kinds[0] is kinds[1]


def like(text: str, pattern: str) -> bool:
    """SQL's LIKE: % is any characters, _ is one, A to Z match in either case."""
    lower = {ord(letter): letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
    parts = {"%": ".*", "_": "."}
    regex = "".join(parts.get(letter, re.escape(letter)) for letter in pattern.translate(lower))
    return re.fullmatch(regex, text.translate(lower), re.DOTALL) is not None


HOLDS: dict[str, Callable[[Any, list[Any]], bool]] = {
    "=": lambda value, given: value == given[0],
    "!=": lambda value, given: value == given[0],
    "<": lambda value, given: value < given[0],
    "<=": lambda value, given: value <= given[0],
    ">": lambda value, given: value > given[0],
    ">=": lambda value, given: value >= given[0],
    "between": lambda value, given: given[0] <= value <= given[1],
    "in": lambda value, given: any(same_kind(value, each) and value == each for each in given),
    "like": lambda value, given: like(value, given[0]),
}


def literal(value: Any) -> str:
    """A value as it is written in a filter."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def compared(name: str, how: str, given: list[Any], negated: bool) -> tuple[str, Evaluate]:
    """A comparison as text and as a function."""
    word = "not " if negated else ""
    if how == "in":
        text = f"{name} {word}in ({', '.join(map(literal, given))})"
    elif how == "between":
        text = f"{name} {word}between {literal(given[0])} and {literal(given[1])}"
    elif how == "like":
        text = f"{name} {word}like {literal(given[0])}"
    else:
        text = f"{word}{name} {how} {literal(given[0])}"

    def evaluate(meta: dict[str, Any]) -> bool | None:
        values = [value for value in values_of(meta, name) if any(same_kind(value, each) for each in given)]
        if not values:
            return None
        found = any(HOLDS[how](value, given) for value in values)
        return found != (negated != (how == "!="))

    return text, evaluate


@st.composite
def conditions(draw: st.DrawFn) -> tuple[str, Evaluate]:
    """One condition."""
    name, negated = draw(st.sampled_from(NAMES)), draw(st.booleans())
    how = draw(st.sampled_from([*HOLDS, "null"]))
    if how == "null":
        text = f"{name} is {'not ' if negated else ''}null"
        return text, lambda meta: bool(values_of(meta, name)) == negated
    if how == "in":
        return compared(name, how, draw(st.lists(scalars, min_size=1, max_size=4)), negated)
    if how == "like":
        return compared(name, how, [draw(st.sampled_from([*TEXTS, "x%", "_", "%0%"]))], negated)
    first = draw(scalars if how in ("=", "!=") else st.sampled_from([*TEXTS, *NUMBERS]))
    second = draw(st.sampled_from(TEXTS if isinstance(first, str) else NUMBERS))
    return compared(name, how, [first, second] if how == "between" else [first], negated)


def joined(word: str, parts: list[tuple[str, Evaluate]]) -> tuple[str, Evaluate]:
    """Parts joined by `and` or `or`, in SQL's logic of three values."""
    decisive = word == "or"

    def evaluate(meta: dict[str, Any]) -> bool | None:
        found = [part(meta) for _, part in parts]
        if decisive in found:
            return decisive
        return None if None in found else not decisive

    return f" {word} ".join(f"({text})" for text, _ in parts), evaluate


def denied(part: tuple[str, Evaluate]) -> tuple[str, Evaluate]:
    """The negation of a part."""

    def evaluate(meta: dict[str, Any]) -> bool | None:
        found = part[1](meta)
        return None if found is None else not found

    return f"not ({part[0]})", evaluate


filters = st.recursive(
    conditions(),
    lambda parts: st.one_of(
        parts.map(denied),
        st.builds(joined, st.sampled_from(["and", "or"]), st.lists(parts, min_size=2, max_size=3)),
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def scratch() -> Iterator[Connection]:
    """A database whose documents each example writes anew."""
    with connect() as connection:
        yield connection


@given(documents=st.lists(metas, max_size=6), chosen=filters)
@settings(max_examples=200, deadline=None)
def test_filter_passes_what_the_reference_passes(
    scratch: Connection, documents: list[dict[str, Any]], chosen: tuple[str, Evaluate]
) -> None:
    """Every operator over texts, dates, numbers, truth values, lists, nested objects and what is missing."""
    # One document of every type under every name: what is asked then fits the fields, whatever the others hold.
    every: dict[str, Any] = {"a": ["é", 7, True], "b": ["é", 7, True], "c": ["é", 7, True], "d": {"e": ["é", 7, True]}}
    store(scratch, [every, *documents])
    where, evaluate = chosen
    wanted = [number for number, meta in enumerate([every, *documents], start=1) if evaluate(meta) is True]
    assert matching_documents(scratch, where).tolist() == wanted


@given(where=st.text(alphabet="ab='\"()<>!, .%_0123456789andorltikeu\n\x00\ud800é;-", max_size=40))
@settings(max_examples=200, deadline=None)
def test_any_text_is_either_a_filter_or_refused(scratch: Connection, where: str) -> None:
    """No other error than ours comes out, whatever is written."""
    store(scratch, [{"a": "x", "b": 1}])
    try:
        matching_documents(scratch, where)
    except InvalidOptionError as error:
        assert error.message
