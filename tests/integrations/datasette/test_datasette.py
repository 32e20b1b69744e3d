"""Datasette serves the SQLite export, pandas reads the Parquet one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pandas
from datasette.app import Datasette

from adapters.exporting.parquet import export_parquet
from adapters.exporting.plain_sqlite import export_sqlite
from storage.reader import KBReader
from tests.adapters.exporting.test_exporting import EVIL, folder

__all__ = ["folder"]


def test_datasette_shows_and_searches_it(folder: Path, tmp_path: Path) -> None:
    """Tables, rows with their links to documents, full text."""
    with KBReader.open(folder) as reader:
        export_sqlite(reader, tmp_path / "kb.db")

    async def asked() -> tuple[list[str], list[str]]:
        datasette = Datasette([str(tmp_path / "kb.db")])
        tables = (await datasette.client.get("/kb.json")).json()["tables"]
        address = "/kb/passages.json?_search=paragraph&_shape=array&_labels=on"
        rows = (await datasette.client.get(address)).json()
        assert (await datasette.client.get("/kb/passages?_search=paragraph")).status_code == 200
        return [each["name"] for each in tables if not each["hidden"]], rows

    names, rows = asyncio.run(asked())
    assert set(names) == {"about", "documents", "passages", "aliases", "links", "fields"}
    assert [each["doc_id"]["value"] for each in rows] == [EVIL["id"]]


def test_pandas_reads_parquet(folder: Path, tmp_path: Path) -> None:
    """A row a passage."""
    with KBReader.open(folder) as reader:
        n = export_parquet(reader, tmp_path / "kb.parquet")
        stored = [p for _, each in reader.iterate_documents() for p in each]
    frame = pandas.read_parquet(tmp_path / "kb.parquet")
    assert len(frame) == n and list(frame["text"]) == [each.text for each in stored]
    row = frame[frame["doc_id"] == EVIL["id"]].iloc[1]
    assert (row["title"], row["url"]) == (EVIL["title"], EVIL["url"])
    assert list(zip(frame["paragraph"], frame["char_offset"], strict=True)) == [
        (each.ordinal, each.char_offset) for each in stored
    ]
    assert json.loads(row["meta"]) == EVIL["meta"] and sorted(row["aliases"]) == sorted(EVIL["aliases"])
