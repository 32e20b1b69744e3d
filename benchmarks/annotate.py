"""How well mentions are found and linked in texts without marks, beside other linkers on the same texts.

Run: python -m benchmarks.annotate --kb DIR --elevant DIR [--documents N] [--encoder NAME] [--save FILE]

`--elevant` is a checkout of ad-freiburg/elevant: its benchmarks, and what other systems gave on them
(`evaluation-results/*/*.linked_articles.jsonl`). Only Reuters-128, Derczynski and Spotlight are read.

An entity is in the knowledge base when its name is that of one document: its title, or another name; the names of
Wikidata ids are those in the checkout's own files, so a system's prediction is mapped as the gold is. Entities that are
not count as no link, for everybody. A prediction is right when its span and its document are (strong match).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapters.annotating.annotator import AnnotateOptions, annotator_for
from adapters.tasks.answerer import Answerer
from benchmarks.measurement import write_result
from kbengine.inputs import Mention
from kbengine.knowledge_base import KnowledgeBase
from storage.folding import case_key
from storage.reader import KBReader

SETS = ("reuters-128", "derczynski", "spotlight")
OTHER_NAMES = {
    "United States of America": "United States",
    "People's Republic of China": "China",
    "motor car": "Car",
    "autonomous car": "Self-driving car",
    "drug trafficking": "Illegal drug trade",
    "Koninklijke Philips NV": "Philips",
    "attention deficit hyperactivity disorder": "Attention deficit hyperactivity disorder",
}
"""Wikidata's name of an entity where Wikipedia's title is another."""
Links = dict[tuple[int, int], str]
"""What spans of one text mean: documents' ids."""


@dataclass(frozen=True)
class Score:
    """Right, given and wanted links, summed up."""

    right: int = 0
    given: int = 0
    wanted: int = 0

    def __add__(self, other: Score) -> Score:
        return Score(self.right + other.right, self.given + other.given, self.wanted + other.wanted)

    def figures(self) -> dict[str, Any]:
        """Return precision, recall and F1 in percent, and the counts."""
        precision, recall = self.right / max(1, self.given), self.right / max(1, self.wanted)
        f1 = 2 * precision * recall / max(1e-9, precision + recall)
        rounded = {"precision": precision, "recall": recall, "f1": f1}
        return {name: round(100 * value, 1) for name, value in rounded.items()} | vars(self)


class Entities:
    """From Wikidata ids to documents, by names."""

    def __init__(self, reader: KBReader, names: Mapping[str, str]) -> None:
        """Map ids by their names."""
        of_title: dict[str, set[str]] = {}
        for record in reader.iterate_records():
            of_title.setdefault(case_key(record.title), set()).add(record.doc_id)
        self._documents: dict[str, str] = {}
        for entity, name in names.items():
            found = of_title.get(case_key(OTHER_NAMES.get(name, name)), set())
            if not found:
                found = {
                    record.doc_id
                    for record in reader.list_aliases(prefix=name, limit=5)
                    if case_key(record.alias) == case_key(name)
                }
            if len(found) == 1:
                (self._documents[entity],) = found

    def document(self, entity: str | None) -> str | None:
        """Return the document's id, None for an entity that is not in the knowledge base."""
        return self._documents.get(entity or "")

    def linked(self, mentions: Iterable[tuple[list[int], str | None]]) -> Links:
        """Return the links of a text, of those that are in the knowledge base."""
        found = {(span[0], span[1]): self.document(entity) for span, entity in mentions}
        return {span: document for span, document in found.items() if document is not None}


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file of JSON lines."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def names_of_entities(elevant: Path) -> dict[str, str]:
    """Return the names of all Wikidata ids that stand in the gold labels and in the systems' evaluated cases."""
    names = {}
    for each in SETS:
        for text in lines_of(elevant / "benchmarks" / f"{each}.benchmark.jsonl"):
            names |= {label["entity_id"]: label["name"] for label in text["labels"]}
        for path in sorted(elevant.glob(f"evaluation-results/*/*.{each}.eval_cases.jsonl")):
            for text in lines_of(path):
                for case in text:  # type: ignore[attr-defined]  # a line is a list
                    for entity in (case.get("predicted_entity"), case.get("true_entity")):
                        if entity is not None:
                            names.setdefault(entity["entity_id"], entity["name"])
    return {entity: name for entity, name in names.items() if entity.startswith("Q") and name != "Unknown"}


