"""The same documents, changed in the same way, in one knowledge base and in shards of a generation."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kbengine.search.shard_directories import ShardDirectories, ShardDirectory
from storage.alias_records import NewAlias
from storage.common_settings import CommonSettings, common_settings_of, create_with
from storage.creation import FirstIds
from storage.overlaid_names import NameChange
from storage.passage_quantiser import train_passage_quantiser
from storage.reader import KBReader
from storage.records import NewDocument
from storage.reindexing import ReindexRequest
from storage.writer import KBWriter
from tests.kbengine.synthetic_kb import WORDS, passages_of, synthetic_settings

NAMED = {
    "town": ("Reading", "Reading is a town on the Thames.", "Trains stop at Reading for Bristol."),
    "process": ("Reading (process)", "By reading we learn what is written.", "Children learn reading at school."),
    "element": ("Mercury (element)", "Mercury is a metal."),
    "planet": ("Mercury (planet)", "Mercury is near the Sun."),
    "lincoln": ("Lincoln", "Lincoln was a president."),
    "nebraska": ("Lincoln, Nebraska", "Lincoln is a capital."),
    "acdc": ("AC/DC", "A band of five."),
    "kahlo": ("Frida Kahlo", "Frida Kahlo painted herself."),
    "rivera": ("Diego Rivera", "He married Frida KAHLO twice.", "Kahlo and her sister Frida lived there."),
    "house": ("Blue House", "Here Frida Kahlo was born. It", "Magdalena Carmen has a garden."),
    "it": ("It (novel)", "It is a novel of amber. And it ends."),
    "haus": ("Blaue Häuser", "In diesen Häusern lebte Frida Kahlo am 3. Mai mit ihren Tieren."),
    "tier": ("Tierhäuser", "Ein Tier aus einem Haus. Es mag den Fjord."),
}
GERMAN = ("haus", "tier")
N_RANDOM = 45
BASE_ALIASES = (
    ("kahlo", NewAlias("Magdalena Carmen", uses=3)),
    ("house", NewAlias("Magdalena Carmen", uses=1)),
    ("house", NewAlias("Casa Azul")),
    ("rivera", NewAlias("The Painter", prior=0.25)),
    ("kahlo", NewAlias("the painter")),
)
LATE_ALIASES = (("doc-3", NewAlias("Casa Azul")), ("doc-20", NewAlias("The Painter", uses=2)))
REPLACED = ("doc-5", "doc-17", "kahlo")
ADDED = ("late-1", "late-2")
DELETED = ("doc-9", "doc-30", "planet")


def document(doc_id: str, title: str, *texts: str) -> NewDocument:
    """A document with a field that filters ask for."""
    fields = {"half": len(doc_id) % 2, "kind": doc_id[:3], **({"language": "de"} if doc_id in GERMAN else {})}
    return NewDocument(doc_id, title, None, fields, passages_of(*texts))


def random_document(doc_id: str, seed: int) -> NewDocument:
    """A document of random words; every seventh has the text of another, so that scores are equal."""
    rng = np.random.default_rng(seed - 7 if seed % 7 == 0 and seed else seed)
    texts = []
    for _ in range(int(rng.integers(1, 5))):
        words = [str(rng.choice(WORDS)) for _ in range(int(rng.integers(5, 16)))]
        texts.append(" ".join([words[0].title(), *words[1:4]]) + ". " + " ".join([words[4].title(), *words[5:]]) + ".")
    return document(doc_id, f"{rng.choice(WORDS)} {rng.choice(WORDS)}".title(), *texts)


def base_documents() -> list[NewDocument]:
    """Documents that names lead to among random ones."""
    named = [document(doc_id, *texts) for doc_id, texts in NAMED.items()]
    random = [random_document(f"doc-{i}", i) for i in range(N_RANDOM)]
    step = len(random) // len(named)
    mixed: list[NewDocument] = []
    for i, each in enumerate(random):
        mixed.append(each)
        if i % step == 0 and named:
            mixed.append(named.pop(0))
    return mixed + named


def late_documents() -> list[NewDocument]:
    """New versions of some documents, and new ones."""
    return [random_document(doc_id, 100 + i) for i, doc_id in enumerate((*REPLACED, *ADDED))]


def common_settings(folder: Path, kind: str) -> CommonSettings:
    """What shards are made with: every row is looked at ("exact", "exact-4" in 4 bits), or they are sought by codes.

    "… with passages": passages, too, are sought by codes.
    """
    kind, _, of_passages = kind.partition(" with ")
    coded = not kind.startswith("exact")
    settings = dataclasses.replace(
        synthetic_settings(),
        store={"tokens": "all", "bits": 8 if kind == "exact" else 4},
        filter={"threshold": None, "keep_fraction": 0.6},
        build={"state": "building", "position": {}},
        ann={"kind": kind, "exact_below_rows": 0, "nlist": 4, "nprobe": 2} if coded else {},
    )
    path = folder / f"made-with-{kind}"
    with KBWriter.create(path, settings) as writer:
        writer.add(base_documents())
        writer.choose_indexed()
        writer.merge_all()
        if coded:
            writer.reindex(ReindexRequest(ann={}))
        writer.finish_build()
    common = common_settings_of(path).comparable()
    return with_passages(common, path) if of_passages else common


def with_passages(common: CommonSettings, path: Path) -> CommonSettings:
    """The same settings with an index of passages, trained on those of a knowledge base."""
    with KBReader.open(path) as reader:
        snapshot = reader.snapshot()
        vectors = snapshot.passage_vectors(np.arange(snapshot.n_passages))
    sample = np.random.default_rng(1).permutation(vectors)
    options = common.settings.ann_options
    trained = train_passage_quantiser(sample, len(sample), options, name="e" * 32, stage=lambda *_: None)
    assert trained is not None
    return common.with_passages(*trained)


@dataclass(frozen=True)
class World:
    """One knowledge base that was changed, and the settings to make shards with."""

    folder: Path
    common: CommonSettings

    @property
    def one(self) -> Path:
        """The knowledge base that holds everything."""
        return self.folder / "one"

    def write_one(self) -> None:
        """Make it: documents and names, then other names, new versions and deletions."""
        with create_with(self.one, self.common) as writer:
            writer.add(base_documents())
            writer.add_aliases(list(BASE_ALIASES))
            writer.add(late_documents())
            writer.add_aliases(list(LATE_ALIASES))
            writer.delete(list(DELETED))

    def _first_ids(self) -> dict[int, FirstIds]:
        """The first ids of each document in it, dead or not, by document id."""
        with KBReader.open(self.one) as reader:
            snapshot = reader.snapshot()
        found: dict[int, FirstIds] = {}
        for number, document_id in enumerate(snapshot.document_ids.tolist()):
            token = int(snapshot.first_token_ids[number])
            found.setdefault(document_id, FirstIds(document_id, int(snapshot.passage_ids[number]), token))
        return found

    def write_shards(self, n: int, *, compacted: Sequence[int] = ()) -> list[ShardDirectory]:
        """Make the same of n shards, a later addition with what it replaces, and names given since.

        Args:
            n: how many shards there were at first.
            compacted: numbers of shards whose dead documents are forgotten.
        """
        first = self._first_ids()
        base = base_documents()
        ids = {each.doc_id: i + 1 for i, each in enumerate(base)}
        cuts = np.linspace(0, len(base), n + 1).astype(int).tolist()
        dead = {ids[doc_id] for doc_id in (*REPLACED, *DELETED)}
        late = tuple(
            NameChange(ids[doc_id], each.alias, each.source, each.uses, each.prior) for doc_id, each in LATE_ALIASES
        )
        directories = []
        for number, (begin, stop) in enumerate(itertools.pairwise(cuts)):
            path = self.folder / f"shard-{n}-{number}-{'-'.join(map(str, compacted))}"
            if path.exists():
                shutil.rmtree(path)
            own = base[begin:stop]
            names = {each.doc_id for each in own}
            with create_with(path, self.common, first=first[begin + 1]) as writer:
                writer.add(own)
                if own_aliases := [each for each in BASE_ALIASES if each[0] in names]:
                    writer.add_aliases(own_aliases)
                gone = [each.doc_id for each in own if ids[each.doc_id] in dead]
                if number in compacted and gone:
                    writer.delete(gone)
                    writer.compact()
            range_of = range(begin + 1, stop + 1)
            tombstones = () if number in compacted else tuple(sorted(dead & set(range_of)))
            own_names = tuple(each for each in late if each.document_id in range_of)
            directories.append(ShardDirectory(path, tombstones, own_names))
        path = self.folder / f"addition-{n}-{'-'.join(map(str, compacted))}"
        with create_with(path, self.common, first=first[len(base) + 1]) as writer:
            writer.add(late_documents())
        # A new version keeps the names that people gave the one before.
        heirs = {doc_id: len(base) + 1 + i for i, doc_id in enumerate(REPLACED)}
        inherited = tuple(
            NameChange(heirs[doc_id], each.alias, each.source, each.uses, each.prior)
            for doc_id, each in BASE_ALIASES
            if doc_id in heirs
        )
        return [*directories, ShardDirectory(path, names=inherited)]

    def shards(self, n: int, *, compacted: Sequence[int] = ()) -> ShardDirectories:
        """Make and open n shards and the addition."""
        return ShardDirectories(self.write_shards(n, compacted=compacted), 7)
