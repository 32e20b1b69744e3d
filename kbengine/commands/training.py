"""The group `train` with all its commands: the phrase encoder's own, and the reader's."""

from __future__ import annotations

from kbengine.commands.train import train
from kbengine.commands.train_reader import reader

train.add_command(reader)

__all__ = ["train"]
