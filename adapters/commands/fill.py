"""The command `fill`: a table with a column of names or questions in, the same table with answers out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import device_option, dtype_option, json_option, option, reader_option
from kbengine.terminal.service import kb_or_service_option

if TYPE_CHECKING:
    from kbengine.encoders.device import DTypeChoice

FORMATS = ("csv", "tsv", "xlsx", "parquet")


@click.command()
@click.argument("table", type=click.Path(path_type=Path))
@kb_or_service_option
@option("--out", Path, "Write the filled table here, in the format that its name says.", required=True)
@option("--subject", str, "Take the names from this column; by default there are questions.")
@option("--relation relations", str, "Fill in this of each name; by default its document alone.", multiple=True)
@option("--question", str, "Answer the questions of this column; by default there are names.")
@option("--context", str, "Let this column's text say who is meant; by default the name alone.")
@option("--ids", str, "Take known ids of documents from this column; by default from 'NAME id'.")
@option("--values", int, "Put so many values into a cell.", default=1)
@option("--threshold", float, "Fill in what is at least so probable; by default the task's own threshold.")
@option("--where", str, "Answer from documents whose fields pass this filter; by default from all.")
@option("--read", int, "Read so many of the best passages, 0 none; by default as many as pays for the task.")
@option("--no-evidence", bool, "Leave out each answer's sentence and document.")
@option("--format format_name", FORMATS, "Read the table as this; by default its name says it.")
@option("--encoder", str, "Ask with this tuned encoder, or this model; by default the task's own.")
@device_option
@dtype_option
@reader_option
@json_option
def fill(
    table: Path,
    kb: Path | None,
    out: Path,
    relations: tuple[str, ...],
    no_evidence: bool,
    format_name: str | None,
    encoder: str | None,
    device: str,
    dtype: DTypeChoice,
    reader: str,
    as_json: bool,
    **given: Any,
) -> None:
    """Fill a table: each name's document, and what is wanted of it; or an answer to each question.

    TABLE is a CSV, TSV, Excel or Parquet file with a header. Every row comes back, cells that hold something stay as
    they are, and the last column says what could not be filled and why. Interrupted and called again it goes on.

    \b
    Examples:
      kbengine fill people.csv --kb my-kb --subject name --relation P19 --relation "date of birth" --out filled.csv
      kbengine fill questions.csv --kb my-kb --question question --out answers.xlsx
    """
    if kb is None:
        asked = {**given, "relation": relations, "evidence": not no_evidence, "encoder": encoder}
        facts = _filled_by_service(table, out, asked, format_name)
    else:
        opened_with = {"device": device, "dtype": dtype, "reader": reader}
        asked = {**given, "relations": relations, "evidence": not no_evidence}
        facts = _filled_here(table, kb, out, asked, format_name, encoder, **opened_with)
    standard_output(as_json=as_json).facts({**facts, "out": str(out)})


def _filled_by_service(table: Path, out: Path, options: dict[str, Any], format_name: str | None) -> dict[str, Any]:
    from adapters.remote.filling import fill_table
    from kbengine.terminal.service import Service, refuse_own_choices

    refuse_own_choices()
    return fill_table(Service.of_environment(), table, out, options, format=format_name)


def _filled_here(
    table: Path,
    kb: Path,
    out: Path,
    given: dict[str, Any],
    format_name: str | None,
    encoder: str | None,
    **opened_with: Any,
) -> dict[str, Any]:
    from adapters.filling.filler import Filler, FillOptions, asking
    from adapters.filling.filling import fill_file
    from adapters.filling.opening import open_table
    from adapters.filling.table import format_of
    from adapters.tasks.answerer import Answerer
    from kbengine.knowledge_base import KnowledgeBase, KnowledgeBaseOptions
    from kbengine.progress import Stages, progress_for_terminal

    options = FillOptions(**given)
    format_of(out)
    options.check(open_table(table, format_name))  # before the model is loaded
    with (
        KnowledgeBase.open(kb, encoder, options=KnowledgeBaseOptions(**opened_with)) as knowledge_base,
        progress_for_terminal() as sink,
    ):
        answerer = Answerer(knowledge_base, notice=lambda sentence: click.echo(f"note: {sentence}", err=True))
        filler, stages = Filler(options, asking(answerer), knowledge_base.reader), Stages(sink)
        report = fill_file(
            table,
            out,
            filler,
            options,
            format=format_name,
            progress=lambda done, total: stages("rows filled", done, total),
        )
    return report.facts()
