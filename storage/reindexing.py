"""Reindexing: other tokens, another index or other vectors from what is stored, exchanged in one commit.

Until that commit the old segments and the old index answer; killed before it, new files are leftovers that the next
open removes, and the same call starts again.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, func, select

from storage import schema
from storage.ann_codes import CodedVectors, codes_path, encode_rows, read_codes
from storage.ann_parts import list_source
from storage.ann_setup import AnnSetup, read_setup
from storage.catalog import SegmentRow, dead_document_ids, live_segments
from storage.creation import leftovers
from storage.errors import CorruptError, InvalidOptionError, KBError, StateError
from storage.filter_request import FilterRequest, check_available
from storage.gpu import IndexDevice, uses_gpu
from storage.merging import Replacement, replace_segments
from storage.passage_tokens import update_passages
from storage.probing import measure_probing
from storage.quantiser import Quantiser
from storage.quantiser_file import QuantiserFile, read_quantiser, write_quantiser
from storage.quantiser_training import sample_sizes, train_quantiser
from storage.records import JSON
from storage.segment import Segment, open_segment, segment_path
from storage.segment_rewrite import QuantisedRows, rewrite_segment
from storage.session import INDEX_DIRECTORY, WriteSession
from storage.settings import CODE_BITS, KBSettings, write_setting
from storage.stored_code import MEASURED_ROWS, measure_stored_code
from storage.token_filter import LogitCounts, kept_rows

__all__ = ["FilterRequest", "ReindexRequest", "Reindexed", "Stage", "choose_indexed", "reindex"]

Stage = Callable[[str, int, int], None]
"""Called with (what is being done, work done, work in all)."""

Masks = list[NDArray[np.bool_]]


@dataclass(frozen=True)
class ReindexRequest:
    """What is to change.

    Attributes:
        filter: Which tokens to index; where only indexed ones are stored the others are dropped. None: as they are.
        ann: Options of the index that are to change, by name; a quantiser is trained anew when there are any. None
            leaves the index as it is.
        drop_vectors: Store quantised token vectors only, from now on.
        drop_sparse: Store no sparse rows from now on.
        drop_unindexed: Store only the tokens that are indexed, from now on.
        code_bits: 4: store vectors in 4 bits a dimension in place of int8; None leaves them as they are.
        stored_threshold: The threshold by which the stored tokens were chosen; None when all were stored.
        device: Where a quantiser is trained.
    """

    filter: FilterRequest | None = None
    ann: Mapping[str, JSON] | None = None
    drop_vectors: bool = False
    drop_sparse: bool = False
    drop_unindexed: bool = False
    code_bits: int | None = None
    stored_threshold: float | None = None
    device: IndexDevice = "cpu"

    def __post_init__(self) -> None:
        uses_gpu(self.device)
        if self.code_bits not in (None, *CODE_BITS):
            raise InvalidOptionError(f"code bits are {self.code_bits}; wanted one of {', '.join(map(str, CODE_BITS))}")


@dataclass(frozen=True)
class Reindexed:
    """What reindexing did.

    Attributes:
        threshold: The larger filter logit of a token had to reach it; −inf: all were kept.
        rows_before: Stored token vectors before, those of dead documents included.
        rows: Stored token vectors now.
        indexed: Those of them that a search may start from.
        trained: Whether a quantiser was trained.
    """

    threshold: float
    rows_before: int
    rows: int
    indexed: int
    trained: bool


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
    _check_vectors(settings, after, request)
    with session.reading() as connection:
        rows = live_segments(connection)
        dead = dead_document_ids(connection)
        n_tokens, n_stored = _token_counts(connection)
    if request.filter is not None and not settings.stores_all:
        check_available(request.filter, n_tokens=n_tokens, n_stored=n_stored, stored_threshold=request.stored_threshold)
    segments = _open_all(source, rows, stage)
    threshold = -math.inf if settings.indexed_from is None else settings.indexed_from
    if request.filter is not None:
        threshold = _threshold(request.filter, segments, dead, n_tokens)
        after = _with_filter(after, request.filter, threshold, n_tokens=n_tokens)
    thins = request.drop_unindexed or (request.filter is not None and not settings.stores_all)
    if request.drop_unindexed:
        after = _without_unindexed(after, threshold, n_tokens=n_tokens)
    keep = _masks(segments, threshold if thins else -math.inf)
    indexed = keep if thins else _masks(segments, threshold)
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
            coder = _stored_code(segments, keep, vectors, stage)
            with session.file_work():
                code = write_quantiser(session.segment_directory, coder)
            store: dict[str, JSON] = {"tokens": "indexed", **after.store, "bits": 4, "code": code.to_json()}
            after = dataclasses.replace(after, store=store)
        elif before.stored is not None and source != session.segment_directory:
            with session.file_work():
                write_quantiser(session.segment_directory, before.stored)
        stored = None if drop else coder or before.stored
        setup = dataclasses.replace(setup, stored=stored, threshold=after.indexed_from)
        if thins or coder is not None or request.drop_sparse or source != session.segment_directory:
            for number, (row, segment, mask) in enumerate(zip(rows, segments, keep, strict=True), start=1):
                which = f"{number} of {len(rows)}"
                rewriting = Rewriting(coder, vectors, request.drop_sparse, which)
                replacements.append(_rewritten(session, row, segment, mask, rewriting, stage))
            segments = _open_all(session.segment_directory, [_new(replacement) for replacement in replacements], stage)
        for number, segment in enumerate(segments, start=1):
            what = f"indexing segment {number} of {len(segments)}"
            setup.prepare(session.index_directory, segment, progress=_staged(stage, what))
        with session.writing() as connection:
            note = _note(request, after)
            if replace_segments(connection, replacements, operation="reindex", note=note) is None:
                raise StateError(f"{session.directory} was changed while it was reindexed; try again")
            if thins:
                for number, segment in enumerate(segments, start=1):
                    update_passages(connection, segment)
                    stage("changing the passages' token tables", number, len(segments))
            for name in ("filter", "build", "ann", "quantiser", "sparse", "store"):
                write_setting(connection, name, getattr(after, name))
    except BaseException:
        session.discard([_new(replacement).file for replacement in replacements])
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


def _check_vectors(before: KBSettings, after: KBSettings, request: ReindexRequest) -> None:
    """Raise InvalidOptionError when the vectors that are stored do not allow what is asked for."""
    kind = after.ann_options.index_kind
    if kind.needs_quantiser:
        kind.groups(after.d)
    if before.drops_vectors and request.ann is not None and after.ann_options.kind != before.ann_options.kind:
        raise InvalidOptionError(
            f"index kind {kind.name!r} was asked for, but the vectors that it would be made of were dropped; only "
            f"{before.ann_options.kind!r} is left: build anew from the corpus ('kbengine export' writes one)"
        )
    if request.drop_sparse and before.sparse_model is None:
        raise InvalidOptionError("there are no sparse rows to drop; the knowledge base was built without them")
    if request.drop_vectors and not kind.needs_quantiser:
        raise InvalidOptionError(
            f"index kind {kind.name!r} is made of the stored vectors, so they cannot be dropped; wanted a kind that "
            "codes them: ivf-sq4, opq16 to opq96, opq-fastscan"
        )
    if request.code_bits is not None and (before.drops_vectors or request.drop_vectors):
        raise InvalidOptionError(
            f"code bits {request.code_bits} were asked for, but vectors that are dropped are stored as the index codes "
            "them; leave one of the two out"
        )
    if request.code_bits == 8 and before.code_bits == 4:
        raise InvalidOptionError(
            "vectors are stored in 4 bits a dimension, 8 were asked for; what was rounded away must be encoded: build "
            "anew from the corpus ('kbengine export' writes one) with --code-bits 8"
        )
    if request.drop_unindexed and request.filter is None and not before.stores_all:
        raise InvalidOptionError("only the tokens that are indexed are stored already; --keep-fraction indexes fewer")


def _token_counts(connection: Connection) -> tuple[int, int]:
    """Return tokens of the live documents before filtering, and those that are stored."""
    documents, passages = schema.documents, schema.passages
    live = select(documents.c.document_id).where(documents.c.dead_generation.is_(None))
    row = connection.execute(
        select(
            func.coalesce(func.sum(passages.c.encoded_token_count), 0),
            func.coalesce(func.sum(passages.c.token_count), 0),
        ).where(passages.c.document_id.in_(live))
    ).one()
    return int(row[0]), int(row[1])


def _threshold(request: FilterRequest, segments: Sequence[Segment], dead: NDArray[np.int64], n_tokens: int) -> float:
    if request.threshold is not None:
        return request.threshold
    assert request.keep_fraction is not None
    counts = LogitCounts()
    for segment in segments:
        counts.add(segment, ~np.isin(segment.arrays.document_ids, dead))
    return counts.threshold_for(request.keep_fraction * n_tokens)


def _with_filter(settings: KBSettings, request: FilterRequest, threshold: float, *, n_tokens: int) -> KBSettings:
    """Return the settings with the new filter, and with the threshold that later additions are to use."""
    filter_: dict[str, JSON] = {"threshold": request.threshold, "keep_fraction": request.keep_fraction}
    if settings.stores_all:
        filter_["indexed_from"] = threshold if math.isfinite(threshold) else None
    return dataclasses.replace(settings, filter=filter_, build=_build_with(settings, threshold, n_tokens=n_tokens))


def _without_unindexed(settings: KBSettings, threshold: float, *, n_tokens: int) -> KBSettings:
    """Return the settings of a knowledge base that stores only what is indexed."""
    filter_ = {name: value for name, value in settings.filter.items() if name != "indexed_from"}
    store: dict[str, JSON] = {**settings.store, "tokens": "indexed"}
    build = _build_with(settings, threshold, n_tokens=n_tokens)
    return dataclasses.replace(settings, filter=filter_, store=store, build=build)


def _build_with(settings: KBSettings, threshold: float, *, n_tokens: int) -> dict[str, JSON]:
    """Return the setting `build` with the threshold by which the tokens of later additions are to be stored."""
    position: dict[str, JSON] = dict(settings.build_position)
    if math.isfinite(threshold):
        position |= {"threshold_sum": threshold * n_tokens, "threshold_tokens": n_tokens}
    return {"state": settings.build_state, "position": position}


def _masks(segments: Sequence[Segment], threshold: float) -> Masks:
    """Return which rows of each segment a threshold chooses; all of them for −inf."""
    if threshold == -math.inf:
        return [np.ones(segment.n_rows, dtype=np.bool_) for segment in segments]
    return [kept_rows(segment, threshold) for segment in segments]


def choose_indexed(session: WriteSession, settings: KBSettings) -> KBSettings:
    """Return the settings with the filter logit from which on tokens are indexed, found in all that are stored.

    Nothing is written. For the end of a build in which all tokens were stored, before their index is made.
    """
    fraction = settings.filter.get("keep_fraction")
    if not settings.stores_all or settings.indexed_from is not None or not isinstance(fraction, int | float):
        return settings
    with session.reading() as connection:
        rows, dead = live_segments(connection), dead_document_ids(connection)
        n_tokens, _ = _token_counts(connection)
    segments = _open_all(session.segment_directory, rows, lambda _what, _done, _total: None)
    request = FilterRequest(keep_fraction=float(fraction))
    return _with_filter(settings, request, _threshold(request, segments, dead, n_tokens), n_tokens=n_tokens)


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
    sample = _sample(segments, indexed, vectors, n_sample, options.seed, stage)
    quantiser = train_quantiser(sample, nlist, options, stage=stage, device=request.device)
    stage("measuring recall", 0, 1)
    probing = measure_probing(sample, quantiser, n_rows)
    stage("measuring recall", 1, 1)
    with session.file_work():
        file = write_quantiser(session.segment_directory, quantiser)
    return AnnSetup(options, quantiser, probing=probing), file, True


@dataclass(frozen=True)
class Vectors:
    """Stored token vectors, whatever they are stored as."""

    setup: AnnSetup

    def of(self, segment: Segment, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors of rows, float32 (rows, d)."""
        return list_source(segment, self.setup.decoder_of(segment), rows).vectors(slice(None))


