"""Reindexing: other tokens, another index or other vectors from what is stored, exchanged in one commit.

Until that commit the old segments and the old index answer; killed before it, new files are leftovers that the next
open removes, and the same call starts again.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from storage.ann_setup import AnnSetup, read_setup
from storage.catalog import dead_document_ids, live_segments
from storage.creation import leftovers
from storage.errors import StateError
from storage.filter_request import FilterRequest, check_available
from storage.merging import Replacement, replace_segments
from storage.passage_tokens import update_passages
from storage.probing import measure_probing
from storage.quantiser_file import QuantiserFile, read_quantiser, write_quantiser
from storage.quantiser_training import sample_sizes, train_quantiser
from storage.records import JSON
from storage.reindex_filter import Masks, masks_of, threshold_of, token_counts, with_filter, without_unindexed
from storage.reindex_request import Reindexed, ReindexRequest, check_vectors, note_of
from storage.reindexed_segments import (
    Rewriting,
    Stage,
    Vectors,
    new_row,
    open_all,
    rewritten,
    sample_of,
    staged,
    stored_code,
)
from storage.segment import Segment
from storage.session import WriteSession
from storage.settings import KBSettings, write_setting

__all__ = ["FilterRequest", "ReindexRequest", "Reindexed", "Stage", "choose_indexed", "reindex"]


def reindex(
    session: WriteSession, settings: KBSettings, request: ReindexRequest, *, source: Path, stage: Stage
) -> tuple[Reindexed, KBSettings]:
    """Index what is stored in another way; return what was done, and the settings as they are now.

    The caller holds the session's mutex and sees to it that no merge runs.

    Args:
        session: Of the knowledge base to be changed.
        settings: Its settings.
        request: What is to change.
        source: Where the segment files are: in another directory while a knowledge base is copied, and then every
            segment is written anew.
        stage: Shown the progress.

    Raises:
        InvalidOptionError: More tokens are asked for than are stored, vectors that were dropped are wanted back, or
            there are too few to train on.
    """
    ann = settings.ann if request.ann is None else {**settings.ann, **request.ann}
    after = dataclasses.replace(settings, ann=dict(ann), sparse={} if request.drop_sparse else settings.sparse)
    check_vectors(settings, after, request)
    with session.reading() as connection:
        rows = live_segments(connection)
        dead = dead_document_ids(connection)
        n_tokens, n_stored = token_counts(connection)
    if request.filter is not None and not settings.stores_all:
        check_available(request.filter, n_tokens=n_tokens, n_stored=n_stored, stored_threshold=request.stored_threshold)
    segments = open_all(source, rows, stage)
    threshold = -math.inf if settings.indexed_from is None else settings.indexed_from
    if request.filter is not None:
        threshold = threshold_of(request.filter, segments, dead, n_tokens)
        after = with_filter(after, request.filter, threshold, n_tokens=n_tokens)
    thins = request.drop_unindexed or (request.filter is not None and not settings.stores_all)
    if request.drop_unindexed:
        after = without_unindexed(after, threshold, n_tokens=n_tokens)
    keep = masks_of(segments, threshold if thins else -math.inf)
    indexed = keep if thins else masks_of(segments, threshold)
    before = read_setup(source, settings)
    replacements: list[Replacement] = []
    try:
        vectors = Vectors(before)
        setup, file, trained = _quantiser(session, settings, after, request, segments, indexed, vectors, source, stage)
        drop = request.drop_vectors or settings.drops_vectors
        after = dataclasses.replace(after, quantiser=_record(file, setup, drops=drop))
        coder = setup.quantiser if drop and not settings.drops_vectors else None
        if drop:
            after = dataclasses.replace(after, store={**after.store, "code": None} if after.store else {})
        elif request.code_bits == 4 and settings.code_bits == 8:
            coder = stored_code(segments, keep, vectors, stage)
            with session.file_work():
                code = write_quantiser(session.segment_directory, coder)
            store: dict[str, JSON] = {"tokens": "indexed", **after.store, "bits": 4, "code": code.to_json()}
            after = dataclasses.replace(after, store=store)
        elif before.stored is not None and source != session.segment_directory:
            with session.file_work():
                write_quantiser(session.segment_directory, before.stored)
        if before.passages is not None and source != session.segment_directory:
            with session.file_work():
                write_quantiser(session.segment_directory, before.passages)
        stored = None if drop else coder or before.stored
        setup = dataclasses.replace(
            setup,
            stored=stored,
            threshold=after.indexed_from,
            passages=before.passages,
            passage_probing=before.passage_probing,
        )
        if thins or coder is not None or request.drop_sparse or source != session.segment_directory:
            for number, (row, segment, mask) in enumerate(zip(rows, segments, keep, strict=True), start=1):
                which = f"{number} of {len(rows)}"
                rewriting = Rewriting(coder, vectors, request.drop_sparse, which)
                replacements.append(rewritten(session, row, segment, mask, rewriting, stage))
            segments = open_all(
                session.segment_directory, [new_row(replacement) for replacement in replacements], stage
            )
        for number, segment in enumerate(segments, start=1):
            what = f"indexing segment {number} of {len(segments)}"
            setup.prepare(session.index_directory, segment, progress=staged(stage, what))
        with session.writing() as connection:
            note = note_of(request, after)
            if replace_segments(connection, replacements, operation="reindex", note=note) is None:
                raise StateError(f"{session.directory} was changed while it was reindexed; try again")
            if thins:
                for number, segment in enumerate(segments, start=1):
                    update_passages(connection, segment)
                    stage("changing the passages' token tables", number, len(segments))
            for name in ("filter", "build", "ann", "quantiser", "sparse", "store"):
                write_setting(connection, name, getattr(after, name))
    except BaseException:
        session.discard([new_row(replacement).file for replacement in replacements])
        # A new quantiser stays: should the commit have taken place after all, it is needed; if not, the next open
        # removes it.
        raise
    if replacements and source == session.segment_directory:
        session.unlink([row.file.name for row in rows])
    session.remove(leftovers(session.directory, {segment.name for segment in segments}, after))
    n_after = sum(segment.n_rows for segment in segments)
    n_indexed = sum(int(np.count_nonzero(mask)) for mask in indexed)
    return Reindexed(threshold, sum(row.file.n_rows for row in rows), n_after, n_indexed, trained), after


def _record(file: QuantiserFile | None, setup: AnnSetup, *, drops: bool) -> dict[str, JSON]:
    """Return the setting `quantiser`."""
    if file is None:
        return {}
    probing = {} if setup.probing is None else setup.probing.to_json()
    return {**file.to_json(), "drop_vectors": drops, **probing}


def choose_indexed(session: WriteSession, settings: KBSettings) -> KBSettings:
    """Return the settings with the filter logit from which on tokens are indexed, found in all that are stored.

    Nothing is written. For the end of a build in which all tokens were stored, before their index is made.
    """
    fraction = settings.filter.get("keep_fraction")
    if not settings.stores_all or settings.indexed_from is not None or not isinstance(fraction, int | float):
        return settings
    with session.reading() as connection:
        rows, dead = live_segments(connection), dead_document_ids(connection)
        n_tokens, _ = token_counts(connection)
    segments = open_all(session.segment_directory, rows, lambda _what, _done, _total: None)
    request = FilterRequest(keep_fraction=float(fraction))
    return with_filter(settings, request, threshold_of(request, segments, dead, n_tokens), n_tokens=n_tokens)


def _quantiser(
    session: WriteSession,
    before: KBSettings,
    after: KBSettings,
    request: ReindexRequest,
    segments: Sequence[Segment],
    indexed: Masks,
    vectors: Vectors,
    source: Path,
    stage: Stage,
) -> tuple[AnnSetup, QuantiserFile | None, bool]:
    """Return how segments are to be searched, the quantiser's durable file if there is one, and whether it is new."""
    options = after.ann_options
    stored = before.quantiser_file
    if not options.index_kind.needs_quantiser or (request.ann is None and stored is None and not request.drop_vectors):
        return AnnSetup(options), None, False
    if stored is not None and (request.ann is None or before.drops_vectors):
        quantiser = read_quantiser(source, stored)
        if source != session.segment_directory:
            with session.file_work():
                stored = write_quantiser(session.segment_directory, quantiser)
        return AnnSetup(options, quantiser, probing=before.probing), stored, False
    n_rows = sum(int(np.count_nonzero(mask)) for mask in indexed)
    nlist, n_sample = sample_sizes(n_rows, options)
    sample = sample_of(segments, indexed, vectors, n_sample, options.seed, stage)
    quantiser = train_quantiser(sample, nlist, options, stage=stage, device=request.device)
    stage("measuring recall", 0, 1)
    probing = measure_probing(sample, quantiser, n_rows)
    stage("measuring recall", 1, 1)
    with session.file_work():
        file = write_quantiser(session.segment_directory, quantiser)
    return AnnSetup(options, quantiser, probing=probing), file, True
