"""Other names of documents: stored, looked up in three forms, with priors, and gone with their documents."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import pytest
from pysqlite3 import dbapi2

from kbengine.corpus.exported import parse_exported
from storage.alias_records import NewAlias, NewLink
from storage.alias_rows import alias_row
from storage.checksum import sealed
from storage.errors import (
    CorruptError,
    DuplicateAliasError,
    InvalidOptionError,
    UnknownAliasError,
    UnknownDocumentError,
)
from storage.exchange import export_documents
from storage.inspect import view_rows
from storage.reader import KBReader
from storage.records import NewDocument
from storage.repair import repair
from storage.verify import verify
from storage.writer import KBWriter
from tests.storage.small_world import make_document, make_settings, reencode


def document(doc_id: str, title: str, *, aliases: tuple[NewAlias, ...] = (), links: tuple[NewLink, ...] = ()) -> Any:
    """A document of one passage with names and links."""
    return dataclasses.replace(make_document(doc_id, f"amber {doc_id}", title=title), aliases=aliases, links=links)


def matches(path: Path, name: str) -> list[tuple[str, str, float]]:
    """The id, form and prior of each document that the name can mean, best first."""
    with KBReader.open(path) as reader:
        found = reader.alias_matches([name])[0]
        documents = reader.documents([match.document_id for match in found])
    return [(documents[match.document_id].doc_id, match.form, round(match.prior, 4)) for match in found]


def listed(path: Path, **options: Any) -> list[tuple[str, str, str, int]]:
    """The id, alias, source and number of links of what is listed."""
    with KBReader.open(path) as reader:
        return [(each.doc_id, each.alias, each.source, each.uses) for each in reader.list_aliases(**options)]


@pytest.fixture
def kb(tmp_path: Path) -> Path:
    """Three documents without any other name."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        writer.add([document("z", "Zurich"), document("l", "Lincoln, Nebraska"), document("p", "Abraham Lincoln")])
    return tmp_path / "kb"


def test_alias_is_found_in_three_forms_at_the_next_look_up(kb: Path) -> None:
    """By a reader that was open before; nothing is found by another name, and nothing was there before."""
    with KBReader.open(kb) as reader, KBWriter.open(kb) as writer:
        assert reader.alias_matches(["Turicum", ""]) == [[], []]
        change = writer.add_aliases([("z", NewAlias(" Züri\u00a0West ")), ("z", NewAlias("Turicum", "redirect"))])
        found = reader.alias_matches(["Züri West", "ZÜRI WEST", "zuri west", "Zuri", "", "Turicum"])
    assert (change.aliases, change.generation) == (2, 3)
    assert [[match.form for match in each] for each in found] == [["exact"], ["case"], ["accent"], [], [], ["exact"]]
    assert found[0][0].alias == "Züri West" and found[5][0].sources == ("redirect",)


def test_what_is_no_name_is_found_nowhere(kb: Path) -> None:
    """Blank, broken and endless names and prefixes are asked for, too."""
    with KBWriter.open(kb) as writer:
        writer.add_aliases([("z", NewAlias("Turicum")), ("z", NewAlias("\u00ad")), ("z", NewAlias("100%"))])
    with KBReader.open(kb) as reader:
        names = ["", " \n", "\ud800", "a\0b", "x" * 10**6, "'; DROP", '"', "turicum", "\u00ad", "100%"]
        assert [len(found) for found in reader.alias_matches(names)] == [0] * 7 + [1, 1, 1]
        assert reader.list_aliases(prefix="x" * 10**6) == [] and len(reader.list_aliases(prefix="%")) == 0
        with pytest.raises(InvalidOptionError, match="limit"):
            reader.alias_matches(["a"], limit=0)


