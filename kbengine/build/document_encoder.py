"""From documents to stored ones: encode their passages, filter their tokens, commit a chunk at a time."""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from kbengine.build.filtering import FilterOptions, kept_tokens, resolve_threshold
from kbengine.corpus.document import CorpusDocument, CorpusPassage
from storage.records import NewDocument, NewPassage

if TYPE_CHECKING:
    from kbengine.encoders.encoder import Encoder
    from kbengine.encoders.passage_windows import PassageVectors

CHUNK_PASSAGES = 256
"""Passages encoded and committed together: enough to sort by length, few enough to lose little when interrupted, and
for two chunks of float32 vectors, one being encoded and one being stored, to take a sixth of a gigabyte."""
CHUNK_CHARS = 500_000
"""And at most about this many characters, so that a chunk of book chapters stays within memory."""

P = TypeVar("P")
Q = ParamSpec("Q")


@dataclass(frozen=True)
class EncodedChunk:
    """Documents ready to be stored, with what the filter did."""

    documents: list[NewDocument]
    n_passages: int
    n_encoded_tokens: int
    n_passage_tokens: int
    n_stored_tokens: int
    n_indexed_tokens: int
    threshold: float


class DocumentEncoder:
    """Turns corpus documents into storable ones with one encoder and one filter.

    The filter's tokens are those that are indexed; with `store_all` the others are stored beside them.
    """

    def __init__(self, encoder: Encoder, filter_options: FilterOptions, *, store_all: bool = False) -> None:
        self.encoder = encoder
        self.filter_options = filter_options
        self.store_all = store_all

    def encode(self, documents: Sequence[CorpusDocument], *, threshold: float | None = None) -> EncodedChunk:
        """Return the documents with their stored tokens' vectors.

        Args:
            documents: what to encode; their passages are batched together.
            threshold: the filter threshold to use; by default the options' own, or the quantile of these documents.
        """
        from kbengine.encoders.encoder import PassageText

        texts = [PassageText(document.title, passage.text) for document in documents for passage in document.passages]
        encoded = self.encoder.encode_passages(texts)
        if threshold is None:
            threshold = resolve_threshold([vectors.filter_logits for vectors in encoded], self.filter_options)
        stored: list[NewDocument] = []
        position = n_indexed = n_stored = 0
        for document in documents:
            passages = []
            for passage in document.passages:
                vectors = encoded[position]
                position += 1
                keep = kept_tokens(vectors.filter_logits, threshold)
                n_indexed += int(keep.sum())
                if self.store_all:
                    keep = np.ones_like(keep)
                n_stored += int(keep.sum())
                passages.append(new_passage(passage, vectors, keep))
            stored.append(
                NewDocument(
                    doc_id=document.doc_id,
                    title=document.title,
                    url=document.url,
                    meta=document.meta,
                    passages=tuple(passages),
                    aliases=document.aliases,
                    links=document.links,
                )
            )
        return EncodedChunk(
            documents=stored,
            n_passages=len(texts),
            n_encoded_tokens=sum(vectors.n_encoded_tokens for vectors in encoded),
            n_passage_tokens=sum(len(vectors.starts) for vectors in encoded),
            n_stored_tokens=n_stored,
            n_indexed_tokens=n_indexed,
            threshold=threshold,
        )


def new_passage(passage: CorpusPassage, vectors: PassageVectors, keep: NDArray[np.bool_]) -> NewPassage:
    """Return the passage with the vectors and characters of its stored tokens only; `keep` is bool (t,)."""
    kept = np.flatnonzero(keep)
    return NewPassage(
        ordinal=passage.ordinal,
        text=passage.text,
        vectors=vectors.vectors if len(kept) == len(keep) else vectors.vectors[kept],  # no copy of all of them
        token_ordinals=kept.astype(np.uint32),
        starts=vectors.starts[kept],
        ends=vectors.ends[kept],
        filter_logits=vectors.filter_logits[kept],
        passage_vector=vectors.passage_vector,
        n_tokens=len(vectors.starts),
        section=passage.section,
        char_offset=passage.char_offset,
        sparse=None if vectors.sparse is None else vectors.sparse.rows(keep),
    )


def chunks(
    documents: Iterable[tuple[CorpusDocument, P]], *, most_passages: int | None = None
) -> Iterator[tuple[list[CorpusDocument], P]]:
    """Return chunks of documents, each with the position after its last one."""
    most_passages = CHUNK_PASSAGES if most_passages is None else most_passages
    chunk: list[CorpusDocument] = []
    n_passages = n_chars = 0
    last: P | None = None
    for document, position in documents:
        chunk.append(document)
        last = position
        n_passages += len(document.passages)
        n_chars += sum(len(passage.text) for passage in document.passages)
        if n_passages >= most_passages or n_chars >= CHUNK_CHARS:
            yield chunk, position
            chunk, n_passages, n_chars = [], 0, 0
    if chunk and last is not None:
        yield chunk, last


class Background:
    """Runs one task at a time beside the caller: the next waits for the one before, whose failure it raises."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kbengine-commit")
        self._pending: Future[object] | None = None

    def submit(self, task: Callable[Q, object], *arguments: Q.args, **options: Q.kwargs) -> None:
        """Start the task once the one before is done.

        Raises:
            Exception: whatever the task before raised.
        """
        self.wait()
        # In the caller's context, so that what the caller watches or changes reaches the task.
        run = contextvars.copy_context().run
        self._pending = self._executor.submit(run, functools.partial(task, *arguments, **options))

    def wait(self) -> None:
        """Wait until no task is running.

        Raises:
            Exception: whatever the task raised.
        """
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """Wait until no task is running, and let none be started from now on."""
        self._executor.shutdown(wait=True)
