"""Is everything what was written? Reads every byte of a knowledge base and compares what must agree.

Nothing is changed. Detected are: any changed byte of a stored row, of a segment, of an index file, of a tuned encoder
and of the write-ahead log; broken structure, foreign keys and schema of the database; ids that database, full text and
segments do not share; aliases filed wrongly; fields that do not follow from their documents. Only `deep` compares the
words inside the full-text index, the counts of links, and what follows from the text. Where answers were recorded
(`storage.recorded_answers`) and no document changed since, the same queries are asked again and have to find the same.
Not looked at are bytes that carry nothing (free pages, unused space inside pages, reserved header fields).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from storage.acknowledged import ACKNOWLEDGED_NAME, read_acknowledged
from storage.ann_setup import read_setup
from storage.catalog import SegmentRow, live_segments
from storage.creation import ENCODER_DIRECTORY, leftovers
from storage.database import DATABASE_NAME, database_path, reader_engine, translated, wal_path
from storage.errors import InvalidOptionError
from storage.findings import Finding, Findings
from storage.lock import is_locked
from storage.opening import check_complete
from storage.recorded_answers import RECORDED_NAME, compare_answers, read_answers
from storage.schema import FTS_TABLE
from storage.session import SEGMENT_DIRECTORY
from storage.settings import KBSettings, read_settings
from storage.tuned_files import check_tuned
from storage.verify_database import DatabaseFacts, check_full_text, check_rows, check_structure
from storage.verify_fields import check_fields
from storage.verify_names import check_names
from storage.verify_segments import Reencode, check_reencoded, check_segments
from storage.wal import check_wal

__all__ = ["Finding", "Reencode", "VerifyReport", "verify"]


@dataclass(frozen=True)
class VerifyReport:
    """What `verify` looked at and found.

    Attributes:
        path: The knowledge base.
        deep: Whether what follows from the text was compared with it.
        generation: The commit that was looked at; 0 when the database could not be read.
        documents: Rows of documents read, dead ones included.
        passages: Rows of passages read, those of dead documents included.
        segments: Live segments.
        reencoded: Passages encoded again and compared.
        findings: What is wrong; empty when nothing is.
        asked: Recorded queries asked again and compared; 0 when none are recorded, or documents changed since.
    """

    path: Path
    deep: bool
    generation: int
    documents: int
    passages: int
    segments: int
    reencoded: int
    findings: tuple[Finding, ...]
    asked: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing acknowledged is lost or wrong: leftovers and derived files do not count."""
        return all(finding.severity in ("derived", "leftover") for finding in self.findings)

    @property
    def clean(self) -> bool:
        """Whether there is nothing to report at all."""
        return not self.findings


def verify(
    path: str | Path,
    *,
    deep: bool = False,
    reencode: Reencode | None = None,
    sample: int = 200,
    min_cosine: float = 0.99,
) -> VerifyReport:
    """Find what is wrong with the knowledge base, down to single bytes, while readers and a writer go on.

    Args:
        path: Its directory.
        deep: Also index the stored text anew and compare the full-text index and the token positions with it and,
            given `reencode`, a sample of the stored vectors.
        reencode: Encodes stored passages again, with the encoder of the knowledge base, keeping the same tokens.
        sample: How many passages are encoded again.
        min_cosine: Least cosine between a stored and a newly encoded vector; encoders differ a little between
            machines and precisions.

    Raises:
        NotAKnowledgeBaseError: There is no kb.sqlite.
    """
    if sample < 1 or not 0 < min_cosine <= 1:
        raise InvalidOptionError(f"sample {sample}, min_cosine {min_cosine}; wanted at least 1, and above 0 up to 1")
    directory = Path(path)
    database_path(directory)
    findings = Findings(directory)
    facts = DatabaseFacts()
    settings: KBSettings | None = None
    segments: list[SegmentRow] = []
    reencoded = 0
    writer_at_work = is_locked(directory)
    with findings.checking(f"{DATABASE_NAME}-wal"):
        check_wal(wal_path(directory))
    acknowledged = read_acknowledged(directory)
    engine = reader_engine(directory)
    try:
        with findings.checking(DATABASE_NAME), engine.connect() as connection:
            with findings.checking(ACKNOWLEDGED_NAME):
                check_complete(directory, connection, acknowledged)
            check_structure(connection, findings)
            with findings.checking(f"{DATABASE_NAME}: settings"):
                settings = read_settings(connection, name=str(directory))
            with findings.checking(f"{DATABASE_NAME}: segments"):
                segments = live_segments(connection)
                facts.segments_known = True
            with findings.checking(DATABASE_NAME):
                check_rows(connection, facts, findings)
                facts.complete = True
            with findings.checking(f"{DATABASE_NAME}: {FTS_TABLE}", "repairable"):
                check_full_text(connection, facts, findings, deep=deep)
            with findings.checking(f"{DATABASE_NAME}: aliases"):
                building = settings is None or settings.build_state == "building"
                check_names(connection, findings, deep=deep, building=building)
            with findings.checking(f"{DATABASE_NAME}: fields", "repairable"):
                check_fields(connection, findings)
            if deep and reencode is not None:
                with findings.checking("segments"):
                    setup = None
                    if settings is not None:
                        setup = read_setup(directory / SEGMENT_DIRECTORY, settings)
                    reencoded = check_reencoded(
                        connection,
                        segments,
                        findings,
                        reencode=reencode,
                        sample=sample,
                        min_cosine=min_cosine,
                        setup=setup,
                    )

        def still_live(name: str) -> bool:
            with translated(directory), engine.connect() as connection:
                return name in {row.file.name for row in live_segments(connection)}

        with findings.checking("segments"):
            check_segments(segments, facts, findings, settings=settings, still_live=still_live, deep=deep)
    finally:
        engine.dispose()
    with findings.checking(ENCODER_DIRECTORY):
        check_tuned(directory, findings)
    asked = _compare_answers(directory, findings)
    # Beside a writer a file that nothing refers to may be about to be committed.
    if facts.segments_known and not writer_at_work and not is_locked(directory):
        for leftover in leftovers(directory, {row.file.name for row in segments}, settings):
            findings.add(
                str(leftover.relative_to(directory)), "belongs to no live segment, or to another index", "leftover"
            )
    return VerifyReport(
        path=directory,
        deep=deep,
        generation=facts.generation,
        documents=facts.n_documents,
        passages=len(facts.passage_ids),
        segments=len(segments),
        reencoded=reencoded,
        findings=tuple(findings.found),
        asked=asked,
    )


def _compare_answers(directory: Path, findings: Findings) -> int:
    """Ask recorded queries again, where all else is sound: damage that is known need not be found again."""
    with findings.checking(RECORDED_NAME, "repairable"):
        read_answers(directory)
    if any(finding.severity in ("error", "repairable") for finding in findings.found):
        return 0
    asked = 0
    engine = reader_engine(directory)
    try:
        with findings.checking(RECORDED_NAME), translated(directory), engine.connect() as connection:
            comparison = compare_answers(directory, connection)
            asked = comparison.asked
            for what in comparison.differing:
                findings.add(RECORDED_NAME, what, "error")
    finally:
        engine.dispose()
    return asked
