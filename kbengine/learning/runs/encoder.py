"""The run that trains a phrase encoder, with its query encoders and its filter: `kbengine train`."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path

from kbengine.encoders.checkpoint import write_checkpoint
from kbengine.encoders.encoder import Encoder, encoder_tokenizer
from kbengine.encoders.model import PhraseModel
from kbengine.encoders.packing import WEIGHTS_DTYPES, WeightsDType
from kbengine.encoders.truecasing import TRUECASE_FILE, Truecaser
from kbengine.errors import InvalidOptionError
from kbengine.learning.loop.options import require
from kbengine.learning.loop.processes import Processes
from kbengine.learning.loop.task import Evaluation
from kbengine.learning.phrases.development import DevelopmentOptions, DevelopmentSet
from kbengine.learning.phrases.initial import InitialModel, ModelOptions, initial_model
from kbengine.learning.phrases.phrase_task import LossOptions, PhraseTask
from kbengine.learning.phrases.prepared import prepare
from kbengine.learning.phrases.teacher import PassageReader, teacher_logits
from kbengine.learning.runs.examples import Examples
from kbengine.learning.runs.run import Prepared, Recipe
from kbengine.progress import ProgressSink
from kbengine.reading.reader import Reader

TEACHER_FOLDER = "teacher"


@dataclass(frozen=True)
class EncoderRecipe(Recipe):
    """Everything that `kbengine train` needs to know.

    Attributes:
        model: What to begin with.
        losses: What is minimised.
        development: How models are compared.
        weights: What the trained weights are stored in.
    """

    model: ModelOptions = field(default_factory=ModelOptions)
    losses: LossOptions = field(default_factory=LossOptions)
    development: DevelopmentOptions = field(default_factory=DevelopmentOptions)
    weights: WeightsDType = "int8"

    def __post_init__(self) -> None:
        require(self.weights in WEIGHTS_DTYPES, "weights", self.weights, f"one of {', '.join(WEIGHTS_DTYPES)}")
        # Losses on hard negatives without mined ones are well: DPR's files bring their own.
        if self.data.hard_negatives != "none" and not self.losses.hard_negatives:
            raise InvalidOptionError(
                f"data.hard_negatives is {self.data.hard_negatives!r} but losses.hard_negatives is off: they would be "
                "mined for nothing; switch on both or none"
            )

    def prepare(self, examples: Examples, run: Path, processes: Processes, progress: ProgressSink) -> Prepared:
        """Return the initial model and the tokenised examples, with the teacher's logits where it distils."""
        begun = initial_model(self.model, seed=self.loop.seed)
        config = begun.model.config
        tokenizer = encoder_tokenizer(begun.tokenizer_json, config, self.model.init)
        truecaser = begun.truecaser
        if self.model.truecase:
            truecaser = Truecaser.from_texts(dict.fromkeys(example.passage for example in examples.train))
        data = prepare(
            examples.train,
            tokenizer,
            config,
            with_negatives=self.losses.hard_negatives,
            truecaser=truecaser,
            progress=progress,
        )
        teacher = None
        if self.losses.distillation and (reader := self.teacher(processes)) is not None:
            folder = run / TEACHER_FOLDER
            teacher = teacher_logits(reader, examples.train, tokenizer, folder, processes=processes, progress=progress)
        development = DevelopmentSet(examples.dev, self.development) if examples.dev else None

        def evaluate(model: PhraseModel) -> Evaluation:
            assert development is not None
            return development.evaluate(
                Encoder.from_model(model, begun.tokenizer_json, device=str(processes.device), truecaser=truecaser)
            )

        task = PhraseTask(
            begun.model,
            data,
            tokenizer,
            self.losses,
            seed=self.loop.seed,
            teacher=teacher,
            similar_to=self._similar_model(begun) if self.losses.similarity else None,
            evaluate=None if development is None else evaluate,
        )

        def save(out: Path) -> None:
            documents = {} if truecaser is None else {TRUECASE_FILE: truecaser.to_json()}
            weights = task.model.state_dict()
            write_checkpoint(out, config, begun.tokenizer_json, weights, dtype=self.weights, documents=documents)

        return Prepared(task, save, data.notes)

    def teacher(self, processes: Processes) -> PassageReader | None:
        """Return the cross-encoder to distil from; None where the recipe names none."""
        return None if self.data.reader is None else Reader.load(self.data.reader, device=str(processes.device))

    def _similar_model(self, begun: InitialModel) -> PhraseModel:
        """Return the model whose similarities are to be kept: another one, or a copy of the initial one."""
        if self.data.similar_to is None:
            return copy.deepcopy(begun.model)
        other = initial_model(ModelOptions(self.data.similar_to, passage_vector="mean"), seed=self.loop.seed)
        if other.tokenizer_json != begun.tokenizer_json:
            raise InvalidOptionError(
                f"{self.data.similar_to} and {self.model.init} have different tokenizers, wanted one; choose another "
                "data.similar_to"
            )
        return other.model
