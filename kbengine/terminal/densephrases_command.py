"""The group `densephrases`: published checkpoints, phrase dumps and indexes into this project's formats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import PATH, device_option, dtype_option, json_option, option

if TYPE_CHECKING:
    from kbengine.encoders.device import DTypeChoice
    from kbengine.encoders.packing import WeightsDType


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
@option("--base", Path, "Take the vocabulary from this folder of SpanBERT-base-cased; by default the checkpoint's.")
@option("--phrase-encoder", Path, "Take a missing phrase encoder from this checkpoint; by default none may miss.")
@option("--out", Path, "Make this model directory.", required=True)
@option("--max-phrase-tokens", int, "Search for phrases of at most so many tokens.", default=10)
@option("--weights", ("float16", "float32", "int8"), "Store the weights in this number type.", default="float16")
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
@option("--index", Path, "Import the index in this folder (index.faiss, idx2id.hdf5); by default DUMP.")
@option("--metadata", Path, "Read the index's metadata from this meta_compressed.pkl; by default the one above.")
@option("--encoder", str, "Take the vectors for those of the imported checkpoint in this directory.", required=True)
@option("--kb", Path, "Make the knowledge base in this directory.", required=True, envvar="KBENGINE_KB")
@option("--filter-threshold", float, "Keep later tokens whose filter logit reaches this.", default=-2.0)
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
    with progress_for_terminal() as progress:
        report = import_dump(source, kb, encoder=model, filter_threshold=filter_threshold, progress=progress)
    standard_output(as_json=as_json).facts(report.facts())
