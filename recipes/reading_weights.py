"""Choosing how much the reader counts: its weight, that of a passage's relevance, how many passages.

Run: python -m recipes.reading_weights --kb DIR --data DIR --scratch DIR [--rows N] [--reader NAME|DIR]

The best passages of development rows are searched without reading and then read once; all weights are tried on what
that gave. They are chosen on one half of each set's pages (the first bit of the hash of the first gold page's id; of
the relations where a set has few pages of its own) and reported on the other. Extracted sets are used again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from adapters.kilt.gold_rows import GoldRow, read_rows
from adapters.kilt.standard_error import clustered_standard_error
from adapters.kilt.task_files import task_of_file
from adapters.tasks.defaults import PHRASE_TASKS, TASK_WEIGHTS
from benchmarks.kilt_sets import HALVES, half_rows, set_files
from kbengine.encoders.encoder import PassageText
from kbengine.inputs import Mention, Task, task_of
from kbengine.knowledge_base import KnowledgeBase
from kbengine.learning.reading.answer_scores import best_exact_match
from kbengine.progress import ProgressSink, progress_for_terminal
from kbengine.reading.reader import Reader
from kbengine.reading.spans import PassageLogits
from kbengine.search.boundaries import trimmed_span
from kbengine.search.query import SearchOptions
from kbengine.search.readings import SPANS_OF_A_PASSAGE, ranks_documents, score_at
from kbengine.search.results import Hit
from kbengine.span import Span

SETS: Mapping[Task, tuple[str, ...]] = {
    "question": ("squad", "newwiki", "qed", "nqopen"),
    "slot-filling": ("docred", "fewrel", "fewrel_unseen", "knet"),
    "entity-linking": ("el_wikilinks", "el_wikilinks_easy", "el_human", "el_conel", "el_news"),
    "dialogue": ("topicalchat", "cmudog", "inscit"),
}
N_READ = 5
WEIGHTS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
RELEVANCE = (0.0, 0.5, 1.0, 2.0)
UNSEEN = (0.0, 1.0, 2.0, 4.0, 6.0, 10.0)
NUMBERS = (1, 2, 3, 5)


@dataclass(frozen=True)
class Candidate:
    """One place in a passage that may be the answer.

    Attributes:
        behind: How much worse the search scores it than the passage's best phrase; None: the search did not find it.
        lead: The reader's, over no answer.
        is_right: Whether it equals a gold answer.
    """

    behind: float | None
    lead: float
    is_right: bool


@dataclass(frozen=True)
class Passage:
    """One of the best passages of a row, or the passage read of one of its best documents.

    Attributes:
        score: Of the search.
        is_gold: Whether it is of a gold page.
        relevance: The reader's.
        candidates: The places in it; none where documents are ranked.
    """

    score: float
    is_gold: bool
    relevance: float
    candidates: tuple[Candidate, ...] = ()


@dataclass(frozen=True)
class Row:
    """One development row, the passages best first."""

    page: str
    passages: tuple[Passage, ...]


def extract(
    kb: KnowledgeBase, reader: Reader, rows: Sequence[GoldRow], name: str, progress: ProgressSink
) -> Iterator[Row]:
    """Give the rows of a set with what search and reader say of their best passages."""
    progress.begin(f"reading {name}", len(rows), "rows")
    for row in rows:
        task = task_of(row.asked)
        is_ranked = ranks_documents(row.query)
        query = replace(row.query, weights=TASK_WEIGHTS[task], unit="document" if is_ranked else "phrase")
        options = SearchOptions(
            k=N_READ if is_ranked else 50, read=0, truncate=True, encoder=kb.encoder_name(task=task)
        )
        found = kb.search(query, options).hits
        best: dict[int, Hit] = {}
        for hit in found:
            best.setdefault(hit.passage.passage_id, hit)
        hits = list(best.values())[:N_READ]
        texts = {hit.document.doc_id: hit.passage.text for hit in hits}
        if isinstance(row.asked, Mention):
            texts = kb.reader.first_passages([hit.document.doc_id for hit in hits])
        passages = [
            PassageText(hit.document.title, texts[hit.document.doc_id] if is_ranked else hit.passage.text)
            for hit in hits
        ]
        asked = query.reading or query.input
        logits = reader.logits([asked] * len(passages), passages, truncate=True) if passages else []
        gold, answers = gold_pages(row), row.record.answers()
        yield Row(
            min(gold, default=""),
            tuple(
                Passage(
                    hit.score,
                    hit.document.doc_id in gold,
                    said.relevance,
                    () if is_ranked else tuple(candidates(reader, hit, said, found, answers)),
                )
                for hit, said in zip(hits, logits, strict=True)
            ),
        )
        progress.advance(1)


def candidates(
    reader: Reader, best: Hit, said: PassageLogits, found: Sequence[Hit], answers: frozenset[str]
) -> Iterator[Candidate]:
    """Give the places in a passage that the search or the reader found, each once."""
    text = best.passage.text
    places: dict[Span, tuple[float | None, float]] = {}
    for span in said.best(max_tokens=reader.config.max_answer_tokens, n=SPANS_OF_A_PASSAGE):
        place = trimmed_span(text, Span(int(said.starts[span.first]), int(said.ends[span.last])))
        places[place] = (None, span.score - said.no_answer)
    for hit in found:
        if hit.passage.passage_id == best.passage.passage_id:
            place = trimmed_span(text, hit.phrase)
            places[place] = (hit.score - best.score, score_at(said, place) - said.no_answer)
    for place, (behind, lead) in places.items():
        right = bool(best_exact_match(text[place.start : place.end], answers))
        yield Candidate(behind, lead, right)


def gold_pages(row: GoldRow) -> frozenset[str]:
    """Return the ids of the gold pages."""
    entries = (entry for output in row.record.outputs for entry in output.provenance)
    return frozenset(filter(None, (entry.partial_key(("wikipedia_id",)) for entry in entries)))


@dataclass(frozen=True)
class Setting:
    """What is tried: see `kbengine.search.readings`."""

    n: int
    weight: float
    relevance: float
    unseen: float


def judged(passages: Sequence[Passage], setting: Setting) -> tuple[bool, bool]:
    """Return whether the best answer is right, and whether the best page is gold."""
    if not passages:
        return False, False
    scored: list[tuple[float, bool, bool]] = []
    floors = []
    for passage in passages[: setting.n]:
        offered = [(score_of(each, setting), each.is_right) for each in passage.candidates] or [
            (setting.weight * passage.relevance, False)
        ]
        part = setting.weight * setting.relevance * passage.relevance if passage.candidates else 0.0
        score, is_right = max(offered, key=lambda each: each[0])
        floors.append(score + part)
        scored.append((passage.score + part + score, is_right, passage.is_gold))
    for passage in passages[setting.n :]:
        is_right = any(each.is_right for each in passage.candidates if each.behind == 0)
        scored.append((passage.score + min(floors, default=0.0), is_right, passage.is_gold))
    _, is_right, is_gold = max(scored, key=lambda each: each[0])
    return is_right, is_gold


def score_of(place: Candidate, setting: Setting) -> float:
    """Return what a place adds to the score of its passage."""
    behind = -setting.unseen if place.behind is None else max(-setting.unseen, place.behind)
    return setting.weight * place.lead + behind


def figures(rows: Sequence[Row], setting: Setting) -> dict[str, float]:
    """Return EM, page R-precision and KILT-EM of a set in percent, the latter's error by pages."""
    found = [judged(row.passages, setting) for row in rows]
    both = [float(is_right and is_gold) for is_right, is_gold in found]
    return {
        "EM": 100 * float(np.mean([is_right for is_right, _ in found])),
        "Rprec": 100 * float(np.mean([is_gold for _, is_gold in found])),
        "KILT-EM": 100 * float(np.mean(both)),
        "error": 100 * (clustered_standard_error(both, [row.page for row in rows]) or 0.0),
    }


