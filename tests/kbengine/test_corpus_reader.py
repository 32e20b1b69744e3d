"""Reading a corpus: detection, compression, resumption, bad records, duplicates and bounded memory."""

from __future__ import annotations

import gzip
import json
import os
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from kbengine.corpus import FORMATS, CorpusFormat, SourcePosition, detect_format, read_corpus
from kbengine.errors import CorpusError, InvalidOptionError


def kilt_line(number: int, text: str = "Some text.") -> str:
    """A line of a KILT page with this number as id."""
    page = {"_id": str(number), "wikipedia_id": str(number), "wikipedia_title": f"T{number}"}
    return json.dumps({**page, "text": [f"T{number}", text]}) + "\n"


def beir_line(number: int) -> str:
    """A line of a BEIR document."""
    return json.dumps({"_id": f"b{number}", "title": f"T{number}", "text": "Some text."}) + "\n"


CONTENT: dict[CorpusFormat, str] = {
    "kilt": "".join(kilt_line(i) for i in range(5)),
    "densephrases": json.dumps(
        {"data": [{"title": f"D{i % 3}", "paragraphs": [{"context": "Some text."}]} for i in range(5)]}, indent=2
    ),
    "dpr": "id\ttext\ttitle\n" + "".join(f"{i}\tSome text.\tT{i // 2}\n" for i in range(9)),
    "beir": "".join(beir_line(i) for i in range(5)),
    "kbengine": "".join(
        json.dumps({"doc_id": f"k{i}", "title": "", "url": None, "meta": {}, "passages": [{"ordinal": 0, "text": "x"}]})
        + "\n"
        for i in range(5)
    ),
    "plain": "".join(json.dumps({"id": f"p{i}", "title": f"T{i}", "text": "Some text."}) + "\n" for i in range(5)),
    "folder": "# Ulm\n\nA city.\n",
}

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
}


def ids(reading: Iterator[tuple[object, SourcePosition]]) -> list[str]:
    """The ids of what is left to read."""
    return [position.doc_id for _, position in reading]


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("name", FORMATS)
def test_format_and_compression_are_told_by_content(tmp_path: Path, name: CorpusFormat, packer: str) -> None:
    """A file of any format under a meaningless name is read as if the format had been given."""
    path = tmp_path / ("a.md" if name == "folder" else "data")
    path.write_bytes(PACKERS[packer](CONTENT[name].encode()))
    assert detect_format(path) == name
    found = ids(read_corpus(path))
    assert found == ids(read_corpus(path, format=name))
    assert len(found) == (1 if name == "folder" else 5)


def test_detection_reads_past_bad_first_lines_and_very_long_ones(tmp_path: Path) -> None:
    """A broken first line does not hide the format, nor does a first line of many megabytes."""
    path = tmp_path / "data"
    path.write_text('{"broken\n' + kilt_line(1))
    assert detect_format(path) == "kilt"
    path.write_text(kilt_line(1, "x" * 5_000_000))
    assert detect_format(path) == "kilt"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"id": 1, "body": "x"}\n', "the first record has the keys 'id', 'body'"),
        (b"hello world\n", "the file begins with 'hello world'"),
        (b"", "the file is empty"),
        (b"PK\x03\x04rest", "is a zip archive"),
        (b"PAR1rest", "is a Parquet file"),
    ],
)
def test_unknown_content_is_refused_with_what_was_seen(tmp_path: Path, content: bytes, words: str) -> None:
    """The message says what the file looks like before anything is read."""
    path = tmp_path / "data"
    path.write_bytes(content)
    with pytest.raises(CorpusError) as caught:
        read_corpus(path)
    assert caught.value.message.startswith(f"{path}: ") and words in caught.value.message


def test_unknown_format_name_and_missing_path_are_refused_at_once(tmp_path: Path) -> None:
    """A misspelt path brings the names that come near it."""
    (tmp_path / "pages.jsonl").write_text(CONTENT["kilt"])
    with pytest.raises(InvalidOptionError, match="the corpus format is 'kitl', wanted one of kilt, "):
        read_corpus(tmp_path / "pages.jsonl", format="kitl")
    with pytest.raises(CorpusError, match=r"does not exist; did you mean pages\.jsonl\?"):
        read_corpus([tmp_path / "page.jsonl"])
    with pytest.raises(CorpusError, match="nor does the folder"):
        read_corpus([tmp_path / "no" / "page.jsonl"])
    with pytest.raises(CorpusError, match="no corpus path was given"):
        read_corpus([])


