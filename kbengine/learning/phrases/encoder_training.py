"""Training an encoder from its files to a model directory: read, prepare, train, score, write."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbengine.encoders.checkpoint import write_checkpoint
from kbengine.encoders.encoder import Encoder
from kbengine.encoders.model import PhraseModel
from kbengine.encoders.tokenization import TextTokenizer
from kbengine.encoders.truecasing import TRUECASE_FILE, Truecaser
from kbengine.errors import EncoderError, InvalidOptionError, TrainingDataError
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.data.mining import MinedPassage, mine_negatives
from kbengine.learning.data.reading import DataOptions, TrainingData, read_training_files
from kbengine.learning.data.report import DataReport
from kbengine.learning.loop.interruption import Stop, never
from kbengine.learning.loop.loop import train
from kbengine.learning.loop.processes import Processes, join_processes
from kbengine.learning.loop.report import TrainingReport
from kbengine.learning.loop.task import Evaluation
from kbengine.learning.phrases.development import DevelopmentSet
from kbengine.learning.phrases.initial import InitialModel, ModelOptions, initial_model
from kbengine.learning.phrases.phrase_task import PhraseTask
from kbengine.learning.phrases.prepared import prepare
from kbengine.learning.phrases.recipe import DataSection, EncoderRecipe
from kbengine.learning.phrases.teacher import PassageReader, teacher_logits
from kbengine.progress import NoProgress, ProgressSink
from storage.durable import write_durably

if TYPE_CHECKING:
    from kbengine.corpus.document import CorpusDocument

TEACHER_FOLDER = "teacher"
DATA_FILE = "data.json"
_ADAPT_DEV_SHARE = 0.05
_ADAPT_DEV_MOST = 500


@dataclass(frozen=True)
class TrainedEncoder:
    """What a training gave.

    Attributes:
        directory: The model directory.
        report: How the run went.
        data: What came of the rows of the files.
        notes: What was cut or left out when the examples were tokenised, counted.
    """

    directory: Path
    report: TrainingReport
    data: DataReport
    notes: Counter[str] = field(default_factory=Counter)

    def facts(self) -> dict[str, Any]:
        """Return what people want to know at the end."""
        report = self.report
        return {
            "out": str(self.directory),
            "examples": report.n_examples,
            "unusable_rows": sum(self.data.unusable.values()),
            "steps": report.n_steps,
            "first_loss": report.first_loss,
            "last_loss": report.last_loss,
            "score_before": report.first_score,
            "best_score": report.best_score,
            "best_step": report.best_step,
            **{name: round(value, 2) for name, value in report.best.items()},
            "elapsed_s": report.elapsed_s,
        }


@dataclass(frozen=True)
class Examples:
    """Training and development examples, and what came of the rows."""

    train: tuple[TrainingExample, ...]
    dev: tuple[TrainingExample, ...]
    report: DataReport


def train_encoder(
    recipe: EncoderRecipe,
    out: Path,
    *,
    resume: bool = False,
    processes: Processes | None = None,
    progress: ProgressSink | None = None,
    stop: Stop = never,
) -> TrainedEncoder:
    """Return the trained encoder, written to `out`; the run's log, checkpoints and report are in `out.run`.

    Args:
        recipe: everything about it.
        out: the model directory to make.
        resume: go on with an interrupted run of the same recipe.
        processes: those this one belongs to.
        progress: where to report.
        stop: asked after every step.

    Raises:
        EncoderError: `out` exists, or the initial model cannot be used.
        TrainingDataError: nothing can be trained on.
        TrainingError: the run's directory holds another run, or a gradient is not finite.
        KeyboardInterrupt: as asked for by `stop`; a checkpoint was written before.
    """
    progress = progress or NoProgress()
    refuse_existing(out)
    examples = read_examples(recipe.data, seed=recipe.loop.seed, progress=progress)
    return train_on(examples, recipe, out, resume=resume, processes=processes, progress=progress, stop=stop)


def train_on(
    examples: Examples,
    recipe: EncoderRecipe,
    out: Path,
    *,
    resume: bool = False,
    reader: PassageReader | None = None,
    processes: Processes | None = None,
    progress: ProgressSink | None = None,
    stop: Stop = never,
) -> TrainedEncoder:
    """Return the encoder trained on these examples; arguments and errors as of `train_encoder`.

    Args:
        examples: instead of the recipe's files.
        recipe: the rest.
        out: the model directory to make.
        resume: go on with an interrupted run.
        reader: the teacher, instead of the recipe's directory.
        processes: those this one belongs to.
        progress: where to report.
        stop: asked after every step.
    """
    progress = progress or NoProgress()
    refuse_existing(out)
    processes = processes or join_processes(recipe.loop.device)
    begun = initial_model(recipe.model, seed=recipe.loop.seed)
    config = begun.model.config
    tokenizer = TextTokenizer(
        begun.tokenizer_json, uncased=config.uncased, vocab_size=config.backbone.vocab_size, source=recipe.model.init
    )
    truecaser = begun.truecaser
    if recipe.model.truecase:
        truecaser = Truecaser.from_texts(dict.fromkeys(example.passage for example in examples.train))
    data = prepare(
        examples.train,
        tokenizer,
        config,
        with_negatives=recipe.losses.hard_negatives,
        truecaser=truecaser,
        progress=progress,
    )
    run = run_directory(out)
    teacher = None
    if recipe.losses.distillation:
        reader = reader or _reader(recipe, processes)
        if reader is not None:
            folder = run / TEACHER_FOLDER
            teacher = teacher_logits(reader, examples.train, tokenizer, folder, processes=processes, progress=progress)
    development = DevelopmentSet(examples.dev, recipe.development) if examples.dev else None

    def evaluate(model: PhraseModel) -> Evaluation:
        assert development is not None
        return development.evaluate(
            Encoder.from_model(model, begun.tokenizer_json, device=str(processes.device), truecaser=truecaser)
        )

    task = PhraseTask(
        begun.model,
        data,
        tokenizer,
        recipe.losses,
        seed=recipe.loop.seed,
        teacher=teacher,
        similar_to=_similar_model(recipe, begun) if recipe.losses.similarity else None,
        evaluate=None if development is None else evaluate,
    )
    report = train(task, recipe.loop, run, resume=resume, processes=processes, progress=progress, stop=stop)
    trained = TrainedEncoder(out, report, examples.report, data.notes)
    if processes.is_main:
        facts = {"recipe": recipe.to_json(), "data": examples.report.to_json(), "notes": dict(data.notes)}
        write_durably(run / DATA_FILE, [(json.dumps(facts, indent=2) + "\n").encode()], replace=True)
        documents = {} if truecaser is None else {TRUECASE_FILE: truecaser.to_json()}
        weights = task.model.state_dict()
        write_checkpoint(out, config, begun.tokenizer_json, weights, dtype=recipe.weights, documents=documents)
    processes.wait()
    return trained


def run_directory(out: Path) -> Path:
    """Return where the log, the checkpoints and the report of a model's training are."""
    return out.with_name(f"{out.name}.run")


