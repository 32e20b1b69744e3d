"""Counting which relations things of a kind usually have: `adapters/profiles/usual_relations.tsv`, which ships.

Run: python -m recipes.usual_relations --data DIR [--compare]

Subjects of slot-filling training rows whose name is a page's title are counted with the words of the page's first
sentence and with their relations. What these counts say of each other page of the knowledge source is then counted too,
each page a little, so that words which no subject is described with say something by the words beside them. Pages that
development rows are about are left out. With --compare the gold relations of development subjects, of the half of pages
that choices are made on, are looked for among the most usual ones, with and without those pages.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from adapters.profiles import usual_relations
from adapters.profiles.usual_relations import UsualRelations, lead_words
from adapters.tasks.wording import relations
from kbengine.inputs import SEPARATOR

SETS = ("docred", "fewrel", "knet")
DEVELOPMENT = "docred"
PAGE_WEIGHT = 0.2
"""What a page counts that no row is about."""
TRUST = 0.5
"""How far the words of such a page are trusted: their log odds are multiplied by this."""
LEAST_WORDS = 4
"""Pages with fewer say too little about what they are."""
LEAST_SUBJECTS = 10
"""Words that describe fewer subjects of rows and pages are left out."""
LEAST_TOGETHER = 1.0
TARGET = Path(usual_relations.__file__).with_name(usual_relations.SHIPPED)

Described = tuple[frozenset[str], Mapping[str, float]]
"""The words that say what a subject is, and its relations, each with how sure that is."""


def read_rows(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield subject, relation id and gold page of the rows of a slot-filling file whose relation has an id."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            relation = row["meta"].get("relation_pid")
            if relation:
                page = next((str(each["wikipedia_id"]) for out in row["output"] for each in out["provenance"]), "")
                yield row["input"].split(SEPARATOR)[0].strip(), relation, page


def read_leads(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield id, title and first paragraph of each page of the knowledge source."""
    for path in sorted(folder.glob("*.pages.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                page = json.loads(line)
                yield str(page["wikipedia_id"]), page["wikipedia_title"], next(iter(page["text"][1:]), "")


def count(described: Iterable[tuple[Described, float]], *, words: frozenset[str] | None = None) -> UsualRelations:
    """Return the counts over subjects, each with its weight; of these words alone, or of all."""
    subjects = 0.0
    n_relations: Counter[str] = Counter()
    n_words: Counter[str] = Counter()
    together: dict[str, Counter[str]] = defaultdict(Counter)
    for (lead, has), weight in described:
        subjects += weight
        for relation, share in has.items():
            n_relations[relation] += share * weight  # type: ignore[assignment]  # counts of parts of subjects
        for word in lead if words is None else lead & words:
            n_words[word] += weight  # type: ignore[assignment]
            for relation, share in has.items():
                together[word][relation] += share * weight  # type: ignore[assignment]
    return UsualRelations(subjects, dict(n_relations), dict(n_words), together)


def supposed(lead: frozenset[str], table: UsualRelations) -> dict[str, float]:
    """Return the relations of a page by what the rows say of its words, each with how probable it is."""
    prior = {relation: math.log(n / table.subjects) for relation, n in table.relations.items()}
    odds = {relation: prior[relation] + TRUST * (z - prior[relation]) for relation, z in table.log_odds(lead).items()}
    shares = {relation: 1 / (1 + math.exp(-max(-20.0, min(20.0, z)))) for relation, z in odds.items()}
    return {relation: share for relation, share in shares.items() if share >= 0.01}


def pruned(table: UsualRelations, seen: Mapping[str, int]) -> UsualRelations:
    """Return the table without what is too rare to say anything."""
    words = {word: n for word, n in table.words.items() if seen[word] >= LEAST_SUBJECTS}
    together = {
        word: {relation: n for relation, n in table.together[word].items() if n >= LEAST_TOGETHER} for word in words
    }
    return UsualRelations(table.subjects, table.relations, words, together)


def found(table: UsualRelations, subjects: Mapping[str, tuple[str, frozenset[str]]], n: int) -> float:
    """Return the share of the subjects' relations that are among the n most usual ones."""
    hits = sum(len(has & {relation for relation, _ in table.most_usual(lead, n)}) for lead, has in subjects.values())
    return hits / sum(len(has) for _, has in subjects.values())


def main() -> None:
    """Count, and write the table that ships."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--compare", action="store_true")
    given = parser.parse_args()
    unseen = set((given.data / "unseen_pages.txt").read_text().split())
    known = {each.id for each in relations()}
    of_subject: dict[str, set[str]] = defaultdict(set)
    for name in SETS:
        for subject, relation, _ in read_rows(given.data / f"{name}.train.jsonl.gz"):
            if relation in known:
                of_subject[subject].add(relation)
    rows: dict[str, Described] = {}
    pages: list[frozenset[str]] = []
    leads: dict[str, tuple[str, str]] = {}
    for page, title, lead in read_leads(given.data):
        leads[page] = title, lead
        if page in unseen:
            continue
        words = lead_words(lead)
        if title in of_subject and title not in rows:
            rows[title] = words, dict.fromkeys(of_subject[title], 1.0)
        elif len(words) >= LEAST_WORDS:
            pages.append(words)
    seen = Counter(word for words in (*(lead for lead, _ in rows.values()), *pages) for word in words)
    of_rows = count((each, 1.0) for each in rows.values())
    guessed = (((words, supposed(words, of_rows)), PAGE_WEIGHT) for words in pages)
    both = pruned(count([*((each, 1.0) for each in rows.values()), *guessed]), seen)
    if given.compare:
        subjects: dict[str, tuple[str, frozenset[str]]] = {}
        for subject, relation, page in read_rows(given.data / f"{DEVELOPMENT}.dev.jsonl.gz"):
            title, lead = leads.get(page, ("", ""))
            if title == subject and relation in known and hashlib.sha256(page.encode()).digest()[0] < 128:
                _, has = subjects.get(subject, (lead, frozenset()))
                subjects[subject] = lead, has | {relation}
        for name, table in (("rows alone", of_rows), ("rows and pages", both)):
            shares = {n: round(100 * found(table, subjects, n), 1) for n in (8, 12, 16, 24)}
            print(f"{name}: {len(table.words)} words; of the relations of {len(subjects)} subjects are usual: {shares}")
    TARGET.write_text("".join(both.lines()), encoding="utf-8")
    print(f"{len(rows)} subjects of rows, {len(pages)} pages, {len(both.words)} words; written to {TARGET}")


if __name__ == "__main__":
    main()
