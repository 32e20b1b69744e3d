"""What a reindexing is to change, whether the stored vectors allow it, and what was done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from storage.errors import InvalidOptionError
from storage.filter_request import FilterRequest
from storage.gpu import IndexDevice, uses_gpu
from storage.records import JSON
from storage.settings import CODE_BITS, KBSettings


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


def check_vectors(before: KBSettings, after: KBSettings, request: ReindexRequest) -> None:
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


def note_of(request: ReindexRequest, after: KBSettings) -> str:
    """Return what was done, for the list of commits."""
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
