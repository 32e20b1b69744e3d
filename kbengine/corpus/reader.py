"""Reading a corpus: any of the formats, any number of files, one document at a time."""

from __future__ import annotations

import difflib
import functools
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from kbengine.corpus.beir import parse_beir
from kbengine.corpus.compression import STDIN_NAME, CorpusFile, file_size
from kbengine.corpus.densephrases import densephrases_records
from kbengine.corpus.detect import FORMATS, CorpusFormat, detect_format
from kbengine.corpus.document import CorpusDocument, Record, SourcePosition
from kbengine.corpus.dpr import dpr_records
from kbengine.corpus.exported import parse_exported
from kbengine.corpus.folder import DOCUMENT_KINDS, FolderListing, folder_records, list_folder
from kbengine.corpus.jsonl import jsonl_records
from kbengine.corpus.kilt import parse_kilt
from kbengine.corpus.plain import parse_plain
from kbengine.corpus.report import MAX_BAD_KEPT, BadRecord, CorpusReport
from kbengine.corpus.seen import SeenIds
from kbengine.errors import CorpusError, EmptyCorpusError, InvalidOptionError


def read_corpus(
    paths: Sequence[str | Path] | str | Path,
    *,
    format: str | None = None,
    skip_bad: bool = False,
    start: SourcePosition | None = None,
    anchors: bool = False,
    change: Callable[[CorpusDocument], CorpusDocument] | None = None,
) -> CorpusReading:
    """Read documents from all paths in order, in bounded memory: (document, position) pairs, with a `.report`.

    Missing paths and unknown formats are refused here, everything else when it is met.

    Args:
        paths: Files, folders of text files, or `-` for standard input.
        format: One of `FORMATS` for all paths; None detects each path's own.
        skip_bad: Pass over bad records and count them in the report, instead of raising CorpusError.
        start: Deliver only what comes after this position of an earlier reading of the same paths. What comes
            before is parsed again, so that repeated ids are still found; nothing of it is delivered.
        anchors: Keep the links of KILT pages in `meta["anchors"]`.
        change: Makes of each document the one that is delivered; what it refuses is a bad record.
    """
    return CorpusReading(paths, format=format, skip_bad=skip_bad, start=start, anchors=anchors, change=change)


_PARSERS: Final = {"beir": parse_beir, "kbengine": parse_exported, "plain": parse_plain}


@dataclass(frozen=True, slots=True)
class _Source:
    """One of the given paths: how it is read, how many bytes it has, and its files if it is a folder."""

    path: Path
    format: CorpusFormat
    n_bytes: int
    listing: FolderListing | None

    def place(self, record: int, path: str | None) -> str:
        """Return where a record is, for people."""
        if self.listing is not None:
            return str(self.path / path) if path is not None and self.path.is_dir() else str(self.path)
        return f"{self.path}, {self.unit} {record}"

    @property
    def unit(self) -> str:
        if self.listing is not None:
            return "file"
        return "document" if self.format == "densephrases" else "line"


