"""The commands about open-domain questions: `evaluate open`, `evaluate passages` and `export passages`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from adapters.open_domain.passages import PASSAGE_FORMATS
from adapters.open_domain.retrieving import RETRIEVERS
from kbengine.search.query import EFFORTS
from kbengine.terminal.console import standard_output
from kbengine.terminal.options import json_option, kb_option, option, reader_option

if TYPE_CHECKING:
    from adapters.open_domain.evaluating import OpenReport
    from adapters.open_domain.passages import PassageFormat


@click.command("open")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@kb_option
@option("--encoder", str, "Ask with this tuned encoder, or this model; by default the task's own.")
@option("--top-k k", int, "Find so many passages of each question.", default=100)
@option("--retriever", RETRIEVERS, "Rank answers and passages by these signals.", default="all")
@option("--effort", EFFORTS, "Search with this effort.", default="normal")
@option("--read", int, "Read so many of the best passages, 0 none; by default as many as pays for questions.")
@reader_option
@option("--where", str, "Search only documents whose fields pass this filter; by default all.")
@option("--answers/--no-answers", bool, "Score the answers that `query` gives.", default=True)
@option("--passages/--no-passages", bool, "Score the passages found, too.", default=True)
@option(
    "--regex/--no-regex",
    bool,
    "Take answers for regular expressions; by default where 'trec' is in the name.",
    default=None,
)
@option("--candidates", Path, "Leave out answers that this list has not, one a line; by default none are left out.")
@option("--limit", int, "Ask only the first so many questions of each file; by default all.")
@option("--records", Path, "Write one JSON line a question to this file; by default to none.")
@json_option
def open_questions(
    files: tuple[Path, ...],
    kb: Path,
    encoder: str | None,
    reader: str,
    answers: bool,
    passages: bool,
    regex: bool | None,
    candidates: Path | None,
    limit: int | None,
    records: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Score answers and passages of question files as the papers do: EM@1, top-k by answer string, MRR@20, P@20.

    FILE is Natural Questions, WebQuestions, CuratedTREC (regular expressions), TriviaQA or SQuAD as DensePhrases, DPR
    or DrQA write them, or their own releases; which one is told by what is in it.

    \b
    Examples:
      kbengine evaluate open nq-test.qa.csv trivia-test.qa.csv --kb my-kb
      kbengine evaluate open CuratedTrec-test.txt --kb my-kb --retriever phrases --read 0 --json
    """
    from adapters.open_domain.evaluating import OpenOptions, evaluate_open, read_candidates
    from adapters.open_domain.questions import read_open_questions
    from adapters.open_domain.retrieving import RetrievingOptions
    from adapters.tasks.answerer import Answerer
    from kbengine.knowledge_base import KnowledgeBase, KnowledgeBaseOptions
    from kbengine.progress import progress_for_terminal

    options = OpenOptions(
        retrieving=RetrievingOptions(**given),
        has_answers=answers,
        has_passages=passages,
        candidates=None if candidates is None else read_candidates(candidates),
    )
    asked = [read_open_questions(path, patterns=regex, limit=limit) for path in files]
    opened_with = KnowledgeBaseOptions(reader=reader)
    with KnowledgeBase.open(kb, encoder, options=opened_with) as knowledge_base, progress_for_terminal() as progress:
        answerer = Answerer(knowledge_base)
        reports = [evaluate_open(answerer, each, options=options, progress=progress) for each in asked]
    _show_open(reports, records, as_json)


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@option("--regex", bool, "Take answers for regular expressions.")
@option("--records", Path, "Write one JSON line a question to this file; by default to none.")
@json_option
def passages(files: tuple[Path, ...], regex: bool, records: Path | None, as_json: bool) -> None:
    """Score passages found before, in DPR's or FiD's form: top-k by answer string, MRR@20, P@20.

    \b
    Example:
      kbengine evaluate passages nq-test.passages.json
    """
    from adapters.open_domain.evaluating import evaluate_passages
    from adapters.open_domain.passages import read_passages

    reports = [evaluate_passages(read_passages(path), name=path.name, patterns=regex) for path in files]
    _show_open(reports, records, as_json)


def _show_open(reports: list[OpenReport], records: Path | None, as_json: bool) -> None:
    """Write a row for each file; what the figures do not say goes to stderr, questions to their file."""
    from storage.durable import write_durably

    for report in reports:
        for sentence in report.notices():
            click.echo(sentence, err=True)
    rows = [report.facts() for report in reports]
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    standard_output(as_json=as_json).table(columns, [tuple(row.get(name) for name in columns) for row in rows])
    if records is not None:
        lines = (
            json.dumps({"file": report.name, **record.to_json()}, ensure_ascii=False) + "\n"
            for report in reports
            for record in report.records
        )
        write_durably(records, (line.encode() for line in lines), replace=True)


@click.command("passages")
@click.argument("questions", type=click.Path(path_type=Path))
@kb_option
@option("--format form", PASSAGE_FORMATS, "Write a file of this form.", default="fid")
@option("--out", Path, "Write to this file; by default to standard output.")
@option("--encoder", str, "Ask with this tuned encoder, or this model; by default the task's own.")
@option("--top-k k", int, "Write so many passages of each question.", default=100)
@option("--retriever", RETRIEVERS, "Rank passages by these signals.", default="all")
@option("--effort", EFFORTS, "Search with this effort.", default="normal")
@option("--read", int, "Read so many of the best passages, 0 none; by default as many as pays for questions.")
@reader_option
@option("--where", str, "Search only documents whose fields pass this filter; by default all.")
@option("--mark-phrases", bool, "Put <p_start> and <p_end> around the phrase found in each passage.")
@option(
    "--regex/--no-regex",
    bool,
    "Take answers for regular expressions; by default where 'trec' is in the name.",
    default=None,
)
@option("--limit", int, "Ask only the first so many questions; by default all.")
def export_passages(
    questions: Path,
    kb: Path,
    form: PassageFormat,
    out: Path | None,
    encoder: str | None,
    reader: str,
    mark_phrases: bool,
    regex: bool | None,
    limit: int | None,
    **given: Any,
) -> None:
    """Write the best passages of each question of a file, as a Fusion-in-Decoder reader takes them.

    QUESTIONS is what `kbengine evaluate open` takes. The forms are those of FiD, of DPR's results and of KILT.

    \\b
    Example:
      kbengine export passages nq-test.qa.csv --kb my-kb --format fid --out nq-test.passages.json
    """
    from adapters.open_domain.passages import export_passages as lines_of
    from adapters.open_domain.questions import read_open_questions
    from adapters.open_domain.retrieving import RetrievingOptions
    from adapters.tasks.answerer import Answerer
    from kbengine.knowledge_base import KnowledgeBase, KnowledgeBaseOptions
    from kbengine.progress import progress_for_terminal
    from storage.durable import write_durably

    options = RetrievingOptions(**given)
    asked = read_open_questions(questions, patterns=regex, limit=limit)
    opened_with = KnowledgeBaseOptions(reader=reader)
    with KnowledgeBase.open(kb, encoder, options=opened_with) as knowledge_base, progress_for_terminal() as progress:
        lines = lines_of(
            Answerer(knowledge_base), asked, form, options=options, mark_phrases=mark_phrases, progress=progress
        )
        if out is None or str(out) == "-":
            for line in lines:
                click.echo(line, nl=False)
        else:
            write_durably(out, (line.encode() for line in lines), replace=True)
    click.echo(f"{len(asked.questions):,} questions exported", err=True)
