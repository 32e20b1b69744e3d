"""The commands about task files: `predict`, `score` and `lint`; the command line loads them when they are asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from adapters.kilt.answer_forms import ANSWER_FORMS
from kbengine.inputs import TASKS
from kbengine.search.query import EFFORTS, STRATEGIES
from kbengine.terminal.console import standard_output
from kbengine.terminal.options import json_option, kb_option, option, reader_option

if TYPE_CHECKING:
    from adapters.errors import RecordError
    from adapters.kilt.verdicts import Judging
    from kbengine.inputs import Task

SHOWN_RECORDS = 20
"""Bad records named on stderr; the rest are counted."""


@click.command()
@click.argument("inputs", metavar="TASK.jsonl[.gz]", type=click.Path(path_type=Path))
@kb_option
@option("--task", TASKS, "Answer as this task; by default the data set's name tells.")
@option("--encoder", str, "Ask with this tuned encoder, or this model; by default the task's own.")
@option("--out", Path, "Write the submission to this file, or into this directory.", required=True)
@option("--pages", int, "Name so many distinct pages for each record, 5 or more.", default=10)
@option("--batch-size", int, "Search so many records at once.", default=64)
@option("--effort", EFFORTS, "Search with this effort.", default="low")
@option("--strategy", STRATEGIES, "Take candidates from here; by default hybrid, from everywhere.")
@option("--read", int, "Read so many of the best passages, 0 none; by default as many as pays for the task.")
@reader_option
@option("--where", str, "Search only documents whose fields pass this filter; by default all.")
@option("--answer", ANSWER_FORMS, "Answer with this; by default as the data set wants, else with the task's answer.")
@option("--verdict", Path, "Judge claims by the model that `train verdict` made here; by default pages alone.")
@option("--steps", int, "Find pages in 1 step or 2, the second with what the first found; by default 2 for HotpotQA.")
@option("--threshold", float, "Leave answers less probable than this blank; by default none is.")
@option("--resume", bool, "Go on with an unfinished file of the same settings.")
@option("--overwrite", bool, "Replace a file that is there.")
@option("--strict", bool, "Stop at a bad record instead of leaving its answer blank.")
@json_option
def predict(
    inputs: Path,
    kb: Path,
    task: Task | None,
    encoder: str | None,
    reader: str,
    out: Path,
    verdict: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Answer every record of a KILT file; the result is a valid leaderboard submission. `-` is standard input.

    \b
    Example:
      kbengine predict trex-test_without_answers-kilt.jsonl --kb my-kb --out submissions/
      kbengine predict questions.jsonl.gz --task question --kb my-kb --out answers.jsonl --resume
      kbengine predict fever-dev-kilt.jsonl --kb my-kb --out submissions/     (pages; no verdicts)
      kbengine predict fever-dev-kilt.jsonl --kb my-kb --verdict my-verdicts --out submissions/
    """
    from adapters.kilt.predicting import PredictOptions, predict_file
    from adapters.kilt.task_files import output_path, task_of_file
    from kbengine.knowledge_base import KnowledgeBase, KnowledgeBaseOptions
    from kbengine.progress import progress_for_terminal

    options = PredictOptions(**given)
    task = task or task_of_file(inputs)
    path = output_path(inputs, out)  # here too, so that a wrong name is told before the model is loaded
    judge = None if verdict is None else _judge(verdict)
    opened_with = KnowledgeBaseOptions(reader=reader)
    with KnowledgeBase.open(kb, encoder, options=opened_with) as knowledge_base, progress_for_terminal() as progress:
        notices = _Notices()
        report = predict_file(
            knowledge_base,
            inputs,
            path,
            task=task,
            options=options,
            progress=progress,
            notice=notices.take,
            judge=judge,
        )
    notices.count_the_rest()
    standard_output(as_json=as_json).facts(report.facts())


