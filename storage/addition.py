"""From new documents to what is stored of them: rows with their ids, and the arrays of one segment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.ann_codes import encode_rows
from storage.catalog import Generation
from storage.checksum import sealed
from storage.codes import covering_scale, quantise
from storage.errors import DuplicateDocumentError, InvalidOptionError
from storage.languages import language_of
from storage.postings import build_postings
from storage.quantiser import Quantiser
from storage.records import NewDocument, NewPassage, pack_offsets, to_json
from storage.segment import SegmentArrays
from storage.segment_arrays import narrow
from storage.settings import KBSettings
from storage.sparse_rows import SparseArrays, sparse_arrays
from storage.stored_code import MEASURED_ROWS, measure_stored_code

__all__ = [
    "Batch",
    "SideBySide",
    "PlacedPassage",
    "check_documents",
    "common_scales",
    "measured_code",
    "prepare_batch",
    "segment_arrays",
]

# Few vectors say little about the largest component to come; a larger common scale costs next to no precision.
_SAMPLE_ROWS = 1_000
_HEADROOM = 1.25


@dataclass(frozen=True)
class PlacedPassage:
    """A new passage with the ids it gets, and what it has of its document.

    `token_numbers` None: 0, 1, 2, …, see `SegmentArrays`.
    """

    passage: NewPassage
    passage_id: int
    document_id: int
    first_token_id: int
    title: str
    language: str
    token_numbers: NDArray[np.uint32] | None = None


@dataclass(frozen=True)
class Batch:
    """What one add stores.

    Attributes:
        documents: Rows of table documents.
        passages: Rows of table passages.
        full_text: (passage_id, title, text) for the FTS5 table.
        placed: The passages with their ids, for `segment_arrays`.
        after: The ids that the next commit will allot; its number is this commit's.
    """

    documents: list[dict[str, Any]]
    passages: list[dict[str, Any]]
    full_text: list[tuple[int, str, str]]
    placed: list[PlacedPassage]
    after: Generation


def check_documents(documents: Sequence[NewDocument], *, d: int, sparse_model: str | None = None) -> None:
    """Raise when a document comes twice or its vectors are not of the kind that the knowledge base holds.

    Args:
        documents: What is to be added.
        d: Dimension of the vectors.
        sparse_model: Fingerprint of the sparse encoder; None where no sparse rows are stored.
    """
    seen: set[str] = set()
    for document in documents:
        if document.doc_id in seen:
            raise DuplicateDocumentError(
                f"document {document.doc_id!r} comes twice in one call; which text should win? Give it once"
            )
        seen.add(document.doc_id)
        for passage in document.passages:
            if passage.vectors.shape[1] != d:
                raise InvalidOptionError(
                    f"document {document.doc_id!r}: vectors have {passage.vectors.shape[1]} dimensions, the knowledge "
                    f"base holds {d}; use the encoder it was built with"
                )
            model = None if passage.sparse is None else passage.sparse.model
            if model != sparse_model:
                raise InvalidOptionError(
                    f"document {document.doc_id!r}: its sparse rows are {_of_model(model)}, the knowledge base's are "
                    f"{_of_model(sparse_model)}; use the encoder it was built with"
                )


def prepare_batch(documents: Sequence[NewDocument], before: Generation) -> Batch:
    """Return the rows of the documents, with ids allotted from those that `before` left."""
    generation = before.number + 1
    document_id, passage_id, token_id = before.next_document_id, before.next_passage_id, before.next_token_id
    batch = Batch([], [], [], [], Generation(generation, 0, 0, 0))
    for document in documents:
        batch.documents.append(
            sealed(
                {
                    "document_id": document_id,
                    "doc_id": document.doc_id,
                    "title": document.title,
                    "url": document.url,
                    "meta": to_json(document.meta, f"meta of document {document.doc_id!r}"),
                    "passage_count": len(document.passages),
                    "born_generation": generation,
                    "dead_generation": None,
                }
            )
        )
        for passage in document.passages:
            count = len(passage.vectors)
            batch.passages.append(
                sealed(
                    {
                        "passage_id": passage_id,
                        "document_id": document_id,
                        "ordinal": passage.ordinal,
                        "section": passage.section,
                        "char_offset": passage.char_offset,
                        "text": passage.text,
                        "first_token_id": token_id,
                        "token_count": count,
                        "encoded_token_count": passage.encoded_token_count,
                        "offsets": pack_offsets(passage.token_ordinals, passage.starts, passage.ends),
                    }
                )
            )
            batch.full_text.append((passage_id, document.title, passage.text))
            batch.placed.append(
                PlacedPassage(passage, passage_id, document_id, token_id, document.title, language_of(document.meta))
            )
            passage_id += 1
            token_id += count
        document_id += 1
    after = Generation(generation, document_id, passage_id, token_id)
    return Batch(batch.documents, batch.passages, batch.full_text, batch.placed, after)


def common_scales(placed: Sequence[PlacedPassage], settings: KBSettings) -> tuple[float, float]:
    """Return the common scales of token and passage codes: the stored ones, or fitted to this first batch."""
    token_scale, passage_scale = settings.token_scale, settings.passage_scale
    if token_scale is None or passage_scale is None:
        passage_vectors = np.stack([entry.passage.passage_vector for entry in placed])
        token_vectors = [entry.passage.vectors for entry in placed if len(entry.passage.vectors)]
        if token_scale is None:
            # A first batch without one kept token says nothing about token vectors; passage vectors must do.
            token_scale = _fit(token_vectors or [passage_vectors])
        if passage_scale is None:
            passage_scale = _fit([passage_vectors])
    return token_scale, passage_scale


def measured_code(placed: Sequence[PlacedPassage]) -> Quantiser:
    """Return the code for vectors like those of this first batch."""
    vectors = np.concatenate([entry.passage.vectors for entry in placed])
    if not len(vectors):
        vectors = np.stack([entry.passage.passage_vector for entry in placed])
    if len(vectors) > MEASURED_ROWS:
        vectors = vectors[np.sort(np.random.default_rng(1).choice(len(vectors), MEASURED_ROWS, replace=False))]
    return measure_stored_code(vectors)


def _fit(parts: Sequence[NDArray[np.float32]]) -> float:
    """Return the common scale of vectors, given in parts: side by side they would be a copy of all of them."""
    largest = np.concatenate([np.abs(part).max(axis=1) for part in parts])
    headroom = _HEADROOM if len(largest) < _SAMPLE_ROWS else 1.0
    return covering_scale(largest * np.float32(headroom))


class SideBySide:
    """Vectors of several passages as the rows of one array, of which a block at a time is made."""

    def __init__(self, parts: Sequence[NDArray[np.float32]]) -> None:
        self._parts = parts
        self._ends = np.cumsum([len(part) for part in parts])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __call__(self, block: slice) -> NDArray[np.float32]:
        """Return the rows of a slice from `start` to `stop`, float32 (rows, d)."""
        first = int(np.searchsorted(self._ends, block.start, side="right"))
        last = int(np.searchsorted(self._ends, block.stop, side="left"))
        begin = block.start - (int(self._ends[first - 1]) if first else 0)
        rows = np.concatenate(self._parts[first : last + 1])
        return rows[begin : begin + block.stop - block.start]


def segment_arrays(
    placed: Sequence[PlacedPassage],
    *,
    token_scale: float,
    passage_scale: float,
    encoder: str,
    quantiser: Quantiser | None = None,
) -> SegmentArrays:
    """Return the arrays of a segment with these passages, of which there is at least one, in id order.

    Args:
        placed: The passages.
        token_scale: Common scale of token codes.
        passage_scale: Common scale of passage codes.
        encoder: Fingerprint of the encoder.
        quantiser: Token vectors are stored as its codes; None stores them as int8.
    """
    passages = [entry.passage for entry in placed]
    token_vectors: dict[str, Any]
    if quantiser is None:
        vectors = np.concatenate([passage.vectors for passage in passages])
        token_vectors = dict(zip(("codes", "scales"), quantise(vectors, token_scale), strict=True))
    else:
        rows = SideBySide([passage.vectors for passage in passages])
        coded = encode_rows(len(rows), rows, quantiser)
        token_vectors = {
            "codes": None,
            "scales": None,
            "list_numbers": coded.stored_lists,
            "quantised": coded.codes,
            "quantiser": quantiser.name,
        }
    passage_codes, passage_scales = quantise(np.stack([passage.passage_vector for passage in passages]), passage_scale)
    counts = np.array([len(passage.vectors) for passage in passages], dtype=np.int64)
    ordinals = np.concatenate([passage.token_ordinals for passage in passages]).astype(np.uint32)
    logits = np.concatenate([passage.filter_logits for passage in passages]).astype(np.float16)
    is_whole = all(len(passage.vectors) == passage.encoded_token_count for passage in passages)
    numbers = _token_numbers(placed)
    postings = build_postings(
        [(entry.title, entry.passage.text) for entry in placed], [entry.language for entry in placed]
    )
    return SegmentArrays(
        **token_vectors,
        token_ordinals=None if is_whole else narrow(ordinals),
        filter_logits=logits.max(axis=1, initial=-np.inf),
        passage_ids=np.array([entry.passage_id for entry in placed], dtype=np.int64),
        document_ids=np.array([entry.document_id for entry in placed], dtype=np.int64),
        first_token_ids=np.array([entry.first_token_id for entry in placed], dtype=np.int64),
        first_rows=np.cumsum(counts) - counts,
        token_counts=counts.astype(np.uint32),
        passage_codes=passage_codes,
        passage_scales=passage_scales,
        terms=postings.terms,
        posting_starts=postings.posting_starts,
        posting_passages=postings.posting_passages,
        posting_counts=postings.posting_counts,
        passage_lengths=postings.passage_lengths,
        d=passages[0].vectors.shape[1],
        token_scale=token_scale,
        passage_scale=passage_scale,
        encoder=encoder,
        numbering="rows" if numbers is None else "own",
        token_numbers=numbers,
        sparse=_sparse(passages),
    )


def _of_model(model: str | None) -> str:
    return "missing" if model is None else f"of sparse encoder {model[:12]}"


def _sparse(passages: Sequence[NewPassage]) -> SparseArrays | None:
    found = [passage.sparse for passage in passages if passage.sparse is not None]
    if found and len(found) < len(passages):
        raise InvalidOptionError(
            f"{len(found)} of {len(passages)} passages have sparse vectors, wanted all or none; encode them all with "
            "one encoder"
        )
    return sparse_arrays(found) if found else None


def _token_numbers(placed: Sequence[PlacedPassage]) -> NDArray[Any] | None:
    if all(entry.token_numbers is None for entry in placed):
        return None
    numbers = [
        np.arange(len(entry.passage.vectors)) if entry.token_numbers is None else entry.token_numbers
        for entry in placed
    ]
    return narrow(np.concatenate(numbers))
