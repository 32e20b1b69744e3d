"""What all shards of a generation are made with, so that they answer together as one knowledge base would."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path

from storage.creation import FirstIds
from storage.database import reader_engine, translated
from storage.errors import InvalidOptionError
from storage.probing import Probing
from storage.quantiser import Quantiser
from storage.quantiser_file import read_quantiser
from storage.session import SEGMENT_DIRECTORY
from storage.settings import KBSettings, read_settings
from storage.writer import KBWriter

__all__ = ["CommonSettings", "common_settings_of", "create_with"]


@dataclass(frozen=True, eq=False)
class CommonSettings:
    """Settings that leave nothing to be chosen from the documents that come: scales, threshold, code, lists.

    Attributes:
        settings: Encoder, scales, filter, options of the index, measured number of lists to look into.
        quantiser: Of the index; None where its kind needs none.
        passages: Of the index of passage vectors; None where these are scanned.
        code: What token vectors are stored in; None for int8.
    """

    settings: KBSettings
    quantiser: Quantiser | None = None
    code: Quantiser | None = None
    passages: Quantiser | None = None

    def __post_init__(self) -> None:
        settings = self.settings
        options = settings.ann_options
        needs = options.index_kind.needs_quantiser
        missing = [
            name
            for name, is_missing in (
                ("token_scale", settings.token_scale is None),
                ("passage_scale", settings.passage_scale is None),
                ("code", settings.code_bits == 4 and not settings.drops_vectors and self.code is None),
                ("quantiser", (needs or settings.drops_vectors) and self.quantiser is None),
                ("passage_quantiser", bool(settings.passage_quantiser) and self.passages is None),
                (
                    "filter.indexed_from",
                    settings.stores_all
                    and settings.indexed_from is None
                    and settings.filter.get("keep_fraction") not in (None, 1, 1.0),
                ),
            )
            if is_missing
        ]
        if missing:
            raise InvalidOptionError(
                f"common settings lack {', '.join(missing)}, wanted all that shapes a shard; take them from a plan or "
                "from a knowledge base that is built"
            )

    def with_passages(self, quantiser: Quantiser, probing: Probing) -> CommonSettings:
        """Return the settings with an index of passage vectors made with this quantiser, the same in all shards."""
        ann = {**self.settings.ann, "exact_passages": False}
        settings = dataclasses.replace(self.settings, ann=ann, passage_quantiser=probing.to_json())
        return dataclasses.replace(self, settings=settings, passages=quantiser)

    def comparable(self) -> CommonSettings:
        """Return the settings with an index whose candidates do not depend on how vectors are dealt out to shards.

        Lists with centroids of a segment's own become a scan of all, of tokens or of passages; small segments are coded
        like large ones.
        """
        options = self.settings.ann_options
        is_exact = not options.index_kind.needs_quantiser
        scans = is_exact or options.exact_passages or self.passages is None
        ann = {
            **self.settings.ann,
            "kind": "exact" if is_exact else options.kind,
            "exact_passages": scans,
            "exact_below_rows": 0,
        }
        settings = dataclasses.replace(
            self.settings,
            ann=ann,
            quantiser={} if is_exact else self.settings.quantiser,
            passage_quantiser={} if scans else self.settings.passage_quantiser,
        )
        return CommonSettings(
            settings, None if is_exact else self.quantiser, self.code, None if scans else self.passages
        )


def common_settings_of(path: str | os.PathLike[str]) -> CommonSettings:
    """Return what a knowledge base was made with, for making shards alike.

    Raises:
        NotAKnowledgeBaseError: There is none.
        CorruptError: A file of its code or quantiser is missing or damaged.
        InvalidOptionError: Something is not fixed yet: nothing was added to it.
    """
    directory = Path(path)
    engine = reader_engine(directory)
    try:
        with translated(directory), engine.connect() as connection:
            settings = read_settings(connection, name=str(directory))
    finally:
        engine.dispose()
    parts = directory / SEGMENT_DIRECTORY
    files = (settings.quantiser_file, settings.store_file, settings.passage_quantiser_file)
    return CommonSettings(settings, *(None if file is None else read_quantiser(parts, file) for file in files))


def create_with(
    path: str | os.PathLike[str],
    common: CommonSettings,
    *,
    first: FirstIds | None = None,
    created_at: str | None = None,
) -> KBWriter:
    """Create an empty knowledge base with these settings and return its writer.

    Args:
        path: Its directory.
        common: What it is made with.
        first: The ids that it gives first.
        created_at: UTC, ISO 8601; None takes that of the common settings.

    Raises:
        KnowledgeBaseExistsError: The path exists and is not an empty directory.
    """
    settings = dataclasses.replace(
        common.settings,
        build={"state": "complete", "position": dict(common.settings.build_position)},
        created_at=created_at or common.settings.created_at,
    )
    return KBWriter.create(
        path, settings, code=common.code, quantiser=common.quantiser, passages=common.passages, first=first
    )