def _stored_code(segments: Sequence[Segment], keep: Masks, vectors: Vectors, stage: Stage) -> Quantiser:
    """Return the code for vectors like the kept ones, to be stored in."""
    n_rows = sum(int(np.count_nonzero(mask)) for mask in keep)
    if not n_rows:
        raise InvalidOptionError("there is no token vector that could be stored in 4 bits; add documents first")
    return measure_stored_code(_sample(segments, keep, vectors, min(n_rows, MEASURED_ROWS), 1, stage))


def _sample(
    segments: Sequence[Segment], keep: Masks, vectors: Vectors, n_sample: int, seed: int, stage: Stage
) -> NDArray[np.float32]:
    """So many of the kept vectors, drawn at random, in random order, float32 (n, d)."""
    generator = np.random.default_rng(seed)
    kept = [np.flatnonzero(mask) for mask in keep]
    starts = np.concatenate([[0], np.cumsum([len(rows) for rows in kept])])
    chosen = np.sort(generator.choice(int(starts[-1]), size=n_sample, replace=False))
    parts: list[NDArray[np.float32]] = []
    for number, (segment, rows) in enumerate(zip(segments, kept, strict=True)):
        mine = chosen[(chosen >= starts[number]) & (chosen < starts[number + 1])] - starts[number]
        parts.append(vectors.of(segment, rows[mine]))
        stage("drawing a sample", number + 1, len(segments))
    d = segments[0].d if segments else 1
    sample = np.concatenate([np.empty((0, d), dtype=np.float32), *parts])
    shuffled: NDArray[np.float32] = sample[generator.permutation(len(sample))]
    return shuffled


