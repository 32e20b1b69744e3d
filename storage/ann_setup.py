"""What the token and passage indexes of a knowledge base are to be: its options, and its quantiser if it has one."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from storage.ann import AnnKind, AnnRequest, TokenAnn, ann_path, load_ann, prepare_ann
from storage.ann_lists import Progress
from storage.ann_options import AnnOptions
from storage.codes_file import codes_path
from storage.errors import CorruptError
from storage.gpu import IndexDevice
from storage.probing import Probing
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
        stored: What all token vectors are stored with; None where they are stored as int8, or with `quantiser`.
        threshold: Filter logit from which on a search may start from a token; None: from every one.
        probing: How many of the quantiser's lists a query looks into, where the options do not say; None: a share.
        passages: Quantiser of the passage vectors; None where each segment has lists of its own.
        passage_probing: How many of its lists a query looks into, as `probing` says of `quantiser`.
    """

    options: AnnOptions
    quantiser: Quantiser | None = None
    device: IndexDevice = "cpu"
    stored: Quantiser | None = None
    threshold: float | None = None
    probing: Probing | None = None
    passages: Quantiser | None = None
    passage_probing: Probing | None = None

    def _measured(self, quantiser: Quantiser | None, probing: Probing | None) -> AnnOptions:
        """Return the options with the number of lists that was measured."""
        if quantiser is None or probing is None or self.options.nprobe is not None:
            return self.options
        return replace(self.options, nprobe=probing.nprobe)

    def request(self, kind: AnnKind, directory: Path | None, *, progress: Progress | None = None) -> AnnRequest:
        """Return what is asked of a segment's index of this kind; `directory`: that of the index, None for memory."""
        if kind == "passages":
            return AnnRequest(kind, self.options, self.passages, self.stored, None, directory, progress)
        return AnnRequest(kind, self.options, self.quantiser, self.stored, self.threshold, directory, progress)

    def load(self, directory: Path, segment: Segment) -> tuple[TokenAnn, TokenAnn]:
        """Search over the segment's token vectors and over its passage vectors; see `load_ann`."""
        tokens = load_ann(
            directory,
            segment,
            "tokens",
            self._measured(self.quantiser, self.probing),
            quantiser=self.quantiser,
            stored=self.stored,
            threshold=self.threshold,
            device=self.device,
        )
        of_passages = self._measured(self.passages, self.passage_probing)
        passages = load_ann(directory, segment, "passages", of_passages, quantiser=self.passages, device=self.device)
        return tokens, passages

    def prepare(self, directory: Path, segment: Segment, *, progress: Progress | None = None) -> None:
        """Make the files that `load` reads in the index directory."""
        for kind in _KINDS:
            prepare_ann(segment, self.request(kind, directory, progress=progress))

    def decoder_of(self, segment: Segment) -> Quantiser | None:
        """Return what decodes the segment's stored vectors; the index's quantiser for int8 ones."""
        return AnnRequest("tokens", self.options, self.quantiser, self.stored).decoder_of(segment)


def read_setup(segment_directory: Path, settings: KBSettings, *, device: IndexDevice = "cpu") -> AnnSetup:
    """Return how the segments of a knowledge base with these settings are searched.

    A quantiser that is missing or damaged is logged and left out: int8 vectors are then searched as `ivf-sq8`, and
    segments that store none cannot be opened.
    """
    of_index, of_store, of_passages = settings.quantiser_file, settings.store_file, settings.passage_quantiser_file
    quantiser: Quantiser | None = None
    stored: Quantiser | None = None
    passages: Quantiser | None = None
    if of_index is not None:
        try:
            quantiser = read_quantiser(segment_directory, of_index)
        except CorruptError as error:
            remedy = "restore it from a backup" if settings.drops_vectors else "run 'kbengine verify --repair'"
            _log.warning("the index is not what it should be: %s; %s", error.message, remedy)
    if of_store is not None:
        try:
            stored = read_quantiser(segment_directory, of_store)
        except CorruptError as error:
            _log.warning("what decodes stored vectors is damaged: %s; restore it from a backup", error.message)
    if of_passages is not None:
        try:
            passages = read_quantiser(segment_directory, of_passages)
        except CorruptError as error:
            _log.warning(
                "the index of passages is not what it should be: %s; each segment has lists of its own until then",
                error.message,
            )
    return AnnSetup(
        settings.ann_options,
        quantiser,
        device,
        stored,
        settings.indexed_from,
        settings.probing,
        passages,
        settings.passage_probing,
    )


def index_names(settings: KBSettings, segments: Iterable[str]) -> set[str]:
    """Return the names that files in the index directory may have: anything else there is out of date."""
    expected, of_passages = settings.quantiser_file, settings.passage_quantiser_file
    names: set[str] = set()
    if settings.ann_options.kind == "exact":
        return names
    for segment in segments:
        if of_passages is not None:
            names.add(codes_path(Path(), segment, of_passages.name, kind="passages").name)
        elif not settings.ann_options.is_exact("passages"):
            names.add(ann_path(Path(), segment, "passages").name)
        if expected is None:
            names.add(ann_path(Path(), segment, "tokens", settings.indexed_from).name)
        elif not settings.drops_vectors:
            names.add(codes_path(Path(), segment, expected.name, settings.indexed_from).name)
    return names
