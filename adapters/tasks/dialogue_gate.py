"""The gate that decides for each dialogue how much its words count: read from the file that ships."""

from __future__ import annotations

import functools
import json
from importlib.resources import files

from kbengine.search.lexical_gate import LexicalGate

SHIPPED = "dialogue_gate.json"
"""In this package: coefficients fitted by `recipes.dialogue_gate`, with a note of what they were fitted on."""
FEWEST_TURNS = 2
"""With fewer no subject can have changed, and no training row says what is best."""


def gate_of(n_turns: int) -> LexicalGate | None:
    """Return what decides for a talk of so many turns; None for a single one, whose lexical weight is the task's."""
    return _shipped() if n_turns >= FEWEST_TURNS else None


@functools.cache
def _shipped() -> LexicalGate:
    """Return the gate that ships, read once: it never changes."""
    return LexicalGate.from_json(json.loads((files("adapters.tasks") / SHIPPED).read_text(encoding="utf-8")))