@dataclass(frozen=True)
class Rewriting:
    """How a segment is written anew; without a coder its vectors stay, `which` one it is is for people."""

    coder: Quantiser | None
    vectors: Vectors
    drop_sparse: bool
    which: str


def _rewritten(
    session: WriteSession,
    row: SegmentRow,
    segment: Segment,
    keep: NDArray[np.bool_],
    rewriting: Rewriting,
    stage: Stage,
) -> Replacement:
    quantised: QuantisedRows | None = None
    coder, which = rewriting.coder, rewriting.which
    if coder is not None:
        progress = _staged(stage, f"coding segment {which}")
        coded = _coded(segment, np.flatnonzero(keep), coder, rewriting.vectors, progress)
        quantised = QuantisedRows(coder.name, coded.stored_lists, np.asarray(coded.codes))
    stage(f"writing segment {which}", 0, 1)
    with session.file_work():
        file = rewrite_segment(
            session.segment_directory, segment, keep, quantised=quantised, drop_sparse=rewriting.drop_sparse
        )
    stage(f"writing segment {which}", 1, 1)
    return Replacement((row,), SegmentRow(file, row.first_passage_id, row.end_passage_id))


def _coded(
    segment: Segment,
    rows: NDArray[np.int64],
    coder: Quantiser,
    vectors: Vectors,
    progress: Callable[[int, int], None],
) -> CodedVectors:
    """Return the quantised vectors of rows: from the index file beside the segment, or made now."""
    source = list_source(segment, vectors.setup.decoder_of(segment), None)
    path = codes_path(segment.path.parent.parent / INDEX_DIRECTORY, segment.name, coder.name)
    try:
        there = read_codes(path, source, coder)
    except KBError:
        return encode_rows(len(rows), lambda block: source.vectors(rows[block]), coder, progress=progress)
    return CodedVectors(coder, there.list_numbers[rows], there.codes[rows])


