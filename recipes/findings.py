"""The papers' findings, measured again: a small training for each row, written to benchmarks/results/findings.md.

Run: python -m recipes.findings --init BERT --train FILE --dev FILE --pages FILE --work DIR [--limit 20000] [--epochs 2]
     [--reader DIR] [--seed 0 --seed 1] [--only ROW] [--notes FILE]
What is compared (DensePhrases, Tables 5 and 6): negatives (none, in-batch, pre-batch with C = 1, 2, 4, all tokens),
distillation, generated questions, shared or separate query encoders, each with one gold passage and in D_small; mined
hard negatives (EMNLP 2021, Table 3); and L_topic and L_hard of phrase and passage training (its Figure 3). Finished
rows are kept: run it again to go on.
Every seed draws the order of the examples anew, never the examples; a table shows the mean of the seeds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from adapters.kilt.standard_error import clustered_standard_error
from kbengine.corpus.page_list import read_page_list
from kbengine.corpus.reader import read_corpus
from kbengine.encoders.config import Architecture
from kbengine.encoders.encoder import Encoder
from kbengine.learning.data.mining import mine_negatives
from kbengine.learning.data.passage_index import IndexedPassage, indexed_passages
from kbengine.learning.loop.interruption import Stop, stop_on_interrupt
from kbengine.learning.loop.memory import keep_freed_memory
from kbengine.learning.loop.options import LoopOptions, OptimizerOptions
from kbengine.learning.phrases.initial import ModelOptions
from kbengine.learning.phrases.phrase_task import LossOptions
from kbengine.learning.reading.evaluation import ReadingOptions, evaluate_reading
from kbengine.learning.runs.data_section import DataSection, HardNegatives
from kbengine.learning.runs.encoder import EncoderRecipe
from kbengine.learning.runs.examples import Examples, adapt_examples, read_examples
from kbengine.learning.runs.reader import ReaderRecipe
from kbengine.learning.runs.run import train_model
from kbengine.progress import ProgressSink, progress_for_terminal
from kbengine.terminal.threads import set_thread_defaults
from recipes.contrast import Scores, contrast
from recipes.findings_page import FIGURE, measured, page

PAPER = LossOptions(
    single=1.0, negative=4.0, negatives="golds", pre_batches=0, filter=1.0, passage=0.0, no_answer="cls"
)
"""The first paper's losses: L_single + 4 L_neg + L_flt."""


@dataclass(frozen=True)
class Row:
    """One training: what differs from the paper's, and in which tables it stands.

    Attributes:
        name: Of its folder.
        what: For people.
        losses: The losses.
        architecture: Of the model.
        generated: Whether generated questions are trained on too.
        scores: What Figure 3 compares.
        mined: The passages that are further negatives of each question.
    """

    name: str
    what: str
    losses: LossOptions = PAPER
    architecture: Architecture = "shared-query"
    generated: bool = False
    scores: Scores = "phrase"
    mined: HardNegatives = "none"


WITH_MINED = replace(PAPER, pre_batches=2, hard_negatives=True)
ROWS = (
    Row("none", "no negatives", replace(PAPER, negative=0.0)),
    Row("in-batch", "in-batch negatives"),
    Row("pre-batch-1", "+ pre-batch, C = 1", replace(PAPER, pre_batches=1)),
    Row("pre-batch-2", "+ pre-batch, C = 2", replace(PAPER, pre_batches=2)),
    Row("pre-batch-4", "+ pre-batch, C = 4", replace(PAPER, pre_batches=4)),
    Row("bm25-negatives", "+ C = 2, BM25 negatives", WITH_MINED, mined="bm25"),
    Row("same-phrase-negatives", "+ C = 2, same-phrase negatives", WITH_MINED, mined="same-phrase"),
    Row("tokens", "all tokens of the batch (ours)", replace(PAPER, negatives="tokens")),
    Row("separate", "separate query encoders", architecture="three-tower"),
    Row("generated", "+ generated questions", generated=True),
    Row("distilled", "+ distillation", replace(PAPER, distillation=2.0)),
    Row("passages", "passages alone", replace(PAPER, single=0, negative=0, filter=0, passage=1.0), scores="passage"),
)


