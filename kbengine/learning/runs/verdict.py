"""The run that trains a verdict model: `kbengine train verdict`."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from kbengine.corpus.page_list import read_page_list
from kbengine.corpus.reader import read_corpus
from kbengine.encoders.packing import WEIGHTS_DTYPES, WeightsDType
from kbengine.errors import InvalidOptionError, TrainingDataError
from kbengine.learning.data.claims import ClaimExample, read_claims
from kbengine.learning.data.mining import mine_negatives
from kbengine.learning.data.passage_index import indexed_passages
from kbengine.learning.data.reading import DataOptions
from kbengine.learning.loop.options import LoopOptions, OptimizerOptions, require
from kbengine.learning.loop.processes import Processes
from kbengine.learning.loop.report import REPORT_FILE
from kbengine.learning.runs.data_section import DataSection
from kbengine.learning.runs.examples import Examples
from kbengine.learning.runs.run import Prepared, Recipe
from kbengine.learning.verdicts.initial import VerdictModelOptions, initial_verdict_model
from kbengine.learning.verdicts.training import VerdictTask, VerdictTrainingOptions
from kbengine.progress import ProgressSink
from kbengine.verdicts.judge import Judge


@dataclass(frozen=True)
class ClaimData(DataSection):
    """Files of claims; a claim may rest on several passages."""

    max_passages: int = 3


@dataclass(frozen=True)
class VerdictOptimizer(OptimizerOptions):
    """AdamW as a model of MiniLM's size wants it."""

    learning_rate: float = 1e-4


@dataclass(frozen=True)
class VerdictLoop(LoopOptions):
    """The loop as a model of MiniLM's size wants it."""

    epochs: int = 3
    optimizer: OptimizerOptions = field(default_factory=VerdictOptimizer)


@dataclass(frozen=True)
class VerdictRecipe(Recipe):
    """Everything that `kbengine train verdict` needs to know.

    Attributes:
        data: Files of claims in KILT's form, and the corpus that they point into.
        loop: How it is trained.
        model: What to begin with.
        reading: What the model sees beside the evidence.
        weights: What the trained weights are stored in.
    """

    measure_prefix: ClassVar[str] = "dev_"

    data: DataSection = field(default_factory=ClaimData)
    loop: LoopOptions = field(default_factory=VerdictLoop)
    model: VerdictModelOptions = field(default_factory=VerdictModelOptions)
    reading: VerdictTrainingOptions = field(default_factory=VerdictTrainingOptions)
    weights: WeightsDType = "float16"

    def __post_init__(self) -> None:
        require(self.weights in WEIGHTS_DTYPES, "weights", self.weights, f"one of {', '.join(WEIGHTS_DTYPES)}")
        for name, remedy in (
            ("adapt", "a corpus gives no verdicts; give claims with --train"),
            ("reader", "give the reader to begin with as model.init"),
            ("similar_to", "it is an option of the phrase encoder"),
        ):
            if seen := getattr(self.data, name):
                raise InvalidOptionError(f"data.{name} is {seen}: {remedy}")
        if self.data.hard_negatives == "same-phrase":
            raise InvalidOptionError("data.hard_negatives is 'same-phrase', wanted none or bm25: claims have no phrase")

    def examples(self, progress: ProgressSink) -> Examples:
        """Return the claims of the recipe's files, with mined passages where asked for."""
        data = self.data
        if not data.train:
            raise TrainingDataError("there is nothing to train on; give claims with --train FILE")
        exclude = frozenset() if data.exclude_pages is None else read_page_list(data.exclude_pages)
        options = DataOptions(data.pages, exclude, data.max_passages)
        train, report = read_claims(data.train, options, progress=progress)
        claims: Sequence[ClaimExample] = train
        dev: tuple[ClaimExample, ...] = ()
        if data.dev:  # scoring on excluded pages is what they are kept for
            dev, _ = read_claims(data.dev, replace(options, exclude=frozenset()), progress=progress)
        if data.limit is not None and len(claims) > data.limit:
            claims = random.Random(self.loop.seed).sample(claims, data.limit)
        if data.hard_negatives == "bm25":
            passages = indexed_passages((document for document, _ in read_corpus(data.pages)), exclude)
            claims = mine_negatives(claims, passages, "bm25", n=data.n_hard_negatives, progress=progress)
        return Examples(tuple(claims), dev, report)

    def prepare(self, examples: Examples, run: Path, processes: Processes, progress: ProgressSink) -> Prepared:  # noqa: ARG002
        """Return the initial model and the claims."""
        initial = initial_verdict_model(self.model, seed=self.loop.seed)
        task = VerdictTask(initial.model, initial.tokenizer_json, examples.train, examples.dev, options=self.reading)

        def save(out: Path) -> None:
            judge = Judge.from_model(
                task.model, initial.tokenizer_json, n_passages=self.model.n_passages, device="cpu", dtype="float32"
            )
            best = json.loads((run / REPORT_FILE).read_text(encoding="utf-8"))["best"]
            card = _card(self, out.name, initial.fingerprint, task.counts, len(examples.dev), best)
            judge.save(out, dtype=self.weights, card=card)

        return Prepared(task, save, {}, {verdict.lower(): n for verdict, n in sorted(task.counts.items())})


def _card(
    recipe: VerdictRecipe, name: str, initial: str, counts: Counter[Any], n_dev: int, best: Mapping[str, float]
) -> str:
    """Return the model card, as Markdown."""
    claims = ", ".join(f"{n:,} {verdict}" for verdict, n in sorted(counts.items()))
    sources = ", ".join(path.name for path in recipe.data.train) or "examples given from Python"
    figures = ", ".join(f"{measure} {value:.1f}" for measure, value in best.items())
    score = (
        f"{figures} (%) on at most {n_dev:,} development claims, each with its evidence." if best else "Not measured."
    )
    options = json.dumps({"reading": asdict(recipe.reading), "loop": asdict(recipe.loop)}, indent=2)
    return (
        f"# Verdict model {name}\n\n"
        "Reads a claim and a passage together and says how much the passage supports or refutes the claim, and how "
        "much it has to do with it. The passages of a claim are weighted by the softmax of the latter.\n\n"
        f"- Begun with the reader {Path(recipe.model.init).name} ({initial}), all layers trained further.\n"
        f"- Claims: {claims}, from {sources}.\n"
        f"- Development: {score}\n"
        f"- Stored as {recipe.weights}; reads the best {recipe.model.n_passages} passages of a claim.\n"
        f"- Licence: that of the reader and of the claims; kbengine knows neither.\n\n"
        f"Use: `kbengine predict fever-dev-kilt.jsonl --kb KB --verdict {name} --out submissions/`\n\n"
        f"```json\n{options}\n```\n"
    )