def _new(replacement: Replacement) -> SegmentRow:
    assert replacement.new is not None  # every passage is kept
    return replacement.new


def _open_all(directory: Path, rows: Sequence[SegmentRow], stage: Stage) -> list[Segment]:
    segments: list[Segment] = []
    for number, row in enumerate(rows, start=1):
        try:
            segments.append(open_segment(segment_path(directory, row.file.name), row.file))
        except CorruptError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise StateError(
                    f"segment {row.file.name} of {directory.parent} is gone; if another process writes to it, wait "
                    "until it has finished, else run 'kbengine verify'"
                ) from error
            raise
        stage("checking segments", number, len(rows))
    return segments


def _staged(stage: Stage, what: str) -> Callable[[int, int], None]:
    return lambda done, total: stage(what, done, total)


def _note(request: ReindexRequest, after: KBSettings) -> str:
    parts: list[str] = []
    if request.filter is not None and request.filter.threshold is not None:
        parts.append(f"filter threshold {request.filter.threshold}")
    elif request.filter is not None:
        parts.append(f"kept fraction {request.filter.keep_fraction}")
    if request.ann is not None:
        parts.append(f"index {after.ann_options.kind}")
    if request.drop_vectors:
        parts.append("vectors dropped")
    if request.drop_sparse:
        parts.append("sparse rows dropped")
    if request.drop_unindexed:
        parts.append("tokens that are not indexed dropped")
    if request.code_bits is not None:
        parts.append(f"{request.code_bits} bits a dimension")
    return ", ".join(parts)
