"""The command `questions`: a training set out of a corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import PATH, device_option, format_option, json_option, option, skip_bad_option


class Weights(click.ParamType[dict[str, float]]):
    """`name=weight,name=weight`."""

    name = "NAME=WEIGHT,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, float]:
        """Return the weights by name."""
        if isinstance(value, dict):
            return value
        try:
            parts = [part.split("=") for part in str(value).split(",")]
            return {name.strip(): float(weight) for name, weight in parts}
        except ValueError:
            self.fail(f"{value!r} is not a list like question=5,slot=2", param, ctx)


@click.command()
@click.argument("corpus", nargs=-1, required=True, type=PATH)
@option("--out", Path, "Write the questions to this file, FILE.jsonl or FILE.jsonl.gz.", required=True)
@option("--generator", str, "Make questions by cloze, or by the T5 model of this folder or hub name.", default="cloze")
@option("--reader", Path, "Keep what the reader of this name or directory answers as wanted; by default all.")
@option("--per-document", int, "Make at most so many questions of a document.", default=8)
@option("--per-passage", int, "Make at most so many questions of a passage.", default=3)
@option("--exclude-pages", Path, "Leave out the document ids in this file, one a line; by default none.")
@option("--mix", Weights(), "Weigh the kinds of cloze questions; by default question=5,slot=2,relation=2,mention=4.")
@option("--seed", int, "Seed the random choices with this number.", default=0)
@option("--language", str, "Read the corpus as this language.", default="en")
@option("--input-format", ("highlight", "prepend"), "Show the answer to the model in this way.", default="highlight")
@option("--prefix", str, "Put this text before the model's input; by default the format's own.")
@option("--beams", int, "Search with a beam of this width.", default=4)
@option("--batch-size", int, "Give the model so many answers at once.", default=16)
@device_option
@format_option
@skip_bad_option
@option("--overwrite", bool, "Replace a file that is there.")
@json_option
def questions(
    corpus: tuple[Path, ...],
    out: Path,
    format_name: str | None,
    skip_bad: bool,
    overwrite: bool,
    as_json: bool,
    **of: Any,
) -> None:
    """Make training questions from a corpus, as KILT rows with provenance; run it again to resume.

    \b
    Example:
      kbengine questions pages/*.jsonl.gz --exclude-pages unseen.txt --out cloze.jsonl.gz
      kbengine questions pages.jsonl --generator my-t5 --reader my-reader --out generated.jsonl
    """
    from kbengine.build.builder import CorpusOptions
    from kbengine.learning.questions.generation import generate_questions
    from kbengine.progress import progress_for_terminal

    source = CorpusOptions(corpus, format_name, skip_bad)
    with progress_for_terminal() as progress:
        written = generate_questions(source, out, _options(**of), overwrite=overwrite, progress=progress)
    standard_output(as_json=as_json).facts(written.facts())
    for bad in written.corpus.bad:
        click.echo(f"skipped: {bad.file}, record {bad.line}: {bad.reason}", err=True)


def _options(*, generator: str, reader: Path | None, exclude_pages: Path | None, device: str, **of: Any) -> Any:
    """Return the QuestionsOptions of the command's options."""
    from kbengine.corpus.page_list import read_page_list
    from kbengine.learning.questions.answers import AnswerOptions
    from kbengine.learning.questions.cloze import ClozeOptions
    from kbengine.learning.questions.generate import GenerateOptions
    from kbengine.learning.questions.generation import QuestionsOptions

    exclude = read_page_list(exclude_pages) if exclude_pages is not None else frozenset[str]()
    answers = AnswerOptions(of["per_document"], of["per_passage"], of["seed"], of["language"], exclude=exclude)
    cloze = ClozeOptions(answers) if of["mix"] is None else ClozeOptions(answers, mix=of["mix"])
    how = {name: of[name] for name in ("prefix", "batch_size", "beams")}
    model = GenerateOptions(answers, of["input_format"], **how)
    return QuestionsOptions(generator, reader, device, cloze, model)