def test_of_a_name_that_very_many_have_the_likeliest_are_read(kb: Path) -> None:
    """For each spelling: another spelling's documents do not push its own out; priors are those of all."""
    links = (*(NewLink("IT", f"n{i}", count=i + 1) for i in range(40)), NewLink("It", "z"))
    with KBWriter.open(kb) as writer:
        writer.add([document(f"n{i}", f"N {i}") for i in range(40)] + [document("a", "A", links=links)])
        writer.add_aliases([("l", NewAlias("IT", prior=0.001))])
    with KBReader.open(kb) as reader:
        found = reader.alias_matches(["It"], limit=5)[0]
        ids = {key: record.doc_id for key, record in reader.documents([m.document_id for m in found]).items()}
    assert [(ids[m.document_id], m.form) for m in found][:2] == [("z", "exact"), ("n39", "case")]
    assert sorted(ids.values()) == ["l", "n36", "n37", "n38", "n39", "z"]
    assert found[1].prior == pytest.approx(40 / (40 * 41 / 2 + 1))


def test_prior_is_the_share_of_the_links(kb: Path) -> None:
    """Three links of four; a name from elsewhere weighs one link; a given prior is taken as it is."""
    links = (NewLink("Lincoln", "p", count=2), NewLink("Lincoln", "Lincoln, Nebraska", by_title=True))
    with KBWriter.open(kb) as writer:
        writer.add([document("a", "A", links=links), document("b", "B", links=(NewLink("Lincoln", "p"),))])
    assert matches(kb, "Lincoln") == [("p", "exact", 0.75), ("l", "exact", 0.25)]
    with KBWriter.open(kb) as writer:
        writer.add_aliases([("p", NewAlias("Lincoln", "wikidata")), ("z", NewAlias("Lincoln"))])
    assert matches(kb, "Lincoln") == [("p", "exact", 0.6), ("z", "exact", 0.2), ("l", "exact", 0.2)]
    with KBWriter.open(kb) as writer:
        writer.add_aliases([("z", NewAlias("Lincoln", prior=0.9))], replace=True)
    assert matches(kb, "lincoln") == [("z", "case", 0.9), ("p", "case", 0.6), ("l", "case", 0.2)]


def test_without_links_the_prior_is_shared_evenly(kb: Path) -> None:
    """And a spelling of one document's own is wholly its."""
    with KBWriter.open(kb) as writer:
        writer.add_aliases([("l", NewAlias("Link")), ("p", NewAlias("Link")), ("p", NewAlias("LINK"))])
    assert matches(kb, "LINK") == [("p", "exact", 1.0), ("l", "case", 0.5), ("p", "case", 0.5)]


def test_links_wait_for_their_targets_and_go_with_their_documents(kb: Path) -> None:
    """Whichever comes or goes first, the counts are those of a count from the beginning."""
    link = NewLink("the town", "Later", by_title=True)
    with KBWriter.open(kb) as writer:
        writer.add([document("a", "A", links=(link, link))])
        assert listed(kb) == []
        writer.add([document("late", "Later")])
        assert listed(kb) == [("late", "the town", "anchor", 2)]
        writer.add([document("b", "B", links=(link, NewLink("Z", "z")))])
        writer.add([document("a", "A", links=(NewLink("the town", "late"),))])
        assert listed(kb) == [("late", "the town", "anchor", 2), ("z", "Z", "anchor", 1)]
        writer.add([document("late", "Later")])
        assert listed(kb, doc_id="late") == [("late", "the town", "anchor", 2)]
        writer.add([document("late", "Much later")])  # the link by title leads to no document any more
        assert listed(kb, doc_id="late") == [("late", "the town", "anchor", 1)]
        writer.delete(["b", "a"])
        assert listed(kb) == []
        assert verify(kb, deep=True).clean


def test_count_from_the_beginning_equals_the_counts_kept_up_to_date(kb: Path) -> None:
    """Titles that two documents have count for both; targets that are missing make nothing and are counted."""
    links = (NewLink("Z", "z", count=3), NewLink("twin", "Twin", by_title=True), NewLink("x", "nowhere", count=4))
    with KBWriter.open(kb) as writer:
        writer.add([document("t1", "Twin"), document("t2", "Twin"), document("a", "A", links=links)])
        before = listed(kb)
        counts = writer.count_links()
    assert (counts.links, counts.missing, counts.aliases) == (8, 4, 3)
    assert listed(kb) == before == [("t1", "twin", "anchor", 1), ("t2", "twin", "anchor", 1), ("z", "Z", "anchor", 3)]


