"""Phrase dumps, as synthetic files of exactly the published layout, become knowledge bases that can be searched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kbengine.densephrases.checkpoint import import_checkpoint
from kbengine.densephrases.document import DumpDocument, TokenCounts, dump_passages
from kbengine.densephrases.dump_import import DumpSource, check_encoder, import_dump
from kbengine.densephrases.metadata import read_metadata
from kbengine.densephrases.phrase_dump import DumpPosition, dump_files, read_dump
from kbengine.densephrases.phrase_index import StoredVectors, index_files, read_index, read_places
from kbengine.encoders.encoder import Encoder, PassageText
from kbengine.errors import (
    CorpusError,
    CorruptError,
    EncoderMismatchError,
    InvalidOptionError,
    KnowledgeBaseExistsError,
)
from kbengine.inputs import Question
from kbengine.knowledge_base import KnowledgeBase
from kbengine.search.query import Query, Weights
from storage.reader import KBReader
from tests.kbengine.densephrases.published import (
    PublishedDocument,
    kept_tokens_of,
    published_document,
    published_tensors,
    quantised,
    write_base,
    write_checkpoint_folder,
    write_index,
    write_metadata,
    write_phrase_dump,
)
from tests.tiny_encoder import SENTENCES

LONG = " ".join(SENTENCES)
ARTICLES = {
    "1": ("Amazon", SENTENCES[:2]),
    "7": ("Curie", (SENTENCES[2], LONG, SENTENCES[3])),
    "10": ("Capitals", (SENTENCES[6], "é", SENTENCES[5])),
    "2001": ("Water", (SENTENCES[9],)),
}
PHRASES = Weights(phrase=1.0, passage=0.0, lexical=0.0)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """A published checkpoint, imported."""
    folder = tmp_path_factory.mktemp("models")
    checkpoint = write_checkpoint_folder(folder / "checkpoint", published_tensors())
    import_checkpoint(checkpoint, folder / "model", base=write_base(folder / "base"), dtype="float32")
    return Encoder.load(folder / "model", device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def documents(encoder: Encoder) -> list[PublishedDocument]:
    """The articles, long paragraphs in windows that overlap by eight tokens."""
    return [published_document(encoder, key, *article, window=40) for key, article in ARTICLES.items()]


@pytest.fixture(scope="module")
def dump(documents: list[PublishedDocument], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Their dump folder: two files, named by ranges of articles, half of the tokens kept."""
    folder = tmp_path_factory.mktemp("dump")
    write_phrase_dump(folder / "phrase" / "0-2.hdf5", documents[:3], threshold=0.0)
    write_phrase_dump(folder / "phrase" / "2-11.hdf5", documents[3:], threshold=0.0)
    return folder


def test_the_dump_is_read_as_it_was_written(dump: Path, documents: list[PublishedDocument]) -> None:
    """Texts, places, kept tokens; vectors within half a step of int8; files in the order of their numbers."""
    by_key = {document.key: document for document in documents}
    read = [document for document, _ in read_dump(dump_files(dump))]
    assert [document.key for document in read] == ["1", "10", "7", "2001"]
    for document in read:
        written = by_key[document.key]
        kept = kept_tokens_of(written, 0.0)
        assert (document.title, document.context) == (written.title, written.context)
        np.testing.assert_array_equal(document.kept, kept)
        np.testing.assert_array_equal(document.starts, written.starts)
        np.testing.assert_allclose(document.vectors, written.vectors[kept], atol=0.0251)


def test_reading_goes_on_at_any_position(dump: Path) -> None:
    """The position after a document is where the rest begins."""
    files = dump_files(dump)
    everything = list(read_dump(files))
    for i, (_, position) in enumerate(everything):
        rest = [document.key for document, _ in read_dump(files, position)]
        assert rest == [document.key for document, _ in everything[i + 1 :]]
    assert [p for _, p in everything] == [(0, 1), (0, 2), (0, 3), (1, 1)] and DumpPosition(1, 1) == (1, 1)