def scored(given: Links, gold: Links) -> Score:
    """Return the score of one text."""
    return Score(sum(gold.get(span) == document for span, document in given.items()), len(given), len(gold))


def systems_of(elevant: Path, each: str) -> dict[str, Path]:
    """Return the files of what other systems gave."""
    paths = sorted(elevant.glob(f"evaluation-results/*/*.{each}.linked_articles.jsonl"))
    return {path.name.partition(".")[0]: path for path in paths if not path.name.startswith("oracle")}


def main() -> None:
    """Annotate the texts, score everybody on them, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kb", type=Path, required=True)
    parser.add_argument("--elevant", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=10_000, help="of each set, the first so many")
    parser.add_argument("--threshold", type=float, default=AnnotateOptions.threshold)
    parser.add_argument("--save", type=Path, help="write every annotation here, one text a line")
    parser.add_argument("--encoder", help="that links, by name, instead of the task's")
    parser.add_argument("--spans", action="store_true", help="also link the gold spans, each by itself")
    arguments = parser.parse_args()
    names = names_of_entities(arguments.elevant)
    figures: dict[str, Any] = {}
    with KnowledgeBase.open(arguments.kb, arguments.encoder) as knowledge_base:
        entities = Entities(knowledge_base.reader, names)
        answerer = Answerer(knowledge_base)
        annotator = annotator_for(answerer, knowledge_base)
        options = AnnotateOptions(threshold=arguments.threshold, candidates=1, unlinked=False)
        for each in SETS:
            texts = list(lines_of(arguments.elevant / "benchmarks" / f"{each}.benchmark.jsonl"))
            texts = texts[: arguments.documents]
            gold = {
                text["id"]: entities.linked((label["span"], label["entity_id"]) for label in text["labels"])
                for text in texts
            }
            known = [label for text in texts for label in text["labels"] if label["entity_id"].startswith("Q")]
            began, ours, characters = time.perf_counter(), Score(), 0
            for text in texts:
                found = list(annotator.annotate(text["text"], options))
                links = {(one.span.start, one.span.end): one.link.doc_id for one in found if one.link is not None}
                ours += scored(links, gold[text["id"]])
                characters += len(text["text"])
                if arguments.save is not None:
                    with arguments.save.open("a", encoding="utf-8") as file:
                        record = {"set": each, "id": text["id"], "annotations": [one.to_json() for one in found]}
                        file.write(json.dumps(record, ensure_ascii=False) + "\n")
            seconds = time.perf_counter() - began
            scores = {"kbengine": ours}
            for system, path in systems_of(arguments.elevant, each).items():
                scores[system] = Score()
                for text in lines_of(path):
                    if text["id"] in gold:
                        mentions = text.get("entity_mentions") or []
                        links = entities.linked((mention["span"], mention["id"]) for mention in mentions)
                        scores[system] += scored(links, gold[text["id"]])
            figures[each] = {
                "texts": len(texts),
                "entities": len({label["entity_id"] for label in known}),
                "entities_mapped": len({x["entity_id"] for x in known if entities.document(x["entity_id"])}),
                "mentions": len(known),
                "mentions_mapped": sum(len(links) for links in gold.values()),
                "characters_a_second": round(characters / seconds),
                "systems": {system: score.figures() for system, score in scores.items()},
            }
            if arguments.spans:
                figures[each]["given_spans_right"] = _given_spans(answerer, texts, gold)
            print(json.dumps(figures[each], indent=1))
    write_result("annotate", "Mentions found and linked in texts without marks, beside other linkers", figures)


def _given_spans(answerer: Answerer, texts: list[dict[str, Any]], gold: Mapping[Any, Links]) -> dict[str, Any]:
    """Return how many of the gold spans are linked rightly when they are given one by one."""
    asked = [(Mention(text["text"], span), document) for text in texts for span, document in gold[text["id"]].items()]
    right = 0
    for i in range(0, len(asked), 16):
        batch = asked[i : i + 16]
        for answer, (_, document) in zip(answerer.answer([mention for mention, _ in batch]), batch, strict=True):
            right += bool(answer.answers) and answer.answers[0].document.doc_id == document
    return {"right": right, "of": len(asked), "percent": round(100 * right / max(1, len(asked)), 1)}


if __name__ == "__main__":
    main()
