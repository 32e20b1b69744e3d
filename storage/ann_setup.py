"""What the token and passage indexes of a knowledge base are to be: its options, and its quantiser if it has one."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from storage.ann import AnnKind, TokenAnn, ann_path, load_ann, prepare_ann
from storage.ann_codes import codes_path
from storage.ann_lists import Progress
from storage.ann_options import AnnOptions
from storage.errors import CorruptError
from storage.gpu import IndexDevice
from storage.quantiser import Quantiser
from storage.quantiser_file import read_quantiser
from storage.segment import Segment
from storage.settings import KBSettings

__all__ = ["AnnSetup", "index_names", "read_setup"]

_log = logging.getLogger(__name__)
_KINDS: tuple[AnnKind, ...] = ("tokens", "passages")


@dataclass(frozen=True)
class AnnSetup:
    """How segments are searched.

    Attributes:
        options: Of the index.
        quantiser: Of the token vectors; None where the kind needs none, or none has been trained yet.
        device: Where searches run.
    """

    options: AnnOptions
    quantiser: Quantiser | None = None
    device: IndexDevice = "cpu"

    def load(self, directory: Path, segment: Segment) -> tuple[TokenAnn, TokenAnn]:
        """Search over the segment's token vectors and over its passage vectors; see `load_ann`."""
        tokens = load_ann(directory, segment, "tokens", self.options, quantiser=self.quantiser, device=self.device)
        return tokens, load_ann(directory, segment, "passages", self.options, device=self.device)

    def prepare(self, directory: Path, segment: Segment, *, progress: Progress | None = None) -> None:
        """Make the files that `load` reads in the index directory."""
        for kind in _KINDS:
            prepare_ann(directory, segment, kind, self.options, quantiser=self.quantiser, progress=progress)


def read_setup(segment_directory: Path, settings: KBSettings, *, device: IndexDevice = "cpu") -> AnnSetup:
    """Return how the segments of a knowledge base with these settings are searched.

    A quantiser that is missing or damaged is logged and left out: int8 vectors are then searched as `ivf-sq8`, and
    segments that store none cannot be opened.
    """
    expected = settings.quantiser_file
    quantiser: Quantiser | None = None
    if expected is not None:
        try:
            quantiser = read_quantiser(segment_directory, expected)
        except CorruptError as error:
            remedy = "restore it from a backup" if settings.drops_vectors else "run 'kbengine verify --repair'"
            _log.warning("the index is not what it should be: %s; %s", error.message, remedy)
    return AnnSetup(settings.ann_options, quantiser, device)


def index_names(settings: KBSettings, segments: Iterable[str]) -> set[str]:
    """Return the names that files in the index directory may have: anything else there is out of date."""
    expected = settings.quantiser_file
    names: set[str] = set()
    if settings.ann_options.kind == "exact":
        return names
    for segment in segments:
        names.add(ann_path(Path(), segment, "passages").name)
        if expected is None:
            names.add(ann_path(Path(), segment, "tokens").name)
        elif not settings.drops_vectors:
            names.add(codes_path(Path(), segment, expected.name).name)
    return names
