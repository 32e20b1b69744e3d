"""Synthetic files of exactly the layout that DensePhrases publishes, small enough for any test."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kbengine.encoders.encoder import Encoder, PassageText
from tests.tiny_encoder import SENTENCES

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_SIGNS = "[]|.,;:?!'\"()-é"
_WORDS = sorted({w for s in SENTENCES for w in "".join(c if c.isalnum() else " " for c in s).split() if len(w) > 1})
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *_LETTERS, *(f"##{c}" for c in _LETTERS), *_SIGNS, *_WORDS]
LAYERS = 2


def published_tensors(*, seed: int = 0, hidden: int = 32, heads: int = 4) -> dict[str, Tensor]:
    """Return the tensors of a checkpoint: three towers with poolers, and `filter_linear`."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return 0.2 * torch.randn(shape, generator=generator)

    tensors: dict[str, Tensor] = {}
    for tower in ("phrase_encoder", "query_start_encoder", "query_end_encoder"):
        embeddings = f"{tower}.embeddings"
        tensors[f"{embeddings}.word_embeddings.weight"] = normal(len(VOCABULARY), hidden)
        tensors[f"{embeddings}.position_embeddings.weight"] = normal(512, hidden)
        tensors[f"{embeddings}.token_type_embeddings.weight"] = normal(2, hidden)
        norms = [f"{embeddings}.LayerNorm"]
        linears = {f"{tower}.pooler.dense": (hidden, hidden)}
        for i in range(LAYERS):
            layer = f"{tower}.encoder.layer.{i}"
            linears |= {f"{layer}.attention.self.{part}": (hidden, hidden) for part in ("query", "key", "value")}
            linears |= {f"{layer}.attention.output.dense": (hidden, hidden)}
            linears |= {f"{layer}.intermediate.dense": (2 * hidden, hidden)}
            linears |= {f"{layer}.output.dense": (hidden, 2 * hidden)}
            norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
        for name, shape in linears.items():
            tensors[f"{name}.weight"], tensors[f"{name}.bias"] = normal(*shape), normal(shape[0])
        for name in norms:
            tensors[f"{name}.weight"], tensors[f"{name}.bias"] = 1 + normal(hidden), normal(hidden)
    tensors["filter_linear.weight"], tensors["filter_linear.bias"] = normal(2, hidden), normal(2)
    return tensors


def write_checkpoint_folder(folder: Path, tensors: dict[str, Tensor]) -> Path:
    """Return the folder, which then holds `pytorch_model.bin` alone, as the published ones do."""
    folder.mkdir()
    torch.save(tensors, folder / "pytorch_model.bin")
    return folder


