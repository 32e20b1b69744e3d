"""A search beside DensePhrases' own search code, on the same vectors, cores, queries and batches; encoding in neither.

Run: python -m benchmarks.beside_densephrases --kb DIR --checkout DIR --scratch DIR --queries FILE.jsonl[.gz] …

To fetch: a checkout of github.com/princeton-nlp/DensePhrases (commit 9583883), and beside this interpreter's packages
`pip install --no-deps h5py blosc tqdm ujson`. None of its code is here. Its index is made by its own functions
(`build_phrase_index.py`: OPQ and IVF) of the vectors that the knowledge base indexes, rounded as it rounds them; its
metadata lie in memory, as it wants for such an index. SpaCy, which it loads for sentences that nobody asks for here, is
stood in for, and so are its encoder's modules.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measurement import write_result
from benchmarks.query_latency import Config as QueryConfig
from benchmarks.query_latency import read_queries
from benchmarks.stored_pages import Vectors, chosen, chunks
from kbengine.terminal.threads import set_thread_defaults

OFFSET, SCALE = -2, 20  # how it rounds vectors to int8; its search has these numbers in its code
SEPARATOR = " [PAR] "
BATCH = 64
N_TOKENS = 100
RECALL_QUERIES = 50
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Config:
    """What is measured.

    Attributes:
        kb: the knowledge base.
        checkout: of DensePhrases.
        scratch: a folder for its dump and its index.
        queries: KILT files.
        clusters: lists of its index, of which it looks into 256 whatever their number.
        code: `OPQ` and the bytes of a vector; its own choice is OPQ96.
        rounds: turns of batches.
    """

    kb: Path
    checkout: Path
    scratch: Path
    queries: tuple[Path, ...]
    clusters: int = 4096
    code: str = "OPQ96"
    rounds: int = 3

    @property
    def phrases(self) -> Path:
        """The folder of the vectors."""
        return self.scratch / "dump" / "phrase"

    @property
    def index(self) -> Path:
        """The folder of the index; its code looks for `PQ` in the path."""
        return self.scratch / f"{self.clusters}_flat_{self.code}"


def stand_in(checkout: Path) -> None:
    """Let its modules be imported one by one, without its encoder and without spaCy."""

    class English:
        def add_pipe(self, _pipe: object) -> None: ...

        def create_pipe(self, _name: str) -> None: ...

    package = types.ModuleType("densephrases")
    package.__path__ = [str(checkout / "densephrases")]
    package.Options = object  # type: ignore[attr-defined]
    embedding = types.ModuleType("densephrases.utils.embed_utils")
    embedding.int8_to_float = lambda codes, offset, scale: codes.astype(np.float32) / scale + offset  # type: ignore[attr-defined]
    spacy = types.ModuleType("spacy.lang.en")
    spacy.English = English  # type: ignore[attr-defined]
    sys.modules |= {
        "densephrases": package,
        "densephrases.utils.embed_utils": embedding,
        "spacy": types.ModuleType("spacy"),
        "spacy.lang": types.ModuleType("spacy.lang"),
        "spacy.lang.en": spacy,
    }


def loaded(path: Path, name: str) -> Any:
    """Return a file of its as a module."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def dump(config: Config) -> None:
    """Write what its encoder would have written: vectors by page, where words are, texts; and its metadata file."""
    import pickle  # noqa: TID251  # what its own code reads; made here and read by nobody else

    import blosc
    import h5py

    from storage.reader import KBReader

    config.phrases.mkdir(parents=True)
    metadata = {}
    with KBReader.open(config.kb) as reader, h5py.File(config.phrases / "0-1000.hdf5", "w") as file:
        threshold = reader.settings.indexed_from
        vectors = Vectors(reader.snapshot(), -np.inf)
        pages = (page for chunk in chunks(chosen(reader, None)) for page in [chunk])
        number = 0
        for chunk in pages:
            passages = [passage for _, own, _ in chunk for passage in own]
            counts, arrays = vectors.of(passages, indexed_only=False)
            all_vectors, starts, ends, logits = arrays[0], arrays[2], arrays[3], arrays[4]
            at = place = 0
            for document, own, _ in chunk:
                texts, word_starts, word_ends, kept = [], [], [], []
                begin, words, first = 0, 0, at
                for passage in own:
                    rows = slice(at, at + counts[place])
                    word_starts.append(starts[rows] + begin)
                    word_ends.append(ends[rows] + begin)
                    keep = logits[rows] >= (-np.inf if threshold is None else threshold)
                    kept.append(words + np.flatnonzero(keep))
                    texts.append(passage.text)
                    begin += len(passage.text) + len(SEPARATOR)
                    words += counts[place]
                    at, place = rows.stop, place + 1
                original = np.concatenate(kept).astype(np.int32)
                codes = np.clip(np.round((all_vectors[first + original] - OFFSET) * SCALE), -128, 127).astype(np.int8)
                group = file.create_group(str(number))
                group.create_dataset("start", data=codes)
                group.attrs["offset"], group.attrs["scale"] = OFFSET, SCALE
                columns = {
                    "word2char_start": np.concatenate(word_starts).astype(np.int32),
                    "word2char_end": np.concatenate(word_ends).astype(np.int32),
                    "f2o_start": original,
                }
                packed = {name: blosc.compress(values, typesize=1, cname="zlib") for name, values in columns.items()}
                metadata[str(number)] = {
                    **packed,
                    "context": blosc.compress(SEPARATOR.join(texts).encode(), cname="zlib"),
                    "title": document.title,
                    "dtypes": {name: values.dtype for name, values in columns.items()},
                }
                number += 1
    with (config.scratch / "dump" / "meta_compressed.pkl").open("wb") as out:
        pickle.dump(metadata, out)


