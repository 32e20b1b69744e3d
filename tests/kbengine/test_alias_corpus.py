"""Names in corpora: Wikidata's aliases and anchors of KILT pages, tables, linking records; and a build that counts."""

from __future__ import annotations

import gzip
import json

import pytest

from kbengine.build.alias_import import import_aliases
from kbengine.build.builder import CorpusOptions, add_corpus, build, describe
from kbengine.build.filtering import FilterOptions
from kbengine.corpus.kilt import parse_kilt
from kbengine.errors import CorpusError, UnknownDocumentError
from kbengine.knowledge_base import KnowledgeBase
from storage.alias_records import NewAlias, NewLink
from storage.reader import KBReader
from storage.verify import verify
from tests.kbengine.synthetic_kb import WordEncoder


def page(page_id, title, anchors=(), **fields):
    """A KILT page of one paragraph."""
    return {
        "_id": page_id,
        "wikipedia_id": page_id,
        "wikipedia_title": title,
        "text": [title, f"{title} is told of here."],
        "anchors": anchors if isinstance(anchors, dict) else list(anchors),
        **fields,
    }


def anchor(text, href, **fields):
    """A link as KILT has it."""
    return {"text": text, "href": href, "paragraph_id": 1, "start": 0, "end": len(text), **fields}


def links(anchors):
    """The links that a page with these anchors has."""
    return parse_kilt(page("1", "A", anchors)).links


def test_anchors_name_pages_by_id_or_title():
    """Ids where the dump has them; titles decoded, without fragment, with a capital; equal links counted."""
    assert links(
        [
            anchor("the Danube", "danube"),
            anchor("the  Danube", "Danube#Course"),
            anchor("the Danube", "X", wikipedia_title="Danube", wikipedia_id=""),
            anchor("AC/DC", "AC%2FDC"),
            anchor("New York", "New_York%20City", wikipedia_id=17),
            anchor("Zürich", "Z%C3%BCrich"),
        ]
    ) == (
        NewLink("the Danube", "Danube", True, 3),
        NewLink("AC/DC", "AC/DC", True),
        NewLink("New York", "17", False),
        NewLink("Zürich", "Zürich", True),
    )


def test_anchors_that_lead_to_no_page_are_left_out():
    """Links to the web, to the page itself, without text, with a text that is no name or a target that is no text."""
    assert (
        links(
            [
                anchor("site", "https://example.org/x"),
                anchor("above", "#History"),
                anchor(" ", "Danube"),
                anchor("x" * 400, "Danube"),
                {"text": "no target", "paragraph_id": 1},
                {"href": "Danube"},
                anchor("odd", "a%00b"),
            ]
        )
        == ()
    )


def test_anchors_of_the_other_copy_are_lists():
    """The Hugging Face copy has one list a field."""
    columns = {"text": ["a", "b"], "href": ["X", "Y"], "wikipedia_title": ["", "Why"], "wikipedia_id": ["", "9"]}

    assert links(columns) == (NewLink("a", "X", True), NewLink("b", "9", False))


@pytest.mark.parametrize(
    ("anchors", "words"),
    [
        ("text", "'anchors' is a str, wanted a list of links"),
        (["text"], "'anchors'[0] is a str, wanted an object"),
        ([anchor("a", "b"), {"text": 3}], "'anchors'[1]: 'text' is an int, wanted a string"),
        ({"text": ["a"], "href": ["b", "c"]}, "lists of different lengths"),
    ],
)
def test_broken_anchors_are_named(anchors, words):
    """By what was seen and what was wanted."""
    with pytest.raises(CorpusError) as raised:
        parse_kilt({**page("1", "A"), "anchors": anchors})

    assert words in raised.value.message


def test_wikidata_aliases_are_aliases():
    """Each once; what is no name is passed over."""
    facts = {"aliases": [{"alias": "Ulma"}, {"alias": " "}, {"alias": "Ulma"}, {"alias": "x" * 400}]}

    document = parse_kilt(page("1", "Ulm", wikidata_info=facts))

    assert document.aliases == (NewAlias("Ulma", "wikidata"),)


PAGES = [
    page("1", "Ulm", [anchor("the river", "Danube"), anchor("Danube", "Danube")], wikidata_info={"aliases": ["Ulma"]}),
    page("2", "Danube", [anchor("the river", "rhine"), anchor("Ulm", "Ulm"), anchor("Bavaria", "Bavaria")]),
    page("3", "Rhine", [anchor("the river", "Rhine"), anchor("the river", "Rhine"), anchor("sea", "North%20Sea")]),
]


