"""Encoding the stored texts of a knowledge base again, with another encoder, into a new knowledge base."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbengine.build.builder import BuildReport, CorpusOptions, build, describe
from kbengine.build.exporting import export_to
from kbengine.build.filtering import FilterOptions
from kbengine.build.storing import StoredTokens, StoreOptions
from kbengine.errors import EncoderMismatchError, InvalidOptionError, KnowledgeBaseExistsError
from kbengine.progress import NoProgress, ProgressSink

if TYPE_CHECKING:
    from kbengine.encoders.encoder import Encoder
    from storage.settings import KBSettings


@dataclass(frozen=True)
class ReencodeOptions:
    """What is to be different beside the encoder; what is left out is as in the knowledge base whose texts are read.

    Attributes:
        filter: which tokens are indexed. A threshold is one encoder's: it is not taken over.
        ann: options of the index by name, among them `kind`.
        store: which tokens are stored.
        code_bits: of a dimension of a stored vector.
    """

    filter: FilterOptions | None = None
    ann: Mapping[str, str | int] | None = None
    store: StoredTokens | None = None
    code_bits: int | None = None

    def of(self, settings: KBSettings) -> tuple[FilterOptions, dict[str, Any], StoreOptions]:
        """Return filter, index and store of the new knowledge base.

        Raises:
            InvalidOptionError: the filter is a threshold of the other encoder's logits.
        """
        kept = self.filter or FilterOptions.from_json(settings.filter)
        if self.filter is None and kept.threshold is not None:
            raise InvalidOptionError(
                f"tokens were indexed from a filter logit of {kept.threshold} of encoder {settings.encoder_name!r}, "
                "which says nothing about another's; give --keep-fraction or --filter-threshold"
            )
        ann = {**settings.ann, **(self.ann or {})}
        tokens: StoredTokens = self.store or ("all" if settings.stores_all else "indexed")
        return kept, ann, StoreOptions(tokens, self.code_bits or settings.code_bits)


def reencode(
    path: Path,
    out: Path,
    *,
    encoder: Encoder,
    options: ReencodeOptions | None = None,
    progress: ProgressSink | None = None,
) -> BuildReport:
    """Make a new knowledge base in `out` of the texts that the one in `path` stores, which stays as it is.

    Documents keep their ids, titles, meta, aliases, links and sources, feedback its dates and numbers. What was tuned
    or calibrated is not taken over: it belongs to the encoder that it was made for. The texts lie beside `out` until
    all is done; interrupted, the same call goes on where it stopped.

    Args:
        path: the knowledge base whose texts are read.
        out: where the new one goes: not there yet, empty, or of an interrupted call.
        encoder: makes the vectors.
        options: what else is to be different.
        progress: shown the stages.

    Raises:
        EncoderMismatchError: the knowledge base has this encoder's vectors already.
        InvalidOptionError: the filter cannot be taken over.
        KnowledgeBaseExistsError: `out` holds something else.
    """
    from storage.reader import KBReader
    from storage.writer import KBWriter

    began = time.perf_counter()
    with KBReader.open(path) as reader:
        if reader.settings.encoder_fingerprint == encoder.fingerprint:
            raise EncoderMismatchError(f"the vectors of {path} are of encoder {encoder.name!r} already; name another")
        kept, ann, store = (options or ReencodeOptions()).of(reader.settings)
        # One file a state of the texts: an interrupted call goes on only with what it began with.
        texts = out.with_name(f".{out.name}.texts-{reader.snapshot().generation}.jsonl.zst")
        if not texts.exists():
            if out.exists() and (not out.is_dir() or any(out.iterdir())):
                raise KnowledgeBaseExistsError(f"{out} is there already; choose a path that holds nothing yet")
            out.parent.mkdir(parents=True, exist_ok=True)
            (progress or NoProgress()).begin("reading the texts", None, "")
            export_to(reader, texts)
        report = _built(CorpusOptions((texts,), "kbengine"), out, encoder, kept, ann, store, progress)
        feedback = reader.list_feedback()
    if feedback:
        with KBWriter.open(out) as writer:
            writer.copy_feedback(feedback)
    texts.unlink()
    report.elapsed_s = time.perf_counter() - began
    return report


def facts(report: BuildReport, path: Path) -> dict[str, Any]:
    """Return the report as plain JSON values, with the knowledge base whose texts were read as the corpus."""
    return describe(report, [path])


def _built(
    corpus: CorpusOptions,
    out: Path,
    encoder: Encoder,
    kept: FilterOptions,
    ann: dict[str, Any],
    store: StoreOptions,
    progress: ProgressSink | None,
) -> BuildReport:
    """Build, go on with a build, or find that it was finished and only what comes after it is missing."""
    try:
        return build(corpus, out, encoder=encoder, filter_options=kept, ann=ann, store=store, progress=progress)
    except KnowledgeBaseExistsError:
        from storage.reader import KBReader

        with KBReader.open(out) as done:
            begun: Any = done.settings.build_position.get("request")
            if not isinstance(begun, dict) or begun.get("corpus") != [str(path) for path in corpus.paths]:
                raise
        return BuildReport(resumed=True)
