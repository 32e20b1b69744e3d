"""Which tokens a reindexing indexes: thresholds, the rows they choose, and the settings that say so."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, func, select

from storage import schema
from storage.filter_request import FilterRequest
from storage.records import JSON
from storage.segment import Segment
from storage.settings import KBSettings
from storage.token_filter import LogitCounts, kept_rows

Masks = list[NDArray[np.bool_]]


def token_counts(connection: Connection) -> tuple[int, int]:
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


def threshold_of(request: FilterRequest, segments: Sequence[Segment], dead: NDArray[np.int64], n_tokens: int) -> float:
    """Return the filter logit from which on tokens are indexed."""
    if request.threshold is not None:
        return request.threshold
    assert request.keep_fraction is not None
    counts = LogitCounts()
    for segment in segments:
        counts.add(segment, ~np.isin(segment.arrays.document_ids, dead))
    return counts.threshold_for(request.keep_fraction * n_tokens)


def with_filter(settings: KBSettings, request: FilterRequest, threshold: float, *, n_tokens: int) -> KBSettings:
    """Return the settings with the new filter, and with the threshold that later additions are to use."""
    filter_: dict[str, JSON] = {"threshold": request.threshold, "keep_fraction": request.keep_fraction}
    if settings.stores_all:
        filter_["indexed_from"] = threshold if math.isfinite(threshold) else None
    return dataclasses.replace(settings, filter=filter_, build=_build_with(settings, threshold, n_tokens=n_tokens))


def without_unindexed(settings: KBSettings, threshold: float, *, n_tokens: int) -> KBSettings:
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


def masks_of(segments: Sequence[Segment], threshold: float) -> Masks:
    """Return which rows of each segment a threshold chooses; all of them for −inf."""
    if threshold == -math.inf:
        return [np.ones(segment.n_rows, dtype=np.bool_) for segment in segments]
    return [kept_rows(segment, threshold) for segment in segments]