def test_deleted_and_replaced_documents_keep_only_what_is_theirs(kb: Path) -> None:
    """A new version brings its own names; names that people gave stay; a deleted document leaves nothing."""
    first = document("q", "Q", aliases=(NewAlias("Old name", "wikidata"), NewAlias("Other", "document")))
    with KBWriter.open(kb) as writer:
        writer.add([first, document("a", "A", links=(NewLink("Queue", "q"),))])
        writer.add_aliases(
            [("q", NewAlias("Mine", prior=0.3)), ("q", NewAlias("R", "redirect")), ("q", NewAlias("T", "tsv"))]
        )
        writer.add([dataclasses.replace(first, aliases=(NewAlias("New name", "wikidata"),))])
        expected = [("Mine", "manual"), ("New name", "wikidata"), ("Queue", "anchor"), ("R", "redirect"), ("T", "tsv")]
        assert [each[1:3] for each in listed(kb, doc_id="q")] == expected
        assert matches(kb, "mine") == [("q", "case", 0.3)]
        writer.delete(["q"])
        assert listed(kb) == [] and matches(kb, "Mine") == []
        writer.add([first])
        assert [each[1] for each in listed(kb, doc_id="q")] == ["Old name", "Other", "Queue"]
        writer.compact(purge=True)
    assert verify(kb, deep=True, reencode=reencode).clean


def test_title_that_the_lexical_index_cannot_fold_is_an_alias(tmp_path: Path) -> None:
    """ł and ß are no accents to the index of words; other titles need no row."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        writer.add([document("1", "Łódź (city)"), document("2", "Große Straße"), document("3", "Zürich")])
        writer.add([document("4", "!!!")])
    assert matches(tmp_path / "kb", "lodz") == [("1", "accent", 1.0)]
    assert matches(tmp_path / "kb", "GROSSE STRASSE") == [("2", "case", 1.0)]
    assert matches(tmp_path / "kb", "!!!") == [("4", "exact", 1.0)]
    assert matches(tmp_path / "kb", "zurich") == []
    with KBWriter.open(tmp_path / "kb") as writer, pytest.raises(UnknownAliasError):
        writer.delete_aliases("1", ["Łódź"])


def test_wrong_aliases_are_refused_and_nothing_is_stored(kb: Path) -> None:
    """Each with what was seen; the good ones of the same call are not stored either."""
    for alias, prior, message in (
        (" \t", None, "not blank"),
        ("x" * 301, None, "301 characters"),
        ("a\0b", None, "U\\+0000"),
        ("\ud800", None, "U\\+D800"),
        ("x", 0.0, "0.0"),
        ("x", 1.5, "1.5"),
        ("x", float("nan"), "nan"),
    ):
        with pytest.raises(InvalidOptionError, match=message):
            NewAlias(alias, prior=prior)
    with pytest.raises(InvalidOptionError, match="anchor"):
        NewAlias("x", "anchor")
    with KBWriter.open(kb) as writer:
        writer.add_aliases([("z", NewAlias("Turicum"))])
        good = ("z", NewAlias("Good"))
        with pytest.raises(UnknownDocumentError, match="'nobody'"):
            writer.add_aliases([good, ("nobody", NewAlias("x"))])
        with pytest.raises(DuplicateAliasError, match="already"):
            writer.add_aliases([good, ("z", NewAlias("Turicum", prior=0.5))])
        with pytest.raises(DuplicateAliasError, match="twice"):
            writer.add_aliases([good, good])
        with pytest.raises(InvalidOptionError, match="no alias"):
            writer.add_aliases([])
        with pytest.raises(UnknownAliasError, match="'Nope'"):
            writer.delete_aliases("z", ["Turicum", "Nope"])
        with pytest.raises(UnknownAliasError, match="redirect"):
            writer.delete_aliases("z", source="redirect")
        with pytest.raises(UnknownDocumentError):
            writer.delete_aliases("nobody")
    assert listed(kb) == [("z", "Turicum", "manual", 0)]


def test_change_with_an_operation_id_happens_once(kb: Path) -> None:
    """Asking again gives the first one's outcome, for adding and for deleting."""
    with KBWriter.open(kb) as writer:
        first = writer.add_aliases([("z", NewAlias("a")), ("z", NewAlias("b"))], op_id="one")
        assert writer.add_aliases([("z", NewAlias("a"))], op_id="one") == first
        gone = writer.delete_aliases("z", op_id="two")
        assert writer.delete_aliases("z", op_id="two") == gone
        assert (first.aliases, gone.aliases, gone.generation) == (2, 2, first.generation + 1)
    assert view_rows(kb, "history", limit=1)[0]["operation"] == "alias"


