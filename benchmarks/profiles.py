"""How many values of an entity's card are right, and how many of the values that it has are on the card.

Run: python -m benchmarks.profiles --kb DIR --data DIR [--scratch FILE]

Entities are the subjects of DocRED's development rows that have a page of their own, of the half of pages that results
are reported on. A value is right when it equals, after KILT's normalisation, an object that the rows name for the
relation; one that is true but that no row names counts as wrong. Standard errors are clustered by page.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapters.kilt.standard_error import clustered_standard_error
from adapters.profiles.profiler import ProfileOptions, Profiler
from adapters.profiles.value_model import FEATURES, ValueModel, value_model
from adapters.tasks.answerer import Answerer
from adapters.tasks.values import values_of
from adapters.tasks.wording import has_one_value
from benchmarks.kilt_sets import HALVES, data_folder, halves_of
from benchmarks.measurement import write_result
from kbengine.corpus.normalise import norm
from kbengine.inputs import SEPARATOR, Slot
from kbengine.knowledge_base import KnowledgeBase
from kbengine.progress import Stages, progress_for_terminal

THRESHOLDS = (0.2, 0.5)
SEED = 13


@dataclass(frozen=True)
class GoldEntity:
    """A page that rows are about, its title, and the names of each object of each of its relations."""

    page: str
    title: str
    objects: Mapping[str, Sequence[frozenset[str]]]


@dataclass(frozen=True)
class Candidate:
    """One answer to one relation of an entity: its text, what speaks for it, and whether it is a gold object."""

    page: str
    relation: str
    text: str
    features: tuple[float, ...]
    is_right: bool


def gold_entities(path: Path, half: str | None = None) -> list[GoldEntity]:
    """Return the subjects of a file of DocRED's rows that have a page of their own, of one half of pages or all."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    found: dict[str, tuple[str, dict[str, list[frozenset[str]]]]] = {}
    for row, of_half in zip(rows, halves_of(path, rows), strict=True):
        meta = row["meta"]
        if not meta["subj_is_title"] or not meta["relation_pid"] or half not in (None, of_half):
            continue
        page = str(row["output"][0]["provenance"][0]["wikipedia_id"])
        _, objects = found.setdefault(page, (row["input"].split(SEPARATOR)[0].strip(), {}))
        objects[meta["relation_pid"]] = [frozenset(norm(each) for each in names) for names in meta["obj_aliases"]]
    return [GoldEntity(page, title, objects) for page, (title, objects) in found.items()]


def candidates(knowledge_base: KnowledgeBase, entities: Sequence[GoldEntity], kept: Path) -> list[Candidate]:
    """Return the answers to what a card asks of each entity; those of a run before are read from the file."""
    found: list[Candidate] = []
    if kept.exists():
        for record in map(json.loads, kept.read_text(encoding="utf-8").splitlines()):
            found.append(Candidate(**{**record, "features": tuple(record["features"])}))
    done = {each.page for each in found}
    entities = [each for each in entities if each.page not in done]
    # Only what speaks for the answers is wanted here, so the model may be one that is still to be fitted.
    none = ValueModel((0.0,) * len(FEATURES), 0.0)
    profiler = Profiler(knowledge_base.reader, Answerer(knowledge_base).answer, model=none)
    with progress_for_terminal() as sink, kept.open("a", encoding="utf-8") as lines:
        stages = Stages(sink)
        for i, entity in enumerate(entities):
            new = list(_asked(profiler, knowledge_base, entity))
            lines.write("".join(json.dumps(vars(each)) + "\n" for each in new))
            lines.flush()
            found += new
            stages("entities asked about", i + 1, len(entities))
    return found


def _asked(profiler: Profiler, knowledge_base: KnowledgeBase, entity: GoldEntity) -> Iterator[Candidate]:
    document = knowledge_base.reader.live_documents([entity.page]).get(entity.page)
    if document is None:
        return
    lead = knowledge_base.reader.first_passages([entity.page]).get(entity.page, "")
    for asked in profiler.ask_about(document, lead, ProfileOptions()):
        relation = asked.slot.relation
        for answer, features in profiler.weigh(document, asked):
            if features is not None:
                is_right = any(norm(answer.text) in names for names in entity.objects.get(relation, ()))
                yield Candidate(entity.page, relation, answer.text, features, is_right)


def shown(found: Sequence[Candidate], model: ValueModel, threshold: float) -> dict[str, dict[str, list[str]]]:
    """Return the values of each relation that the card of each page shows at a threshold."""
    of_slot: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for each in found:
        of_slot.setdefault((each.page, each.relation), []).append((each.text, model.probability(each.features)))
    cards: dict[str, dict[str, list[str]]] = {}
    for (page, relation), answers in of_slot.items():
        ranked = sorted(answers, key=lambda pair: -pair[1])
        values = values_of(ranked, has_one=has_one_value(Slot("it", relation)))
        texts = [value.text for value in values if value.probability >= threshold]
        if texts:
            cards.setdefault(page, {})[relation] = texts
    return cards


def figures(entities: Sequence[GoldEntity], found: Sequence[Candidate], model: ValueModel, threshold: float) -> Any:
    """Return precision and recall of the values on the cards, in percent with standard errors."""
    cards = shown(found, model, threshold)
    right: list[float] = []
    right_pages: list[str] = []
    reached: list[float] = []
    reached_pages: list[str] = []
    for entity in entities:
        card = cards.get(entity.page, {})
        for relation, texts in card.items():
            gold = entity.objects.get(relation, ())
            right += [float(any(norm(text) in names for names in gold)) for text in texts]
            right_pages += [entity.page] * len(texts)
        for relation, gold in entity.objects.items():
            values = {norm(text) for text in card.get(relation, ())}
            reached += [float(bool(values & names)) for names in gold]
            reached_pages += [entity.page] * len(gold)
    usual = [
        relation in {each.relation for each in found if each.page == entity.page}
        for entity in entities
        for relation in entity.objects
    ]
    return {
        "threshold": threshold,
        "values": len(right),
        "precision": _percent(right, right_pages),
        "objects": len(reached),
        "recall": _percent(reached, reached_pages),
        "relations_asked_for": round(100 * sum(usual) / len(usual), 1),
    }


def _percent(values: Sequence[float], pages: Sequence[str]) -> dict[str, float | None]:
    error = clustered_standard_error(values, pages) if values else None
    mean = sum(values) / len(values) if values else 0.0
    return {"percent": round(100 * mean, 1), "standard_error": None if error is None else round(100 * error, 1)}


def main() -> None:
    """Ask about each entity, compare, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kb", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--entities", type=int, help="so many of them, drawn at random; by default all")
    parser.add_argument("--scratch", type=Path, default=Path("profiles.jsonl"), help="answers, kept between runs")
    given = parser.parse_args()
    entities = gold_entities(data_folder(given.data) / "docred.dev.jsonl.gz", HALVES[1])
    if given.entities is not None:
        entities = random.Random(SEED).sample(entities, min(given.entities, len(entities)))
    with KnowledgeBase.open(given.kb) as knowledge_base:
        found = candidates(knowledge_base, entities, given.scratch)
        n_documents = knowledge_base.info().documents
    write_result(
        "profiles",
        "values of an entity's card: how many are right, and how many of the gold objects are on it",
        {
            "knowledge_base_documents": n_documents,
            "entities": len(entities),
            "at": [figures(entities, found, value_model(), threshold) for threshold in THRESHOLDS],
        },
    )


if __name__ == "__main__":
    main()
