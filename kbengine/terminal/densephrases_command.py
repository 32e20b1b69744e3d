"""The group `densephrases`: published checkpoints, phrase dumps and indexes into this project's formats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import PATH, device_option, dtype_option, json_option

if TYPE_CHECKING:
    from kbengine.encoders.checkpoint import WeightsDType
    from kbengine.encoders.device import DTypeChoice


@click.group()
def densephrases() -> None:
    """Import what DensePhrases published or made: a checkpoint as an encoder, a dump or index as a knowledge base.

    \b
    Example:
      kbengine densephrases checkpoint densephrases-multi-query-nq --base spanbert-base-cased --out dp-nq
      kbengine densephrases dump my-corpus/dump --encoder dp-nq --kb my-kb
    """


@densephrases.command()
@click.argument("checkpoint", type=PATH)
@click.option("--base", type=PATH, help="Folder of SpanBERT-base-cased: vocabulary and configuration.")
@click.option("--phrase-encoder", type=PATH, help="Checkpoint to take the phrase encoder from when this has none.")
@click.option("--out", type=PATH, required=True, help="The model directory to make.")
@click.option("--max-phrase-tokens", type=int, default=10, show_default=True, help="Longest phrase in search.")
@click.option("--weights", type=click.Choice(["float16", "float32", "int8"]), default="float16", show_default=True)
@json_option
def checkpoint(
    checkpoint: Path,
    base: Path | None,
    phrase_encoder: Path | None,
    out: Path,
    max_phrase_tokens: int,
    weights: WeightsDType,
    as_json: bool,
) -> None:
    """Make a three-tower encoder of a checkpoint folder (`pytorch_model.bin` or `model.safetensors`).

    Nothing in the checkpoint is run. Names of older versions are known; the teacher's tensors are left behind.

    \b
    Example:
      kbengine densephrases checkpoint densephrases-multi --base spanbert-base-cased --out dp-multi
      kbengine densephrases checkpoint my-query-ft --phrase-encoder dp-multi --base spanbert-base-cased --out dp-mine
    """
    from kbengine.densephrases.checkpoint import import_checkpoint

    report = import_checkpoint(
        checkpoint,
        out,
        base=base,
        phrase_encoder=phrase_encoder,
        max_phrase_tokens=max_phrase_tokens,
        dtype=weights,
    )
    standard_output(as_json=as_json).facts(report.facts())


@densephrases.command()
@click.argument("dump", type=PATH, required=False)
@click.option("--index", type=PATH, help="Instead of a dump: folder with index.faiss and idx2id.hdf5.")
@click.option("--metadata", type=PATH, help="meta_compressed.pkl of the index, where it is not above it.")
@click.option("--encoder", required=True, help="Directory of the imported checkpoint whose vectors these are.")
@click.option("--kb", type=PATH, required=True, envvar="KBENGINE_KB", help="The knowledge base to make.")
@click.option("--filter-threshold", type=float, default=-2.0, show_default=True, help="What later additions keep.")
@device_option
@dtype_option
@json_option
def dump(
    dump: Path | None,
    index: Path | None,
    metadata: Path | None,
    encoder: str,
    kb: Path,
    filter_threshold: float,
    device: str,
    dtype: DTypeChoice,
    as_json: bool,
) -> None:
    """Make a knowledge base of a phrase dump (`dump/phrase/*.hdf5`) or of a published index; run it again to resume.

    Needs the extra `densephrases`. The metadata's pickle is looked at, never unpickled.

    \b
    Example:
      kbengine densephrases dump my-corpus/dump --encoder dp-multi --kb my-kb
      kbengine densephrases dump --index wiki/dump/start/1048576_flat_OPQ96_small --encoder dp-nq --kb wiki
    """
    from kbengine.densephrases.dump_import import DumpSource, import_dump
    from kbengine.encoders.encoder import Encoder
    from kbengine.progress import progress_for_terminal

    source = DumpSource(dump, index, metadata)
    model = Encoder.load(encoder, device=device, dtype=dtype)
    with progress_for_terminal(quiet=as_json) as progress:
        report = import_dump(source, kb, encoder=model, filter_threshold=filter_threshold, progress=progress)
    standard_output(as_json=as_json).facts(report.facts())