@click.command()
@click.argument("gold", type=click.Path(path_type=Path))
@click.argument("guess", type=click.Path(path_type=Path))
@option("--retrieval", bool, "Measure retrieval alone, without looking at answers.")
@option("--ks", str, "Measure retrieval at these depths.", default="1,5,10,20")
@option("--rank-keys", str, "Compare evidence by wikipedia_id or wikipedia_id,section.", default="wikipedia_id")
@option("--records by_record", bool, "Write one JSON line for each record: its scores and the gate it failed.")
@option("--failed-only", bool, "Write only the lines of records that failed.")
@option("--plot", Path, "Draw recall@k to this .png or .svg; by default nowhere.")
@json_option
def score(gold: Path, guess: Path, plot: Path | None, failed_only: bool, as_json: bool, **given: Any) -> None:
    """Score a submission as the official KILT evaluators do.

    The records' lines go to stdout; the table then goes to stderr, or with --json comes last.

    \b
    Example:
      kbengine score nq-dev-kilt.jsonl submissions/nq-dev-kilt.jsonl
      kbengine score gold.jsonl.gz guess.jsonl --retrieval --rank-keys wikipedia_id,start_paragraph_id,end_paragraph_id
      kbengine score gold.jsonl guess.jsonl --failed-only | jq .failed_gate | sort | uniq -c
    """
    from adapters.kilt.datasets import dataset_of
    from adapters.kilt.plot import plot_recall, recall_at_k
    from adapters.kilt.report import ranking_lines, ranking_text, record_lines, scores_text
    from adapters.kilt.scoring import score_files, score_retrieval_files

    ks, rank_keys = _whole_numbers(given["ks"]), tuple(key.strip() for key in given["rank_keys"].split(","))
    if given["retrieval"]:
        ranked = score_retrieval_files(gold, guess, ks=ks, rank_keys=rank_keys)
        measures, lines = ranked.measures, ranking_lines(ranked, failed_only=failed_only)
        record, text = ranked.to_json(), ranking_text(ranked)
    else:
        scores, dataset = score_files(gold, guess, ks=ks, rank_keys=rank_keys), dataset_of(gold)
        metric = "em" if dataset is None else dataset.metric
        measures, lines = scores.ranking, record_lines(scores, metric=metric, failed_only=failed_only)
        record, text = scores.to_json(metric), scores_text(scores, metric=metric)
    if plot is not None:
        plot_recall({guess.name: recall_at_k(measures)}, plot)
    shows_records = given["by_record"] or failed_only
    for line in lines if shows_records else ():
        click.echo(line)
    if as_json:
        standard_output(as_json=as_json).record(record)
    else:
        click.echo(text, err=shows_records)


@click.command()
@click.argument("guess", type=click.Path(path_type=Path))
@option("--inputs", Path, "Check the ids against this task file; by default they are not checked.")
@json_option
def lint(guess: Path, inputs: Path | None, as_json: bool) -> None:
    """Find what would be rejected or score zero, before uploading; exit code 1 when it would be rejected.

    \b
    Example:
      kbengine lint submissions/nq-dev-kilt.jsonl --inputs nq-dev-kilt.jsonl
    """
    from adapters.kilt.lint import lint as find
    from adapters.kilt.report import lint_text

    report = find(guess, inputs)
    if as_json:
        output = standard_output(as_json=as_json)
        for finding in report.findings:
            output.record(finding.to_json())
        counts = {str(severity): count for severity, count in report.counts().items()}
        output.record({"file": report.file, "records": report.n_records, "accepted": report.accepted, **counts})
    else:
        click.echo(lint_text(report))
    if not report.accepted:
        raise SystemExit(1)


def _judge(directory: Path) -> Judging:
    from kbengine.verdicts.judge import Judge

    return Judge.load(directory)


class _Notices:
    """Names the first bad records on stderr and counts the others."""

    def __init__(self) -> None:
        self._n = 0

    def take(self, error: RecordError) -> None:
        """Name a record, unless enough have been named."""
        self._n += 1
        if self._n <= SHOWN_RECORDS:
            click.echo(str(error), err=True)

    def count_the_rest(self) -> None:
        """Say how many were not named."""
        if self._n > SHOWN_RECORDS:
            click.echo(f"… and {self._n - SHOWN_RECORDS:,} more records", err=True)


def _whole_numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise click.BadParameter(f"{text!r}, wanted whole numbers such as 1,5,10", param_hint="--ks") from error
