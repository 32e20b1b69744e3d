"""Fitting the gate of dialogues that ships: `adapters/tasks/dialogue_gate.json`.

Run: python -m recipes.dialogue_gate --kb KB --data DIR

The gate says how likely the best document by all words of a talk is the one that the next reply stands on. It is fitted
on talks of one training set, whose subject changes often, in three forms of equal weight: as they are (the newest eight
turns); with the earlier turns put back; and kept to one subject, where a document is named in the opening and turns
about it from other talks follow, its name taken out. Only lexical scores are looked at, which no encoder has learned
from the same rows. Then `most` is chosen on development rows of the half of pages that choices are made on, and
R-precision with and without the gate is told of the other half, errors clustered by page.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapters.tasks import dialogue_gate
from adapters.tasks.queries import query_of
from kbengine.inputs import Dialogue
from kbengine.knowledge_base import KnowledgeBase
from kbengine.search.lexical_gate import BACKGROUND, FEATURES, LexicalGate, gate_features
from kbengine.search.query import Query
from kbengine.search.weighted_candidates import signals_of
from storage.reader import KBReader

Float64 = NDArray[np.float64]

TRAIN = "topicalchat"
"""The set that the gate is fitted on: of the others no row may be trained on."""
DEVELOPMENT = ("topicalchat", "cmudog", "inscit")
MOST = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)
"""Tried for `most`."""
RIDGE = 1.0
N_PAGES = 5
BATCH = 16
TARGET = Path(dialogue_gate.__file__).with_name(dialogue_gate.SHIPPED)


@dataclass(frozen=True)
class Talk:
    """One row: turns oldest first, the gold pages and their titles, which conversation it is and how far it had got."""

    turns: tuple[str, ...]
    pages: tuple[str, ...]
    titles: tuple[str, ...]
    conversation: str = ""
    turn: int = 0

    @property
    def is_chosen_on(self) -> bool:
        """Return whether the row is of the half that choices are made on."""
        return hashlib.sha256(self.pages[0].encode()).digest()[0] < 128


def read_talks(path: Path) -> list[Talk]:
    """Return the rows of a KILT file of dialogues that have a gold page."""
    talks = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            entries = [entry for output in row["output"] for entry in output.get("provenance", ())]
            pages = dict.fromkeys(str(entry["wikipedia_id"]) for entry in entries)
            turns = tuple(turn for turn in row["input"].split("\n") if turn.strip())
            if pages and turns:
                meta = row.get("meta", {})
                titles = tuple(dict.fromkeys(entry["title"] for entry in entries))
                place = str(meta.get("conversation", "")), int(meta.get("turn", 0))
                talks.append(Talk(turns, tuple(pages), titles, *place))
    return talks


def whole_talks(talks: Sequence[Talk]) -> list[Talk]:
    """Return the talks that have earlier turns in other rows of their conversation, with these put back."""
    said: dict[tuple[str, int], str] = {}
    for talk in talks:
        for age, turn in enumerate(reversed(talk.turns), start=1):
            said[talk.conversation, talk.turn - age] = turn
    found = []
    for talk in talks:
        turns: list[str] = []
        while (before := said.get((talk.conversation, talk.turn - len(turns) - 1))) is not None:
            turns.append(before)
        if len(turns) > len(talk.turns):
            found.append(replace(talk, turns=tuple(reversed(turns))))
    return found


def kept_talks(talks: Sequence[Talk], generator: random.Random) -> list[Talk]:
    """Return talks that keep to one subject: named in the opening alone, then turns about it of up to three others."""
    by_page = defaultdict(list)
    for talk in talks:
        by_page[talk.pages[0]].append(talk)
    found = []
    for talk in talks:
        name = re.compile(rf"\b{re.escape(re.sub(r' *[(][^()]*[)]$', '', talk.titles[0]))}\b", re.IGNORECASE)
        others = [each for each in by_page[talk.pages[0]] if each.conversation != talk.conversation]
        opening = [each for each in others if any(map(name.search, each.turns[-3:]))]
        if not opening:
            continue
        first = generator.choice(opening).turns
        begin = max(i for i, turn in enumerate(first) if name.search(turn))
        between = [turn for each in generator.sample(others, min(len(others), 3)) for turn in each.turns[-2:]]
        later = (*between[: generator.choice((0, 2, 4, 6))], *talk.turns[-generator.choice((2, 3, 4)) :])
        pronoun = generator.choice(("it", "that", "this"))
        found.append(replace(talk, turns=(*first[begin : begin + 3], *(name.sub(pronoun, turn) for turn in later))))
    return found


def observe(reader: KBReader, talks: Sequence[Talk]) -> Iterator[tuple[Float64, bool]]:
    """Yield for each talk its features, and whether its best document by all words is a gold page."""
    snapshot = reader.snapshot()
    for talk in talks:
        query = replace(query_of(Dialogue(talk.turns)), gate=None)
        signal = signals_of(reader, snapshot, [query], [query.weights])[0].lexical
        if signal is None or signal.documents is None:
            raise AssertionError("dialogues have a lexical weight and are matched against whole documents")
        ranked = signal.documents.best(BACKGROUND.stop)
        features = gate_features(signal.documents.of(ranked), snapshot.words.counts.n_documents)
        if features is not None:
            best = int(np.unique(snapshot.document_ids)[ranked[0]])
            yield features, reader.documents({best})[best].doc_id in talk.pages


def fit(features: Float64, is_right: NDArray[np.bool_], weights: Float64) -> tuple[Float64, float]:
    """Return the coefficients float64 (features,) and the intercept of a logistic regression, by Newton's steps."""
    mean, scale = features.mean(axis=0), features.std(axis=0) + 1e-9
    rows = np.column_stack([(features - mean) / scale, np.ones(len(features))])
    penalty = np.diag([RIDGE] * features.shape[1] + [0.0])
    found = np.zeros(rows.shape[1])
    for _ in range(50):
        given = 1.0 / (1.0 + np.exp(-np.clip(rows @ found, -30.0, 30.0)))
        slope = rows.T @ (weights * (given - is_right)) + penalty @ found
        curve = (rows * (weights * given * (1.0 - given))[:, None]).T @ rows + penalty
        found = found - np.linalg.solve(curve + 1e-9 * np.eye(len(found)), slope)
    coefficients = found[:-1] / scale
    return coefficients, float(found[-1] - mean @ coefficients)


