"""What the default encoder's recipe does at each scale: data, three trainings, scoring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from kbengine.encoders.config import QueryLimits
from kbengine.learning.loop.options import LoopOptions, OptimizerOptions
from kbengine.learning.loop.recipe import from_mapping, parse_override, put_option
from kbengine.learning.phrases.development import DevelopmentOptions
from kbengine.learning.phrases.initial import ModelOptions
from kbengine.learning.phrases.phrase_task import LossOptions
from kbengine.learning.reading.initial import ReaderModelOptions
from kbengine.learning.reading.training import ReaderTrainingOptions
from kbengine.learning.runs.encoder import EncoderRecipe
from kbengine.learning.runs.reader import ReaderLoop, ReaderOptimizer, ReaderRecipe

NOT_TRAINED = frozenset({"el_news", "cmudog", "inscit"})
"""Sets that are the transfer test: not a row of them is trained on."""


@dataclass(frozen=True)
class Plan:
    """One scale of the recipe; the files come from the data folder.

    Attributes:
        cloze: First training, on cloze questions.
        teacher: The cross-encoder, on training rows and some cloze questions.
        rows: Second training, on training rows, distilled from the teacher.
        n_cloze: Cloze questions at most.
        cloze_per_document: Of one page at most.
        teacher_cloze: Cloze questions the teacher sees.
        n_rows: Training rows at most; None: all.
        kb_pages: Names of the page files that the scored knowledge base holds; none: all.
        score_sets: Development sets that are scored; none: all.
        score_rows: Rows of each; None: all.
    """

    cloze: EncoderRecipe = field(default_factory=EncoderRecipe)
    teacher: ReaderRecipe = field(default_factory=ReaderRecipe)
    rows: EncoderRecipe = field(default_factory=EncoderRecipe)
    n_cloze: int = 240_000
    cloze_per_document: int = 5
    teacher_cloze: int = 40_000
    n_rows: int | None = None
    kb_pages: tuple[str, ...] = ()
    score_sets: tuple[str, ...] = ()
    score_rows: int | None = None


def full_plan() -> Plan:
    """Return the plan for an H200-class accelerator with 16 cores; its arithmetic: benchmarks/results/training.md."""
    limits = QueryLimits(question=48, slot_filling=48, entity_linking=128, dialogue=128)
    model = ModelOptions(frozen="embeddings", max_query_tokens=limits)
    heads = (("filter_head", 10.0), ("query_start_head", 3.0), ("query_end_head", 3.0))
    development = DevelopmentOptions(max_examples=1000)
    cloze = EncoderRecipe(
        model=model,
        losses=LossOptions(filter=0.2, pre_batches=2, pre_batch_warmup=0.0, similarity=2.0),
        loop=LoopOptions(
            epochs=1,
            batch_size=128,
            evaluate_every_steps=600,
            checkpoint_every_steps=600,
            log_every_steps=50,
            prefetch_batches=16,
            optimizer=OptimizerOptions(learning_rate=2e-4, warmup_fraction=0.05, rate_factors=heads),
        ),
        development=development,
        weights="float32",
    )
    teacher = ReaderRecipe(
        model=ReaderModelOptions(max_tokens=320),
        reading=ReaderTrainingOptions(negative_fraction=0.5),
        loop=ReaderLoop(
            epochs=3,
            batch_size=64,
            evaluate_every_steps=1500,
            checkpoint_every_steps=1500,
            log_every_steps=50,
            prefetch_batches=16,
            optimizer=ReaderOptimizer(learning_rate=1.5e-4, warmup_fraction=0.05),
        ),
    )
    rows = EncoderRecipe(
        model=model,
        losses=LossOptions(filter=0.2, pre_batches=2, pre_batch_warmup=0.25, distillation=1.0, similarity=2.0),
        loop=LoopOptions(
            epochs=5,
            batch_size=128,
            checkpoint_every_steps=500,
            log_every_steps=50,
            prefetch_batches=16,
            optimizer=OptimizerOptions(learning_rate=1.5e-4, warmup_fraction=0.05),
        ),
        development=development,
        weights="float32",
    )
    return Plan(cloze, teacher, rows, score_rows=400)


def tiny_plan() -> Plan:
    """Return the plan that shows on a CPU, in a few minutes of processor time, that every part works."""
    model = ModelOptions(frozen="embeddings", max_passage_tokens=96, dropout=0.0)  # dropout is slow on a processor
    # A few steps make phrases better and passage vectors worse than those of the sentence encoder begun with.
    development = DevelopmentOptions(score="em", max_examples=60)
    optimizer = OptimizerOptions(learning_rate=2e-4, warmup_fraction=0.2)
    reader_optimizer = ReaderOptimizer(learning_rate=2e-4, warmup_fraction=0.2)
    loop = LoopOptions(epochs=1, batch_size=12, device="cpu", log_every_steps=5, optimizer=optimizer)
    return Plan(
        EncoderRecipe(model=model, losses=LossOptions(), loop=loop, development=development, weights="float32"),
        ReaderRecipe(
            model=ReaderModelOptions(max_tokens=288, dropout=0.0),
            reading=ReaderTrainingOptions(negative_fraction=0.0, max_dev_examples=40),
            loop=ReaderLoop(epochs=1, batch_size=8, device="cpu", log_every_steps=5, optimizer=reader_optimizer),
        ),
        EncoderRecipe(
            model=model,
            losses=LossOptions(pre_batch_warmup=0.0, distillation=1.0, similarity=2.0),
            loop=loop,
            development=development,
            weights="float32",
        ),
        n_cloze=360,
        cloze_per_document=1,
        teacher_cloze=0,
        n_rows=240,
        kb_pages=("knet",),
        score_sets=("knet",),
        score_rows=40,
    )


PLANS = {"full": full_plan, "tiny": tiny_plan}


def plan_of(scale: str, settings: Sequence[str]) -> Plan:
    """Return the plan of a scale with single options replaced, such as `rows.loop.epochs=6`."""
    values = asdict(PLANS[scale]())
    for setting in settings:
        put_option(values, *parse_override(setting))
    return from_mapping(Plan, values, "the plan")