@pytest.mark.parametrize(("overlap", "told"), [(0, True), (1, True), (8, True), (15, True), (8, False), (15, False)])
def test_every_token_comes_out_once(encoder: Encoder, overlap: int, told: bool) -> None:
    """Whatever the windows share, and whether or not the dump tells where they end; passages stay apart."""
    document = published_document(encoder, "7", *ARTICLES["7"], window=31, overlap=overlap)
    counts = TokenCounts()
    passages = dump_passages(as_read(document, told=told), counts)
    assert [passage.text for passage in passages] == list(ARTICLES["7"][1])
    for passage in passages:
        own = encoder.encode_passages([PassageText("Curie", passage.text)])[0]
        n = len(own.starts)
        np.testing.assert_array_equal(passage.ordinals, np.arange(n))
        np.testing.assert_array_equal(passage.starts, own.starts)
        np.testing.assert_array_equal(passage.ends, own.ends)
        assert passage.n_tokens == n
        # Within a quarter of the overlap's noise: each vector is that of one of the token's own windows.
        np.testing.assert_allclose(document.vectors[passage.rows], own.vectors, atol=0.051)
    assert counts.repeated == len(document.starts) - sum(passage.n_tokens for passage in passages)
    assert counts.misplaced == 0 and counts.left_out == counts.repeated


@pytest.mark.parametrize("told", [True, False])
def test_rough_places_change_nothing(encoder: Encoder, told: bool) -> None:
    """The original's places of later pieces are those of the whole word; each piece is still there once."""
    text = "Amazonia radioactivity broadleaf basins rivers chemists authors houses governments " * 8
    document = published_document(encoder, "7", "Curie", (text.strip(),), window=50, overlap=9, rough=True)
    passage = dump_passages(as_read(document, told=told), TokenCounts())[0]
    own = encoder.encode_passages([PassageText("Curie", text.strip())])[0]
    assert passage.n_tokens == len(own.starts)
    np.testing.assert_allclose(document.vectors[passage.rows], own.vectors, atol=0.051)
    words = {text[start:end] for start, end in zip(passage.starts, passage.ends, strict=True)}
    assert "Amazonia" in words and "governments" in words


def test_common_tokens_come_half_from_each_window(encoder: Encoder) -> None:
    """The first half of the overlap is more central in the window before, the second in the window after."""
    document = published_document(encoder, "7", "Curie", (LONG,), window=40, overlap=8)
    passage = dump_passages(as_read(document), TokenCounts())[0]
    own = encoder.encode_passages([PassageText("Curie", LONG)])[0].vectors
    is_second = np.abs(document.vectors[passage.rows] - own).max(axis=1) > 0.01
    assert is_second.tolist() == [i >= 36 for i in range(len(own))]


def test_tokens_without_a_place_are_left_out_and_counted(encoder: Encoder) -> None:
    """Offsets that run over their paragraph, or end before they begin."""
    document = as_read(published_document(encoder, "1", *ARTICLES["1"]))
    starts, ends = document.starts.copy(), document.ends.copy()
    ends[0] = len(SENTENCES[0]) + 3
    ends[5] = starts[5]
    counts = TokenCounts()
    passages = dump_passages(replace(document, starts=starts, ends=ends), counts)
    n = len(document.starts)
    assert (counts.misplaced, counts.kept, counts.left_out) == (2, n - 2, 2)
    assert sum(passage.n_tokens for passage in passages) == n - 2


def as_read(document: PublishedDocument, *, told: bool = True) -> DumpDocument:
    """Return the document as the dump reader gives it, every token kept."""
    kept = np.arange(len(document.starts), dtype=np.int64)
    lengths = document.window_lengths if told else None
    return DumpDocument(
        document.key, document.title, document.context, document.starts, document.ends, kept, document.vectors, lengths
    )


