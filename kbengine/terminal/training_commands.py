"""The group `train` with all its commands: the phrase encoder's own, the reader's and that of sparse heads."""

from __future__ import annotations

from kbengine.terminal.train_command import train
from kbengine.terminal.train_reader_command import reader
from kbengine.terminal.train_sparse_command import sparse

train.add_command(reader)
train.add_command(sparse)

__all__ = ["train"]