def make_index(config: Config) -> None:
    """Train and fill its index by its own functions, with its own shares of the vectors to train on."""
    builder = loaded(config.checkout / "build_phrase_index.py", "build_phrase_index")
    config.index.mkdir(parents=True, exist_ok=True)
    dumps = [str(config.phrases / "0-1000.hdf5")]
    trained = str(config.index / "trained.faiss")
    if not Path(trained).exists():
        sample, _, _ = builder.sample_data(dumps, doc_sample_ratio=0.5, vec_sample_ratio=0.4)
        builder.train_index(sample, None, trained, config.clusters, fine_quant=config.code)
    builder.add_to_index(
        dumps, trained, str(config.index / "index.faiss"), str(config.index / "idx2id.hdf5"), fine_quant=config.code
    )


def theirs(config: Config) -> Any:
    """Return its search, opened."""
    module = loaded(config.checkout / "densephrases" / "index.py", "densephrases.index")
    return module.MIPS(
        str(config.phrases), str(config.index / "index.faiss"), str(config.index / "idx2id.hdf5"), logging_level=30
    )


def exact_rows(config: Config, vectors: Array) -> Array:
    """Return the 100 best rows of each vector among those that its index holds, int64 (n, 100)."""
    import h5py

    scores: list[Array] = []
    with h5py.File(config.phrases / "0-1000.hdf5", "r") as file:
        for key in file:  # in the order in which its index was filled
            codes = file[key]["start"][:]
            scores.append(vectors @ (codes.astype(np.float32) / SCALE + OFFSET).T)
    return np.argpartition(-np.concatenate(scores, axis=1), N_TOKENS, axis=1)[:, :N_TOKENS]


def recall(found: Array, wanted: Array) -> float:
    """Return the share of the wanted rows that were found."""
    return round(float(np.mean([len(np.intersect1d(a, b)) / N_TOKENS for a, b in zip(found, wanted, strict=True)])), 4)


def timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return what a call gives, and its milliseconds by the clock and of the processor."""
    began, worked = time.perf_counter(), time.process_time()
    given = call()
    return given, (time.perf_counter() - began) * 1e3, (time.process_time() - worked) * 1e3


def measure(config: Config) -> dict[str, Any]:
    """Return the figures of both, asked by turns."""
    from benchmarks.token_search import recall as own_recall
    from kbengine.knowledge_base import KnowledgeBase

    search = theirs(config)
    asked = read_queries(QueryConfig(kb=config.kb, queries=config.queries, n_queries=(config.rounds + 2) * BATCH))
    with KnowledgeBase.open(config.kb) as knowledge_base:
        encoded = knowledge_base.encoder_for().encode_queries([query.input for query in asked], truncate=True)
        vectors = np.concatenate([encoded.start, encoded.end], axis=1)
        some = np.concatenate([encoded.start[:RECALL_QUERIES], encoded.end[:RECALL_QUERIES]])
        recalls = {
            "densephrases": recall(search.index.search(some, N_TOKENS)[1], exact_rows(config, some)),
            "kbengine": own_recall(knowledge_base.reader.snapshot(), some),
        }

        def of_theirs(places: range, top_k: int) -> tuple[float, float]:
            texts = [asked[i].input for i in places]
            _, clock, processor = timed(
                lambda: search.search(vectors[places.start : places.stop], texts, top_k=top_k, aggregate=True)
            )
            return clock / len(places), processor / len(places)

        def of_ours(places: range, strategy: str) -> tuple[float, float]:
            batch = [asked[i] for i in places]
            found, clock, processor = timed(
                lambda: knowledge_base.search(batch, k=10, truncate=True, read=0, strategy=strategy)
            )
            encoding = found[0].timings_ms["encode"]
            # Processor time of encoding is not told apart: its clock stands for it, which favours the other side.
            return (clock - encoding) / len(places), (processor - encoding) / len(places)

        ways: dict[str, Callable[[range], tuple[float, float]]] = {
            "densephrases, 100 tokens a query": lambda places: of_theirs(places, N_TOKENS),
            "densephrases, 10 tokens a query": lambda places: of_theirs(places, 10),
            "kbengine, phrases alone": lambda places: of_ours(places, "dense"),
            "kbengine, all signals": lambda places: of_ours(places, "hybrid"),
        }
        times: dict[str, dict[str, list[tuple[float, float]]]] = {name: {"single": [], "batch": []} for name in ways}
        for way in ways.values():  # warm-up
            way(range(BATCH))
            for i in range(BATCH, BATCH + 16):
                way(range(i, i + 1))
        for turn in range(config.rounds):
            first = (turn + 2) * BATCH
            for name, way in ways.items():
                times[name]["batch"].append(way(range(first, first + BATCH)))
                times[name]["single"] += [way(range(i, i + 1)) for i in range(first, first + 16)]
        info = knowledge_base.info()
    figures = {
        name: {
            f"{kind}_{unit}": round(float(np.median([each[column] for each in values])), 2)
            for kind, values in by_kind.items()
            for column, unit in enumerate(("ms", "processor_ms"))
        }
        for name, by_kind in times.items()
    }
    by_them, by_us = figures["densephrases, 100 tokens a query"], figures["kbengine, phrases alone"]
    return {
        "vectors": search.index.ntotal,
        "indexed_here": info.indexed_rows,
        "stored_here": info.tokens_stored,
        "clusters": config.clusters,
        "code": config.code,
        "recall_at_100": recalls,
        "ways": figures,
        "times_as_fast": {kind: round(by_them[f"{kind}_ms"] / by_us[f"{kind}_ms"], 2) for kind in ("single", "batch")},
    }


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kb", type=Path, required=True)
    parser.add_argument("--checkout", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--queries", type=Path, action="append", default=[])
    parser.add_argument("--clusters", type=int, default=Config.clusters)
    parser.add_argument("--code", default=Config.code)
    parser.add_argument("--rounds", type=int, default=Config.rounds)
    parser.add_argument("--make", action="store_true", help="make its index only")
    given = parser.parse_args()
    config = Config(
        given.kb,
        given.checkout.resolve(),
        given.scratch.resolve(),
        tuple(given.queries),
        given.clusters,
        given.code,
        given.rounds,
    )
    stand_in(config.checkout)
    if not (config.scratch / "dump" / "meta_compressed.pkl").exists():
        dump(config)
    if not (config.index / "index.faiss").exists():
        make_index(config)
    if given.make:
        return
    figures = {**measure(config), "load_average": os.getloadavg()}
    print(json.dumps(figures["times_as_fast"]))
    write_result("beside_densephrases", "50 times as fast as DensePhrases' own search of the same vectors", figures)


if __name__ == "__main__":
    set_thread_defaults()
    main()