def test_an_imported_dump_is_searched_with_the_imported_queries(dump: Path, encoder: Encoder, tmp_path: Path) -> None:
    """The best phrase is that of trying all phrases of the dump's own vectors; text, title and place are right."""
    report = import_dump(DumpSource(dump), tmp_path / "kb", encoder=encoder)
    assert (report.documents, report.passages) == (4, 9) and report.counts.misplaced == 0
    assert report.cosine is not None and report.cosine > 0.98
    texts = ["Which river?", "Who was she?", "capital of Japan", "water"]
    vectors = encoder.encode_queries([Question(text) for text in texts])
    passages = [
        (document, passage)
        for document, _ in read_dump(dump_files(dump))
        for passage in dump_passages(document, TokenCounts())
    ]
    with KnowledgeBase.open(tmp_path / "kb", encoder) as kb:
        queries = [Query(Question(text), weights=PHRASES) for text in texts]
        results = kb.search(queries, k=1, effort="exact")
        found = kb.search(Query.question("light travels faster than sound"), k=1, weights=Weights(0, 0, 1))
    assert found.hits[0].document.doc_id in ("2001", "7")
    for i, result in enumerate(results):
        hit = result.hits[0]
        scores = {}
        for document, passage in passages:
            own = document.vectors[passage.rows]
            start, end = own @ vectors.start[i], own @ vectors.end[i]
            for a in range(len(own)):
                for b in range(a, len(own)):
                    if passage.ordinals[b] - passage.ordinals[a] < encoder.max_phrase_tokens:
                        place = (document.key, passage.ordinal, int(passage.starts[a]), int(passage.ends[b]))
                        scores[place] = float(start[a] + end[b])
        got = (hit.document.doc_id, hit.passage.ordinal, hit.phrase.start, hit.phrase.end)
        # Stored with other int8 steps than the dump's, so that near ties may change places.
        assert scores[got] == pytest.approx(max(scores.values()), abs=0.15)
        assert hit.score == pytest.approx(scores[got], abs=0.15)
        assert hit.document.title == ARTICLES[hit.document.doc_id][0]
        assert hit.passage.text == ARTICLES[hit.document.doc_id][1][hit.passage.ordinal - 1]


def test_filter_logits_come_from_the_head(dump: Path, encoder: Encoder, tmp_path: Path) -> None:
    """So that the knowledge base can be thinned later, though the phrase dump does not hold them."""
    import_dump(DumpSource(dump / "phrase" / "2-11.hdf5"), tmp_path / "kb", encoder=encoder)
    own = encoder.encode_passages([PassageText("Water", SENTENCES[9])])[0].filter_logits
    with KBReader.open(tmp_path / "kb") as reader:
        snapshot = reader.snapshot()
        rows = np.arange(snapshot.n_rows)
        kept = snapshot.token_ordinals(rows).astype(int)
        np.testing.assert_allclose(snapshot.best_logits(rows), own[kept].max(axis=1), atol=0.2)


def test_an_interrupted_import_goes_on(dump: Path, encoder: Encoder, tmp_path: Path, monkeypatch) -> None:
    """Stopped between two commits: the same call goes on, another one is refused; the result is the same."""
    import_dump(DumpSource(dump), tmp_path / "straight", encoder=encoder)
    monkeypatch.setattr("kbengine.densephrases.dump_import.CHUNK_PASSAGES", 1)

    class Stop:
        def begin(self, what: str, total: float | None, unit: str) -> None:
            self.n = 0

        def advance(self, amount: float, note: str = "") -> None:
            self.n += 1
            if self.n == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_dump(DumpSource(dump), tmp_path / "kb", encoder=encoder, progress=Stop())
    with pytest.raises(InvalidOptionError, match="was begun with"):
        import_dump(DumpSource(dump / "phrase"), tmp_path / "kb", encoder=encoder)
    report = import_dump(DumpSource(dump), tmp_path / "kb", encoder=encoder)
    assert report.resumed and report.documents < 4
    with pytest.raises(KnowledgeBaseExistsError):
        import_dump(DumpSource(dump), tmp_path / "kb", encoder=encoder)
    sizes = []
    for name in ("straight", "kb"):
        with KBReader.open(tmp_path / name) as reader:
            info = reader.info()
            sizes.append((info.documents, info.passages, info.tokens_stored, info.tokens_total))
    assert sizes[0] == sizes[1]


def test_a_wrong_encoder_is_found_out(dump: Path, encoder: Encoder, tmp_path: Path) -> None:
    """Other weights, other dimensions: nothing is made."""
    base = write_base(tmp_path / "base")
    folder = write_checkpoint_folder(tmp_path / "c", published_tensors(seed=9))
    import_checkpoint(folder, tmp_path / "other", base=base)
    other = Encoder.load(tmp_path / "other", device="cpu", dtype="float32")
    with pytest.raises(EncoderMismatchError, match="mean cosine"):
        import_dump(DumpSource(dump), tmp_path / "kb", encoder=other)
    wide_base = write_base(tmp_path / "wide-base", hidden=64)
    wide = write_checkpoint_folder(tmp_path / "w", published_tensors(hidden=64))
    import_checkpoint(wide, tmp_path / "wide", base=wide_base)
    with pytest.raises(EncoderMismatchError, match="32 dimensions"):
        import_dump(DumpSource(dump), tmp_path / "kb", encoder=Encoder.load(tmp_path / "wide", device="cpu"))
    assert not (tmp_path / "kb").exists()
    assert check_encoder([as_read(published_document(encoder, "1", "T", (SENTENCES[0],)))], encoder) > 0.999