@dataclass(frozen=True)
class Scale:
    """How large the trainings are, and what they begin with."""

    init: str
    limit: int
    n_generated: int
    epochs: int
    batch_size: int
    learning_rate: float
    max_passage_tokens: int
    n_contrast: int
    device: str
    n_dev: int | None = None
    dropout: float = 0.1
    seed: int = 0
    """Of the draw of examples; each training has its own."""

    def recipe(self, row: Row, seed: int) -> EncoderRecipe:
        """Return the training of a row."""
        optimizer = OptimizerOptions(learning_rate=self.learning_rate, warmup_fraction=0.05)
        has_vector = "mean" if row.losses.passage else "none"
        return EncoderRecipe(
            model=ModelOptions(
                self.init,
                row.architecture,
                dropout=self.dropout,
                max_passage_tokens=self.max_passage_tokens,
                passage_vector=has_vector,
            ),
            losses=row.losses,
            loop=self.loop(optimizer, seed),
            weights="float32",
        )

    def loop(self, optimizer: OptimizerOptions, seed: int) -> LoopOptions:
        """Return the loop's options."""
        return LoopOptions(
            epochs=self.epochs, batch_size=self.batch_size, seed=seed, device=self.device, optimizer=optimizer
        )


class Findings:
    """All trainings over one set of examples."""

    def __init__(
        self,
        data: DataSection,
        scale: Scale,
        work: Path,
        *,
        generated: Path | None,
        reader: Path | None,
        progress: ProgressSink,
        stop: Stop,
    ) -> None:
        self.data = replace(data, limit=scale.limit)
        self.generated = generated
        self.reader = reader
        self.scale = scale
        self.work = work
        self.common: dict[str, Any] = {"resume": True, "progress": progress, "stop": stop}
        read = read_examples(self.data, seed=scale.seed, progress=progress)
        # Weights are compared after the last step: there is no development set to choose others by.
        self.examples = replace(read, dev=())
        n = len(read.dev) if scale.n_dev is None else min(scale.n_dev, len(read.dev))
        self.dev = tuple(read.dev[i * len(read.dev) // n] for i in range(n))

    def measure(self, row: Row, seed: int) -> dict[str, Any]:
        """Return the figures of a row, trained unless they are there already."""
        name = f"{row.name}.{seed}"
        result = self.work / f"{name}.json"
        if not result.exists():
            out = self.work / name
            if not out.exists():
                examples = self.examples_of(row)
                recipe = self.scale.recipe(row, seed)
                if row.losses.distillation:
                    recipe = replace(recipe, data=DataSection(reader=self.teacher()))
                train_model(recipe, out, examples=examples, **self.common)
            figures = self.figures(Encoder.load(out, device=self.scale.device), row)
            result.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
        found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
        return found

    def figures(self, encoder: Encoder, row: Row) -> dict[str, Any]:
        """Return EM and F1 with one passage and in D_small, and both contrasts of those that the figure shows."""
        report = evaluate_reading(self.dev, encoder=encoder, options=ReadingOptions(small_corpus=True))
        names = {"gold passage": "single", "small corpus": "small"}
        scores: dict[str, Any] = {
            f"{names[setting]}_{figure}": getattr(value, figure)
            for setting, value in report.scores.items()
            for figure in ("em", "f1")
        }
        pages = {example.id: example.doc_id or example.title for example in self.dev}
        for setting, value in report.scores.items():
            clusters = [pages[record.question.id] for record in value.records]
            error = clustered_standard_error([100 * record.em for record in value.records], clusters)
            scores[f"{names[setting]}_em_error"] = error
        if row.name not in FIGURE:
            return scores
        n = min(self.scale.n_contrast, len(self.dev))
        some = [self.dev[i * len(self.dev) // n] for i in range(n)]
        found = contrast(encoder, some, list(self.passages()), scores=row.scores, seed=self.scale.seed)
        return {**scores, "L_topic": found.topic, "L_hard": found.hard, "L_near": found.near, "n_contrast": found.n}

    def passages(self) -> Iterator[IndexedPassage]:
        """Give every passage of the development examples and of the pages."""
        for example in self.dev:
            yield IndexedPassage(example.doc_id, example.title, example.passage)
        if self.data.pages:
            yield from indexed_passages(document for document, _ in read_corpus(self.data.pages))

    def examples_of(self, row: Row) -> Examples:
        """Return what a row trains on."""
        examples = self.with_generated() if row.generated else self.examples
        if row.mined == "none":
            return examples
        exclude = frozenset() if self.data.exclude_pages is None else read_page_list(self.data.exclude_pages)
        passages = indexed_passages((document for document, _ in read_corpus(self.data.pages)), exclude)
        return replace(examples, train=tuple(mine_negatives(examples.train, passages, row.mined)))

    def with_generated(self) -> Examples:
        """Return the examples and generated questions: rows of a file, or else cloze questions of the pages."""
        if self.generated is not None:
            section = DataSection(
                (self.generated,),
                pages=self.data.pages,
                exclude_pages=self.data.exclude_pages,
                limit=self.scale.n_generated,
            )
            some = list(read_examples(section, seed=self.scale.seed).train)
        else:
            section = DataSection(adapt=self.data.pages, exclude_pages=self.data.exclude_pages)
            made = adapt_examples(section, seed=self.scale.seed)
            some = list(islice(made, self.scale.n_generated))
        return replace(self.examples, train=(*self.examples.train, *some))

    def measured_with(self) -> str:
        """Return the data and the options for people."""
        known = {name: value for name, value in asdict(self.scale).items() if value is not None}
        options = ", ".join(f"{name} {value}" for name, value in {**known, "init": Path(self.scale.init).name}.items())
        return f"{len(self.examples.train):,} training and {len(self.dev):,} development examples; {options}"

    def teacher(self) -> Path:
        """Return the directory of the cross-encoder: the one given, or one trained on the same examples."""
        if self.reader is not None:
            return self.reader
        out = self.work / "teacher"
        if not out.exists():
            base = ReaderRecipe()
            recipe = replace(
                base,
                model=replace(base.model, init=self.scale.init, dropout=self.scale.dropout),
                loop=self.scale.loop(OptimizerOptions(learning_rate=self.scale.learning_rate), self.scale.seed),
            )
            train_model(recipe, out, examples=self.examples, **self.common)
        return out


def arguments_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("train", "dev", "pages"):
        parser.add_argument(f"--{name}", type=Path, action="append", default=[])
    parser.add_argument("--exclude-pages", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/findings.md"))
    parser.add_argument("--notes", type=Path, help="what to write above the tables")
    parser.add_argument("--init", required=True, help="a BERT folder, wheel or hub name")
    parser.add_argument("--reader", type=Path, help="the teacher, instead of one trained on the same examples")
    parser.add_argument("--limit", type=int, default=20_000, help="training examples")
    parser.add_argument("--dev-limit", type=int, help="development examples, evenly spread")
    parser.add_argument("--generated", type=int, default=20_000, help="generated questions")
    parser.add_argument(
        "--generated-rows", type=Path, help="what `kbengine questions` wrote, instead of cloze questions"
    )
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--learning-rate", type=float, default=1.5e-4)
    parser.add_argument("--dropout", type=float, default=0.1, help="0 makes training on a processor twice as fast")
    parser.add_argument("--max-passage-tokens", type=int, default=176)
    parser.add_argument("--contrast", type=int, default=300, help="questions of Figure 3")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seed", dest="seeds", type=int, action="append", help="several: the first draws examples")
    parser.add_argument(
        "--only", action="append", choices=[row.name for row in ROWS], help="rows to measure now, in this order"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all rows, or those named, and write the page of all that have been measured."""
    set_thread_defaults()
    keep_freed_memory()
    given = arguments_of(arguments)
    given.work.mkdir(parents=True, exist_ok=True)
    seeds = given.seeds or [0]
    scale = Scale(
        given.init,
        given.limit,
        given.generated,
        given.epochs,
        given.batch_size,
        given.learning_rate,
        given.max_passage_tokens,
        given.contrast,
        given.device,
        given.dev_limit,
        given.dropout,
        seeds[0],
    )
    data = DataSection(tuple(given.train), tuple(given.dev), tuple(given.pages), given.exclude_pages)
    with progress_for_terminal() as progress, stop_on_interrupt() as stop:
        findings = Findings(
            data, scale, given.work, generated=given.generated_rows, reader=given.reader, progress=progress, stop=stop
        )
        by_name = {row.name: row for row in ROWS}
        for seed in seeds:
            for name in given.only or by_name:
                print(name, json.dumps(findings.measure(by_name[name], seed)), flush=True)
    notes = given.notes.read_text(encoding="utf-8") if given.notes else ""
    whats = {row.name: row.what for row in ROWS}
    written = page(measured(given.work, list(whats)), whats, findings.measured_with(), notes)
    given.out.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