def load(path: Path) -> list[Row]:
    """Return the rows that were extracted."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        page, passages = json.loads(line)
        made = [
            Passage(score, is_gold, relevance, tuple(Candidate(*each) for each in places))
            for score, is_gold, relevance, places in passages
        ]
        rows.append(Row(page, tuple(made)))
    return rows


def line_of(row: Row) -> str:
    """Return a row as `load` reads it."""
    passages = [
        [each.score, each.is_gold, each.relevance, [[one.behind, one.lead, one.is_right] for one in each.candidates]]
        for each in row.passages
    ]
    return json.dumps([row.page, passages]) + "\n"


UNREAD = Setting(0, 0.0, 0.0, 0.0)


def choose(task: Task, halves: Mapping[str, Mapping[str, Sequence[Row]]]) -> None:
    """Print what is best on the one halves, and what it gives on the others."""
    is_read = task in PHRASE_TASKS
    measure = "KILT-EM" if is_read else "Rprec"
    for n in NUMBERS:
        tried = [
            Setting(n, weight, relevance, unseen)
            for weight in WEIGHTS
            for relevance in (RELEVANCE if is_read else (1.0,))
            for unseen in (UNSEEN if is_read else (0.0,))
        ]
        means = [np.mean([figures(rows, each)[measure] for rows in halves["choose"].values()]) for each in tried]
        best = tried[int(np.argmax(means))]
        print(f"{task}: {best}")
        for half, sets in halves.items():
            before = {name: figures(rows, UNREAD) for name, rows in sets.items()}
            after = {name: figures(rows, best) for name, rows in sets.items()}
            for each in ("KILT-EM", "Rprec", "EM") if is_read else ("Rprec",):
                macros = [float(np.mean([one[each] for one in found.values()])) for found in (before, after)]
                print(f"    {half}: macro {each} {macros[0]:.1f} -> {macros[1]:.1f}")
            shown = (
                f"{name} {before[name][measure]:.1f} -> {after[name][measure]:.1f} ± {after[name]['error']:.1f}"
                for name in sets
            )
            print(f"    {half}: {measure}: {', '.join(shown)}")


def main() -> None:
    """Run the recipe."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kb", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=150, help="rows of each half of a set")
    parser.add_argument("--reader", default="minilm-reader")
    parser.add_argument("--tasks", nargs="*", default=list(SETS))
    given = parser.parse_args()
    given.scratch.mkdir(parents=True, exist_ok=True)
    with KnowledgeBase.open(given.kb) as kb, progress_for_terminal() as progress:
        reader = Reader.load(given.reader)
        for task in given.tasks:
            halves: dict[str, dict[str, list[Row]]] = {half: {} for half in HALVES}
            for name, path in set_files(given.data, "dev", SETS[task]).items():
                for half in HALVES:
                    out = given.scratch / f"{name}.{half}.jsonl"
                    if not out.exists():
                        file = half_rows(path, half, given.rows, given.scratch)
                        rows = read_rows(file, task_of_file(path), notice=print)
                        lines = [line_of(row) for row in extract(kb, reader, rows, name, progress)]
                        out.write_text("".join(lines), encoding="utf-8")
                    if found := load(out):
                        halves[half][name] = found
            choose(task, halves)


if __name__ == "__main__":
    main()
