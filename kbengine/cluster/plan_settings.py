"""What all shards share, measured on a sample before anything is built: threshold, scales, code, lists."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kbengine.build.filtering import FilterOptions, kept_tokens, resolve_threshold
from kbengine.build.storing import StoreOptions, bundled_code
from kbengine.cluster.plan import CREATED_AT
from kbengine.corpus.document import CorpusDocument
from kbengine.progress import ProgressSink, Stages
from kbengine.version import __version__
from storage.ann_options import AnnOptions
from storage.codes import covering_scale
from storage.common_settings import CommonSettings
from storage.index_kind import LARGE_KIND, LARGE_ROWS
from storage.passage_quantiser import train_passage_quantiser
from storage.probing import measure_probing
from storage.quantiser import Quantiser
from storage.quantiser_training import sample_sizes, train_quantiser
from storage.records import JSON
from storage.settings import KBSettings
from storage.stored_code import MEASURED_ROWS, measure_stored_code

if TYPE_CHECKING:
    from kbengine.encoders.encoder import Encoder
    from kbengine.encoders.passage_windows import PassageVectors

Float32 = NDArray[np.float32]

# A sample says little about the largest component to come; a larger common scale costs next to no precision.
_HEADROOM = 1.1
_SEED = 1


@dataclass(frozen=True)
class SettingsRequest:
    """What is asked for of the settings.

    Attributes:
        filter: which tokens are indexed.
        store: what is stored of the tokens.
        ann: options of the index that are not to be chosen from the size.
        name: 32 hex digits that the names of code and quantiser follow from.
    """

    filter: FilterOptions
    store: StoreOptions
    ann: Mapping[str, str | int]
    name: str


@dataclass
class _Sample:
    """What the passages of a sample gave."""

    n_bytes: int = 0
    n_passages: int = 0
    logits: list[Float32] = field(default_factory=list)
    vectors: list[Float32] = field(default_factory=list)
    passage_vectors: list[Float32] = field(default_factory=list)

    @property
    def n_tokens(self) -> int:
        return sum(len(each) for each in self.vectors)


def measure_settings(
    encoder: Encoder,
    sample: Iterable[tuple[list[CorpusDocument], int]],
    request: SettingsRequest,
    *,
    n_bytes: int,
    sample_passages: int,
    progress: ProgressSink,
) -> CommonSettings:
    """Return the common settings for a corpus, measured on as much of a sample as they need.

    Args:
        encoder: makes the vectors.
        sample: documents and the bytes of their records, in random order; no more is taken than is needed.
        request: what is asked for.
        n_bytes: of the whole corpus.
        sample_passages: how many passages are encoded at least.
        progress: shown the stages.
    """
    progress.begin("measuring a sample", sample_passages, "passages")
    gathered = _Sample()
    options, n_rows, wanted_rows = _options(request, 0), 0, 0
    for documents, size in sample:
        before = gathered.n_passages
        _gather(gathered, encoder, documents, size)
        progress.advance(gathered.n_passages - before)
        threshold = resolve_threshold(gathered.logits, request.filter)
        indexed = sum(int(kept_tokens(each, threshold).sum()) for each in gathered.logits)
        n_rows = max(indexed, math.ceil(indexed * n_bytes / gathered.n_bytes))
        options = _options(request, n_rows)
        wanted_rows = sample_sizes(n_rows, options)[1] if options.index_kind.needs_quantiser and n_rows else 0
        if gathered.n_passages >= sample_passages and indexed >= wanted_rows:
            break
    threshold = resolve_threshold(gathered.logits, request.filter)
    common = _settings(encoder, gathered, request, options, threshold, n_rows=n_rows, progress=progress)
    n_passages = math.ceil(gathered.n_passages * n_bytes / gathered.n_bytes)
    return _with_passages(common, gathered, request, n_passages=n_passages, progress=progress)


def _with_passages(
    common: CommonSettings, sample: _Sample, request: SettingsRequest, *, n_passages: int, progress: ProgressSink
) -> CommonSettings:
    """Return the settings with an index of passages where there are so many that one knowledge base would have one."""
    options = common.settings.ann_options
    asked = AnnOptions(**{**request.ann, "kind": options.kind})  # type: ignore[arg-type]  # checked there
    if options.is_exact("tokens") or asked.is_exact("passages") or n_passages < asked.exact_below_rows:
        return common
    trained = train_passage_quantiser(
        _some(np.stack(sample.passage_vectors), sample.n_passages),
        n_passages,
        options,
        name=_named(request.name, "e"),
        stage=Stages(progress),
        device="auto",
    )
    return common if trained is None else common.with_passages(*trained)


def _options(request: SettingsRequest, n_rows: int) -> AnnOptions:
    """Return the index's options: those given, and a kind that suits the size and is the same in any shards."""
    kind = request.ann.get("kind", LARGE_KIND if n_rows >= LARGE_ROWS else "exact")
    given = {**request.ann, "kind": kind}
    options = AnnOptions(**given)  # type: ignore[arg-type]  # checked there
    needs = options.index_kind.needs_quantiser
    # Lists with centroids of a segment's own are not the same in other shards: a scan is. Small shards hold what large
    # ones hold.
    chosen = {"kind": kind if needs else "exact", "exact_passages": True, "exact_below_rows": 0}
    return dataclasses.replace(options, **chosen)  # type: ignore[arg-type]