@pytest.mark.parametrize("packer", ["gzip", "zstd"])
def test_truncated_and_damaged_archives_name_the_file(tmp_path: Path, packer: str) -> None:
    """Nothing is taken for the end of the data that is not."""
    lines = "".join(kilt_line(i, os.urandom(500).hex()) for i in range(500))
    packed = PACKERS[packer](lines.encode())
    path = tmp_path / "pages.jsonl.packed"
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(CorpusError, match=f"pages.jsonl.packed: the {packer} data end early"):
        ids(read_corpus(path, format="kilt", skip_bad=True))
    damaged = bytearray(packed)
    damaged[len(packed) // 2 : len(packed) // 2 + 64] = bytes(64)
    path.write_bytes(damaged)
    with pytest.raises(CorpusError, match=f"pages.jsonl.packed(: the {packer} data are damaged|, line)"):
        ids(read_corpus(path, format="kilt"))


@pytest.mark.parametrize("packer", ["gzip", "zstd"])
def test_archives_of_several_parts_are_read_whole(tmp_path: Path, packer: str) -> None:
    """Concatenated gzip members or zstd frames are one file."""
    path = tmp_path / "pages"
    path.write_bytes(b"".join(PACKERS[packer](kilt_line(i).encode()) for i in range(4)))
    assert ids(read_corpus(path)) == ["0", "1", "2", "3"]


def test_reading_goes_on_from_every_position(tmp_path: Path) -> None:
    """From any position, through JSON, the rest is the same, with the same positions and counts."""
    paths = []
    for name in ("kilt", "dpr", "densephrases", "beir"):
        text = CONTENT[name]
        if name == "dpr":  # its ids are KILT's too
            text = text.replace("\n", "\nd").removesuffix("d")
        if name in ("kilt", "beir"):
            text = "\n".join([text.split("\n")[0], "{bad", "", *text.split("\n")[1:]])
        paths.append(tmp_path / name)
        paths[-1].write_bytes(gzip.compress(text.encode()))
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("a.txt", "b.md", "c.html"):
        (folder / name).write_text(f"text of {name}")
    paths.append(folder)

    whole = list(read_corpus(paths, skip_bad=True))
    assert len(whole) == 23
    final = read_corpus(paths, skip_bad=True)
    assert len(list(final)) == 23
    for done, (_, position) in enumerate(whole, 1):
        start = SourcePosition.from_json(json.loads(json.dumps(position.to_json())))
        rest = read_corpus(paths, skip_bad=True, start=start)
        assert [(doc, each) for doc, each in rest] == whole[done:]
        assert rest.report.documents == final.report.documents == 23
        assert rest.report.passages == final.report.passages
        assert rest.report.bad_records == final.report.bad_records == 2


def test_changed_corpus_is_noticed_on_resumption(tmp_path: Path) -> None:
    """Another document at the position, a shorter file or other paths are refused."""
    path = tmp_path / "pages.jsonl"
    path.write_text(CONTENT["kilt"])
    position = [position for _, position in read_corpus(path)][3]
    path.write_text("".join(kilt_line(i) for i in (0, 1, 2, 9, 4)))
    with pytest.raises(CorpusError, match="line 4: holds '9', but '3' when the reading stopped there"):
        ids(read_corpus(path, start=position))
    path.write_text(kilt_line(0))
    with pytest.raises(CorpusError, match="holds no document, but '3'"):
        ids(read_corpus(path, start=position))
    path.rename(tmp_path / "other.jsonl")
    with pytest.raises(CorpusError, match="give the same paths in the same order"):
        read_corpus(tmp_path / "other.jsonl", start=position)


def test_position_that_is_not_ours_is_refused() -> None:
    """Missing, further and ill-typed fields are named."""
    good = SourcePosition(0, "a", 1, "x", 10, 1, 1, 0, 0).to_json()
    assert SourcePosition.from_json(good).doc_id == "x"
    for bad in ({}, {**good, "more": 1}, {**good, "record": "1"}, {**good, "record": -1}, {**good, "file": 3}):
        with pytest.raises(CorpusError, match="a corpus position has"):
            SourcePosition.from_json(bad)


def test_bad_records_are_counted_and_the_first_are_kept(tmp_path: Path) -> None:
    """All are counted, twenty are kept with file, line and reason, good ones in between are read."""
    path = tmp_path / "pages.jsonl"
    path.write_text("".join(kilt_line(i) + "{bad\n" for i in range(30)))
    reading = read_corpus(path, skip_bad=True)
    assert len(ids(reading)) == 30
    report = reading.report
    assert (report.bad_records, len(report.bad)) == (30, 20)
    assert (report.bad[0].file, report.bad[0].line) == (str(path), 2)
    assert report.bad[0].reason.startswith("malformed JSON at character 1")
    assert report.bytes_read == report.bytes_total == path.stat().st_size


def test_repeated_id_names_both_places(tmp_path: Path) -> None:
    """An id met again, in the same file or another, is a bad record, also after a resumption."""
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text(CONTENT["kilt"])
    second.write_text(kilt_line(7) + kilt_line(3))
    words = f"{second}, line 2: the document id '3' is already that of {first}, line 4"
    with pytest.raises(CorpusError) as caught:
        ids(read_corpus([first, second]))
    assert words in caught.value.message
    position = list(zip(range(5), read_corpus([first, second]), strict=False))[4][1][1]
    with pytest.raises(CorpusError) as caught:
        ids(read_corpus([first, second], start=position))
    assert words in caught.value.message
    reading = read_corpus([first, second], skip_bad=True)
    assert ids(reading) == ["0", "1", "2", "3", "4", "7"]


def test_many_ids_are_told_apart(tmp_path: Path) -> None:
    """The table of ids grows: twenty thousand ids are all new, and the one repeated is found."""
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(beir_line(i) for i in range(20_000)) + beir_line(12_345))
    with pytest.raises(CorpusError, match=r"line 20001: the document id 'b12345' is already that of .*, line 12346"):
        ids(read_corpus(path))