def write_base(folder: Path, *, hidden: int = 32, heads: int = 4) -> Path:
    """Return the folder, which then holds what SpanBERT's has: `config.json` and a cased `vocab.txt`."""
    folder.mkdir()
    config = {
        "model_type": "bert",
        "hidden_size": hidden,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": heads,
        "intermediate_size": 2 * hidden,
        "vocab_size": len(VOCABULARY),
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    return folder


@dataclass(frozen=True, eq=False)
class PublishedDocument:
    """A document as DensePhrases has it: paragraphs, and the vectors of all tokens of all windows."""

    key: str
    title: str
    paragraphs: tuple[str, ...]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    vectors: NDArray[np.float32]
    filter_logits: NDArray[np.float32]
    window_lengths: NDArray[np.int64]

    @property
    def context(self) -> str:
        """Return the paragraphs as they are stored."""
        return " [PAR] ".join(self.paragraphs)


def published_document(
    encoder: Encoder,
    key: str,
    title: str,
    paragraphs: Sequence[str],
    *,
    window: int = 10**6,
    overlap: int = 8,
    rough: bool = False,
) -> PublishedDocument:
    """Return a document encoded as DensePhrases does: windows of a paragraph share `overlap` tokens, stored twice.

    The vectors of a token in two windows differ a little, as they do in the original. With `rough`, places are as the
    original finds them: later pieces of a word begin where it begins, and end (from the third on) where it ends.
    """
    starts, ends, vectors, logits, lengths = [], [], [], [], []
    begin = 0
    for text in paragraphs:
        own = encoder.encode_passages([PassageText(title, text)])[0]
        n = len(own.starts)
        places = (own.starts, own.ends) if not rough else rough_places(text, own.starts, own.ends)
        first = 0
        while True:
            last = min(n, first + window)
            noise = np.float32(0.05 * (first > 0))
            starts.append(places[0][first:last] + begin)
            ends.append(places[1][first:last] + begin)
            vectors.append(own.vectors[first:last] + noise)
            logits.append(own.filter_logits[first:last])
            lengths.append(last - first)
            if last == n:
                break
            first = last - overlap
        begin += len(text) + len(" [PAR] ")
    return PublishedDocument(
        key,
        title,
        tuple(paragraphs),
        np.concatenate(starts).astype(np.int32),
        np.concatenate(ends).astype(np.int32),
        np.concatenate(vectors),
        np.concatenate(logits),
        np.array(lengths, np.int64),
    )


def rough_places(
    text: str, starts: NDArray[np.int32], ends: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the places that DensePhrases finds for tokens: exact ones for a word's first pieces only."""
    rough_starts, rough_ends = starts.copy(), ends.copy()
    first = 0
    for i in range(len(starts)):
        if i and " " in text[starts[i - 1] : starts[i]]:
            first = i
        if i > first:
            rough_starts[i] = starts[first]
        if i > first + 1:
            rough_ends[i] = text.find(" ", starts[first]) if " " in text[starts[first] :] else len(text)
    return rough_starts, rough_ends


def kept_tokens_of(document: PublishedDocument, threshold: float) -> NDArray[np.int64]:
    """Return the tokens that DensePhrases keeps: those with a filter logit above the threshold, or else the first."""
    kept = np.flatnonzero((document.filter_logits > threshold).any(axis=1))
    return kept if len(kept) else np.zeros(1, np.int64)


def quantised(vectors: NDArray[np.float32]) -> NDArray[np.int8]:
    """Return the int8 codes: round(clip((x + 2)·20, −128, 127))."""
    return np.round(np.clip((vectors + 2) * 20, -128, 127)).astype(np.int8)


def write_phrase_dump(path: Path, documents: Sequence[PublishedDocument], *, threshold: float = -1e9) -> Path:
    """Return the HDF5 file, which then holds a group for each document."""
    import h5py

    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for document in documents:
            group = file.create_group(document.key)
            kept = kept_tokens_of(document, threshold)
            group.attrs["context"] = document.context
            group.attrs["title"] = document.title
            group.attrs["offset"], group.attrs["scale"] = -2.0, 20.0
            group.create_dataset("start", data=quantised(document.vectors[kept]))
            group.create_dataset("len_per_para", data=document.window_lengths)
            group.create_dataset("start2end", data=np.full((len(kept), 10), -1, np.int32))
            group.create_dataset("word2char_start", data=document.starts)
            group.create_dataset("word2char_end", data=document.ends)
            group.create_dataset("f2o_start", data=kept)
    return path


def write_metadata(path: Path, dump: Path, *, protocol: int = 3) -> Path:
    """Return `meta_compressed.pkl` of a dump file, made the way DensePhrases makes it."""
    import pickle  # noqa: TID251  # what is tested is reading such a file without it

    import blosc
    import h5py

    entries = {}
    with h5py.File(dump, "r") as file:
        for key in file:
            arrays = {name: file[key][name][:] for name in ("word2char_start", "word2char_end", "f2o_start")}
            entry = {name: blosc.compress(array, typesize=1, cname="zlib") for name, array in arrays.items()}
            entry["context"] = blosc.compress(file[key].attrs["context"].encode("utf-8"), cname="zlib")
            entry["title"] = file[key].attrs["title"]
            entry["dtypes"] = {name: array.dtype for name, array in arrays.items()}
            entries[key] = entry
    with path.open("wb") as out:
        pickle.dump(entries, out, protocol=protocol)
    return path


def write_index(folder: Path, dump: Path, *, kind: str = "OPQ", offset: int = 0) -> Path:
    """Return the index folder of a dump file: `index.faiss` (OPQ, or flat) and `idx2id.hdf5`."""
    import faiss
    import h5py

    folder.mkdir(parents=True)
    documents: list[int] = []
    words: list[int] = []
    vectors = []
    with h5py.File(dump, "r") as file:
        for key in file:
            codes = file[key]["start"][:]
            documents += [int(key)] * len(codes)
            words += range(len(codes))
            vectors.append(codes.astype(np.float32) / 20 - 2)
    stacked = np.concatenate(vectors)
    d = stacked.shape[1]
    if kind == "OPQ":
        quantizer = faiss.IndexFlatIP(d)
        inner = faiss.IndexIVFPQ(quantizer, d, 4, d // 2, 8, faiss.METRIC_INNER_PRODUCT)
        rotation = faiss.OPQMatrix(d, d // 2)
        rotation.niter = 3
        index = faiss.IndexPreTransform(rotation, inner)
        index.train(stacked)
        inner.make_direct_map()
        inner.set_direct_map_type(faiss.DirectMap.Hashtable)
        index.add_with_ids(stacked, np.arange(len(stacked), dtype=np.int64) + offset)
    else:
        index = faiss.IndexFlatIP(d)
        index.add(stacked)
    faiss.write_index(index, str(folder / "index.faiss"))
    with h5py.File(folder / "idx2id.hdf5", "w") as file:
        group = file.create_group(str(offset))
        group.create_dataset("doc", data=np.array(documents, np.int32))
        group.create_dataset("word", data=np.array(words, np.int32))
        group.attrs["offset"] = offset
    return folder