def test_what_is_no_dump_is_named(tmp_path: Path, encoder: Encoder, documents: list[PublishedDocument]) -> None:
    """Nothing there, no HDF5, a field missing, fields that contradict each other."""
    import h5py

    with pytest.raises(CorpusError, match=r"phrase/\*\.hdf5"):
        dump_files(tmp_path)
    (tmp_path / "bad.hdf5").write_bytes(b"not HDF5")
    with pytest.raises(CorruptError, match=r"bad\.hdf5"):
        list(read_dump([tmp_path / "bad.hdf5"]))
    for change in ("missing", "kept", "ends"):
        path = write_phrase_dump(tmp_path / f"{change}.hdf5", documents[:1])
        with h5py.File(path, "a") as file:
            if change == "missing":
                del file["1"]["f2o_start"]
            elif change == "kept":
                file["1"]["f2o_start"][-1] = 10_000
            else:
                del file["1"]["word2char_end"]
                file["1"]["word2char_end"] = np.zeros(3, np.int32)
        with pytest.raises(CorruptError, match="document 1"):
            list(read_dump([path]))
    with h5py.File(tmp_path / "empty.hdf5", "w"):
        pass
    with pytest.raises(CorpusError, match="no document"):
        import_dump(DumpSource(tmp_path / "empty.hdf5"), tmp_path / "kb", encoder=encoder)
    with pytest.raises(InvalidOptionError):
        DumpSource()