def _gather(sample: _Sample, encoder: Encoder, documents: list[CorpusDocument], size: int) -> None:
    from kbengine.encoders.encoder import PassageText

    texts = [PassageText(document.title, passage.text) for document in documents for passage in document.passages]
    encoded: list[PassageVectors] = encoder.encode_passages(texts) if texts else []
    sample.n_bytes += size
    sample.n_passages += len(encoded)
    for each in encoded:
        sample.logits.append(each.filter_logits.copy())
        sample.vectors.append(each.vectors.copy())  # the batch's array can go
        sample.passage_vectors.append(each.passage_vector)


def _settings(
    encoder: Encoder,
    sample: _Sample,
    request: SettingsRequest,
    options: AnnOptions,
    threshold: float,
    *,
    n_rows: int,
    progress: ProgressSink,
) -> CommonSettings:
    vectors = np.concatenate([*sample.vectors, np.empty((0, encoder.d), np.float32)])
    passages = np.stack(sample.passage_vectors)
    if not len(vectors):
        vectors = passages
    code: Quantiser | None = None
    if request.store.code_bits == 4:
        code = bundled_code(encoder) or measure_stored_code(
            _some(vectors, MEASURED_ROWS), name=_named(request.name, "c")
        )
    quantiser: Quantiser | None = None
    of_index: dict[str, JSON] = {}
    if options.index_kind.needs_quantiser:
        keep = np.concatenate([kept_tokens(each, threshold) for each in sample.logits])
        nlist, wanted = sample_sizes(n_rows, options)
        rows = _some(vectors[keep], min(wanted, int(keep.sum())))
        trained = train_quantiser(rows, min(nlist, len(rows)), options, stage=Stages(progress), device="auto")
        quantiser = dataclasses.replace(trained, name=_named(request.name, "d"))
        probing = measure_probing(rows, quantiser, n_rows)
        of_index = {"drop_vectors": False, **probing.to_json()}
    filter_: dict[str, JSON] = dict(request.filter.to_json())
    position: dict[str, JSON] = {}
    if math.isfinite(threshold):
        position = {"threshold_sum": threshold * len(vectors), "threshold_tokens": len(vectors)}
        if request.store.tokens == "all":
            filter_["indexed_from"] = threshold
    ann: dict[str, JSON] = {name: value for name, value in dataclasses.asdict(options).items() if value is not None}
    settings = KBSettings(
        encoder_name=encoder.name,
        encoder_fingerprint=encoder.fingerprint,
        passage_fingerprint=encoder.passage_fingerprint,
        sparse={} if encoder.sparse is None else {"model": encoder.sparse.fingerprint},
        d=encoder.d,
        filter=filter_,
        token_scale=_scale(vectors),
        passage_scale=_scale(passages),
        ann=ann,
        quantiser=of_index,
        store=request.store.to_json(),
        kbengine_version=__version__,
        created_at=CREATED_AT,
        build={"state": "complete", "position": position},
    )
    return CommonSettings(settings, quantiser, code)


def _scale(vectors: Float32) -> float:
    return covering_scale(np.abs(vectors).max(axis=1) * np.float32(_HEADROOM))


def _some(vectors: Float32, n: int) -> Float32:
    """Return so many of the vectors, drawn at random, in random order, float32 (n, d)."""
    chosen = np.random.default_rng(_SEED).permutation(len(vectors))[:n]
    return vectors[chosen]


def _named(name: str, role: str) -> str:
    return role + name[1:]
