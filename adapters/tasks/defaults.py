"""What each task has by default: weights, unit, limits."""

from __future__ import annotations

from collections.abc import Mapping

from kbengine.inputs import Task
from kbengine.search.query import Unit, Weights

PHRASE_TASKS: tuple[Task, ...] = ("question", "slot-filling")
"""Tasks whose answers are right when they equal a gold answer; others when they are a gold page."""

# One set of weights per task, chosen by macro score on development sets (docs/decisions/0009-fusion-weights.md); those
# of names on one half of the pages of each set (docs/decisions/0027-names-are-a-signal-of-their-own.md).
# Beside BM25 sparse vectors help questions a little and mislead mentions (benchmarks/results/sparse.md).
TASK_WEIGHTS: Mapping[Task, Weights] = {
    "question": Weights(),
    "slot-filling": Weights(phrase=1.0, passage=10.0, lexical=3.0, sparse=0.0, name=40.0),
    "entity-linking": Weights(phrase=1.0, passage=20.0, lexical=0.25, sparse=0.0, name=50.0, reader=1.0),
    "dialogue": Weights(phrase=1.0, passage=15.0, lexical=0.75, sparse=0.0, reader=0.5),
}
WEIGHTS_CHOSEN_ON = "up to 300 development rows a set, drawn at random, which are among those reported"
"""The rows that the weights were chosen on: told wherever figures made with them are."""
DEFAULT_UNITS: Mapping[Task, Unit] = {
    "question": "phrase",
    "slot-filling": "phrase",
    "entity-linking": "document",
    "dialogue": "document",
}
"""What an answer of each task is unless another unit is asked for; probabilities are about this one."""

READ: Mapping[Task, int] = {"question": 5, "slot-filling": 5, "entity-linking": 2, "dialogue": 3}
"""How many of the best passages are read unless it is said otherwise, with the encoder that the weights are for."""
READ_BACKWARDS = 5
"""Likewise for a relation asked backwards."""

TURN_DECAY = 0.85
"""Weight of a turn's words against those of the turn after it, where passages are matched."""
TITLE_DECAY = 0.9
"""Weight of a title spotted in a turn against one in the turn after it."""

SAID_WEIGHT = 0.75
"""What a passage that says the subject of a slot counts against one of a document that is called so."""

CONTEXT_CHARS = 200
"""Characters on either side of a mention that are matched lexically, with a small weight."""

MAX_INPUT_CHARS = 100_000
"""Longer inputs are refused: no encoder reads more than a few hundred characters of a question or around a mention."""
MAX_TURNS = 100
"""Turns of a dialogue that are looked at, the newest; older ones are left out and the answer says `truncated`."""