def write_pages(path, pages):
    """Write a KILT file."""
    path.write_text("".join(json.dumps(each) + "\n" for each in pages), "utf-8")
    return path


@pytest.fixture
def kb(tmp_path):
    """A knowledge base built from the pages."""
    corpus = write_pages(tmp_path / "pages.jsonl", PAGES)
    report = build(
        CorpusOptions((corpus,)), tmp_path / "kb", encoder=WordEncoder(), filter_options=FilterOptions(threshold=-9.0)
    )
    facts = describe(report, [corpus])
    assert (facts["links"], facts["links_to_missing_documents"], facts["aliases_from_links"]) == (8, 2, 4)
    return tmp_path / "kb"


def listed(path, **options):
    """The name, document, uses and prior of what is listed."""
    with KBReader.open(path) as reader:
        return [(a.alias, a.doc_id, a.uses, round(a.prior, 3)) for a in reader.list_aliases(**options)]


def test_a_build_counts_priors_over_the_whole_corpus(kb):
    """Links to later pages count, those to pages that are not there do not."""
    assert listed(kb) == [
        ("Danube", "2", 1, 1.0),
        ("the river", "2", 1, 0.25),
        ("the river", "3", 3, 0.75),
        ("Ulm", "1", 1, 1.0),
        ("Ulma", "1", 0, 1.0),
    ]
    assert verify(kb, deep=True).clean


def test_pages_added_later_count_with_their_links_and_as_targets(kb, tmp_path):
    """Adding the same page again changes nothing; a changed page counts as it is now."""
    later = [page("4", "Bavaria", [anchor("the river", "Danube")]), page("5", "North Sea")]
    for _ in range(2):
        add_corpus(CorpusOptions((write_pages(tmp_path / "more.jsonl", later),)), kb, encoder=WordEncoder())
    assert listed(kb, prefix="the river") == [("the river", "2", 2, 0.4), ("the river", "3", 3, 0.6)]
    assert listed(kb, doc_id="4") == [("Bavaria", "4", 1, 1.0)] and listed(kb, doc_id="5") == [("sea", "5", 1, 1.0)]

    changed = [page("3", "Rhine")]
    add_corpus(CorpusOptions((write_pages(tmp_path / "new.jsonl", changed),)), kb, encoder=WordEncoder())

    assert listed(kb, prefix="the river") == [("the river", "2", 2, 0.667), ("the river", "3", 1, 0.333)]
    assert verify(kb, deep=True).clean


def write_table(path, text):
    """Write a table, gzipped."""
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_tables_name_documents_by_id_or_title(kb, tmp_path):
    """With and without priors; importing again changes nothing."""
    table = write_table(tmp_path / "names.tsv.gz", "Donau\tDanube\t0.9\n\nUlm an der Donau\t1\r\nDonau\tRhine\t\n")

    for _ in range(2):
        report = import_aliases(kb, [table])
        assert (report.aliases, report.skipped) == (3, 0)

    assert listed(kb, source="tsv") == [
        ("Donau", "2", 0, 0.9),
        ("Donau", "3", 0, 0.5),
        ("Ulm an der Donau", "1", 0, 1.0),
    ]