def refuse_existing(out: Path) -> None:
    """Raise EncoderError if there is something at `out`: better now than after hours of training."""
    if out.exists():
        raise EncoderError(f"{out} already exists; choose another directory or remove it first")


def read_examples(data: DataSection, *, seed: int = 0, progress: ProgressSink | None = None) -> Examples:
    """Return the examples of a recipe's files, with cloze questions of `adapt` and mined negatives where asked for.

    Without development files, `adapt` alone keeps a twentieth of its own questions (500 at most) for the score.

    Raises:
        TrainingDataError: nothing can be trained on.
        CorpusError: a file cannot be read.
    """
    if not data.train and not data.adapt:
        raise TrainingDataError("there is nothing to train on; give --train FILE, or --adapt CORPUS")
    exclude = _excluded(data)
    options = DataOptions(data.pages, exclude, data.max_passages, data.as_questions)
    nothing = TrainingData((), DataReport())
    train = read_training_files(data.train, options, progress=progress) if data.train else nothing
    dev_options = replace(options, exclude=frozenset())  # scoring on excluded pages is what they are kept for
    dev = read_training_files(data.dev, dev_options, progress=progress) if data.dev else nothing
    examples, held_out = list(train.examples), list(dev.examples)
    if data.adapt:
        made = list(adapt_examples(data, exclude, seed=seed))
        if not held_out:
            n_dev = min(_ADAPT_DEV_MOST, int(len(made) * _ADAPT_DEV_SHARE))
            random.Random(seed).shuffle(made)
            held_out, made = made[:n_dev], made[n_dev:]
        examples += made
    if data.limit is not None and len(examples) > data.limit:
        examples = random.Random(seed).sample(examples, data.limit)
    if not examples:
        raise TrainingDataError("the corpus gave no cloze question; give a corpus with longer texts, or --train FILE")
    if data.hard_negatives != "none":
        examples = mine_negatives(
            examples, corpus_passages(data, exclude), data.hard_negatives, n=data.n_hard_negatives, progress=progress
        )
    return Examples(tuple(examples), tuple(held_out), train.report)


def adapt_examples(data: DataSection, exclude: frozenset[str], *, seed: int) -> Iterator[TrainingExample]:
    """Give the cloze questions of the corpus to adapt to."""
    from kbengine.learning.questions.answers import AnswerOptions
    from kbengine.learning.questions.cloze import ClozeOptions, cloze_questions, with_links
    from kbengine.learning.questions.homes import Homes

    answers = AnswerOptions(per_document=data.questions_per_document, seed=seed, exclude=exclude)
    options, homes = ClozeOptions(answers), None
    if data.link_questions:
        options, homes = with_links(options), Homes(_documents(data.adapt), exclude=exclude)
    return cloze_questions(_documents(data.adapt), options, homes=homes)


def corpus_passages(data: DataSection, exclude: frozenset[str]) -> list[MinedPassage]:
    """Return every passage that may be mined: of the pages, or of the corpus adapted to."""
    return [
        MinedPassage(document.doc_id, document.title, passage.text)
        for document in _documents(data.pages or data.adapt)
        if document.doc_id not in exclude
        for passage in document.passages
    ]


def _documents(paths: Sequence[Path]) -> Iterator[CorpusDocument]:
    from kbengine.corpus.reader import read_corpus

    return (document for document, _ in read_corpus(paths))


def _excluded(data: DataSection) -> frozenset[str]:
    from kbengine.corpus.page_list import read_page_list

    return frozenset() if data.exclude_pages is None else read_page_list(data.exclude_pages)


def _similar_model(recipe: EncoderRecipe, begun: InitialModel) -> PhraseModel:
    """Return the model whose similarities are to be kept: another one, or a copy of the initial one."""
    if recipe.data.similar_to is None:
        return copy.deepcopy(begun.model)
    other = initial_model(ModelOptions(recipe.data.similar_to, passage_vector="mean"), seed=recipe.loop.seed)
    if other.tokenizer_json != begun.tokenizer_json:
        raise InvalidOptionError(
            f"{recipe.data.similar_to} and {recipe.model.init} have different tokenizers, wanted one; choose another "
            "data.similar_to"
        )
    return other.model


def _reader(recipe: EncoderRecipe, processes: Processes) -> PassageReader | None:
    from kbengine.learning.reading.reader import Reader

    return None if recipe.data.reader is None else Reader.load(recipe.data.reader, device=str(processes.device))
