"""Training sparse heads from files to a model directory: what `kbengine train --sparse` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from kbengine.encoders.checkpoint import CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_FILE, read_checkpoint, write_checkpoint
from kbengine.encoders.device import choose_dtype
from kbengine.encoders.encoder import find_encoder
from kbengine.encoders.sparse.checkpoint import sparse_files, write_sparse
from kbengine.encoders.sparse.config import SparseConfig
from kbengine.encoders.sparse.grams import content_ids
from kbengine.encoders.sparse.model import SparseHeads
from kbengine.encoders.tokenization import TextTokenizer
from kbengine.encoders.truecasing import TRUECASE_FILE
from kbengine.errors import EncoderError
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.loop.interruption import Stop, never
from kbengine.learning.loop.loop import train
from kbengine.learning.loop.options import LoopOptions
from kbengine.learning.loop.processes import Processes, join_processes
from kbengine.learning.loop.report import TrainingReport
from kbengine.learning.sparse.batches import Featurizer
from kbengine.learning.sparse.options import SparseOptions
from kbengine.learning.sparse.task import SparseTask
from kbengine.progress import ProgressSink
from storage.durable import write_directory

RUN_FOLDER_SUFFIX = ".run"


def train_sparse(
    encoder: str | Path,
    examples: Sequence[TrainingExample],
    out: Path,
    *,
    loop: LoopOptions,
    options: SparseOptions | None = None,
    config: SparseConfig | None = None,
    development: Sequence[TrainingExample] = (),
    resume: bool = False,
    processes: Processes | None = None,
    progress: ProgressSink | None = None,
    stop: Stop = never,
) -> TrainingReport:
    """Return the report of the run; `out` is then a model directory: the encoder with its sparse heads.

    The run itself (log, checkpoints, best weights) lives in `OUT.run`.

    Args:
        encoder: name or directory of the phrase encoder to train on.
        examples: what to learn from.
        out: the model directory to make; must not exist.
        loop: batches, rates, seeds, devices.
        options: of the losses and negatives.
        config: n-grams and heads; its hidden size is the encoder's, whatever it says.
        development: what the best checkpoint is chosen by.
        resume: go on with the run in `OUT.run`.
        processes: those this one belongs to.
        progress: shown the steps.
        stop: asked after every step.

    Raises:
        EncoderError: there is no such encoder, or `out` exists.
        TrainingError: nothing to train on, or another run in `OUT.run`.
        KeyboardInterrupt: as asked for by `stop`; the run can be resumed.
    """
    if out.exists():
        raise EncoderError(f"{out} already exists; choose another directory or remove it first")
    options = options or SparseOptions()
    processes = processes or join_processes(loop.device)
    directory = find_encoder(encoder)
    if directory is None:
        raise EncoderError(f"there is no encoder {str(encoder)!r}; name a bundled one or a directory of kbengine's own")
    checkpoint = read_checkpoint(directory)
    H, V = checkpoint.config.backbone.hidden_size, checkpoint.config.backbone.vocab_size
    config = replace(config or SparseConfig(H), hidden_size=H)
    tokenizer = TextTokenizer(
        checkpoint.tokenizer_json, uncased=checkpoint.config.uncased, vocab_size=V, source=str(directory)
    )
    is_content = content_ids(checkpoint.tokenizer_json, V, source=str(directory))
    torch.manual_seed(loop.seed)
    heads = SparseHeads(config)
    model = checkpoint.model(dropout=0.1 if options.train_encoder else 0.0)
    if not options.train_encoder:
        # Nothing in it gets a gradient: the layers may run as they do when a knowledge base is built, and much faster.
        model = model.prepare_inference(processes.device, choose_dtype("auto", processes.device))
    featurizer = Featurizer(tokenizer, checkpoint.config, is_content, config.orders, truecaser=checkpoint.truecaser)
    task = SparseTask(model, heads, featurizer, examples, options, development=development, seed=loop.seed)
    run = out.with_name(out.name + RUN_FOLDER_SUFFIX)
    report = train(task, loop, run, resume=resume, processes=processes, progress=progress, stop=stop)
    if processes.is_main:
        if options.train_encoder:
            weights = model.state_dict()
            cases = checkpoint.truecaser
            documents = {} if cases is None else {TRUECASE_FILE: cases.to_json()}
            write_checkpoint(
                out, checkpoint.config, checkpoint.tokenizer_json, weights, dtype="float16", documents=documents
            )
            write_sparse(out, heads)
        else:
            # The encoder's own files as they are: its fingerprint stays, and knowledge bases built with it stay valid.
            names = (CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_FILE, TRUECASE_FILE)
            own = {name: (directory / name).read_bytes() for name in names if (directory / name).exists()}
            write_directory(out, own | sparse_files(heads))
    processes.wait()
    return report