def test_redirect_tables_have_underscores_and_targets_that_are_missing(kb, tmp_path):
    """A missing target is refused by line, or counted."""
    later = write_pages(tmp_path / "more.jsonl", [page("5", "North Sea")])
    add_corpus(CorpusOptions((later,)), kb, encoder=WordEncoder())
    table = write_table(tmp_path / "redirects.tsv", "German Ocean\tNorth_Sea\nNowhere\tNo_Page\n")

    with pytest.raises(CorpusError, match=r"redirects\.tsv, line 2: no document .*'No_Page'.*--skip-bad"):
        import_aliases(kb, [table], source="redirect")
    assert listed(kb, source="redirect") == []
    report = import_aliases(kb, [table], source="redirect", skip_bad=True)

    assert (report.aliases, report.skipped) == (1, 1) and "line 2" in report.first_skipped[0]
    assert listed(kb, source="redirect") == [("German Ocean", "5", 0, 1.0)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"only one column", "1 columns, wanted 2 or 3"),
        (b"a\tb\tc\td", "4 columns"),
        (b" \tUlm", "not blank"),
        (b"Ulma\t ", "second column is empty"),
        (b"Ulma\tUlm\tmuch", "'much'"),
        (b"Ulma\tUlm\t2", "above 0 up to 1"),
        (b"Ulma\tUlm\tnan", "above 0 up to 1"),
        (b"\xff\tUlm", "not UTF-8"),
        (b"Ulma\tulm", "no document has the id or title 'ulm'"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(kb, tmp_path, line, words):
    """File, line, what was seen, what was wanted; and no other line of it is stored."""
    table = tmp_path / "names.tsv"
    table.write_bytes(b"Good\tUlm\n" + line + b"\n")
    before = listed(kb)

    with pytest.raises(CorpusError) as raised:
        import_aliases(kb, [table])

    assert "names.tsv, line 2: " in raised.value.message and words in raised.value.message
    assert listed(kb) == before


def test_a_title_of_two_documents_is_no_target(kb, tmp_path):
    """Their ids are named instead; a file without one usable line is an error, too."""
    twin = write_pages(tmp_path / "twin.jsonl", [page("9", "Rhine")])
    add_corpus(CorpusOptions((twin,)), kb, encoder=WordEncoder())
    table = write_table(tmp_path / "names.tsv", "Rhein\tRhine\n")

    with pytest.raises(CorpusError, match=r"2 documents have the title 'Rhine' \(3, 9\)"):
        import_aliases(kb, [table])
    with pytest.raises(CorpusError, match="no line with an alias"):
        import_aliases(kb, [table], skip_bad=True)


def mention(text, page_id, **fields):
    """An entity-linking record."""
    output = [{"answer": "x", "provenance": [{"wikipedia_id": page_id, "title": "x"}]}]
    return {"id": "1", "input": f"They saw [START_ENT] {text} [END_ENT] there.", "output": output, **fields}


def test_mentions_of_linking_records_are_names_with_counts(kb, tmp_path):
    """Counted over all files given, and added to the links with the same text."""
    one = write_pages(tmp_path / "one.jsonl", [mention("the river", "2"), mention("Donau", "2"), mention("x", "77")])
    two = write_pages(tmp_path / "two.jsonl", [mention("the river", "2"), mention("the river", 3)])
    (tmp_path / "table.tsv").write_text("Rhein\tRhine\n")

    report = import_aliases(kb, [one, tmp_path / "table.tsv", two], skip_bad=True)

    assert (report.aliases, report.skipped) == (4, 1) and "'77'" in report.first_skipped[0]
    assert listed(kb, source="mention") == [
        ("Donau", "2", 1, 1.0),
        ("the river", "2", 2, 0.429),
        ("the river", "3", 1, 0.571),
    ]
    assert listed(kb, source="tsv") == [("Rhein", "3", 0, 1.0)]


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (mention("x", "1", input="no mark"), "marks no mention"),
        (mention("x", "1", input="[START_ENT]  [END_ENT]"), "not blank"),
        (mention("x", "1", output=[{"answer": "x"}]), "names no page"),
        ({"id": "1", "input": "[START_ENT] x [END_ENT]"}, "'output' is missing"),
    ],
)
def test_a_record_without_a_mention_or_a_page_is_named(kb, tmp_path, record, words):
    """By file and line."""
    path = write_pages(tmp_path / "links.jsonl", [mention("good", "1"), record])

    with pytest.raises(CorpusError) as raised:
        import_aliases(kb, [path])

    assert "links.jsonl, line 2: " in raised.value.message and words in raised.value.message


def test_the_python_api_lists_adds_deletes_and_looks_up(kb):
    """Durable and used from the next call on; documents bring aliases of their own."""
    with KnowledgeBase.open(kb, WordEncoder()) as knowledge_base:
        change = knowledge_base.add_aliases("3", ["Rhein", "Rijn"], prior=0.5)
        assert change.aliases == 2
        [(document, match)] = knowledge_base.alias_matches("rhein")
        assert (document.title, match.form, match.prior, match.sources) == ("Rhine", "case", 0.5, ("manual",))
        assert knowledge_base.delete_aliases("3", ["Rijn"]).aliases == 1
        knowledge_base.add([{"id": "n", "title": "Nile", "text": "A long river.", "aliases": ["An-Nil", "Iteru"]}])
        assert [each.alias for each in knowledge_base.reader.list_aliases(doc_id="n")] == ["An-Nil", "Iteru"]
        assert [each.alias for each in knowledge_base.reader.list_aliases(source="manual", prefix="RH")] == ["Rhein"]
        with pytest.raises(UnknownDocumentError):
            knowledge_base.add_aliases("nobody", ["x"])
        with pytest.raises(CorpusError, match="list of names"):
            knowledge_base.add([{"id": "x", "title": "X", "text": "x", "aliases": "Iteru"}])