def test_deleted_anchor_does_not_come_back(kb: Path) -> None:
    """Its links go, too, also for another document of the same title; other links stay."""
    links = (NewLink("Z", "z"), NewLink("T", "Twin", by_title=True), NewLink("U", "Twin", by_title=True))
    with KBWriter.open(kb) as writer:
        writer.add([document("t1", "Twin"), document("t2", "Twin"), document("a", "A", links=links)])
        writer.delete_aliases("t1", ["T"])
        writer.count_links()
    assert listed(kb) == [("t1", "U", "anchor", 1), ("t2", "U", "anchor", 1), ("z", "Z", "anchor", 1)]


def test_aliases_are_listed_in_pages(kb: Path) -> None:
    """By prefix in folded letters, by document, by source; the pages make up the whole."""
    names = ["Äpfel", "apfel", "Apfelbaum", "Birne", "birne", "Zimt"]
    with KBWriter.open(kb) as writer:
        writer.add_aliases([("z", NewAlias(name)) for name in names] + [("l", NewAlias("Apfel", "tsv"))])
    whole = listed(kb)
    assert [each[1] for each in whole] == ["Apfel", "apfel", "Äpfel", "Apfelbaum", "Birne", "birne", "Zimt"]
    assert [each[1] for each in listed(kb, prefix="ÄPFEL")] == ["Apfel", "apfel", "Äpfel", "Apfelbaum"]
    assert listed(kb, doc_id="l") == listed(kb, source="tsv") == [("l", "Apfel", "tsv", 0)]
    pages, after = [], None
    with KBReader.open(kb) as reader:
        while page := reader.list_aliases(limit=2, after=after):
            pages += [(each.doc_id, each.alias, each.source, each.uses) for each in page]
            after = page[-1].cursor
        for wrong in ("x", "[1]", '["a", "b", "c"]'):
            with pytest.raises(InvalidOptionError, match="page"):
                reader.list_aliases(after=wrong)
        with pytest.raises(UnknownDocumentError):
            reader.list_aliases(doc_id="nobody")
        with pytest.raises(InvalidOptionError):
            reader.list_aliases(limit=0)
    assert pages == whole


def test_info_counts_names_and_links(kb: Path) -> None:
    """A name that a document has from two sources counts once."""
    with KBWriter.open(kb) as writer:
        writer.add([document("a", "A", links=(NewLink("Z", "z", count=3), NewLink("n", "nowhere")))])
        writer.add_aliases([("z", NewAlias("Z")), ("z", NewAlias("Turicum"))])
    with KBReader.open(kb) as reader:
        info = reader.info()
    assert (info.aliases, info.links) == (2, 4)


def test_export_carries_names_and_links(kb: Path, tmp_path: Path) -> None:
    """Read in again, every look-up gives the same, priors included."""
    links = (NewLink("Lincoln", "p", count=2), NewLink("Lincoln", "Lincoln, Nebraska", by_title=True))
    with KBWriter.open(kb) as writer:
        writer.add([document("a", "Łódź", links=links, aliases=(NewAlias("Boat", "wikidata"),))])
        writer.add_aliases([("z", NewAlias("Zürich", prior=0.5)), ("z", NewAlias("Turicum", "redirect"))])
    file = io.StringIO()
    with KBReader.open(kb) as reader:
        export_documents(reader, file)
    with KBWriter.create(tmp_path / "two", make_settings()) as writer:
        for line in file.getvalue().splitlines():
            read = parse_exported(json.loads(line))
            passages = make_document(read.doc_id, *(p.text for p in read.passages)).passages
            writer.add([NewDocument(read.doc_id, read.title, None, {}, passages, read.aliases, read.links)])
    assert listed(tmp_path / "two") == listed(kb)
    for name in ("Lincoln", "zurich", "boat", "turicum", "lodz"):
        assert matches(tmp_path / "two", name) == matches(kb, name) != []