def test_corpus_without_text_is_refused(tmp_path: Path) -> None:
    """No document, no good document and no passage each say so."""
    path = tmp_path / "data"
    path.write_text("\n\n")
    with pytest.raises(CorpusError, match="no document in it"):
        ids(read_corpus(path, format="kilt"))
    path.write_text("{bad\n{bad\n")
    with pytest.raises(CorpusError, match="all 2 records are bad, the first because malformed JSON"):
        ids(read_corpus(path, format="kilt", skip_bad=True))
    path.write_text(kilt_line(1, " "))
    with pytest.raises(CorpusError, match="1 documents and not one passage"):
        ids(read_corpus(path))


def test_pipe_is_read_when_its_format_is_named(tmp_path: Path) -> None:
    """A pipe cannot be examined first, but it can be read, packed or not."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(CorpusError, match="name its format with --format"):
        read_corpus(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(gzip.compress(CONTENT["kilt"].encode())))
    writer.start()
    assert ids(read_corpus(pipe, format="kilt")) == ["0", "1", "2", "3", "4"]
    writer.join()


@pytest.mark.parametrize("name", ["kilt", "densephrases"])
def test_memory_stays_bounded_whatever_the_size(tmp_path: Path, name: CorpusFormat) -> None:
    """Twenty megabytes of documents are read holding a small part of them at a time."""
    text = "A sentence of the corpus. " * 400
    path = tmp_path / "data"
    with path.open("w") as file:
        if name == "kilt":
            file.writelines(kilt_line(i, text) for i in range(2000))
        else:
            file.write('{"data": [')
            for i in range(2000):
                entry = {"title": f"T{i}", "paragraphs": [{"context": text}]}
                file.write((", " if i else "") + json.dumps(entry))
            file.write("]}")
    assert path.stat().st_size > 20_000_000
    tracemalloc.start()
    try:
        reading = read_corpus(path, format=name)
        next(reading)
        assert reading.report.bytes_read < 3_000_000
        assert sum(1 for _ in reading) == 1999
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000


def test_closed_reading_ends(tmp_path: Path) -> None:
    """`close` frees the file before the end, and the iteration is over."""
    path = tmp_path / "pages.jsonl"
    path.write_text(CONTENT["kilt"])
    reading = read_corpus(str(path))
    next(reading)
    reading.close()
    assert list(reading) == []


@pytest.mark.parametrize("doc_id", [" a ", "a\n", "\ufeffa", "\u00a0a"])
def test_ids_with_blanks_or_byte_order_marks_around_them_are_refused(tmp_path: Path, doc_id: str) -> None:
    """Nobody could type them again; the message shows the id without them."""
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"_id": doc_id, "title": "T", "text": "Some text."}), "utf-8")
    with pytest.raises(CorpusError, match=r"line 1: the document id is .* wanted no blanks .*: 'a'"):
        list(read_corpus(path))
