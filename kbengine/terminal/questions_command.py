"""The command `questions`: a training set out of a corpus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import PATH, device_option, format_option, json_option, skip_bad_option

if TYPE_CHECKING:
    from kbengine.learning.questions.generate import InputFormat

KIND_NAMES = ("question", "slot", "relation", "mention", "link")


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
@click.option("--out", required=True, type=PATH, help="FILE.jsonl or FILE.jsonl.gz.")
@click.option("--generator", default="cloze", show_default=True, help="cloze, or a T5 model's folder or hub name.")
@click.option("--reader", type=PATH, help="Keep what this reader answers as wanted.")
@click.option("--per-document", type=int, default=8, show_default=True, help="Most questions a document.")
@click.option("--per-passage", type=int, default=3, show_default=True, help="Most questions a passage.")
@click.option("--exclude-pages", type=PATH, help="File of document ids to leave out.")
@click.option("--mix", type=Weights(), help=f"Weights of {', '.join(KIND_NAMES)} (cloze).")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--language", default="en", show_default=True, help="Of the corpus.")
@click.option("--input-format", type=click.Choice(["highlight", "prepend"]), default="highlight", show_default=True)
@click.option("--prefix", help="Text before the model's input, instead of the format's own.")
@click.option("--beams", type=int, default=4, show_default=True, help="Width of the model's beam search.")
@click.option("--batch-size", type=int, default=16, show_default=True, help="Answers given to the model at once.")
@device_option
@format_option
@skip_bad_option
@click.option("--overwrite", is_flag=True, help="Replace a file that is there.")
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
    with progress_for_terminal(quiet=as_json) as progress:
        written = generate_questions(source, out, _options(**of), overwrite=overwrite, progress=progress)
    standard_output(as_json=as_json).facts(written.facts())
    for bad in written.corpus.bad:
        click.echo(f"skipped: {bad.file}, record {bad.line}: {bad.reason}", err=True)


def _options(
    *,
    generator: str,
    reader: Path | None,
    per_document: int,
    per_passage: int,
    exclude_pages: Path | None,
    mix: dict[str, float] | None,
    seed: int,
    language: str,
    input_format: InputFormat,
    prefix: str | None,
    beams: int,
    batch_size: int,
    device: str,
) -> Any:
    """Return the QuestionsOptions of the command's options."""
    from kbengine.corpus.page_list import read_page_list
    from kbengine.learning.questions.answers import AnswerOptions
    from kbengine.learning.questions.cloze import ClozeOptions
    from kbengine.learning.questions.generate import GenerateOptions
    from kbengine.learning.questions.generation import QuestionsOptions

    exclude = read_page_list(exclude_pages) if exclude_pages is not None else frozenset[str]()
    answers = AnswerOptions(per_document, per_passage, seed, language, exclude=exclude)
    cloze = ClozeOptions(answers) if mix is None else ClozeOptions(answers, mix=mix)
    model = GenerateOptions(answers, input_format, prefix, batch_size=batch_size, beams=beams)
    return QuestionsOptions(generator, reader, device, cloze, model)
