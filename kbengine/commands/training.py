"""The group `train` with all its commands: the phrase encoder's own, the reader's and that of sparse heads."""

from __future__ import annotations

from kbengine.commands.train import train
from kbengine.commands.train_reader import reader
from kbengine.commands.train_sparse import sparse

train.add_command(reader)
train.add_command(sparse)

__all__ = ["train"]