def edit(path: Path, *statements: str) -> None:
    """Commit the statements to kb.sqlite behind kbengine's back."""
    connection = dbapi2.connect(str(path / "kb.sqlite"))
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


@pytest.fixture
def named(kb: Path) -> Path:
    """The same with names of every kind."""
    with KBWriter.open(kb) as writer:
        writer.add([document("a", "Łódź", links=(NewLink("Lincoln", "p", count=2), NewLink("Z", "z")))])
        writer.add_aliases([("z", NewAlias("Züri", prior=0.5))])
    return kb


@pytest.mark.parametrize("table", ["aliases", "links"])
def test_changed_row_is_never_served(named: Path, table: str) -> None:
    """Every row has a checksum: verify names it, and a look-up or an export refuses it."""
    column = "uses" if table == "aliases" else "n_links"
    edit(named, f"UPDATE {table} SET {column} = {column} + 1")
    assert not verify(named).ok
    with KBReader.open(named) as reader, pytest.raises(CorruptError, match=table):
        reader.alias_matches(["Lincoln"])
        export_documents(reader, io.StringIO())
    edit(named, f"UPDATE {table} SET {column} = {column} - 1")
    assert verify(named, deep=True).clean


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM aliases WHERE source = 'anchor'",
        "DELETE FROM aliases WHERE source = 'title'",
        "DELETE FROM links WHERE anchor = 'Z'",
    ],
)
def test_derived_names_are_found_missing_and_made_again(named: Path, statement: str) -> None:
    """What follows from links and titles is compared with them by a deep verification."""
    edit(named, statement)
    assert verify(named).clean
    report = verify(named, deep=True)
    assert {finding.severity for finding in report.findings} == {"repairable"}
    assert repair(named, reencode) == ["made the aliases that are derived from links and titles again"]
    assert verify(named, deep=True).clean


def test_names_filed_by_another_version_of_unicode_are_filed_again(named: Path) -> None:
    """The key follows from the name; the row's checksum is that of the old key."""
    row = sealed({**alias_row(2, "Star City", "manual"), "folded": "old"})
    connection = dbapi2.connect(str(named / "kb.sqlite"))
    with connection:
        connection.execute("INSERT INTO aliases VALUES (?, ?, ?, ?, ?, ?, ?)", tuple(row.values()))
    connection.close()
    assert matches(named, "star city") == []
    assert {finding.severity for finding in verify(named).findings} == {"repairable"}
    repair(named, reencode)
    assert matches(named, "star city") == [("l", "case", 1.0)] and verify(named, deep=True).clean


def test_knowledge_base_of_the_revision_before_answers_and_is_migrated_by_a_writer(tmp_path: Path) -> None:
    """Readers find no aliases in it; the next writer takes over what its corpus left in `meta`."""
    kb = tmp_path / "kb"
    with KBWriter.create(kb, make_settings()) as writer:
        old = make_document("z", "amber zurich", title="Łódź")
        writer.add([dataclasses.replace(old, meta={"aliases": ["Boat", "  ", 3, "Boat"]}), document("b", "B")])
        writer.delete(["b"])
    edit(
        kb,
        "DROP VIEW live_aliases",
        "DROP TABLE aliases",
        "DROP TABLE links",
        "DROP TABLE fields",
        "DROP TABLE feedback",
        "UPDATE alembic_version SET version_num = '0001'",
    )
    with KBReader.open(kb) as reader:
        assert reader.snapshot().n_passages == 2
        assert reader.alias_matches(["Boat"]) == [[]] and reader.list_aliases() == []
        assert (reader.info().aliases, reader.info().links) == (0, 0)
        assert export_documents(reader, io.StringIO()) == 1
        assert verify(kb, deep=True).clean
        assert repair(kb, reencode) == []
        KBWriter.open(kb).close()
        assert len(reader.alias_matches(["boat"])[0]) == 1  # the reader that was open goes on with it
    assert (kb / "kb.sqlite.before-0005").is_file()
    assert [each[1:3] for each in listed(kb)] == [("Boat", "wikidata"), ("Łódź", "title")]
    assert verify(kb, deep=True).clean
