"""Whether a name that is known exactly, and means one document, links to it: in neutral sentences, at any size.

Run: python -m benchmarks.exact_names --kb DIR [--names N] [--sentences N] [--weight W] [--encoder NAME] [--add]

Names are titles and aliases; one means one document when no other has it, case and accents folded, as a title (with or
without a qualifier) or as an alias. Each is put into each of the sentences, on which nothing is fitted. With --add each
document is given a made-up alias first: the knowledge base is written to, so copy it before.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from adapters.tasks.queries import query_of
from kbengine.inputs import Mention
from kbengine.knowledge_base import KnowledgeBase
from kbengine.search.query import SearchOptions
from storage.folding import accent_key
from storage.reader import KBReader
from storage.terms import names_of_title

SENTENCES = (
    "I read about {} yesterday.",
    "She asked me what I thought of {}.",
    "{} came up twice in our conversation.",
    "We had never heard of {} before.",
    "Somebody wrote a long letter about {}.",
    "There was a short note on {} in the paper.",
    "He keeps talking about {} all the time.",
    "{} was mentioned at the end of the programme.",
    "Do you know anything about {}?",
    "The teacher told the class about {}.",
    "They could not agree about {}.",
    "Last week I looked up {} again.",
    "My neighbour is very interested in {}.",
    "The whole evening was about {}.",
    "I am still not sure what to say about {}.",
    "{} is what I wanted to know more about.",
    "Nobody in the room remembered {}.",
    "You will find more on {} further down.",
    "Please send me what you have on {}.",
    "It all began with {}, as far as I can tell.",
)
SYLLABLES = ("ba", "ko", "ri", "ne", "zu", "la", "mi", "to", "ve", "sha", "dor", "lin", "que", "par", "gos")


def known_names(reader: KBReader) -> dict[str, str]:
    """Return the names that mean one document, as they are spelt, each with the document's id."""
    owners: dict[str, set[str]] = {}
    spelt: list[tuple[str, str]] = []
    for document in reader.iterate_records():
        for name in names_of_title(document.title):
            owners.setdefault(accent_key(name), set()).add(document.doc_id)
        spelt.append((document.title, document.doc_id))
    after: str | None = None
    while page := reader.list_aliases(after=after, limit=5_000):
        for alias in page:
            owners.setdefault(accent_key(alias.alias), set()).add(alias.doc_id)
            spelt.append((alias.alias, alias.doc_id))
        after = page[-1].cursor
    return {name: doc_id for name, doc_id in spelt if len(owners[accent_key(name)]) == 1}


def mentions(names: Sequence[str], sentences: int) -> Iterator[tuple[int, Mention]]:
    """Yield each name in so many of the sentences, each time the next ones, with the name's number."""
    for number, name in enumerate(names):
        for turn in range(sentences):
            left, right = SENTENCES[(number * sentences + turn) % len(SENTENCES)].split("{}")
            yield number, Mention.from_parts(left, name, right)


def measure(
    knowledge_base: KnowledgeBase,
    owners: Mapping[str, str],
    *,
    weight: float | None = None,
    sentences: int = len(SENTENCES),
    encoder: str | None = None,
) -> dict[str, Any]:
    """Return the share of names in sentences that link to their document, and what missed."""
    names = list(owners)
    encoder = knowledge_base.encoder_name(encoder, task="entity-linking")
    asked = list(mentions(names, sentences))
    right = np.zeros(len(asked), dtype=np.bool_)
    missed: list[tuple[str, str, str]] = []
    leads: list[float] = []
    for begin in range(0, len(asked), 64):
        batch = asked[begin : begin + 64]
        queries = [query_of(mention) for _, mention in batch]
        if weight is not None:
            queries = [replace(query, weights=replace(query.weights, name=weight)) for query in queries]
        results = knowledge_base.search(queries, SearchOptions(k=5, explain=True, truncate=True, encoder=encoder))
        for i, ((number, mention), result) in enumerate(zip(batch, results, strict=True), start=begin):
            wanted = owners[names[number]]
            scores = {hit.document.doc_id: hit.score for hit in result.hits}
            right[i] = bool(result.hits) and result.hits[0].document.doc_id == wanted
            best_other = max((score for doc_id, score in scores.items() if doc_id != wanted), default=0.0)
            leads.append(scores.get(wanted, -np.inf) - best_other)
            if not right[i]:
                missed.append((mention.text, result.hits[0].document.title if result.hits else "", wanted))
    return {
        "names": len(names),
        "sentences": sentences,
        "linked": round(100 * float(right.mean()), 2),
        "lead_quantiles": {str(q): round(float(np.quantile(leads, q)), 1) for q in (0.001, 0.005, 0.01, 0.05, 0.5)},
        "missed": missed[:40],
    }


def add_aliases(knowledge_base: KnowledgeBase, doc_ids: Sequence[str], rng: random.Random) -> dict[str, str]:
    """Return made-up names, just added as aliases, with their documents."""
    made = {"".join(rng.choices(SYLLABLES, k=4)).capitalize(): doc_id for doc_id in doc_ids}
    for name, doc_id in made.items():
        knowledge_base.add_aliases(doc_id, [name])
    return made


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kb", type=Path, required=True)
    parser.add_argument("--names", type=int, default=500, help="how many of the names, drawn at random")
    parser.add_argument("--weight", type=float, help="of names, instead of the task's")
    parser.add_argument("--sentences", type=int, default=len(SENTENCES), help="for each name")
    parser.add_argument("--encoder", help="asked by its name, instead of the task's")
    parser.add_argument("--add", action="store_true", help="made-up aliases, added to this knowledge base before")
    given = parser.parse_args()
    rng = random.Random(7)
    with KBReader.open(given.kb) as reader:
        known = known_names(reader)
    chosen = rng.sample(sorted(known), min(given.names, len(known)))
    with KnowledgeBase.open(given.kb) as knowledge_base:
        owners = {name: known[name] for name in chosen}
        if given.add:
            owners = add_aliases(knowledge_base, [known[name] for name in chosen], rng)
        print(
            json.dumps(
                {"known": len(known)}
                | measure(
                    knowledge_base, owners, weight=given.weight, sentences=given.sentences, encoder=given.encoder
                ),
                indent=1,
            )
        )


if __name__ == "__main__":
    main()