class CorpusReading(Iterator[tuple[CorpusDocument, SourcePosition]]):
    """A corpus being read; made by `read_corpus`."""

    def __init__(
        self,
        paths: Sequence[str | Path] | str | Path,
        *,
        format: str | None,
        skip_bad: bool,
        start: SourcePosition | None,
        anchors: bool,
        change: Callable[[CorpusDocument], CorpusDocument] | None,
    ) -> None:
        given = [paths] if isinstance(paths, (str, Path)) else list(paths)
        if not given:
            raise CorpusError("no corpus path was given; name files, a folder, or - for standard input")
        self._sources: Final = [_source(Path(path), format) for path in given]
        self._skip_bad: Final = skip_bad
        self._anchors: Final = anchors
        self._change: Final = change
        self._start: Final = start
        self.unreadable_files: Final[set[str]] = set()
        """Paths of the files of folders that could not be read, relative to their folder."""
        self._seen: Final = SeenIds()
        self._bad: Final[list[BadRecord]] = []
        self._empty: Final[list[str]] = []
        self._n_empty = 0
        self._documents = start.documents if start else 0
        self._passages = start.passages if start else 0
        self._textless = start.textless_documents if start else 0
        self._n_bad = start.bad_records if start else 0
        self._bytes_read = start.bytes_read if start else 0
        self._reached_start = False
        if start is not None:
            self._check_start(start)
        self._iterator: Final = self._all()

    def __iter__(self) -> CorpusReading:
        return self

    def __next__(self) -> tuple[CorpusDocument, SourcePosition]:
        return next(self._iterator)

    def close(self) -> None:
        """Close the open file; the reading is over."""
        self._iterator.close()

    @property
    def report(self) -> CorpusReport:
        """The counts so far; may be asked for at any time."""
        ignored: Counter[str] = Counter()
        for source in self._sources:
            ignored.update(source.listing.ignored if source.listing else {})
        return CorpusReport(
            documents=self._documents,
            passages=self._passages,
            textless_documents=self._textless,
            bad_records=self._n_bad,
            bad=tuple(self._bad),
            ignored_files=sum(ignored.values()),
            ignored_suffixes=dict(ignored.most_common()),
            empty_files=self._n_empty,
            first_empty=tuple(self._empty),
            bytes_read=self._bytes_read,
            bytes_total=sum(source.n_bytes for source in self._sources),
        )

    def _all(self) -> Generator[tuple[CorpusDocument, SourcePosition], None, None]:
        before = 0
        for file_index, source in enumerate(self._sources):
            for record in _records(source, self._anchors):
                self._bytes_read = before + record.bytes_read
                if record.empty:
                    self._n_empty += 1
                    if len(self._empty) < MAX_BAD_KEPT:
                        self._empty.append(source.place(record.number, record.path))
                    continue
                start = self._start
                passed = start is not None and (file_index, record.number) <= (start.file_index, start.record)
                document, problem = self._checked(file_index, record)
                if passed:
                    self._check_passed(file_index, record, document)
                elif document is None:
                    self._refuse(source, record, problem)
                else:
                    yield document, self._delivered(file_index, record, document)
            self._check_reached(file_index)
            before += source.n_bytes or self._bytes_read - before  # a pipe has no size
            self._bytes_read = before
        if self._passages == 0:
            raise (CorpusError if self._documents or self._n_bad else EmptyCorpusError)(self._nothing())

    def _checked(self, file_index: int, record: Record) -> tuple[CorpusDocument | None, str]:
        """Return the document under an id of its own, or None and the problem."""
        document = record.document
        if document is None:
            return None, record.problem or "not a document"
        first = self._seen.add(document.doc_id, file_index, record.number)
        if first is not None and record.other_id is not None:
            document = replace(document, doc_id=record.other_id)
            first = self._seen.add(document.doc_id, file_index, record.number)
        if first is None:
            try:
                return document if self._change is None else self._change(document), ""
            except CorpusError as e:
                return None, e.message
        place = self._sources[first[0]].place(first[1], document.doc_id)
        return None, f"the document id {document.doc_id!r} is already that of {place}, wanted each id once"

    def _delivered(self, file_index: int, record: Record, document: CorpusDocument) -> SourcePosition:
        self._documents += 1
        self._passages += len(document.passages)
        self._textless += not document.passages
        return SourcePosition(
            file_index=file_index,
            file=str(self._sources[file_index].path),
            record=record.number,
            doc_id=document.doc_id,
            bytes_read=self._bytes_read,
            documents=self._documents,
            passages=self._passages,
            textless_documents=self._textless,
            bad_records=self._n_bad,
        )

    def _refuse(self, source: _Source, record: Record, problem: str) -> None:
        place = source.place(record.number, record.path)
        if not self._skip_bad:
            raise CorpusError(f"{place}: {problem}; fix the {source.unit} or pass --skip-bad")
        self._n_bad += 1
        if record.path is not None:
            self.unreadable_files.add(record.path)
        if len(self._bad) < MAX_BAD_KEPT:
            file = place if source.listing is not None else str(source.path)
            self._bad.append(BadRecord(file, record.number, problem))

    def _nothing(self) -> str:
        names = ", ".join(str(source.path) for source in self._sources[:3])
        names += ", ..." if len(self._sources) > 3 else ""
        if self._n_bad:
            return (
                f"{names}: all {self._n_bad} records are bad, the first because {self._bad[0].reason}"
                if self._bad and not self._documents
                else f"{names}: {self._n_bad} bad records and no text, wanted documents with text"
            )
        if self._documents:
            return f"{names}: {self._documents} documents and not one passage of text, wanted documents with text"
        empty = f"its {self._n_empty} files are empty" if self._n_empty else "no document in it"
        return f"{names}: {empty}, wanted at least one document with text"

    def _check_start(self, start: SourcePosition) -> None:
        given = self._sources[start.file_index].path if start.file_index < len(self._sources) else None
        if given is None or given.name != Path(start.file).name:
            raise CorpusError(
                f"the reading to go on with had {start.file} as path {start.file_index + 1}, now it is "
                f"{'missing' if given is None else given}; give the same paths in the same order, or build anew"
            )

    def _check_passed(self, file_index: int, record: Record, document: CorpusDocument | None) -> None:
        start = self._start
        if start is None or (file_index, record.number) != (start.file_index, start.record):
            return
        self._reached_start = True
        if document is None or document.doc_id != start.doc_id:
            place = self._sources[file_index].place(record.number, record.path)
            raise CorpusError(_changed(place, start, repr(document.doc_id) if document else "a bad record"))

    def _check_reached(self, file_index: int) -> None:
        start = self._start
        if start is not None and file_index == start.file_index and not self._reached_start:
            source = self._sources[file_index]
            raise CorpusError(_changed(source.place(start.record, None), start, "no document"))


