"""Excel and Parquet tables: cells and types come back, texts stay texts."""

from __future__ import annotations

import datetime

import openpyxl
import pyarrow
import pyarrow.parquet
import pytest

from adapters.errors import TableError
from adapters.filling.filler import FillOptions
from adapters.filling.filling import fill_file
from adapters.filling.opening import open_table
from tests.adapters.filling.scripted import Scripted

OPTIONS = FillOptions("name", ("P19",))
BORN = datetime.datetime(1867, 11, 7)


@pytest.fixture
def workbook(tmp_path):
    """A workbook with a date, a number and a text that looks like a formula."""
    path = tmp_path / "t.xlsx"
    book = openpyxl.Workbook()
    for row in (["name", "born", "n", "text"], ["Marie Curie", BORN, 7, "a"], ["Ada Lovelace", None, 1.5, "b"]):
        book.active.append(row)
    book.active["D2"] = "=1+1"
    book.active["D2"].data_type = "s"
    book.save(path)
    return path


@pytest.fixture
def parquet(tmp_path):
    """A Parquet file with typed columns."""
    path = tmp_path / "t.parquet"
    columns = {"name": ["Marie Curie", "Ada Lovelace"], "n": pyarrow.array([7, None], pyarrow.int16()), "t": ["", None]}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def filled(path, out):
    """The filled table's rows."""
    fill_file(path, out, Scripted().filler(OPTIONS), OPTIONS)
    return open_table(out)


def test_a_workbook_is_filled(workbook, tmp_path):
    """Dates and numbers stay what they are."""
    found = filled(workbook, tmp_path / "o.xlsx")

    first, second = (dict(zip(found.columns, row, strict=True)) for row in found.rows())
    assert (first["name"], first["born"], first["n"], first["text"]) == ("Marie Curie", BORN, 7, "=1+1")
    assert (first["P19"], first["P19 probability"], second["P19"], second["n"]) == ("Warsaw", 0.9, "London", 1.5)


def test_a_parquet_file_keeps_its_types(parquet, tmp_path):
    """Also empty texts, which are not the same as none."""
    filled(parquet, tmp_path / "o.parquet")

    found = pyarrow.parquet.read_table(tmp_path / "o.parquet")
    assert found.schema.field("n").type == pyarrow.int16() and found["t"].to_pylist() == ["", None]
    assert found["P19"].to_pylist() == ["Warsaw", "London"] and found["P19 probability"].to_pylist() == [0.9, 0.9]


@pytest.mark.parametrize("kind", ["csv", "xlsx", "parquet"])
def test_a_table_is_written_as_another_kind(workbook, parquet, tmp_path, kind):
    """From each to each."""
    for source in (workbook, parquet):
        found = filled(source, tmp_path / f"{source.suffix[1:]}.{kind}")
        assert [dict(zip(found.columns, row, strict=True))["P19"] for row in found.rows()] == ["Warsaw", "London"]


@pytest.mark.parametrize("name", ["t.xlsx", "t.parquet"])
def test_a_file_of_another_kind_is_refused(tmp_path, name):
    """By its name alone it would be one."""
    (tmp_path / name).write_bytes(b"name\nx\n")
    with pytest.raises(TableError, match="cannot be read"):
        open_table(tmp_path / name)