def fitted(reader: KBReader, talks: Sequence[Talk], n_rows: int) -> tuple[LexicalGate, dict[str, Any]]:
    """Return the gate fitted on up to `n_rows` rows of each form of the talks, and what it was fitted on."""
    generator = random.Random(13)
    forms = {
        "as they are": list(talks),
        "whole": whole_talks(talks),
        "kept to one subject": kept_talks(talks, generator),
    }
    features, is_right, weights, note = [], [], [], {}
    for name, rows in forms.items():
        seen = list(observe(reader, generator.sample(rows, min(n_rows, len(rows)))))
        features += [each for each, _ in seen]
        is_right += [right for _, right in seen]
        weights += [1000.0 / len(seen)] * len(seen)  # each form as if it had a thousand rows
        note[name] = {"rows": len(seen), "best document right": round(sum(right for _, right in seen) / len(seen), 3)}
        print(name, note[name], flush=True)
    coefficients, intercept = fit(np.asarray(features), np.asarray(is_right), np.asarray(weights))
    return LexicalGate(tuple(round(float(each), 4) for each in coefficients), round(intercept, 4), 1.0), note


def figures(
    knowledge_base: KnowledgeBase, rows: Mapping[str, Sequence[Talk]], gate: LexicalGate | None
) -> dict[str, dict[str, float]]:
    """Return page R-precision, its error clustered by page, and recall at 5 pages of each set, in percent."""
    found = {}
    for name, talks in rows.items():
        rprec, recall = [], []
        for begin in range(0, len(talks), BATCH):
            batch = talks[begin : begin + BATCH]
            queries: list[Query] = [replace(query_of(Dialogue(talk.turns)), read=0) for talk in batch]
            queries = [replace(query, gate=query.gate and gate) for query in queries]
            for talk, result in zip(batch, knowledge_base.search(queries, k=N_PAGES, truncate=True), strict=True):
                pages, n = [hit.document.doc_id for hit in result.hits], len(talk.pages)
                rprec.append(len(set(pages[:n]) & set(talk.pages)) / n)
                recall.append(len(set(pages) & set(talk.pages)) / n)
        clusters = defaultdict(float)
        for talk, value in zip(talks, rprec, strict=True):
            clusters[talk.pages[0]] += value - float(np.mean(rprec))
        error = float(np.sqrt(sum(value**2 for value in clusters.values()))) / len(talks)
        found[name] = {
            "R-precision": round(100 * float(np.mean(rprec)), 1),
            "error": round(100 * error, 1),
            "recall at 5": round(100 * float(np.mean(recall)), 1),
        }
    return found


def main() -> None:
    """Fit, choose, report and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kb", type=Path, required=True, help="a knowledge base of all pages; it is only read")
    parser.add_argument("--data", type=Path, required=True, help="folder of KILT files")
    parser.add_argument("--rows", type=int, default=800, help="training rows of each form")
    parser.add_argument("--development-rows", type=int, help="rows of each half of each development set; all")
    parser.add_argument("--out", type=Path, default=TARGET)
    given = parser.parse_args()
    with KBReader.open(given.kb) as reader:
        gate, note = fitted(reader, read_talks(given.data / f"{TRAIN}.train.jsonl.gz"), given.rows)
    talks = {name: read_talks(given.data / f"{name}.dev.jsonl.gz") for name in DEVELOPMENT}
    for rows in talks.values():
        random.Random(13).shuffle(rows)
    few = slice(given.development_rows)
    chosen_on = {name: [talk for talk in rows if talk.is_chosen_on][few] for name, rows in talks.items()}
    others = {name: [talk for talk in rows if not talk.is_chosen_on][few] for name, rows in talks.items()}
    with KnowledgeBase.open(given.kb) as knowledge_base:
        tried = {most: figures(knowledge_base, chosen_on, replace(gate, most=most)) for most in MOST}
        best = max(tried, key=lambda most: sum(each["R-precision"] for each in tried[most].values()))
        gate = replace(gate, most=best)
        report = {
            "chosen on": {str(most): each for most, each in tried.items()},
            "other half, before": figures(knowledge_base, others, None),
            "other half, after": figures(knowledge_base, others, gate),
        }
    record = {"features": FEATURES, **asdict(gate), "fitted on": {"set": f"{TRAIN}.train", **note}, "report": report}
    given.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