@pytest.fixture(scope="module")
def published_index(encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A download: `dump/start/NAME` with index and places, `dump/meta_compressed.pkl`; and the dump it was made of."""
    folder = tmp_path_factory.mktemp("published")
    many = [
        published_document(encoder, str(key), f"Page {key}", (LONG, SENTENCES[key % 10]), window=60) for key in range(8)
    ]
    dump = write_phrase_dump(folder / "made-of" / "0-1.hdf5", many, threshold=0.0)
    write_index(folder / "dump" / "start" / "4_flat_OPQ16", dump)
    write_metadata(folder / "dump" / "meta_compressed.pkl", dump)
    return folder


def test_a_published_index_gives_the_vectors_in_their_own_basis(published_index: Path) -> None:
    """Un-rotated exactly once: cosine near 1 with what was indexed, document by document."""
    files = index_files(published_index / "dump" / "start" / "4_flat_OPQ16")
    original = {document.key: document for document, _ in read_dump([published_index / "made-of" / "0-1.hdf5"])}
    read = list(read_index(files))
    assert [document.key for document in read] == sorted(original)
    for document in read:
        wanted = original[document.key]
        assert (document.title, document.context) == (wanted.title, wanted.context)
        np.testing.assert_array_equal(document.kept, wanted.kept)
        np.testing.assert_array_equal(document.starts, wanted.starts)
        norms = np.linalg.norm(document.vectors, axis=1) * np.linalg.norm(wanted.vectors, axis=1)
        cosines = (document.vectors * wanted.vectors).sum(axis=1) / norms
        assert cosines.mean() > 0.95 and cosines.min() > 0.7


def test_a_published_index_becomes_a_knowledge_base(published_index: Path, encoder: Encoder, tmp_path: Path) -> None:
    """Searching it finds phrases of the right texts; every passage has its own tokens."""
    source = DumpSource(index=published_index / "dump" / "start" / "4_flat_OPQ16")
    report = import_dump(source, tmp_path / "kb", encoder=encoder)
    assert (report.documents, report.passages) == (8, 16) and report.counts.repeated > 0
    with KnowledgeBase.open(tmp_path / "kb", encoder) as kb:
        hit = kb.search(Query(Question("Which river?"), weights=PHRASES), k=1).hits[0]
    assert hit.document.title == f"Page {hit.document.doc_id}" and hit.phrase_text in hit.passage.text


def test_ids_count_from_the_offset_of_their_group(published_index: Path, tmp_path: Path) -> None:
    """Groups of idx2id are named by the first id of their vectors."""
    dump = published_index / "made-of" / "0-1.hdf5"
    folder = write_index(tmp_path / "index", dump, offset=100_000_000)
    original = {document.key: document for document, _ in read_dump([dump])}
    ids, words = read_places(folder / "idx2id.hdf5").of(3)
    assert int(ids[0]) >= 100_000_000 and words.tolist() == list(range(len(original["3"].kept)))
    vectors = StoredVectors(folder / "index.faiss").vectors(ids)
    assert np.abs(vectors - original["3"].vectors).mean() < 0.3
    with pytest.raises(CorruptError, match="no vector"):
        StoredVectors(folder / "index.faiss").vectors(np.array([5]))
    assert read_places(folder / "idx2id.hdf5").of(77)[0].tolist() == []


def test_a_flat_index_gives_the_vectors_exactly(published_index: Path, tmp_path: Path) -> None:
    """Without a quantiser nothing is lost."""
    dump = published_index / "made-of" / "0-1.hdf5"
    folder = write_index(tmp_path / "index", dump, kind="none")
    files = index_files(folder, published_index / "dump" / "meta_compressed.pkl")
    original = {document.key: document for document, _ in read_dump([dump])}
    for document in read_index(files):
        np.testing.assert_allclose(document.vectors, original[document.key].vectors, atol=1e-6)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_metadata_is_read_whatever_the_pickle_protocol(published_index: Path, tmp_path: Path, protocol: int) -> None:
    """Also when only few objects are remembered, as in a file of many gigabytes."""
    dump = published_index / "made-of" / "0-1.hdf5"
    path = write_metadata(tmp_path / "meta.pkl", dump, protocol=protocol)
    original = {document.key: document for document, _ in read_dump([dump])}
    if protocol == 2:  # bytes are then calls of a codec, which is refused like any other call
        with pytest.raises(CorruptError, match=r"_codecs\.encode|a call of"):
            list(read_metadata(path))
        return
    read = list(read_metadata(path))
    assert len(read) == len(original)
    for entry in read:
        np.testing.assert_array_equal(entry.starts, original[entry.key].starts)
        np.testing.assert_array_equal(entry.ends, original[entry.key].ends)
        np.testing.assert_array_equal(entry.kept, original[entry.key].kept)
        assert (entry.title, entry.context) == (original[entry.key].title, original[entry.key].context)


def test_little_is_remembered_of_a_large_file(published_index: Path, tmp_path: Path, monkeypatch) -> None:
    """Entries share the names of their fields, which come first; the rest need not be kept."""
    path = write_metadata(tmp_path / "meta.pkl", published_index / "made-of" / "0-1.hdf5")
    expected = [entry.key for entry in read_metadata(path)]
    monkeypatch.setattr("kbengine.densephrases.metadata._REMEMBERED", 30)
    assert [entry.key for entry in read_metadata(path)] == expected


class Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def test_metadata_that_would_run_code_is_refused(tmp_path: Path) -> None:
    """Nothing is imported, nothing is called; damaged files are named."""
    import pickle  # noqa: TID251  # to make what must not be unpickled

    path = tmp_path / "meta.pkl"
    for value in ({"1": Touch(tmp_path / "touched")}, {"1": {"title": np.zeros(3)}}, [1, 2]):
        path.write_bytes(pickle.dumps(value, protocol=4))
        with pytest.raises(CorruptError):
            list(read_metadata(path))
    assert not (tmp_path / "touched").exists()
    path.write_bytes(pickle.dumps({"1": {"title": "x"}})[:-5])
    with pytest.raises(CorruptError):
        list(read_metadata(path))
    with pytest.raises(CorpusError):
        list(read_metadata(tmp_path / "nothing.pkl"))


def test_files_of_two_indexes_are_found_out(
    published_index: Path, documents: list[PublishedDocument], tmp_path: Path
) -> None:
    """Places beyond the metadata's words; a file that is not there."""
    other = write_phrase_dump(tmp_path / "other.hdf5", [replace(documents[0], key="0")], threshold=3.0)
    metadata = write_metadata(tmp_path / "meta.pkl", other)
    folder = published_index / "dump" / "start" / "4_flat_OPQ16"
    with pytest.raises(CorruptError, match="of one index"):
        list(read_index(index_files(folder, metadata)))
    with pytest.raises(CorpusError, match=r"meta_compressed\.pkl"):
        index_files(write_index(tmp_path / "deep" / "deeper" / "deepest" / "index", other, kind="none"))
    assert quantised(np.array([9.0, -9.0, 0.0], np.float32)).tolist() == [127, -128, 40]
