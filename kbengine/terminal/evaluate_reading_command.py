"""The command `evaluate reading`: an encoder or a reader on reading-comprehension data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import PATH, device_option, dtype_option, json_option, option

if TYPE_CHECKING:
    from kbengine.encoders.device import DTypeChoice
    from kbengine.learning.reading.evaluation import ReadingReport

COLUMNS = {
    "setting": "setting",
    "source": "source",
    "questions": "n",
    "em": "EM",
    "f1": "F1",
    "has_answer_em": "HasAns EM",
    "has_answer_f1": "HasAns F1",
    "no_answer_em": "NoAns",
    "in_gold_passage": "in gold",
    "threshold": "threshold",
    "best_em": "best EM @",
    "best_f1": "best F1 @",
}
"""Headings of the table; "in gold" is the share of answers found in the gold passage."""


@click.command()
@click.argument("data", nargs=-1, required=True, type=PATH)
@option("--encoder", str, "Read with the encoder of this name or directory; by default minilm-phrase or --reader.")
@option("--reader reader_path", Path, "Read with the reader of this name or directory; by default with an encoder.")
@option("--pages", Path, "Look up the passages of KILT rows in this corpus; by default in none.", multiple=True)
@option("--small-corpus", bool, "Also search all gold passages together (the papers' D_small).")
@option("--no-answer-threshold", float, "Count lower scores as no answer; by default 0 for a reader.")
@option("--keep-fraction", float, "Read only this share of the tokens, the best by the filter; by default all.")
@option("--limit", int, "Read only the first so many examples; by default all.")
@option("--records", Path, "Write one JSON line a question and setting to this file; by default to none.")
@device_option
@dtype_option
@json_option
def reading(
    data: tuple[Path, ...],
    encoder: str | None,
    reader_path: Path | None,
    pages: tuple[Path, ...],
    small_corpus: bool,
    no_answer_threshold: float | None,
    keep_fraction: float | None,
    limit: int | None,
    records: Path | None,
    device: str,
    dtype: DTypeChoice,
    as_json: bool,
) -> None:
    """EM and F1 with the gold passage given, by an encoder's phrases (query-agnostic) or a cross-encoder.

    DATA is SQuAD 1.1 or 2.0, Natural Questions, DPR, zero-shot RE, or KILT rows with --pages.

    \b
    Examples:
      kbengine evaluate reading dev-v1.1.json --encoder minilm-phrase --small-corpus
      kbengine evaluate reading dev-v2.0.json --reader my-reader --records readings.jsonl
    """
    from kbengine.build.filtering import FilterOptions
    from kbengine.encoders.encoder import Encoder
    from kbengine.learning.data.reading import DataOptions, read_training_files
    from kbengine.learning.reading.evaluation import ReadingOptions, evaluate_reading
    from kbengine.progress import progress_for_terminal
    from kbengine.reading.reader import Reader

    if encoder is None and reader_path is None:
        encoder = "minilm-phrase"
    options = ReadingOptions(small_corpus, no_answer_threshold, FilterOptions(keep_fraction=keep_fraction))
    with progress_for_terminal() as progress:
        found = read_training_files(data, DataOptions(pages=pages), progress=progress)
        report = evaluate_reading(
            found.examples[:limit],
            encoder=None if encoder is None else Encoder.load(encoder, device=device, dtype=dtype),
            reader=None if reader_path is None else Reader.load(reader_path, device=device, dtype=dtype),
            options=options,
            progress=progress,
        )
    for reason, n_rows in found.report.unusable.most_common():
        click.echo(f"{n_rows:,} rows cannot be used: {reason}", err=True)
    _show(report, as_json)
    if records is not None:
        _write_records(report, records)


def _show(report: ReadingReport, as_json: bool) -> None:
    """Write a row for each setting and, where the questions are from several files, for each of them."""
    rows: list[dict[str, Any]] = []
    for setting, scores in report.scores.items():
        parts = scores.by_source()
        rows.append({"setting": setting, "source": "all" if len(parts) > 1 else next(iter(parts)), **scores.to_json()})
        if len(parts) > 1:
            rows += [{"setting": setting, "source": name, **part.to_json()} for name, part in parts.items()]
    if report.n_without_phrase:
        click.echo(f"{report.n_without_phrase:,} examples have no phrase to compare with: left out", err=True)
    output = standard_output(as_json=as_json)
    if as_json:
        for row in rows:
            output.record(row)
        return
    shown = {name: title for name, title in COLUMNS.items() if any(row[name] is not None for row in rows)}
    output.table(list(shown.values()), [[_cell(row, name) for name in shown] for row in rows])


def _cell(row: dict[str, Any], name: str) -> str:
    value, threshold = row[name], row.get(f"{name}_threshold")
    text = f"{value:.2f}" if isinstance(value, float) else "" if value is None else str(value)
    return text if threshold is None else f"{text} @ {threshold:.2f}"


def _write_records(report: ReadingReport, path: Path) -> None:
    from storage.durable import write_durably

    lines = (
        json.dumps({"setting": setting, **record.to_json()}, ensure_ascii=False) + "\n"
        for setting, scores in report.scores.items()
        for record in scores.records
    )
    write_durably(path, (line.encode() for line in lines), replace=True)
