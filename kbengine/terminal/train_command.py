"""The group `train`: the phrase encoder by default, the reader, sparse heads, and verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click_default_group import DefaultGroup

from kbengine.terminal.options import option
from kbengine.terminal.training_options import data_options, loop_options, run_training


@click.group(cls=DefaultGroup, default="encoder", default_if_no_args=False)
def train() -> None:
    """Train a model: the phrase encoder unless another is named.

    \b
    Example:
      kbengine train --train squad.json --dev squad-dev.json --init minilm-phrase --out my-encoder
      kbengine train --adapt my-pages.jsonl --out my-encoder
    """


@click.command()
@data_options
@option("--adapt", Path, "Train on cloze questions made of this corpus; by default of none.", multiple=True)
@option("--init", str, "Begin with this encoder or BERT (folder, wheel or hub name); by default minilm-phrase.")
@option("--out", Path, "Make this model directory; the run is kept in OUT.run.", required=True)
@option("--architecture", ("shared-query", "three-tower"), "Build this from a BERT; by default shared-query.")
@option("--frozen", ("none", "words", "embeddings"), "Leave these embeddings as they are; by default all (embeddings).")
@option("--negatives", ("none", "golds", "tokens"), "Compare with these in L_neg; by default tokens.")
@option("--pre-batches", int, "Take the gold phrases of so many earlier batches as negatives too; by default 2.")
@option("--reader", Path, "Distil from the reader of this name or directory; by default from none.")
@option("--distillation", float, "Weigh the distillation's loss by this; by default 1 with --reader.")
@option("--limit", int, "Use at most so many training examples; by default all.")
@option("--weights", ("int8", "float16", "float32"), "Store the result in this number type; by default int8.")
@option("--sparse with_sparse", bool, "Train sparse heads on the encoder of --init, as `kbengine train sparse` does.")
@loop_options(epochs=4, batch_size=32, learning_rate="3e-5")
def encoder(out: Path, with_sparse: bool, **given: Any) -> None:
    """Train the phrase encoder, the query encoders and the filter.

    \b
    Example: kbengine train --train nq.train.jsonl.gz --dev nq.dev.jsonl.gz --pages pages.jsonl.gz --out my-encoder
    """
    from kbengine.learning.runs.encoder import EncoderRecipe
    from kbengine.learning.runs.sparse import SparseRecipe

    if given["reader"] is not None and given["distillation"] is None and given["recipe"] is None:
        given["distillation"] = 1.0
    run_training(SparseRecipe if with_sparse else EncoderRecipe, out, **given)


@click.command()
@data_options
@option("--init", str, "Begin with this reader, encoder or BERT (folder, wheel or hub name); by default minilm-phrase.")
@option("--out", Path, "Make this directory with the reader; the run is kept in OUT.run.", required=True)
@option("--negative-fraction", float, "Read this share of the queries with a wrong passage too; by default 0.5.")
@option("--max-tokens", int, "Read at most so many tokens at once, longer passages in windows; by default 384.")
@option("--dev-limit", int, "Read so many development examples at each evaluation; by default 1000.")
@option("--limit", int, "Use at most so many training examples; by default all.")
@option("--weights", ("int8", "float16", "float32"), "Store the result in this number type; by default float16.")
@loop_options(epochs=3, batch_size=32, learning_rate="1e-4")
def reader(out: Path, **given: Any) -> None:
    """Train a cross-encoder: it reads query and passage together and finds the answer, or that there is none.

    It is the teacher of `kbengine train --reader`, the filter of `kbengine questions --reader`, and the reader of
    `kbengine evaluate`.

    \b
    Example:
      kbengine train reader --train train-v2.0.json --dev dev-v2.0.json --out my-reader
      kbengine evaluate reading dev-v2.0.json --reader my-reader
    """
    from kbengine.learning.runs.reader import ReaderRecipe

    run_training(ReaderRecipe, out, **given)


@click.command()
@data_options
@option("--adapt", Path, "Also train on cloze questions of this corpus; by default on none.", multiple=True)
@option("--init", str, "Train the heads on the encoder of this name or directory; by default minilm-phrase.")
@option("--out", Path, "Make this model directory; the run is kept in OUT.run.", required=True)
@option("--joint", bool, "Train the encoder too, instead of leaving it as it is.", default=None)
@option("--top", int, "Keep so many n-grams of each stored token and side; by default 24.")
@option("--limit", int, "Use at most so many training examples; by default all.")
@loop_options(epochs=1, batch_size=24, learning_rate="1e-3", dtype="float32")
def sparse(out: Path, **given: Any) -> None:
    """Train SPARC's sparse encoders: n-gram vectors of phrases, searched together with the dense ones.

    \b
    Example:
      kbengine train sparse --train squad.train.jsonl.gz --pages pages.jsonl.gz --init my-encoder --out with-sparse
      kbengine build pages.jsonl.gz --encoder with-sparse --kb my-kb
    """
    from kbengine.learning.runs.sparse import SparseRecipe

    run_training(SparseRecipe, out, **given)


@click.command()
@data_options
@option("--init", str, "Begin with this reader, a bundled one's name or a directory; by default minilm-reader.")
@option("--out", Path, "Make this directory with the model; the run is kept in OUT.run.", required=True)
@option("--negative-fraction", float, "Show this share of the claims beside passages of other pages; by default 0.5.")
@option("--dev-limit", int, "Judge so many development claims at each evaluation; by default 1000.")
@option("--limit", int, "Use at most so many training claims; by default all.")
@option("--weights", ("int8", "float16", "float32"), "Store the result in this number type; by default float16.")
@loop_options(epochs=3, batch_size=32, learning_rate="1e-4")
def verdict(out: Path, **given: Any) -> None:
    """Train a model that reads a claim with passages and says SUPPORTS or REFUTES, from KILT rows such as FEVER's.

    Rows with another answer, or without provenance in the pages, are counted and left out.

    \b
    Example:
      kbengine train verdict --train fever-train-kilt.jsonl --dev fever-dev-kilt.jsonl --pages pages.jsonl.gz \\
        --out my-verdicts
      kbengine predict fever-dev-kilt.jsonl --kb my-kb --verdict my-verdicts --out submissions/
    """
    from kbengine.learning.runs.verdict import VerdictRecipe

    run_training(VerdictRecipe, out, **given)


for command in (encoder, reader, sparse, verdict):
    train.add_command(command)