def _changed(place: str, start: SourcePosition, seen: str) -> str:
    return (
        f"{place}: holds {seen}, but {start.doc_id!r} when the reading stopped there: the corpus has changed; "
        "restore it or build anew"
    )


def _records(source: _Source, anchors: bool) -> Iterator[Record]:
    if source.listing is not None:
        yield from folder_records(source.listing)
        return
    with CorpusFile(source.path) as file:
        if source.format == "dpr":
            yield from dpr_records(file)
        elif source.format == "densephrases":
            yield from densephrases_records(file)
        else:
            yield from jsonl_records(
                file, _PARSERS.get(source.format) or functools.partial(parse_kilt, anchors=anchors)
            )


def _source(path: Path, format: str | None) -> _Source:
    if str(path) != STDIN_NAME and not path.exists():
        raise EmptyCorpusError(_missing(path))
    if format is None:
        known = detect_format(path)
    else:
        named = [each for each in FORMATS if each == format]
        if not named:
            raise InvalidOptionError(f"the corpus format is {format!r}, wanted one of {', '.join(FORMATS)}")
        known = named[0]
    if path.is_dir() and known != "folder":
        raise CorpusError(f"{path}: is a folder, but the format {known} is one of files; name the files in it")
    listing = list_folder(path) if known == "folder" else None
    if listing is not None and not listing.files:
        others = f" among its {listing.n_ignored} files" if listing.n_ignored else ""
        raise EmptyCorpusError(
            f"{path}: no {DOCUMENT_KINDS}{others}; a folder is read as a document a file, files of other formats "
            "have to be named one by one"
        )
    n_bytes = sum(file_size(file.path) for file in listing.files) if listing else file_size(path)
    return _Source(path, known, n_bytes, listing)


def _missing(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"{path}: does not exist, nor does the folder {folder}; check the path"
    names = sorted(each.name for each in folder.iterdir())
    near = difflib.get_close_matches(path.name, names, n=3, cutoff=0.5)
    near = near or [name for name in names if name.startswith(path.name)][:3]
    return f"{path}: does not exist; {'did you mean ' + ' or '.join(near) + '?' if near else 'check the path'}"
